//! Tests of hand-overs to other gateways.

use std::net::TcpListener;

use http::Request;
use weir_cluster::{Destination, Gateway, Route, ServiceName, Snapshot, Split};

use super::*;
use crate::options::{Options, Scope};
use crate::queue::{ClientShare, QueueLimit, RevisionQueue, WakeUps};
use crate::router::Target;
use crate::state::State;
use crate::upstream::Chunks;
use crate::wire::deadline::Deadline;

fn request() -> ProxyRequest {
    let service = ServiceName::new("default", "digits").unwrap();
    let revision = service.revision(1).unwrap();
    let route = Route::new(service, Destination::Split(Split::all(revision.clone())));
    let limit = QueueLimit { requests: 1, bytes: 1 };
    let queue = Arc::new(RevisionQueue::new(revision, limit, Arc::new(WakeUps::default())));
    let target = Target { queue, route: Arc::new(route), prefix: 0, share: ClientShare::ANONYMOUS, mirror: None };
    let (mut parts, ()) = Request::post("/").body(()).unwrap().into_parts();
    ProxyRequest::new(Protocol::Http, &mut parts, target, Deadline::none(now()))
}

/// Creates the context of the gateway `me` in a state with these gateways, which all have left their port.
fn context(me: &str, gateways: &[&str]) -> Context {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = |name: &&str| Gateway { name: (*name).into(), serving: port.into(), admin: None };
    let snapshot = Snapshot { gateways: gateways.iter().map(gateway).collect(), ..Snapshot::default() };
    let options = Options::new(me, Scope::Local);
    let state = State::empty(&options, Arc::new(WakeUps::default())).next(Arc::new(snapshot), &options, now());
    Context::new(options, state)
}

/// Hands a request over at the gateway `me`, and returns true if the request was sent.
async fn is_sent(me: &str, gateways: &[&str]) -> bool {
    let context = context(me, gateways);
    let mut body = BufferedBody::from_chunks(Chunks::new(), &context.budget);
    match try_gateway(&context, &request(), &mut body).await {
        Attempt::Failed(Failure::Unserved) => false,
        Attempt::Failed(Failure::Lost(_)) => true,
        Attempt::Failed(_) | Attempt::Answered(_) | Attempt::Over(_) => panic!("no gateway answers"),
    }
}

#[tokio::test]
async fn a_request_is_handed_over_to_the_owner_unless_this_gateway_is_the_owner() {
    let gateways = ["b", "c"];
    let (b, c) = (is_sent("b", &gateways).await, is_sent("c", &gateways).await);
    assert_ne!(b, c, "one of the two is the owner");
    assert!(is_sent("a", &gateways).await);
    assert!(!is_sent("b", &["b"]).await);
    assert!(!is_sent("b", &[]).await);
}
