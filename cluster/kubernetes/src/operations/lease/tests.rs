use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::claim::*;
use super::*;

#[expect(clippy::disallowed_methods, reason = "the test measures time from an arbitrary start")]
fn some_time() -> Instant {
    Instant::now()
}

fn stored(identity: &str, version: &str) -> LeaseObject {
    let mut lease = claimed(LeaseObject::default(), identity);
    lease.metadata.resource_version = Some(version.to_owned());
    lease
}

#[test]
fn a_lease_is_held_while_it_changes() {
    let mut observation = LeaseObservation::default();
    let start = some_time();
    for second in 0..60 {
        let lease = stored("other", &second.to_string());
        let now = start + Duration::from_secs(second * 10);
        assert_eq!(observation.claim(&lease, now), Claim::Held);
    }
}

#[test]
fn a_silent_holder_loses_the_lease() {
    let mut observation = LeaseObservation::default();
    let start = some_time();
    let lease = stored("other", "1");
    assert_eq!(observation.claim(&lease, start), Claim::Held);
    assert_eq!(observation.claim(&lease, start + HELD_FOR), Claim::Held);
    let later = start + HELD_FOR + Duration::from_millis(1);
    assert_eq!(observation.claim(&lease, later), Claim::Free);
}

#[test]
fn a_released_lease_is_free_at_once() {
    let lease = released(stored("other", "1"));
    assert_eq!(LeaseObservation::default().claim(&lease, some_time()), Claim::Free);
    assert_eq!(LeaseObservation::default().claim(&LeaseObject::default(), some_time()), Claim::Free);
}

#[test]
fn a_renewal_is_no_transition() {
    let first = claimed(LeaseObject::default(), "a");
    let transitions = |lease: &LeaseObject| lease.spec.as_ref().unwrap().lease_transitions;
    assert_eq!(transitions(&claimed(first.clone(), "a")), Some(1));
    assert_eq!(transitions(&claimed(first, "b")), Some(2));
}

#[test]
fn a_holder_stops_before_another_begins() {
    assert!(LOST_AFTER < HELD_FOR && RENEW_EVERY < LOST_AFTER);
    assert!(RENEW_EVERY + ANSWERED_WITHIN + LOOK_EVERY < LOST_AFTER);
}

#[tokio::test]
async fn a_request_without_an_answer_times_out() {
    // The listener never accepts: the kernel completes the handshake, and no answer ever comes.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let holder = Holder {
        leases: Api::namespaced(kube::Client::try_from(config).unwrap(), "weir-system"),
        name: "weir-controller".to_owned(),
        identity: "a".to_owned(),
    };
    let mut observation = LeaseObservation::default();
    let asked = holder.try_acquire(&mut observation);
    let outcome = tokio::time::timeout(2 * ANSWERED_WITHIN, asked).await;
    let outcome = outcome.unwrap();
    let is_unavailable = matches!(outcome, Err(ClusterError::Unavailable { .. }));
    assert!(is_unavailable, "{outcome:?}");
}
