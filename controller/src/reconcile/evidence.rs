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
        let Some(candidate) = &rollout.candidate else {
            return BTreeMap::new();
        };
        let both = rollout.stable.iter().chain([&candidate.revision]);
        both.map(|name| (name.clone(), self.sample(name, reports))).collect()
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

/// Returns the activity since `begin`. For a gateway that restarted, it counts from the gateway's start.
fn since(report: &Report, begin: Option<&Arc<Report>>, revision: &RevisionName) -> Option<Activity> {
    let now = report.revisions.get(revision)?;
    let begin = begin.filter(|begin| begin.started == report.started);
    let begin = begin.and_then(|begin| begin.revisions.get(revision));
    Some(match begin {
        Some(begin) => now.since(begin),
        None => Activity::clone(now),
    })
}
