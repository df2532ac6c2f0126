//! Tests of the end of a credit whose request was given up.

use weir_cluster::{Gateway, ServiceName};

use super::*;
use crate::queue::{
    AdmissionRequest, Admitted, Arrival, ClientShare, EndpointSpec, EndpointState, GatewaySet, Origin, QueueLimit,
    RevisionState, Scale, Task, WakeUps,
};

/// Returns a queue with a replica for one request at a time, whose answers took `took`.
async fn queue(took: Duration) -> Arc<RevisionQueue> {
    let limit = QueueLimit { requests: 8, bytes: 8 };
    let name = ServiceName::new("default", "digits").unwrap().revision(1).unwrap();
    let queue = Arc::new(RevisionQueue::new(name, limit, Arc::new(WakeUps::default())));
    let serving = "127.0.0.1:1".parse::<std::net::SocketAddr>().unwrap().into();
    let replica = Arc::new(Upstream::of_gateway(&Gateway { name: "a".into(), serving, admin: None }, None));
    let spec = EndpointSpec { replica, name: "a".into(), state: EndpointState::Open, concurrency: Some(1) };
    queue.update(RevisionState {
        limit,
        gateways: GatewaySet::ALONE,
        replicas: vec![spec],
        scale: Scale::Up,
        failure: None,
        outlook: weir_cluster::Outlook::Starts,
        last_exit: None,
        reported: Vec::new(),
    });
    let credit = credit(&queue).await;
    let at = credit.since + took;
    credit.answered(Verdict::Succeeded, at);
    queue
}

/// Waits for a credit for one request.
async fn credit(queue: &Arc<RevisionQueue>) -> Credit {
    let request = AdmissionRequest {
        sequence: None,
        arrival: Arrival::New,
        bytes: 1,
        origin: Origin::Client,
        task: Task::Other,
        arrived: now(),
        deadline: None,
        activation: Duration::from_secs(60),
        share: ClientShare::ANONYMOUS,
        limited: None,
    };
    match queue.admit(request).await.unwrap() {
        Admitted::Replica(credit) => credit,
        Admitted::OtherGateway => panic!("there is no other gateway"),
    }
}

fn in_flight(queue: &RevisionQueue) -> u32 {
    queue.state.lock().in_flight
}

#[tokio::test]
async fn a_request_that_is_given_up_keeps_its_credit_until_the_replica_is_probably_free() {
    let queue = queue(Duration::from_secs(10)).await;
    let mut given_up = credit(&queue).await;
    given_up.begin_attempt();
    let gone = now();
    drop(given_up);
    assert_eq!(in_flight(&queue), 1);
    let next = credit(&queue).await;
    assert!(now().saturating_duration_since(gone) >= Duration::from_millis(100));
    drop(next);
}

#[tokio::test]
async fn a_credit_without_work_at_the_replica_is_given_back_at_once() {
    let queue = queue(Duration::from_secs(10)).await;
    drop(credit(&queue).await);
    assert_eq!(in_flight(&queue), 0);
    let mut answered = credit(&queue).await;
    answered.begin_attempt();
    answered.end_attempt();
    drop(answered);
    assert_eq!(in_flight(&queue), 0);
    let mut resting = credit(&queue).await;
    resting.begin_attempt();
    resting.rest();
    drop(resting);
    assert_eq!(in_flight(&queue), 0);
}
