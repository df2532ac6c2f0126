//! The autoscaler's loop over a cluster in memory, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test says where it failed")]
#![expect(clippy::disallowed_methods, reason = "the tests measure virtual time")]

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use parking_lot::Mutex;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_autoscaler::{Autoscaler, Decisions, LEASE};
use weir_cluster::ScalingPolicy;
use weir_cluster::{
    Activity, Apply, ClusterError, Desired, Directory, Fake, Gateway, Lease, Membership, Phase, Readiness, Replica,
    Report, RevisionName, Scale, ServiceName, Workload,
};

/// Longest wait of any test, in virtual time.
const DEADLINE: Duration = Duration::from_secs(120);

struct Platform {
    fake: Fake,
    registry: Registry,
    decisions: watch::Receiver<Arc<Decisions>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Platform {
    async fn start(fake: Fake) -> Self {
        let scale = Arc::new(fake.clone());
        Self::start_with(fake, scale).await
    }

    async fn start_with(fake: Fake, scale: Arc<dyn Scale>) -> Self {
        let shared = Arc::new(fake.clone());
        let autoscaler = Autoscaler::new(shared.clone(), shared.clone(), scale, shared);
        let decisions = autoscaler.decisions();
        let mut registry = Registry::default();
        autoscaler.register(&mut registry);
        let stop = CancellationToken::new();
        let task = tokio::spawn(autoscaler.run(stop.clone()));
        Self { fake, registry, decisions, stop, task }
    }

    async fn serve(&self, replicas: u32, policy: Option<ScalingPolicy>) -> RevisionName {
        self.serve_as("digits", replicas, policy).await
    }

    async fn serve_as(&self, name: &str, replicas: u32, policy: Option<ScalingPolicy>) -> RevisionName {
        let service = ServiceName::new("default", name).unwrap();
        let revision = service.revision(1).unwrap();
        let workload = Workload {
            concurrency: NonZeroU32::new(1),
            scaling: policy.map(Arc::new),
            ..Workload::new(revision.clone(), PodTemplateSpec::default(), replicas)
        };
        let desired = Desired::new(service, vec![workload], None).unwrap();
        self.fake.apply(desired).await.unwrap();
        revision
    }

    fn desired(&self, revision: &RevisionName) -> u32 {
        let snapshot = self.fake.snapshot();
        snapshot.revision(revision).unwrap().desired
    }

    /// Waits until this number of replicas is desired; returns the elapsed virtual time.
    async fn until_desired(&self, revision: &RevisionName, replicas: u32) -> Duration {
        let began = Instant::now();
        let mut snapshots = Directory::watch(&self.fake);
        let is_so =
            |snapshot: &Arc<weir_cluster::Snapshot>| snapshot.revision(revision).is_some_and(|r| r.desired == replicas);
        let wait = tokio::time::timeout(DEADLINE, snapshots.wait_for(is_so)).await;
        assert!(wait.is_ok_and(|seen| seen.is_ok()), "never {replicas}");
        began.elapsed()
    }

    /// Returns the metrics of revisions, without their common prefix and the labels of the only revision.
    fn metrics(&self) -> Vec<String> {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry).unwrap();
        let samples = page.lines().filter_map(|line| line.strip_prefix("weir_autoscaler_"));
        let labels = "namespace=\"default\",service=\"digits\",revision=\"digits-predictor-00001\"";
        let samples = samples.filter(|sample| !sample.starts_with("wake_"));
        samples.map(|sample| sample.replace(labels, "")).collect()
    }

    /// Returns the number of wake-ups, and the total seconds from the arrivals of their requests to the decisions.
    fn wake_ups(&self) -> (f64, f64) {
        let mut page = String::new();
        text::encode_registry(&mut page, &self.registry).unwrap();
        let value = |name: &str| {
            let mut lines = page.lines().filter_map(|line| line.strip_prefix(name));
            lines.find_map(|value| value.trim().parse().ok()).unwrap()
        };
        let name = "weir_autoscaler_wake_seconds";
        (value(&format!("{name}_count")), value(&format!("{name}_sum")))
    }

    async fn end(self) {
        self.stop.cancel();
        let ended = tokio::time::timeout(DEADLINE, self.task).await;
        ended.unwrap().unwrap();
    }
}

