//! Requests of two revisions since a rollout's stage began, from the gateways' reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_cluster::{Activity, LatestReports, Report, RevisionName};

use crate::clock;
use crate::rollout::{Candidate, Rollout, Sample};

/// Quantile of the service time that is compared.
const P99: f64 = 0.99;

/// Reports at the beginning of a candidate's stage.
#[derive(Default)]
pub(super) struct Window {
    of: Option<Candidate>,
    /// Reports from which the requests count, by gateway. All requests of a gateway that started later count.
    begin: Arc<LatestReports>,
    /// Time at which this process began to observe the stage; None without a candidate.
    since: Option<Instant>,
}

impl Window {
    /// Starts a new window if the candidate or its stage has changed, so that every request from then on counts.
    pub(super) fn follow(&mut self, rollout: &Rollout, reports: &Arc<LatestReports>) {
        if rollout.candidate.is_none() {
            // Without a rollout the reports are not needed. They would keep the data of every service in memory.
            *self = Self::default();
        } else if self.of != rollout.candidate {
            self.of.clone_from(&rollout.candidate);
            self.begin = reports.clone();
            self.since = Some(clock::now());
        }
    }

    /// Returns the time for which this process has observed the candidate's stage.
    pub(super) fn watched(&self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Returns the samples of the stable revision and the candidate since the candidate's stage began.
    pub(super) fn samples(
        &mut self,
        rollout: &Rollout,
        reports: &Arc<LatestReports>,
    ) -> BTreeMap<RevisionName, Sample> {
        self.follow(rollout, reports);
        self.add_late(reports);
        let Some(candidate) = &rollout.candidate else {
            return BTreeMap::new();
        };
        let both = rollout.stable.iter().chain([&candidate.revision]);
        both.map(|name| (name.clone(), self.sample(name, reports))).collect()
    }

    /// Begins to count at gateways that have run for longer than the stage and report only now. The requests that they
    /// had before are not those of this stage, and may be of an earlier attempt with the same candidate.
    fn add_late(&mut self, reports: &LatestReports) {
        let watched = self.watched();
        let is_late = |(name, report): &(&Arc<str>, &Arc<Report>)| {
            let begin = self.begin.get(*name);
            let is_known = begin.is_some_and(|begin| begin.started == report.started);
            !is_known && Duration::from_micros(report.age_us) > watched
        };
        let late: Vec<_> =
            reports.iter().filter(is_late).map(|(name, report)| (name.clone(), report.clone())).collect();
        if !late.is_empty() {
            Arc::make_mut(&mut self.begin).extend(late);
        }
    }

    fn sample(&self, revision: &RevisionName, reports: &LatestReports) -> Sample {
        let mut sum = Activity::default();
        for (gateway, report) in reports {
            if let Some(activity) = since(report, self.begin.get(gateway), revision) {
                sum.merge(&activity);
            }
        }
        Sample { succeeded: sum.succeeded, failed: sum.failed, p99: sum.service_time.quantile(P99) }
    }
}

/// Returns the activity since `begin`. For a gateway that started later, it counts from the gateway's start.
fn since(report: &Report, begin: Option<&Arc<Report>>, revision: &RevisionName) -> Option<Activity> {
    let now = report.revisions.get(revision)?;
    let begin = begin.filter(|begin| begin.started == report.started);
    let begin = begin.and_then(|begin| begin.revisions.get(revision));
    Some(match begin {
        Some(begin) => now.since(begin),
        None => Activity::clone(now),
    })
}

#[cfg(test)]
mod tests {
    use weir_cluster::ServiceName;

    use super::*;
    use crate::rollout::Stage;

    /// Returns the reports of one gateway with this many successful requests of a revision.
    fn reports(revision: &RevisionName, age: Duration, succeeded: u64) -> Arc<LatestReports> {
        let activity = Activity { arrivals: succeeded, succeeded, ..Activity::default() };
        let report = Report {
            started: 1,
            age_us: u64::try_from(age.as_micros()).unwrap(),
            revisions: [(revision.clone(), Arc::new(activity))].into(),
            ..Report::default()
        };
        Arc::new([("gateway".into(), Arc::new(report))].into())
    }

    /// Returns the counted requests after each of two reports of a gateway of this age that reported nothing when the
    /// stage began.
    fn counted(age: Duration) -> [u64; 2] {
        let revision = ServiceName::new("default", "digits").unwrap().revision(2).unwrap();
        let candidate = Candidate::new(revision.clone(), Stage::Shifting(0), 0);
        let rollout = Rollout { candidate: Some(candidate), ..Rollout::default() };
        let mut window = Window::default();
        window.follow(&rollout, &Arc::default());
        let each = [100, 130].map(|succeeded| reports(&revision, age, succeeded));
        each.map(|reports| window.samples(&rollout, &reports)[&revision].succeeded)
    }

    #[test]
    fn requests_from_before_the_stage_do_not_count() {
        assert_eq!(counted(Duration::from_secs(3600)), [0, 30]);
    }

    #[test]
    fn all_requests_of_a_gateway_that_started_later_count() {
        assert_eq!(counted(Duration::ZERO), [100, 130]);
    }
}
