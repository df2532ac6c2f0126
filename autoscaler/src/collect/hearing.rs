//! Which gateways are heard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Gateway, LatestReports, Report, RevisionName};

use crate::Sight;

/// The latest report of each gateway, and when it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hearing {
    latest: BTreeMap<Arc<str>, Heard>,
}

#[derive(Clone, Debug)]
struct Heard {
    report: Arc<Report>,
    at: Duration,
}

/// Reports come each second. Four may be lost before a gateway counts as silent.
pub(crate) const SILENT: Duration = Duration::from_secs(5);

impl Hearing {
    /// These are the latest reports now.
    pub(crate) fn hear(&mut self, reports: &LatestReports, now: Duration) {
        self.latest.retain(|name, _| reports.contains_key(name));
        for (name, report) in reports {
            let old = self.latest.get(name);
            if old.is_none_or(|heard| heard.report != *report) {
                let report = report.clone();
                let heard = Heard { report, at: now };
                self.latest.insert(name.clone(), heard);
            }
        }
    }

    /// The reports that still tell something, by the gateway's name.
    pub(crate) fn fresh(&self, now: Duration) -> impl Iterator<Item = (&Arc<str>, &Report)> {
        let is_fresh = move |heard: &Heard| now.saturating_sub(heard.at) <= SILENT;
        let fresh = self.latest.iter().filter(move |(_, heard)| is_fresh(heard));
        fresh.map(|(name, heard)| (name, &*heard.report))
    }

    /// How much is known, if these are the gateways that are up.
    pub(crate) fn sight(&self, up: &[Gateway], now: Duration) -> Sight {
        let fresh: Vec<_> = self.fresh(now).map(|(name, _)| name).collect();
        let is_heard = |gateway: &Gateway| fresh.contains(&&gateway.name);
        if fresh.is_empty() {
            Sight::None
        } else if fresh.len() == self.latest.len() && up.iter().all(is_heard) {
            Sight::Whole
        } else {
            Sight::Partial
        }
    }

    /// Whether a request waits for this revision at some gateway.
    pub(crate) fn is_waited_for(&self, revision: &RevisionName, now: Duration) -> bool {
        let waits = |activity: &Arc<Activity>| activity.queued > 0;
        self.fresh(now)
            .any(|(_, report)| report.revisions.get(revision).is_some_and(waits))
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
    fn who_repeats_itself_is_silent_after_a_while() {
        let mut hearing = Hearing::default();
        let up = [gateway("a"), gateway("b")];
        assert_eq!(hearing.sight(&up, at(0)), Sight::None);
        let mut reports: LatestReports = [("a".into(), report(1))].into();
        hearing.hear(&reports, at(0));
        assert_eq!(hearing.sight(&up, at(0)), Sight::Partial);
        reports.insert("b".into(), report(1));
        hearing.hear(&reports, at(4));
        assert_eq!(hearing.sight(&up, at(5)), Sight::Whole);
        hearing.hear(&reports, at(6));
        assert_eq!(hearing.sight(&up, at(6)), Sight::Partial);
        assert_eq!(hearing.sight(&up, at(10)), Sight::None);
        reports.remove("a");
        reports.insert("b".into(), report(2));
        hearing.hear(&reports, at(11));
        assert_eq!(hearing.sight(&up[1..], at(11)), Sight::Whole);
    }
}
