//! Draining: waiting until no gateway has a request at a terminating replica.

use std::sync::Arc;

use tokio::sync::watch;
use weir_cluster::{LatestReports, RevisionName, replica_loads};

/// Returns once a report newer than this call shows no request at the replica, or no gateway is left. The snapshot must
/// already show the replica as terminating, so that no gateway sends it new requests. The wait has no deadline; the
/// caller sets one.
pub(crate) async fn drained(mut reports: watch::Receiver<Arc<LatestReports>>, revision: &RevisionName, replica: &str) {
    if reports.borrow_and_update().is_empty() {
        return;
    }
    while reports.changed().await.is_ok() {
        let loads = replica_loads(&reports.borrow_and_update(), revision);
        if !loads.contains_key(replica) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use weir_cluster::{Activity, Gateway, Gateways, ReplicaLoad, Report, Reports, ServiceName};

    use super::*;

    fn revision() -> RevisionName {
        let service = ServiceName::new("default", "echo").unwrap();
        service.revision(1).unwrap()
    }

    /// Creates a report with one request at this replica.
    fn report(replica: &str) -> Report {
        let load = ReplicaLoad { streams: 0, requests: 1 };
        let activity = Activity { replica_loads: [(replica.into(), load)].into(), ..Activity::default() };
        Report { revisions: [(revision(), Arc::new(activity))].into(), ..Report::default() }
    }

    #[tokio::test]
    async fn a_replica_is_drained_once_a_new_report_shows_no_request_at_it() {
        let gateways = Gateways::new();
        let membership = gateways.join(Gateway {
            name: "local".into(),
            serving: std::net::SocketAddr::from(([127, 0, 0, 1], 80)).into(),
            admin: None,
        });
        // A report from before the call may predate requests that the gateway sent to the replica.
        membership.publish(report("other"));
        let revision = revision();
        let mut waiting = pin!(drained(gateways.watch(), &revision, "one"));
        let mut is_over =
            async || std::future::poll_fn(|context| Poll::Ready(waiting.as_mut().poll(context).is_ready())).await;
        assert!(!is_over().await);
        membership.publish(report("one"));
        assert!(!is_over().await);
        membership.publish(report("other"));
        assert!(is_over().await);
    }

    #[tokio::test]
    async fn without_a_gateway_there_is_nothing_to_wait_for() {
        drained(Gateways::new().watch(), &revision(), "one").await;
    }
}
