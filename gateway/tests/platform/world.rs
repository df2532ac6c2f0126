//! A cluster in memory, with gateways in front of its replicas.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_cluster::{
    Activity, Apply, Desired, Destination, Endpoints, Failure, FailureReason, Fake, Phase, PodTemplate, Readiness,
    Replica, RevisionName, Route, ServiceName, Snapshot, Split, Target, Workload,
};
use weir_gateway::{Encryption, Gateway, Options, Port, Scope, ServerTls};

use crate::replica::{Behaviour, TestReplica};

/// Longest time for any single wait of a test.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The host of the service `digits`.
pub(crate) const HOST: &str = "digits.default";

pub(crate) struct World {
    pub(crate) fake: Fake,
    pub(crate) gateways: Vec<Running>,
}

pub(crate) struct Running {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    /// Address of the port with TLS, if the gateway has one.
    pub(crate) encrypted: Option<SocketAddr>,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: Option<JoinHandle<()>>,
    tasks: Vec<JoinHandle<()>>,
    membership: Option<weir_cluster::Membership>,
}

impl Running {
    /// Removes the gateway from the set of gateways. It may finish its requests.
    pub(crate) fn resign(&mut self) {
        self.membership = None;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl World {
    pub(crate) async fn new(gateways: usize) -> Self {
        let fake = Fake::new(Readiness::Manual);
        let mut world = Self { fake, gateways: Vec::new() };
        for number in 0..gateways {
            let options = Options::new(&format!("gateway-{number}"), Scope::Local);
            world.add(options).await;
        }
        world
    }

    /// Creates a world with one gateway of these options.
    pub(crate) async fn of(options: Options) -> Self {
        let mut world = Self::new(0).await;
        world.add(options).await;
        world
    }

    /// Creates a world with one gateway, and a service without a replica.
    pub(crate) async fn serving() -> Self {
        let world = Self::new(1).await;
        world.serve(&[100], |_| {}).await;
        world
    }

    /// Creates a world with one gateway, and a service with one replica, `a`.
    pub(crate) async fn with(behaviour: Behaviour) -> (Self, TestReplica) {
        Self::with_replica(behaviour, None).await
    }

    /// Like [`Self::with`], but the replica takes one request at a time.
    pub(crate) async fn with_limited(behaviour: Behaviour) -> (Self, TestReplica) {
        Self::with_replica(behaviour, Some(1)).await
    }

    async fn with_replica(behaviour: Behaviour, concurrency: Option<u32>) -> (Self, TestReplica) {
        let world = Self::new(1).await;
        world.serve_limited(&[100], concurrency, |_| {}).await;
        let replica = world.start(1, "a", behaviour).await;
        (world, replica)
    }

    /// Like [`Self::with`], with these options of the gateway.
    pub(crate) async fn of_with(options: Options, behaviour: Behaviour) -> (Self, TestReplica) {
        let world = Self::of(options).await;
        world.serve(&[100], |_| {}).await;
        let replica = world.start(1, "a", behaviour).await;
        (world, replica)
    }

    pub(crate) async fn add(&mut self, options: Options) {
        self.add_with(options, None).await;
    }

    /// Adds a gateway, with a second port for TLS if `tls` is set.
    pub(crate) async fn add_with(&mut self, options: Options, tls: Option<ServerTls>) {
        let snapshots = weir_cluster::Directory::watch(&self.fake);
        self.add_following(options, tls, snapshots).await;
    }

    /// Like [`Self::add_with`], but the gateway learns the state of the cluster from `snapshots`.
    pub(crate) async fn add_following(
        &mut self,
        options: Options,
        tls: Option<ServerTls>,
        snapshots: watch::Receiver<Arc<Snapshot>>,
    ) {
        let name = options.name.clone();
        let (plain, address) = listener().await;
        let mut ports = vec![Port::plain(plain)];
        let mut encrypted = None;
        if let Some(tls) = tls {
            let (listener, address) = listener().await;
            let encryption = Encryption::Tls(tls);
            ports.push(Port { listener, encryption, host: None });
            encrypted = Some(address);
        }
        let gateway = Gateway::new(options);
        let stop = CancellationToken::new();
        let tasks = vec![
            tokio::spawn(Arc::clone(&gateway).follow(snapshots, CancellationToken::new())),
            tokio::spawn(Arc::clone(&gateway).report(CancellationToken::new())),
        ];
        let serving = tokio::spawn(Arc::clone(&gateway).serve(ports, stop.clone()));
        let membership =
            self.fake.gateways().join(weir_cluster::Gateway { name, serving: address.into(), admin: None });
        self.gateways.push(Running {
            gateway,
            address,
            encrypted,
            stop,
            serving: Some(serving),
            tasks,
            membership: Some(membership),
        });
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.gateways[0].address
    }

    /// Applies a service with revisions 1, 2, … of these weights.
    pub(crate) async fn serve(&self, weights: &[u32], change: impl FnOnce(&mut Route)) {
        self.serve_limited(weights, None, change).await;
    }

    /// Like [`Self::serve`], with a limit of concurrent requests per replica.
    pub(crate) async fn serve_limited(
        &self,
        weights: &[u32],
        concurrency: Option<u32>,
        change: impl FnOnce(&mut Route),
    ) {
        let numbers = 1..=weights.len() as u32;
        let limited = |number| Workload { concurrency: concurrency.and_then(NonZeroU32::new), ..workload(number) };
        let workloads = numbers.clone().map(limited);
        let targets =
            numbers.zip(weights).map(|(number, weight)| Target { revision: revision(number), weight: *weight });
        let split = Split::new(targets.collect()).unwrap();
        let mut route = Route::new(service(), Destination::Split(split));
        route.hosts = service().inside_hosts("cluster.local").unwrap();
        route.model = Some("digits".into());
        change(&mut route);
        let desired = Desired::new(service(), workloads.collect(), Some(route)).unwrap();
        self.fake.apply(desired).await.unwrap();
        self.settled().await;
    }

    /// Removes the service's route. Revision 1 keeps its replicas, which take one request at a time.
    pub(crate) async fn remove_route(&self) {
        let kept = Workload { concurrency: NonZeroU32::new(1), ..workload(1) };
        let desired = Desired::new(service(), vec![kept], None).unwrap();
        self.fake.apply(desired).await.unwrap();
        self.settled().await;
    }

    /// Adds or replaces a replica in this phase.
    pub(crate) fn put_in(&self, number: u32, name: &str, address: SocketAddr, phase: Phase) {
        self.fake.put(&revision(number), replica(name, both(address), phase)).unwrap();
    }

    /// Adds or replaces a ready replica with a port of its own for metrics.
    pub(crate) fn put_with_metrics(&self, number: u32, address: SocketAddr, metrics: SocketAddr) {
        let endpoints = Endpoints { http: Some(address.into()), grpc: None, metrics: Some(metrics.into()) };
        self.fake.put(&revision(number), replica("m", endpoints, Phase::Ready)).unwrap();
    }

    /// Reports that the program of a replica ended with this exit status, and that the replica is backing off.
    pub(crate) fn end(&self, number: u32, name: &str, exit_code: i32) {
        let failure = Failure {
            exit_code: Some(exit_code),
            ..Failure::new(FailureReason::Exited, format!("{name} ended with {exit_code}"))
        };
        let replica =
            Replica { failure: Some(failure.clone()), last_exit: Some(failure), ..Replica::new(name, Phase::BackOff) };
        self.fake.put(&revision(number), replica).unwrap();
    }

    /// Reports how the last program of a replica ended; the program is started again at the same address.
    pub(crate) fn report_exit(&self, number: u32, name: &str, address: SocketAddr, exit: &Failure) {
        let endpoints = Endpoints { http: Some(address.into()), grpc: Some(address.into()), metrics: None };
        let replica = Replica { endpoints, last_exit: Some(exit.clone()), ..Replica::new(name, Phase::Unready) };
        self.fake.put(&revision(number), replica).unwrap();
    }

    /// Starts a replica and adds it as a ready one.
    pub(crate) async fn start(&self, number: u32, name: &str, behaviour: Behaviour) -> TestReplica {
        let replica = TestReplica::start(behaviour).await;
        self.put(number, name, replica.address).await;
        replica
    }

    pub(crate) async fn put(&self, number: u32, name: &str, address: SocketAddr) {
        self.put_in(number, name, address, Phase::Ready);
        self.settled().await;
    }

    pub(crate) async fn take(&self, number: u32, name: &str) {
        self.fake.take(&revision(number), name);
        self.settled().await;
    }

    /// Waits until every gateway has applied the current state.
    pub(crate) async fn settled(&self) {
        let generation = self.fake.snapshot().generation;
        for running in &self.gateways {
            until("the gateway to follow", || {
                let text = running.gateway.describe();
                let state: serde_json::Value = serde_json::from_str(&text).unwrap();
                state["generation"].as_u64().unwrap() >= generation
            })
            .await;
        }
    }

    /// Returns the value of a counter of the first gateway.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let mut registry = weir_ops::registry::Registry::default();
        self.gateways[0].gateway.register(&mut registry);
        let text = weir_ops::registry::text(&registry).unwrap();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name}: {text}")).parse().unwrap()
    }

