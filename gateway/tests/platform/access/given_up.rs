//! Calls that a client with a name gives up.

use std::sync::atomic::Ordering;

use super::*;
use crate::given_up::LateReplica;

/// More calls than a client may give up at once without a connection of its own.
const CALLS: usize = 120;

fn call(number: u8) -> Request<Full<Bytes>> {
    let call = grpc::call(HOST, grpc::INFER, Full::new(grpc::infer("digits")));
    with(call, "x-api-key", &key(number).text)
}

/// Sends a call, and returns its gRPC status.
async fn status(world: &World, number: u8) -> String {
    let response = connect_h2(world.address()).await.send_request(call(number)).await.unwrap();
    grpc::status(&grpc::ended(response).await).0.to_owned()
}

#[tokio::test]
async fn calls_of_a_client_that_gives_up_many_leave_the_connection_of_the_others() {
    let keys = vec![written(1, "a"), written(2, "b")];
    let access = AccessControl::new(policy(keys, vec![rule("*", &["*"], &[])]));
    let options = Options { access: Some(access), ..Options::new("gateway", Scope::Local) };
    let (world, (replica, address)) = (World::of(options).await, LateReplica::start().await);
    world.serve_limited(&[100], Some(1000), |_| {}).await;
    world.put(1, "a", address).await;
    let mut sender = connect_h2(world.address()).await;
    let calls: Vec<_> = (0..CALLS).map(|_| tokio::spawn(sender.send_request(call(1)))).collect();
    until("the replica to have the calls", || replica.calls.load(Ordering::SeqCst) >= CALLS).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    world.activity(1, |activity| activity.in_flight == 0).await;
    replica.is_prompt.store(true, Ordering::SeqCst);
    assert_eq!(status(&world, 2).await, "0");
    assert_eq!(replica.connections.load(Ordering::SeqCst), 1);
    assert_eq!(status(&world, 1).await, "0");
    assert_eq!(replica.connections.load(Ordering::SeqCst), 2);
}
