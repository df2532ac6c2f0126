//! Queues for the tests of requests that wait for credits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_access::ClientId;
use weir_cluster::{Gateway, Outlook, ServiceName};

use super::{
    AdmissionRequest, Admitted, Arrival, ClientShare, Credit, EndpointSpec, EndpointState, GatewaySet, Origin,
    QueueLimit, RevisionQueue, RevisionState, Scale, Task, WakeUps,
};
use crate::clock::now;
use crate::upstream::Upstream;

const LIMIT: QueueLimit = QueueLimit { requests: 8, bytes: 8 };

/// Returns a queue without replicas.
pub(super) fn empty_queue() -> Arc<RevisionQueue> {
    let name = ServiceName::new("default", "digits").unwrap().revision(1).unwrap();
    Arc::new(RevisionQueue::new(name, LIMIT, Arc::new(WakeUps::default())))
}

/// Returns a queue with replicas of these concurrency limits; `None` is measured.
pub(super) fn queue_with(concurrencies: &[Option<u32>]) -> Arc<RevisionQueue> {
    let queue = empty_queue();
    set_replicas(&queue, concurrencies);
    queue
}

/// Gives the queue new replicas with these concurrency limits; `None` is measured.
pub(crate) fn set_replicas(queue: &Arc<RevisionQueue>, concurrencies: &[Option<u32>]) {
    queue.update(RevisionState {
        limit: LIMIT,
        gateways: GatewaySet::ALONE,
        replicas: (1..).zip(concurrencies).map(|(port, limit)| replica(port, *limit)).collect(),
        scale: Scale::Up,
        failure: None,
        outlook: Outlook::Starts,
        last_exit: None,
        reported: Vec::new(),
    });
}

fn replica(port: u16, concurrency: Option<u32>) -> EndpointSpec<Arc<Upstream>> {
    let name: Arc<str> = port.to_string().into();
    let serving = SocketAddr::from(([127, 0, 0, 1], port)).into();
    let gateway = Gateway { name: name.clone(), serving, admin: None };
    let replica = Arc::new(Upstream::of_gateway(&gateway, None));
    EndpointSpec { replica, name, state: EndpointState::Open, concurrency }
}

/// Waits for a credit for a request without a client.
pub(super) async fn credit(queue: &Arc<RevisionQueue>) -> Credit {
    credit_of(queue, ClientShare::ANONYMOUS).await
}

/// Waits for a credit for a request of the client with this name.
pub(super) async fn credit_for(queue: &Arc<RevisionQueue>, client: &str) -> Credit {
    credit_of(queue, ClientShare { client: ClientId::of(client), ..ClientShare::ANONYMOUS }).await
}

async fn credit_of(queue: &Arc<RevisionQueue>, share: ClientShare) -> Credit {
    let request = AdmissionRequest {
        sequence: None,
        arrival: Arrival::New,
        bytes: 1,
        origin: Origin::Client,
        task: Task::Other,
        queued_since: now(),
        deadline: None,
        activation: Duration::from_secs(60),
        share,
        limited: None,
    };
    match queue.admit(request).await.unwrap() {
        Admitted::Replica(credit) => credit,
        Admitted::OtherGateway => panic!("there is no other gateway"),
    }
}