    /// Waits until the first gateway's report about this revision satisfies the condition.
    pub(crate) async fn activity(&self, number: u32, is_so: impl Fn(&Activity) -> bool) {
        let mut reports = self.gateways[0].gateway.reports();
        let name = revision(number);
        let seen = reports.wait_for(|report| report.revisions.get(&name).is_some_and(|a| is_so(a)));
        let seen = tokio::time::timeout(TEST_TIMEOUT, seen).await.is_ok();
        let last = reports.borrow().revisions.get(&name).cloned();
        assert!(seen, "{last:?}");
    }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

pub(crate) fn service() -> ServiceName {
    ServiceName::new("default", "digits").unwrap()
}

/// Returns the workload of the service's revision with this number, without limits.
pub(crate) fn workload(number: u32) -> Workload {
    Workload::new(revision(number), PodTemplate::default(), 0)
}

/// Returns a replica that has never failed.
pub(crate) fn replica(name: &str, endpoints: Endpoints, phase: Phase) -> Replica {
    Replica { name: name.into(), phase, endpoints, restarts: 0, failure: None, last_exit: None, download: None }
}

/// Returns the endpoints of a replica with HTTP and gRPC on one port.
pub(crate) fn both(address: SocketAddr) -> Endpoints {
    Endpoints { http: Some(address.into()), grpc: Some(address.into()), metrics: None }
}

pub(crate) fn revision(number: u32) -> RevisionName {
    service().revision(number).unwrap()
}

/// Waits until a count has not changed for half a second.
pub(crate) async fn until_steady(what: &str, count: impl Fn() -> usize) {
    let wait = async {
        let mut last = None;
        while last != Some(count()) {
            last = Some(count());
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    assert!(waited.is_ok(), "{what} goes on changing");
}

/// Polls a condition until it holds, for states without a notification.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(TEST_TIMEOUT, wait).await;
    assert!(waited.is_ok(), "waited too long for {what}");
}
