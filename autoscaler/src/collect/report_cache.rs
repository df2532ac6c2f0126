//! The latest report of each gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Gateway, LatestReports, Report, RevisionName};

use crate::Coverage;

/// The latest report of each gateway, and when it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportCache {
    latest: BTreeMap<Arc<str>, CachedReport>,
}

#[derive(Clone, Debug)]
struct CachedReport {
    report: Arc<Report>,
    at: Duration,
}

impl ReportCache {
    /// Takes in the latest reports; one that is the same as before keeps its time.
    pub(crate) fn update(&mut self, reports: &LatestReports, now: Duration) {
        self.latest.retain(|name, _| reports.contains_key(name));
        for (name, report) in reports {
            let old = self.latest.get(name);
            if old.is_none_or(|cached| cached.report != *report) {
                let report = report.clone();
                let cached = CachedReport { report, at: now };
                self.latest.insert(name.clone(), cached);
            }
        }
    }

    /// The reports of the gateways that are not silent, by the gateway's name.
    pub(crate) fn fresh(&self, now: Duration) -> impl Iterator<Item = (&Arc<str>, &Report)> {
        let is_fresh =
            move |cached: &CachedReport| now.saturating_sub(cached.at) <= Report::SILENT_AFTER;
        let fresh = self
            .latest
            .iter()
            .filter(move |(_, cached)| is_fresh(cached));
        fresh.map(|(name, cached)| (name, &*cached.report))
    }

    /// How much of the load is known, if these are the gateways that are up.
    pub(crate) fn coverage(&self, up: &[Gateway], now: Duration) -> Coverage {
        let fresh: Vec<_> = self.fresh(now).map(|(name, _)| name).collect();
        let reports = |gateway: &Gateway| fresh.contains(&&gateway.name);
        if fresh.is_empty() {
            Coverage::None
        } else if fresh.len() == self.latest.len() && up.iter().all(reports) {
            Coverage::Complete
        } else {
            Coverage::Partial
        }
    }

    /// Whether a request is queued for this revision at some gateway.
    pub(crate) fn has_queued(&self, revision: &RevisionName, now: Duration) -> bool {
        let is_queued = |activity: &Arc<Activity>| activity.queued > 0;
        self.fresh(now)
            .any(|(_, report)| report.revisions.get(revision).is_some_and(is_queued))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use super::*;

    fn report(age_us: u64) -> Arc<Report> {
        Arc::new(Report {
            age_us,
            ..Report::default()
        })
    }

    fn gateway(name: &str) -> Gateway {
        Gateway {
            name: name.into(),
            serving: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)).into(),
            admin: None,
        }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_gateway_that_repeats_its_report_is_silent_after_a_while() {
        let mut cache = ReportCache::default();
        let up = [gateway("a"), gateway("b")];
        assert_eq!(cache.coverage(&up, at(0)), Coverage::None);
        let mut reports: LatestReports = [("a".into(), report(1))].into();
        cache.update(&reports, at(0));
        assert_eq!(cache.coverage(&up, at(0)), Coverage::Partial);
        reports.insert("b".into(), report(1));
        cache.update(&reports, at(4));
        assert_eq!(cache.coverage(&up, at(5)), Coverage::Complete);
        cache.update(&reports, at(6));
        assert_eq!(cache.coverage(&up, at(6)), Coverage::Partial);
        assert_eq!(cache.coverage(&up, at(10)), Coverage::None);
        reports.remove("a");
        reports.insert("b".into(), report(2));
        cache.update(&reports, at(11));
        assert_eq!(cache.coverage(&up[1..], at(11)), Coverage::Complete);
    }
}
