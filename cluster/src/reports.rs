//! Read access to the gateways' reports.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::report::{ReplicaLoads, UntrustedReplicas, add_replica_loads, add_untrusted_replicas};
use crate::{Report, RevisionName};

/// The latest report of every running gateway, by the gateway's name.
pub type LatestReports = BTreeMap<Arc<str>, Arc<Report>>;

/// Replicas that a gateway does not trust, of each revision that has one.
pub type UntrustedByRevision = BTreeMap<RevisionName, UntrustedReplicas>;

/// Source of the latest reports of all gateways; read by the autoscaler and the controller.
pub trait Reports: Send + Sync {
    /// Returns a receiver of the latest reports and every change. Reports count from a gateway's start, so a skipped
    /// report is contained in the next one.
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>>;
}

/// Returns the requests in flight at each replica of a revision, summed over all gateways.
#[must_use]
pub fn replica_loads(reports: &LatestReports, revision: &RevisionName) -> ReplicaLoads {
    let mut sum = ReplicaLoads::new();
    let activities = reports.values().filter_map(|report| report.revisions.get(revision));
    activities.for_each(|activity| add_replica_loads(&mut sum, &activity.replica_loads));
    sum
}

/// Returns the replicas of all revisions that at least one gateway does not trust.
#[must_use]
pub fn untrusted_replicas(reports: &LatestReports) -> UntrustedByRevision {
    let mut all = UntrustedByRevision::new();
    let activities = reports.values().flat_map(|report| &report.revisions);
    for (revision, activity) in activities.filter(|(_, activity)| !activity.untrusted.is_empty()) {
        add_untrusted_replicas(all.entry(revision.clone()).or_default(), &activity.untrusted);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activity, ReplicaLoad, ServiceName};

    #[test]
    fn the_load_of_a_replica_is_what_all_gateways_have_at_it() {
        let revision = ServiceName::new("default", "digits").unwrap().revision(1).unwrap();
        let report = |loads: &[(&str, u32, u32)]| {
            let loads = loads.iter().map(|(name, streams, requests)| {
                let load = ReplicaLoad { streams: *streams, requests: *requests };
                (Arc::from(*name), load)
            });
            let activity = Activity { replica_loads: loads.collect(), ..Activity::default() };
            let revisions = [(revision.clone(), Arc::new(activity))].into();
            Arc::new(Report { revisions, ..Report::default() })
        };
        let reports = LatestReports::from([
            ("one".into(), report(&[("a", 1, 2), ("b", 0, 1)])),
            ("other".into(), report(&[("a", 0, 3)])),
            ("new".into(), Arc::default()),
        ]);
        let loads = replica_loads(&reports, &revision);
        let expected = [
            ("a".into(), ReplicaLoad { streams: 1, requests: 5 }),
            ("b".into(), ReplicaLoad { streams: 0, requests: 1 }),
        ];
        assert_eq!(loads, expected.into());
        let other = ServiceName::new("default", "other").unwrap().revision(1).unwrap();
        assert!(replica_loads(&reports, &other).is_empty());
    }

    #[test]
    fn a_replica_is_untrusted_if_one_gateway_does_not_trust_it() {
        let service = ServiceName::new("default", "digits").unwrap();
        let [first, second] = [1, 2].map(|number| service.revision(number).unwrap());
        let untrusted = |names: &[&str]| -> UntrustedReplicas {
            names.iter().map(|name| (Arc::from(*name), "it has expired".into())).collect()
        };
        let report = |names: &[&str]| {
            let activity = |names| Arc::new(Activity { untrusted: untrusted(names), ..Activity::default() });
            let revisions = [(first.clone(), activity(names)), (second.clone(), activity(&[]))].into();
            Arc::new(Report { revisions, ..Report::default() })
        };
        let reports =
            [("one".into(), report(&["a"])), ("two".into(), report(&["a", "b"])), ("new".into(), report(&[]))];
        assert_eq!(untrusted_replicas(&reports.into()), [(first.clone(), untrusted(&["a", "b"]))].into());
    }
}
