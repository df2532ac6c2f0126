//! Output of `weir simulate` as text.

use std::time::Duration;

use weir_simulation::{Score, Service};

use super::scenario::Scenario;
use super::{Simulated, least};

/// Returns the results, line by line.
pub(super) fn report(scenario: &Scenario, simulated: &[Simulated]) -> Vec<String> {
    let mut lines = vec![requests(scenario), replica(scenario), String::new()];
    lines.extend(table(simulated));
    lines.push(String::new());
    for target in &scenario.targets {
        lines.push(with_the_future_known(scenario, *target));
    }
    lines.extend(simulated.iter().map(|one| sentence(scenario, one)));
    lines.extend(choice(scenario, simulated));
    lines
}

fn with_the_future_known(scenario: &Scenario, target: Duration) -> String {
    let what = format!("{} within {}", percent(scenario.scaling.quantile), time(target));
    match least(scenario, target) {
        Some(seconds) => format!("With the future known, {what} would take {:.2} GPU hours.", seconds / 3600.0),
        None => format!("With the future known, the GPU hours for {what} take too long to calculate."),
    }
}

fn requests(scenario: &Scenario) -> String {
    let count = scenario.arrivals.len();
    let seconds = scenario.until.as_secs_f64().max(1.0);
    format!(
        "{} in {}: {:.1} per second, {:.1} in the busiest ten seconds.",
        counted(count as u64, "request"),
        long(scenario.until),
        count as f64 / seconds,
        busiest(&scenario.arrivals),
    )
}

fn busiest(arrivals: &[Duration]) -> f64 {
    let second = |index: usize| arrivals.get(index).map(|at| at.as_secs() / 10);
    let (mut most, mut from) = (0, 0);
    for index in 0..arrivals.len() {
        if second(index) != second(from) {
            from = index;
        }
        most = most.max(index + 1 - from);
    }
    most as f64 / 10.0
}

fn replica(scenario: &Scenario) -> String {
    let service = &scenario.world.service;
    let how = match service {
        Service::Each { most, .. } => format!("{most} at a time"),
        Service::Batched { most, .. } => format!("in batches of up to {most}"),
        Service::Continuous { most, .. } => format!("in continuous batches of up to {most}"),
    };
    format!("A replica does {:.1} per second, {how}, and takes {} to start.", service.capacity(), start(scenario),)
}

/// Formats the start time, or the shortest and the longest if starts were measured.
fn start(scenario: &Scenario) -> String {
    let starts = &scenario.world.starts;
    let shortest = starts.measured.iter().min().unwrap_or(&starts.time);
    let longest = starts.measured.iter().max().unwrap_or(&starts.time);
    let [shortest, longest] = [shortest, longest].map(|start| time(*start + scenario.world.machines.node_start));
    if shortest == longest { longest } else { format!("{shortest} to {longest}") }
}

fn table(simulated: &[Simulated]) -> Vec<String> {
    let has_cost = simulated.iter().any(|one| one.cost.is_some());
    let cost = |text: String| {
        if has_cost { format!("{text:>10}") } else { String::new() }
    };
    let head = format!(
        "{:<8} {:<12} {:>9} {:>13} {:>12} {:>10}{} {:>7} {:>13}",
        "target",
        "policy",
        "in time",
        "worst 10 min",
        "99 % waited",
        "GPU hours",
        cost("cost".to_owned()),
        "starts",
        "most at once"
    );
    let rows = simulated.iter().map(|one| {
        let score = &one.score;
        format!(
            "{:<8} {:<12} {:>9} {:>13} {:>12} {:>10.2}{} {:>7} {:>13}",
            time(one.target),
            one.policy.to_string(),
            percent(score.attainment),
            percent(score.worst),
            time(score.p99),
            score.gpu_seconds / 3600.0,
            cost(one.cost.map_or_else(String::new, |cost| format!("{cost:.2}"))),
            score.starts,
            score.peak,
        )
    });
    std::iter::once(head).chain(rows).collect()
}

/// States whether a policy keeps the target, and if not, the main reason.
fn sentence(scenario: &Scenario, one: &Simulated) -> String {
    let wanted = scenario.scaling.quantile;
    let (policy, target) = (one.policy, time(one.target));
    let Score { late, late_at_zero, .. } = one.score;
    if keeps(scenario, one) {
        return format!("{policy} keeps {} within {target}.", percent(wanted));
    }
    let late_words = counted(late, "request");
    let mut text = format!("{policy} misses {} within {target}: {late_words} waited longer", percent(wanted));
    if late_at_zero * 2 > late {
        text += &format!(
            ", {} of them because no replica was ready when they came. A higher --min, a faster start or a longer target helps",
            thousands(late_at_zero)
        );
    }
    text + "."
}

/// Names the cheapest policy that keeps its target.
fn choice(scenario: &Scenario, simulated: &[Simulated]) -> Option<String> {
    let price = |one: &&Simulated| one.cost.unwrap_or(one.score.gpu_seconds);
    let good = simulated.iter().filter(|one| keeps(scenario, one));
    let best = good.min_by(|a, b| price(a).total_cmp(&price(b)))?;
    (simulated.len() > 1)
        .then(|| format!("The cheapest that keeps its target is {} with {}.", best.policy, time(best.target)))
}

fn keeps(scenario: &Scenario, one: &Simulated) -> bool {
    one.score.attainment >= scenario.scaling.quantile
}

fn percent(share: f64) -> String {
    // Rounded down, so that a share below 100 % is never shown as 100 %.
    let shown = (share * 1e4).floor() / 100.0;
    format!("{shown} %")
}

fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        _ if seconds < 1.0 => format!("{} ms", time.as_millis()),
        _ if seconds.fract() == 0.0 || seconds >= 100.0 => format!("{seconds:.0} s"),
        _ => format!("{seconds:.1} s"),
    }
}

fn long(time: Duration) -> String {
    match time.as_secs() {
        minutes if minutes < 2 * 3600 => format!("{:.0} min", time.as_secs_f64() / 60.0),
        hours if hours < 2 * 86_400 => format!("{:.1} h", time.as_secs_f64() / 3600.0),
        _ => format!("{:.1} days", time.as_secs_f64() / 86_400.0),
    }
}

fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", thousands(count))
}

fn thousands(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_people() {
        assert_eq!(thousands(1_734_023), "1,734,023");
        assert_eq!(thousands(12), "12");
        assert_eq!(percent(0.99999), "99.99 %");
        assert_eq!(percent(1.0), "100 %");
        assert_eq!(
            (time(Duration::from_millis(1500)), time(Duration::from_millis(20))),
            ("1.5 s".to_owned(), "20 ms".to_owned())
        );
        assert_eq!(long(Duration::from_secs(86_400)), "24.0 h");
        let arrivals = [1, 2, 3, 11, 12].map(Duration::from_secs);
        assert_eq!(busiest(&arrivals), 0.3);
    }
}
