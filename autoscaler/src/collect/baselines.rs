//! Load of one revision since its last sample.

use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Report, RevisionName};

use crate::Load;

/// Counts of each gateway at the last sample, by the gateway's name. There are few gateways, and every revision has
/// this state, so a list is used: it takes a third of the memory of a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Baselines {
    by_gateway: Vec<(Arc<str>, Baseline)>,
}

/// Counts of one gateway at a sample.
#[derive(Clone, Debug)]
struct Baseline {
    started: u64,
    age_us: u64,
    activity: Arc<Activity>,
}

impl Baselines {
    /// Returns the load since the last sample and stores the fresh reports as the new baselines. A gateway that is
    /// silent for a while includes the missed counts in its next report.
    pub(crate) fn advance<'a>(
        &mut self,
        revision: &RevisionName,
        reports: impl Iterator<Item = (&'a Arc<str>, &'a Report)>,
    ) -> Load {
        let mut load = Load::default();
        for (name, report) in reports {
            let now = Baseline::new(report, revision);
            let before = self.replace(name, now.clone());
            let (span, activity) = now.since(before.as_ref());
            load.span = load.span.max(span);
            load.activity.merge(&activity);
        }
        load
    }

    /// Replaces the baseline of a gateway and returns the previous one.
    fn replace(&mut self, gateway: &Arc<str>, now: Baseline) -> Option<Baseline> {
        let known = self.by_gateway.iter_mut().find(|(name, _)| name == gateway);
        match known {
            Some((_, before)) => Some(std::mem::replace(before, now)),
            None => {
                self.by_gateway.push((gateway.clone(), now));
                None
            }
        }
    }
}

impl Baseline {
    fn new(report: &Report, revision: &RevisionName) -> Self {
        let activity = report.revisions.get(revision).cloned();
        Self { started: report.started, age_us: report.age_us, activity: activity.unwrap_or_default() }
    }

    /// Returns the activity since an earlier baseline, and its time span. Counts from before a gateway's first baseline
    /// are ignored, unless the gateway itself is new, because they say nothing about the present.
    fn since(&self, before: Option<&Self>) -> (Duration, Activity) {
        let before = before.filter(|before| before.started == self.started);
        let age = Duration::from_micros(self.age_us);
        match before {
            Some(before) => {
                let span = self.age_us.saturating_sub(before.age_us);
                let news = self.activity.since(&before.activity);
                (Duration::from_micros(span), news)
            }
            None if age <= Report::SILENT_AFTER => (age, (*self.activity).clone()),
            None => (Duration::ZERO, self.activity.since(&self.activity)),
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::ServiceName;

    use super::*;

    fn revision() -> RevisionName {
        let service = ServiceName::new("default", "digits").unwrap();
        service.revision(1).unwrap()
    }

    fn report(started: u64, age: u64, arrivals: u64, queued: u32) -> Report {
        let activity = Activity { arrivals, queued, ..Activity::default() };
        Report { started, age_us: age * 1_000_000, routes: 1, revisions: [(revision(), Arc::new(activity))].into() }
    }

    fn load(baselines: &mut Baselines, reports: &[(&str, Report)]) -> (u64, u64, u32) {
        let reports: Vec<(Arc<str>, _)> = reports.iter().map(|(n, r)| ((*n).into(), r)).collect();
        let reports = reports.iter().map(|(name, report)| (name, *report));
        let load = baselines.advance(&revision(), reports);
        let activity = load.activity;
        (load.span.as_secs(), activity.arrivals, activity.queued)
    }

    #[test]
    fn differences_add_up_over_gateways() {
        let mut baselines = Baselines::default();
        let old = [("a", report(1, 900, 70, 2)), ("b", report(1, 1, 5, 1))];
        assert_eq!(load(&mut baselines, &old), (1, 5, 3));
        let next = [("a", report(1, 901, 80, 0)), ("b", report(1, 2, 9, 4))];
        assert_eq!(load(&mut baselines, &next), (1, 14, 4));
        assert_eq!(load(&mut baselines, &next), (0, 0, 4));
    }

    #[test]
    fn a_restarted_gateway_counts_from_its_start() {
        let mut baselines = Baselines::default();
        load(&mut baselines, &[("a", report(1, 900, 70, 0))]);
        assert_eq!(load(&mut baselines, &[("a", report(2, 1, 80, 0))]), (1, 80, 0));
    }

    #[test]
    fn a_silent_gateway_catches_up_with_its_next_report() {
        let mut baselines = Baselines::default();
        load(&mut baselines, &[("a", report(1, 10, 70, 0))]);
        assert_eq!(load(&mut baselines, &[]), (0, 0, 0));
        assert_eq!(load(&mut baselines, &[("a", report(1, 40, 100, 0))]), (30, 30, 0));
    }
}
