//! The latest report of each gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Gateway, LatestReports, Report, RevisionName};

use super::gateway_clock::GatewayClock;
use crate::Coverage;

/// The latest report of each gateway, with its arrival time.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReportCache {
    latest: BTreeMap<Arc<str>, CachedReport>,
}

#[derive(Clone, Debug)]
struct CachedReport {
    report: Arc<Report>,
    at: Duration,
    clock: GatewayClock,
}

impl ReportCache {
    /// Stores the latest reports. A report that has not changed keeps its arrival time.
    pub(crate) fn update(&mut self, reports: &LatestReports, now: Duration) {
        self.latest.retain(|name, _| reports.contains_key(name));
        for (name, report) in reports {
            let old = self.latest.get(name);
            if old.is_none_or(|cached| !cached.is(report)) {
                let clock = match old {
                    Some(cached) => cached.clock.observe(report, now),
                    None => GatewayClock::new(report, now),
                };
                let report = report.clone();
                let cached = CachedReport { report, at: now, clock };
                self.latest.insert(name.clone(), cached);
            }
        }
    }

    /// Returns the reports of gateways that are not silent, with the gateways' names.
    pub(crate) fn fresh(&self, now: Duration) -> impl Iterator<Item = (&Arc<str>, &Report)> {
        let is_fresh = move |cached: &CachedReport| now.saturating_sub(cached.at) <= Report::SILENT_AFTER;
        let fresh = self.latest.iter().filter(move |(_, cached)| is_fresh(cached));
        fresh.map(|(name, cached)| (name, &*cached.report))
    }

    /// Returns which part of the load is known, given the gateways that are up.
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

    /// Returns true if a request is queued for this revision at any gateway.
    pub(crate) fn has_queued(&self, revision: &RevisionName, now: Duration) -> bool {
        self.fresh(now).any(|(_, report)| queued(report, revision).is_some())
    }

    /// Returns the arrival time, by our clock, of the request that has been queued longest for this revision.
    pub(crate) fn first_queued(&self, revision: &RevisionName) -> Option<Duration> {
        let came = self.latest.values().filter_map(|cached| {
            let activity = queued(&cached.report, revision)?;
            let waited = Duration::from_micros(activity.oldest_us);
            Some(cached.clock.made(&cached.report).saturating_sub(waited))
        });
        came.min()
    }
}

impl CachedReport {
    /// Returns true if this is the cached report. Most reports are shared, and comparing thousands of revisions each
    /// time would be slow.
    fn is(&self, report: &Arc<Report>) -> bool {
        Arc::ptr_eq(&self.report, report) || self.report == *report
    }
}

/// Returns the revision's activity in a report, if requests are queued.
fn queued<'a>(report: &'a Report, revision: &RevisionName) -> Option<&'a Activity> {
    let activity = report.revisions.get(revision)?;
    (activity.queued > 0).then_some(activity)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use weir_cluster::ServiceName;

    use super::*;

    fn report(age_us: u64) -> Arc<Report> {
        Arc::new(Report { age_us, ..Report::default() })
    }

    fn gateway(name: &str) -> Gateway {
        Gateway { name: name.into(), serving: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)).into(), admin: None }
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

    #[test]
    fn the_arrival_of_a_queued_request_includes_the_delay_of_its_report() {
        let service = ServiceName::new("default", "digits").unwrap();
        let revision = service.revision(1).unwrap();
        let queued = |second: u64, oldest_us| {
            let activity = Activity { queued: u32::from(oldest_us > 0), oldest_us, ..Activity::default() };
            Arc::new(Report {
                age_us: second * 1_000_000,
                revisions: [(revision.clone(), Arc::new(activity))].into(),
                ..Report::default()
            })
        };
        let mut cache = ReportCache::default();
        cache.update(&[("a".into(), queued(50, 0))].into(), at(3));
        assert_eq!(cache.first_queued(&revision), None);
        // The report was made at 4 s by our clock, when the request had waited 10 ms.
        let came = at(4) - Duration::from_millis(10);
        cache.update(&[("a".into(), queued(51, 10_000))].into(), at(5));
        let found = cache.first_queued(&revision).unwrap();
        assert!(found.abs_diff(came) < Duration::from_millis(1), "{found:?}");
    }
}
