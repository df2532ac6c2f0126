//! Writes the results into the tree: numbers, charts, and a part of a page.

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use serde_json::json;
use weir_simulation::{Contender, PolicyPoint, Scatter, Standard, scatter};

use super::COLD_STARTS;
use super::goals::goals;
use super::results::Outcome;

/// Markers around the generated part of the page.
const BEGIN: &str = "<!-- results: written by `make bench-autoscaler` -->";
const END: &str = "<!-- end of results -->";

/// Writes `benches/results/autoscaler.json`, the charts, and the generated part of `docs/autoscaling.md`.
pub(crate) fn write(root: &Path, all: &[Outcome]) -> Result<(), Box<dyn Error>> {
    let rows: Vec<_> = all.iter().map(Outcome::json).collect();
    let goals = goals(all);
    let goals_json: Vec<_> =
        goals.iter().map(|goal| json!({"goal": goal.text, "result": goal.result, "met": goal.is_met})).collect();
    let results = json!({"goals": goals_json, "results": rows});
    let text = format!("{results:#}\n");
    std::fs::write(root.join("benches/results/autoscaler.json"), text)?;
    let charts = root.join("docs/autoscaling");
    std::fs::create_dir_all(&charts)?;
    for cold_start in COLD_STARTS {
        let svg = scatter(&diagrams(all, cold_start));
        std::fs::write(charts.join(format!("start-{cold_start}s.svg")), svg)?;
    }
    let page = root.join("docs/autoscaling.md");
    let text = std::fs::read_to_string(&page)?;
    let (before, rest) = text.split_once(BEGIN).ok_or("docs/autoscaling.md has no results part")?;
    let (_, after) = rest.split_once(END).ok_or("docs/autoscaling.md has no end of results")?;
    let mut part = String::from("\n| goal | result | |\n|---|---|---|\n");
    for goal in &goals {
        let met = if goal.is_met { "met" } else { "missed" };
        let _ = writeln!(part, "| {} | {} | {met} |", goal.text, goal.result);
        println!("{met:<7} {}: {}", goal.text, goal.result);
    }
    for cold_start in COLD_STARTS {
        part.push_str(&table(all, cold_start));
    }
    std::fs::write(&page, format!("{before}{BEGIN}\n{part}\n{END}{after}"))?;
    Ok(())
}

/// Returns one diagram per trace with all policies; values beyond the axes are drawn at the edge.
fn diagrams(all: &[Outcome], cold_start: u64) -> Vec<Scatter> {
    let of = |trace: Standard| Scatter {
        title: format!("{trace}, starts of {cold_start} s"),
        points: all
            .iter()
            .filter(|one| (one.trace, one.cold_start) == (trace, cold_start))
            .map(|one| PolicyPoint {
                name: one.policy.to_string(),
                cost: one.times,
                attainment: one.score.attainment,
                colour: match one.policy {
                    Contender::Weir => "#d62728",
                    Contender::FixedAtPeak => "#888888",
                    _ => "#1f77b4",
                },
            })
            .collect(),
    };
    Standard::ALL.map(of).into()
}

fn table(all: &[Outcome], cold_start: u64) -> String {
    let mut text = format!(
        "\n### Starts of {cold_start} s\n\n![Policies on each trace, starts of {cold_start} s](autoscaling/start-{cold_start}s.svg)\n\n\
         In time in %, in the worst ten minutes, GPU time over the least there is, and starts.\n\n| policy |"
    );
    for trace in Standard::ALL {
        let _ = write!(text, " {trace} |");
    }
    text.push_str("\n|---|");
    text.push_str(&"---|".repeat(Standard::ALL.len()));
    for policy in Contender::ALL {
        let _ = write!(text, "\n| {policy} |");
        for trace in Standard::ALL {
            let found = all.iter().find(|one| (one.trace, one.cold_start, one.policy) == (trace, cold_start, policy));
            if let Some(one) = found {
                let _ = write!(
                    text,
                    " {:.2} ({:.0}) {:.2}×, {} |",
                    one.score.attainment * 100.0,
                    one.score.worst * 100.0,
                    one.times,
                    one.score.starts
                );
            }
        }
    }
    text.push('\n');
    text
}