/// A cluster that answers scale requests only while it is open.
struct Busy {
    fake: Fake,
    is_open: watch::Sender<bool>,
    asked: Mutex<Vec<(RevisionName, u32)>>,
}

impl Busy {
    fn new(fake: &Fake) -> Arc<Self> {
        Arc::new(Self { fake: fake.clone(), is_open: watch::Sender::new(false), asked: Mutex::default() })
    }

    /// Returns how often this number of replicas was requested for this revision.
    fn count(&self, revision: &RevisionName, replicas: u32) -> usize {
        let asked = self.asked.lock();
        let same = |(of, number): &&(_, u32)| of == revision && *number == replicas;
        asked.iter().filter(same).count()
    }
}

#[async_trait]
impl Scale for Busy {
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.asked.lock().push((revision.clone(), replicas));
        let mut is_open = self.is_open.subscribe();
        let _ = is_open.wait_for(|is_open| *is_open).await;
        self.fake.scale(revision, replicas).await
    }
}

/// A cluster that refuses every scale request.
#[derive(Default)]
struct Refusing(Mutex<Vec<Instant>>);

#[async_trait]
impl Scale for Refusing {
    async fn scale(&self, revision: &RevisionName, _: u32) -> Result<(), ClusterError> {
        self.0.lock().push(Instant::now());
        Err(ClusterError::denied(revision, "a quota is used up"))
    }
}

/// A gateway that reports every second.
struct Reporter {
    membership: Membership,
    revision: RevisionName,
    age: u64,
    activity: Activity,
}

impl Reporter {
    fn new(platform: &Platform, revision: &RevisionName) -> Self {
        let gateway = Gateway {
            name: "gateway".into(),
            serving: SocketAddr::from((Ipv4Addr::LOCALHOST, 80)).into(),
            admin: None,
        };
        Self {
            membership: platform.fake.gateways().join(gateway),
            revision: revision.clone(),
            age: 0,
            activity: Activity::default(),
        }
    }

    fn publish(&self) {
        let activity = Arc::new(self.activity.clone());
        self.membership.publish(Report {
            started: 1,
            age_us: self.age * 1_000_000,
            routes: 1,
            revisions: [(self.revision.clone(), activity)].into(),
        });
    }

    /// Reports for this many seconds, each with `arrivals` requests that take 100 ms and did not wait.
    async fn report(&mut self, seconds: u32, arrivals: u64) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        ticks.tick().await;
        for _ in 0..seconds {
            ticks.tick().await;
            self.age += 1;
            self.activity.arrivals += arrivals;
            self.activity.succeeded += arrivals;
            for _ in 0..arrivals {
                self.activity.queue_delay.record(Duration::ZERO);
                self.activity.service_time.record(Duration::from_millis(100));
            }
            self.publish();
        }
    }
}

fn to_zero() -> ScalingPolicy {
    ScalingPolicy { min: 0, retention: Some(Duration::from_secs(5)), ..ScalingPolicy::default() }
}

/// Starts an autoscaler, a revision whose replicas are ready at once, and a gateway that reports of it.
async fn started(replicas: u32, policy: ScalingPolicy) -> (Platform, RevisionName, Reporter) {
    let platform = Platform::start(Fake::new(Readiness::Immediate)).await;
    let revision = platform.serve(replicas, Some(policy)).await;
    let reporter = Reporter::new(&platform, &revision);
    (platform, revision, reporter)
}

