//! Several controllers: one leads by the Lease, and another takes over when the leader is gone.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Request};
use kube::client::ClientBuilder;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower::{Layer, Service};
use weir_cluster::{Fake, Readiness};
use weir_cluster_kubernetes::Options;
use weir_controller::{Controller, Leadership};

use crate::api_server::config;
use crate::world::{World, stays};

/// Process that may become the leader.
struct Candidate {
    calls: Calls,
    leadership: watch::Receiver<Leadership>,
    _stop: DropGuard,
}

/// Calls of a process, which a cut network can delay.
#[derive(Clone)]
struct Calls {
    /// Writes that were sent, except those to Leases, as method and path.
    sent: Arc<Mutex<Vec<String>>>,
    network: watch::Sender<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Up,
    Down,
}

/// Connection of a process over its network.
#[derive(Clone)]
struct Reached<S> {
    inner: S,
    calls: Calls,
}

impl<S> Layer<S> for Calls {
    type Service = Reached<S>;

    fn layer(&self, inner: S) -> Reached<S> {
        Reached { inner, calls: self.clone() }
    }
}

impl<S, B> Service<Request<B>> for Reached<S>
where
    S: Service<Request<B>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    S::Response: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let calls = self.calls.clone();
        let write = write(&request);
        // The request is not sent before its future is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut network = calls.network.subscribe();
            let _ = network.wait_for(|network| *network == Network::Up).await;
            calls.sent.lock().extend(write);
            answer.await
        })
    }
}

/// Returns method and path of a write that counts.
fn write<B>(request: &Request<B>) -> Option<String> {
    let (method, path) = (request.method(), request.uri().path());
    let counts = method != Method::GET && !path.contains("/leases");
    counts.then(|| format!("{method} {path}"))
}

impl Calls {
    fn new() -> Self {
        Self { sent: Arc::default(), network: watch::Sender::new(Network::Up) }
    }

    fn count(&self) -> usize {
        self.sent.lock().len()
    }
}

impl World {
    async fn candidate(&self, process: &str) -> Candidate {
        let calls = Calls::new();
        let builder = ClientBuilder::try_from(config().await).unwrap();
        let client = builder.with_layer(&calls).build();
        let options = Options { process: process.to_owned(), ..Options::default() };
        let (source, cluster) = self.connect_with(client, process, options).await;
        let (source, cluster) = (Arc::new(source), Arc::new(cluster));
        let reports = Arc::new(Fake::new(Readiness::Immediate));
        let controller = Controller::new(source, cluster.clone(), cluster.clone(), reports, cluster);
        let leadership = controller.leadership();
        let stop = CancellationToken::new();
        tokio::spawn(controller.run(stop.clone()));
        Candidate { calls, leadership, _stop: stop.drop_guard() }
    }
}

impl Candidate {
    async fn leads(&mut self) {
        let leads = self.leadership.wait_for(|part| *part == Leadership::Leading);
        let leads = tokio::time::timeout(Duration::from_secs(60), leads).await;
        leads.unwrap().unwrap();
    }
}

#[tokio::test]
async fn only_the_leader_writes_and_the_standby_takes_over_after_an_orderly_end() {
    let world = World::new("leaders-orderly").await;
    let mut first = world.candidate("first").await;
    first.leads().await;
    let mut second = world.candidate("second").await;
    world.roll_out("digits", "", 1).await;
    assert_eq!(second.calls.count(), 0, "{:?}", second.calls.sent.lock());
    let made = world.made().await;
    drop(first);
    #[expect(clippy::disallowed_methods, reason = "the test measures how long the takeover lasts")]
    let begun = tokio::time::Instant::now();
    second.leads().await;
    // The lease was released, so the standby need not wait until it expires.
    assert!(begun.elapsed() < Duration::from_secs(10));
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    world.until_rolled_out("digits", 2).await;
    let after = world.made().await;
    let first = "Deployment digits-predictor-00001";
    assert!(made.contains_key(first));
    assert!(after.contains_key("Deployment digits-predictor-00002"));
    world.delete("digits").await;
    world.until_nothing().await;
}

#[tokio::test]
async fn a_leader_that_is_cut_off_is_replaced_and_stops_writing() {
    let world = World::new("leaders-cut-off").await;
    let mut first = world.candidate("first").await;
    first.leads().await;
    let mut second = world.candidate("second").await;
    world.roll_out("digits", "", 1).await;
    // The leader is cut off in the middle of a rollout: a write that it had begun is never answered.
    first.calls.network.send_replace(Network::Down);
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    second.leads().await;
    assert_eq!(*first.leadership.borrow(), Leadership::Standby, "two lead at once");
    let before = first.calls.count();
    world.until_rolled_out("digits", 2).await;
    let made = world.made().await;
    // Reconnected, the former leader neither finishes that write nor writes later changes.
    first.calls.network.send_replace(Network::Up);
    world.serve("digits", "", json!({"labels": {"team": "b"}})).await;
    world.until_rolled_out("digits", 3).await;
    let writes_nothing = async || {
        let written = first.calls.sent.lock()[before..].to_vec();
        assert_eq!(written, Vec::<String>::new());
        true
    };
    stays(Duration::from_secs(3), "the former leader writes nothing", writes_nothing).await;
    let revisions = world.made().await;
    for revision in ["Deployment digits-predictor-00003", "ControllerRevision digits-predictor-00003"] {
        assert!(revisions.contains_key(revision), "{:?}", revisions.keys());
    }
    assert!(made.contains_key("Deployment digits-predictor-00002"));
}
