//! Goals of the control law, and their results.

use weir_simulation::{Contender, Standard};

use super::results::Outcome;

/// A goal and its result.
pub(crate) struct Goal {
    pub(crate) text: String,
    pub(crate) result: String,
    pub(crate) is_met: bool,
}

/// Traces whose load changes slowly.
const SMOOTH: [Standard; 4] = [Standard::AzureConv, Standard::Mooncake, Standard::Servegen, Standard::Worldcup61];

/// Traces of at most one day.
const ONE_DAY: [Standard; 5] =
    [Standard::AzureCode, Standard::AzureConv, Standard::Mooncake, Standard::Servegen, Standard::Worldcup61];

/// Evaluates all goals.
pub(crate) fn goals(all: &[Outcome]) -> Vec<Goal> {
    let mut goals =
        vec![smooth_attainment(all), smooth_cost(all, 60, 1.20), smooth_cost(all, 180, 1.35), bursts(all), days(all)];
    goals.extend([10, 60, 180].map(|cold_start| cheaper(all, cold_start)));
    goals
}

fn find(all: &[Outcome], trace: Standard, cold_start: u64, policy: Contender) -> Option<&Outcome> {
    all.iter().find(|one| (one.trace, one.cold_start, one.policy) == (trace, cold_start, policy))
}

fn weir(all: &[Outcome], cold_start: u64) -> impl Iterator<Item = &Outcome> {
    let mut traces = SMOOTH.into_iter();
    std::iter::from_fn(move || traces.next()).filter_map(move |trace| find(all, trace, cold_start, Contender::Weir))
}

fn smooth_attainment(all: &[Outcome]) -> Goal {
    let worst = weir(all, 60).map(|one| one.score.attainment).fold(1.0, f64::min);
    Goal {
        text: "four smooth traces, starts of 60 s: at least 99.5 % in time on each".to_owned(),
        result: format!("{:.2} % on the worst", worst * 100.0),
        is_met: worst >= 0.995,
    }
}

fn smooth_cost(all: &[Outcome], cold_start: u64, most: f64) -> Goal {
    let costs: Vec<_> = weir(all, cold_start).map(|one| one.times).collect();
    let mean = costs.iter().sum::<f64>() / costs.len().max(1) as f64;
    Goal {
        text: format!("the same, starts of {cold_start} s: on average at most {most:.2} times the least"),
        result: format!("{mean:.2} times"),
        is_met: mean <= most,
    }
}

fn bursts(all: &[Outcome]) -> Goal {
    let found = find(all, Standard::AzureCode, 60, Contender::Weir);
    let (attainment, times) = found.map_or((0.0, 0.0), |one| (one.score.attainment, one.times));
    Goal {
        text: "azure-code, starts of 60 s: at least 97.5 % in time at no more than 3 times the least".to_owned(),
        result: format!("{:.2} % at {times:.2} times", attainment * 100.0),
        is_met: attainment >= 0.975 && times <= 3.0,
    }
}

fn days(all: &[Outcome]) -> Goal {
    let seconds = |policy| {
        let found = find(all, Standard::Worldcup57To61, 60, policy);
        found.map_or(0.0, |one| one.score.gpu_seconds)
    };
    let share = seconds(Contender::Weir) / seconds(Contender::FixedAtPeak);
    Goal {
        text: "worldcup, days 57 to 61: at most 0.25 of what the peak would take all the time".to_owned(),
        result: format!("{share:.3}"),
        is_met: share <= 0.25,
    }
}

/// Returns the goal that no policy with at least as many requests in time is cheaper; attainments above 99 % count as
/// 99 %.
fn cheaper(all: &[Outcome], cold_start: u64) -> Goal {
    let counted = |one: &Outcome| one.score.attainment.min(0.99);
    let mut beaten = Vec::new();
    for trace in ONE_DAY {
        let Some(ours) = find(all, trace, cold_start, Contender::Weir) else {
            continue;
        };
        let others = all.iter().filter(|one| (one.trace, one.cold_start) == (trace, cold_start));
        let better =
            others.filter(|one| counted(one) >= counted(ours) && one.score.gpu_seconds < ours.score.gpu_seconds);
        let names: Vec<_> = better.map(|one| one.policy.to_string()).collect();
        if !names.is_empty() {
            beaten.push(format!("{trace} ({})", names.join(", ")));
        }
    }
    Goal {
        text: format!("starts of {cold_start} s: no other is cheaper at no less in time, counted up to 99 %"),
        result: match beaten.as_slice() {
            [] => "none on any trace".to_owned(),
            some => format!("cheaper on {}", some.join("; ")),
        },
        is_met: beaten.is_empty(),
    }
}