#[tokio::test(start_paused = true)]
async fn a_request_at_zero_wakes_before_the_next_tick() {
    let (mut platform, revision, mut reporter) = started(0, to_zero()).await;
    reporter.report(3, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    // The time is between two ticks of the loop.
    tokio::time::advance(Duration::from_millis(300)).await;
    reporter.activity.arrivals += 1;
    reporter.activity.woken += 1;
    reporter.activity.queued = 1;
    reporter.activity.oldest_us = 7000;
    reporter.publish();
    let took = platform.until_desired(&revision, 1).await;
    assert!(took < Duration::from_millis(10), "{took:?}");
    // By the gateway's clock the report is 300 ms old, and the request had waited for 7 ms when it was made.
    let (count, seconds) = platform.wake_ups();
    assert!(count == 1.0 && (0.306..0.308).contains(&seconds), "{seconds}");
    let decision = platform.decisions.borrow_and_update()[&revision].clone();
    assert_eq!(decision.to_string(), "1 replica: 1 request is queued and there was no replica");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_reported_before_the_snapshot_shows_zero_wakes_at_once() {
    let (platform, revision, mut reporter) = started(1, to_zero()).await;
    reporter.report(2, 1).await;
    tokio::time::advance(Duration::from_millis(300)).await;
    reporter.activity.arrivals += 1;
    reporter.activity.queued = 1;
    reporter.publish();
    tokio::time::sleep(Duration::from_millis(10)).await;
    platform.fake.scale(&revision, 0).await.unwrap();
    assert_eq!(platform.desired(&revision), 0);
    let took = platform.until_desired(&revision, 1).await;
    assert!(took < Duration::from_millis(10), "{took:?}");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_revision_goes_to_zero_with_a_reason() {
    let (mut platform, revision, mut reporter) = started(1, to_zero()).await;
    reporter.report(10, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    let decision = platform.decisions.borrow_and_update()[&revision].clone();
    assert_eq!(decision.replicas, 0);
    assert_eq!(decision.reason.label(), "Idle");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_the_load_up_and_down() {
    let (platform, revision, mut reporter) = started(1, to_zero()).await;
    reporter.activity.in_flight = 5;
    reporter.report(20, 50).await;
    let loaded = platform.desired(&revision);
    assert!((6..=12).contains(&loaded), "{loaded}");
    reporter.activity.in_flight = 0;
    reporter.report(90, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_show_the_latest_decision_and_its_reason() {
    let platform = Platform::start(Fake::new(Readiness::Manual)).await;
    let late = ScalingPolicy { queue_delay: Duration::from_millis(250), ..to_zero() };
    let revision = platform.serve(1, Some(late)).await;
    assert!(platform.metrics().is_empty());
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.activity.queued = 1;
    reporter.activity.oldest_us = 1_500_000;
    reporter.report(2, 1).await;
    let expected = [
        "desired_replicas{} 1",
        "ready_replicas{} 0",
        "unplaced_replicas{} 0",
        "reason{,reason=\"Unmeasured\"} 1",
        "queue_delay_target_seconds{} 0.25",
        "queue_delay_seconds{} 1.5",
        "requests_total{} 1",
        "requests_in_time_total{} 1",
        "replica_seconds_total{} 0.0",
        "idle_replica_seconds_total{} 0.0",
        "gpu_seconds_total{} 0.0",
        "idle_gpu_seconds_total{} 0.0",
    ];
    assert_eq!(platform.metrics(), expected);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_count_requests_in_time_and_idle_time() {
    let (platform, revision, mut reporter) = started(3, to_zero()).await;
    reporter.activity.in_flight = 1;
    reporter.report(2, 0).await;
    for wait in [100, 200, 1500] {
        let delays = &mut reporter.activity.queue_delay;
        delays.record(Duration::from_millis(wait));
    }
    reporter.activity.refused = 1;
    reporter.report(2, 0).await;
    let metrics = platform.metrics();
    for sample in ["requests_total{} 4", "requests_in_time_total{} 2"] {
        assert!(metrics.iter().any(|found| found == sample), "{metrics:#?}");
    }
    let account = platform.decisions.borrow()[&revision].account.clone();
    let (ready, idle) = (account.ready_time, account.idle_time);
    assert!(idle > Duration::ZERO && idle < ready, "{account:?}");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_gateway_stops_no_replica() {
    let platform = Platform::start(Fake::new(Readiness::Immediate)).await;
    // The retention is longer than it takes to detect a silent gateway.
    let policy = ScalingPolicy { retention: Some(Duration::from_secs(20)), ..to_zero() };
    let revision = platform.serve(3, Some(policy)).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.activity.in_flight = 1;
    reporter.report(3, 1).await;
    reporter.activity.in_flight = 0;
    // A gateway that repeats the same report for ten minutes hangs.
    for _ in 0..600 {
        tokio::time::advance(Duration::from_secs(1)).await;
        reporter.publish();
        tokio::task::yield_now().await;
    }
    assert!(platform.desired(&revision) > 0);
    let mut decisions = platform.decisions.clone();
    let is_blind = |decisions: &Arc<Decisions>| decisions[&revision].reason.label() == "Blind";
    // The decisions are locked while they are borrowed, so the guard must not be kept.
    let wait = tokio::time::timeout(DEADLINE, decisions.wait_for(is_blind));
    assert!(wait.await.is_ok());
    reporter.report(60, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_revision_without_a_policy_is_left_alone() {
    let platform = Platform::start(Fake::new(Readiness::Immediate)).await;
    let revision = platform.serve(2, None).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.report(90, 0).await;
    assert_eq!(platform.desired(&revision), 2);
    assert!(platform.decisions.borrow().is_empty());
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_the_holder_of_the_lease_decides() {
    let fake = Fake::new(Readiness::Immediate);
    let other = fake.acquire(LEASE).await.unwrap();
    let platform = Platform::start(fake).await;
    let revision = platform.serve(1, Some(to_zero())).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.report(60, 0).await;
    assert_eq!(platform.desired(&revision), 1);
    drop(other);
    reporter.report(10, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_raised_floor_is_followed_within_a_second() {
    let platform = Platform::start(Fake::new(Readiness::Immediate)).await;
    let revision = platform.serve(1, Some(to_zero())).await;
    let floor = ScalingPolicy { min: 4, ..to_zero() };
    platform.serve(1, Some(floor)).await;
    let took = platform.until_desired(&revision, 4).await;
    assert!(took <= Duration::from_secs(1), "{took:?}");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn starts_are_measured_and_not_interrupted() {
    let platform = Platform::start(Fake::new(Readiness::Manual)).await;
    let revision = platform.serve(0, Some(to_zero())).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.activity.arrivals = 1;
    reporter.activity.queued = 1;
    reporter.report(1, 0).await;
    platform.until_desired(&revision, 1).await;
    let put = |phase| {
        let replica = Replica::new("one", phase);
        platform.fake.put(&revision, replica).unwrap();
    };
    put(Phase::Starting);
    // The client gives up in the meantime.
    reporter.activity.queued = 0;
    reporter.report(40, 0).await;
    assert_eq!(platform.desired(&revision), 1);
    put(Phase::Ready);
    reporter.report(2, 0).await;
    let terms = platform.decisions.borrow()[&revision].terms.clone();
    assert_eq!(terms.cold_start.as_secs(), 40);
    reporter.report(8, 0).await;
    assert_eq!(platform.desired(&revision), 0);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_with_a_new_request_stays_if_its_end_is_still_queued() {
    let fake = Fake::new(Readiness::Immediate);
    let busy = Busy::new(&fake);
    let platform = Platform::start_with(fake, busy.clone()).await;
    let mut others = Vec::new();
    // There are more revisions than concurrent scale requests, so the last one waits until the first are answered.
    for number in 0..40 {
        let name = format!("s{number:02}");
        others.push(platform.serve_as(&name, 1, Some(to_zero())).await);
    }
    let last = others.pop().unwrap();
    let mut reporter = Reporter::new(&platform, &last);
    reporter.report(7, 0).await;
    assert_eq!((busy.count(&others[0], 0), busy.count(&last, 0)), (1, 0));
    reporter.activity.in_flight = 1;
    reporter.report(2, 1).await;
    busy.is_open.send_replace(true);
    platform.until_desired(&others[38], 0).await;
    reporter.report(3, 1).await;
    assert_eq!(platform.desired(&last), 1);
    assert_eq!(busy.count(&last, 0), 0);
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_wake_up_is_retried_each_second_and_not_with_each_report() {
    let refusing = Arc::new(Refusing::default());
    let platform = Platform::start_with(Fake::new(Readiness::Immediate), refusing.clone()).await;
    let revision = platform.serve(0, Some(to_zero())).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.report(2, 0).await;
    reporter.activity.queued = 1;
    for _ in 0..500 {
        reporter.activity.oldest_us += 10_000;
        reporter.publish();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let count = refusing.0.lock().len();
    assert!((4..=6).contains(&count), "{count}");
    platform.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_number_is_retried_less_and_less_often() {
    let refusing = Arc::new(Refusing::default());
    let platform = Platform::start_with(Fake::new(Readiness::Immediate), refusing.clone()).await;
    let revision = platform.serve(1, Some(to_zero())).await;
    let mut reporter = Reporter::new(&platform, &revision);
    reporter.report(60, 0).await;
    let times = refusing.0.lock().clone();
    assert!((7..=12).contains(&times.len()), "{}", times.len());
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    // The pause stays short enough for a cluster that has recovered.
    assert!(pauses.last() <= Some(&Duration::from_secs(9)), "{pauses:?}");
    platform.end().await;
}
