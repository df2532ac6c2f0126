//! Several controllers: one leads by the Lease, and another follows when it is gone.

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
use weir_cluster_kubernetes::{Kubernetes, Options};
use weir_controller::{Controller, Leadership, Platform};
use weir_controller_kubernetes::KubernetesSource;

use crate::api_server::config;
use crate::world::World;

/// A process that could lead.
struct Candidate {
    calls: Calls,
    leadership: watch::Receiver<Leadership>,
    _stop: DropGuard,
}

/// The calls of a process, which its machine can hold up.
#[derive(Clone)]
struct Calls {
    /// Writes that were sent, but those to Leases, as method and path.
    sent: Arc<Mutex<Vec<String>>>,
    network: watch::Sender<Network>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Up,
    Down,
}

/// A connection of a process.
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
        // Nothing is sent before it is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            let mut network = calls.network.subscribe();
            let _ = network.wait_for(|network| *network == Network::Up).await;
            calls.sent.lock().extend(write);
            answer.await
        })
    }
}

/// Method and path of what is to be counted.
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
        let options = Options {
            namespace: self.namespace.clone(),
            watched: Some(self.namespace.clone()),
            process: process.to_owned(),
            ..Options::default()
        };
        let cluster = Kubernetes::connect(client.clone(), options).await.unwrap();
        let platform = Platform {
            domain: "example.com".to_owned(),
            scheme: weir_controller::UrlScheme::Http,
            cluster_domain: "cluster.local".to_owned(),
            routes_model_names: false,
        };
        let source = KubernetesSource::connect(client, cluster.clone(), platform, process);
        let source = Arc::new(source.await.unwrap());
        let cluster = Arc::new(cluster);
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
async fn of_two_controllers_one_writes_and_the_other_follows_an_orderly_end() {
    let world = World::new("leaders-orderly").await;
    let mut first = world.candidate("first").await;
    first.leads().await;
    let mut second = world.candidate("second").await;
    world.serve("digits", "", json!({})).await;
    world.until_rolled_out("digits", 1).await;
    assert_eq!(second.calls.count(), 0, "{:?}", second.calls.sent.lock());
    let made = world.made().await;
    drop(first);
    let begun = tokio::time::Instant::now();
    second.leads().await;
    // It was let go, and need not run out.
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
async fn a_leader_that_is_cut_off_is_followed_and_writes_no_more() {
    let world = World::new("leaders-cut-off").await;
    let mut first = world.candidate("first").await;
    first.leads().await;
    let mut second = world.candidate("second").await;
    world.serve("digits", "", json!({})).await;
    world.until_rolled_out("digits", 1).await;
    // Cut off in the middle of a rollout: what it had begun to write is never answered.
    first.calls.network.send_replace(Network::Down);
    world.serve("digits", "", json!({"labels": {"team": "a"}})).await;
    second.leads().await;
    assert_eq!(*first.leadership.borrow(), Leadership::Standby, "two lead at once");
    let before = first.calls.count();
    world.until_rolled_out("digits", 2).await;
    let made = world.made().await;
    // Back again, it does not write what it had begun, nor what has changed since.
    first.calls.network.send_replace(Network::Up);
    world.serve("digits", "", json!({"labels": {"team": "b"}})).await;
    world.until_rolled_out("digits", 3).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let written = first.calls.sent.lock()[before..].to_vec();
    assert_eq!(written, Vec::<String>::new());
    let revisions = world.made().await;
    for revision in ["Deployment digits-predictor-00003", "ControllerRevision digits-predictor-00003"] {
        assert!(revisions.contains_key(revision), "{:?}", revisions.keys());
    }
    assert!(made.contains_key("Deployment digits-predictor-00002"));
}
