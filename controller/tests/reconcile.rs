//! The control loop over a cluster in memory and a folder that is edited.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_cluster::{
    Activity, Address, Applied, Apply, ClusterError, ComponentKind, Desired, Destination, Directory, Fake, Gateway,
    Membership, Readiness, Report, RevisionName, Scale, ServiceName, Snapshot,
};
use weir_controller::files::{Files, Statuses};
use weir_controller::{Controller, Platform};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

/// Timeout of every wait, far longer than needed.
const SOON: Duration = Duration::from_secs(60);

/// Folder with one service, a controller, a cluster, and a gateway that receives every route.
struct World {
    folder: TempDir,
    file: PathBuf,
    cluster: Fake,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    statuses: watch::Receiver<Arc<Statuses>>,
    work: watch::Sender<Work>,
    stop: DropGuard,
}

/// Activity of the revisions, as the gateway reports it.
type Work = BTreeMap<RevisionName, Arc<Activity>>;

impl World {
    fn start(starts: Readiness, manifest: &str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("service.yaml"), manifest).unwrap();
        Self::again(folder, starts)
    }

    /// Starts another process over the same files, with nothing running.
    fn again(folder: TempDir, starts: Readiness) -> Self {
        let cluster = Fake::new(starts);
        Self::over(folder, cluster.clone(), Arc::new(cluster))
    }

    /// Starts a world whose cluster gives this answer for some services.
    fn reluctant(starts: Readiness, manifest: &str, services: &[&str], answer: Answer) -> (Self, Arc<Reluctant>) {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("service.yaml"), manifest).unwrap();
        let cluster = Fake::new(starts);
        let reluctant = Arc::new(Reluctant { cluster: cluster.clone(), answers: Mutex::default() });
        services.iter().for_each(|service| reluctant.answer(service, answer));
        let apply = Arc::clone(&reluctant);
        (Self::over(folder, cluster, apply), reluctant)
    }

    fn over(folder: TempDir, cluster: Fake, apply: Arc<dyn Apply>) -> Self {
        let file = folder.path().join("service.yaml");
        let platform = Platform { routes_model_names: true, ..Platform::new("example.com") };
        let files = Files::open(&[folder.path().to_owned()], platform).unwrap();
        let files = files.numbered_in(folder.path().join("numbers"));
        let statuses = files.statuses();
        let all = Arc::new(cluster.clone());
        let (directory, reports) = (all.clone(), all.clone());
        let controller = Controller::new(Arc::new(files), apply, directory, reports, all);
        let stop = CancellationToken::new();
        tokio::spawn(controller.run(stop.clone()));
        let work = watch::Sender::new(Work::new());
        tokio::spawn(gateway(cluster.clone(), work.subscribe(), stop.clone()));
        Self { folder, file, snapshots: Directory::watch(&cluster), cluster, statuses, work, stop: stop.drop_guard() }
    }

    fn edit(&self, manifest: &str) {
        fs::write(&self.file, manifest).unwrap();
    }

    async fn until_split(&mut self, expected: &[(u32, u32)]) {
        let watched = self.snapshots.wait_for(|snapshot| split(snapshot) == expected);
        let found = timeout(SOON, watched).await.map(|found| found.is_ok());
        let now = split(&self.cluster.snapshot());
        assert_eq!(found, Ok(true), "expected {expected:?}, found {now:?}");
    }

    /// Makes two revisions serve, the second with this many failures per hundred requests, until traffic is split as
    /// expected.
    async fn serve_until_split(&mut self, failures: u64, expected: &[(u32, u32)]) {
        let mut count = 0;
        while split(&self.cluster.snapshot()) != expected {
            count += 100;
            assert!(count < 1_000_000, "{:?}", split(&self.cluster.snapshot()));
            self.work.send_modify(|work| {
                for number in [1, 2] {
                    let revision = digits().revision(number).unwrap();
                    let activity = Arc::make_mut(work.entry(revision).or_default());
                    activity.failed += if number == 2 { failures } else { 0 };
                    activity.succeeded = count - activity.failed;
                    activity.arrivals = count;
                    activity.service_time.record(Duration::from_millis(10));
                }
            });
            let watched = self.snapshots.wait_for(|snapshot| split(snapshot) == expected);
            let _ = timeout(Duration::from_millis(20), watched).await;
        }
    }

    async fn until_snapshot(&mut self, is_it: impl FnMut(&Arc<Snapshot>) -> bool) {
        assert!(timeout(SOON, self.snapshots.wait_for(is_it)).await.is_ok());
    }

    async fn until_statuses(&mut self, are_they: impl FnMut(&Arc<Statuses>) -> bool) {
        assert!(timeout(SOON, self.statuses.wait_for(are_they)).await.is_ok());
    }

    async fn until_status(&mut self, is_it: impl Fn(&InferenceServiceStatus) -> bool) -> InferenceServiceStatus {
        let service = digits();
        let mut watch = self.statuses.clone();
        let there = |statuses: &Arc<Statuses>| statuses.get(&service).is_some_and(|s| is_it(s));
        let found = timeout(SOON, watch.wait_for(there)).await;
        match found {
            Ok(statuses) => InferenceServiceStatus::clone(&statuses.unwrap()[&service]),
            Err(_) => panic!("{:#?}", self.statuses.borrow()),
        }
    }
}

/// Answers of a cluster that does not apply a service.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// No answer at all, as from a connection that hangs.
    Silence,
    /// Denial because a quota is exhausted.
    Denial,
    /// Error of an overloaded API server.
    Unavailability,
    /// The same error after the change was made.
    LateUnavailability,
}

/// Cluster that gives other answers for some services, by name.
struct Reluctant {
    cluster: Fake,
    answers: Mutex<BTreeMap<String, Answer>>,
}

impl Reluctant {
    fn answer(&self, service: &str, answer: Answer) {
        self.answers.lock().insert(service.to_owned(), answer);
    }

    /// Applies every service from now on.
    fn recover(&self) {
        self.answers.lock().clear();
    }
}

#[async_trait]
impl Apply for Reluctant {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        let service = desired.service().clone();
        let answer = self.answers.lock().get(service.name()).copied();
        match answer {
            Some(Answer::Silence) => std::future::pending().await,
            Some(Answer::Denial) => Err(ClusterError::denied(&service, "exceeded quota: raise the quota")),
            Some(Answer::Unavailability) => Err(overloaded()),
            Some(Answer::LateUnavailability) => {
                self.cluster.apply(desired).await?;
                Err(overloaded())
            }
            None => self.cluster.apply(desired).await,
        }
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        self.cluster.forget(service).await
    }
}

fn overloaded() -> ClusterError {
    ClusterError::Unavailable { what: "the API server".to_owned(), source: "too many requests".into() }
}

/// Runs a gateway that applies every route at once, and reports it.
async fn gateway(cluster: Fake, mut work: watch::Receiver<Work>, stop: CancellationToken) {
    let member: Membership = cluster.gateways().join(Gateway {
        name: "gateway".into(),
        serving: Address::Unix(std::path::Path::new("/gateway").into()),
        admin: None,
    });
    let mut snapshots = Directory::watch(&cluster);
    let follow = async {
        loop {
            let routes = snapshots.borrow_and_update().routes.generation;
            member.publish(Report { routes, revisions: work.borrow_and_update().clone(), ..Report::default() });
            tokio::select! {
                changed = snapshots.changed() => if changed.is_err() { return },
                changed = work.changed() => if changed.is_err() { return },
            }
        }
    };
    stop.run_until_cancelled(follow).await;
}

fn digits() -> ServiceName {
    ServiceName::new("default", "digits").unwrap()
}

fn split(snapshot: &Snapshot) -> Vec<(u32, u32)> {
    let Some(route) = snapshot.routes.of(&digits()) else {
        return Vec::new();
    };
    match &route.destination {
        Destination::Split(split) => {
            let targets = split.targets().iter();
            targets.map(|target| (target.revision.number(), target.weight)).collect()
        }
        Destination::Nowhere(_) => Vec::new(),
    }
}

fn manifest(path: &str, field: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: digits}}
spec:
  predictor:
    {field}
    model:
      modelFormat: {{name: pytorch}}
      storageUri: pvc://models/{path}
"
    )
}

fn is_ready(status: &InferenceServiceStatus) -> bool {
    status.condition(Condition::READY).is_some_and(|c| c.status == ConditionStatus::True)
}

#[tokio::test]
async fn a_service_lives_from_create_to_delete() {
    let mut world = World::start(Readiness::Immediate, &manifest("a", "minReplicas: 1"));
    world.until_split(&[(1, 100)]).await;
    let status = world.until_status(is_ready).await;
    assert_eq!(status.observed_generation, Some(1));

    world.edit(&manifest("b", "minReplicas: 1"));
    world.until_split(&[(2, 100)]).await;

    world.edit(&manifest("c", "canaryTrafficPercent: 20"));
    world.until_split(&[(2, 80), (3, 20)]).await;
    let status = world.until_status(|status| {
        let predictor = status.components.get("predictor");
        is_ready(status) && predictor.is_some_and(|p| p.traffic.iter().any(|t| t.percent == Some(20)))
    });
    let status = status.await;
    let prev = status.components["predictor"].traffic.iter();
    let prev: Vec<_> = prev.filter(|t| t.tag.as_deref() == Some("prev")).map(|t| t.percent).collect();
    assert_eq!(prev, [Some(80)]);

    world.edit(&manifest("c", "canaryTrafficPercent: 0"));
    world.until_split(&[(2, 100)]).await;

    world.edit(&manifest("c", "canaryTrafficPercent: 30"));
    world.until_split(&[(2, 70), (3, 30)]).await;

    world.edit(&manifest("c", "minReplicas: 2"));
    world.until_split(&[(3, 100)]).await;
    let three = digits().revision(3).unwrap();
    world.until_snapshot(|s| min(s, &three) == Some(2)).await;

    fs::remove_file(&world.file).unwrap();
    world.until_split(&[]).await;
    world.until_statuses(|statuses| statuses.is_empty()).await;
    world.until_snapshot(|snapshot| snapshot.revisions.values().all(|revision| revision.desired == 0)).await;
}

#[tokio::test]
async fn a_service_is_ready_once_its_transformer_is_too() {
    let plain = manifest("a", "minReplicas: 1");
    let composed = format!("{plain}  transformer: {{containers: [{{name: t, image: x}}]}}\n");
    let mut world = World::start(Readiness::Manual, &composed);
    world.until_split(&[(1, 100)]).await;
    world.cluster.put(&digits().revision(1).unwrap(), replica("one")).unwrap();
    let is_true = |status: &InferenceServiceStatus, kind| {
        status.condition(kind).is_some_and(|condition| condition.status == ConditionStatus::True)
    };
    let status = world.until_status(|status| is_true(status, Condition::PREDICTOR_READY)).await;
    assert!(!is_ready(&status), "{status:?}");

    let transformer = digits().of_component(ComponentKind::Transformer).unwrap().revision(1).unwrap();
    world.until_snapshot(|snapshot| snapshot.revision(&transformer).is_some()).await;
    world.cluster.put(&transformer, replica("two")).unwrap();
    let status = world.until_status(is_ready).await;
    assert!(is_true(&status, Condition::TRANSFORMER_READY));
    assert_eq!(status.components.keys().collect::<Vec<_>>(), ["predictor", "transformer"]);

    world.edit(&plain);
    let status = world.until_status(|status| status.condition(Condition::TRANSFORMER_READY).is_none()).await;
    assert!(is_true(&status, Condition::PREDICTOR_READY));
    assert_eq!(status.components.keys().collect::<Vec<_>>(), ["predictor"]);
    let ended = |snapshot: &Arc<Snapshot>| snapshot.revision(&transformer).is_none_or(|revision| revision.desired == 0);
    world.until_snapshot(ended).await;
}

#[tokio::test]
async fn a_service_that_is_created_again_begins_a_new_history() {
    let of = |uid: &str, path: &str, field: &str| {
        let named = format!("{{name: digits, uid: {uid}}}");
        manifest(path, field).replace("{name: digits}", &named)
    };
    let mut world = World::start(Readiness::Immediate, &of("one", "a", "minReplicas: 1"));
    world.until_split(&[(1, 100)]).await;
    let one = digits().revision(1).unwrap();
    let identity = world.cluster.snapshot().revision(&one).unwrap().identity.clone();

    // The deletion goes unnoticed, because the next object of the name exists already.
    world.edit(&of("two", "b", "canaryTrafficPercent: 10"));
    let anew = world.snapshots.wait_for(|snapshot| {
        let first = snapshot.revision(&one);
        first.is_some_and(|first| first.identity != identity)
    });
    assert!(timeout(SOON, anew).await.is_ok());
    world.until_split(&[(1, 100)]).await;
    let two = digits().revision(2).unwrap();
    assert!(world.cluster.snapshot().revision(&two).is_none());
}

#[tokio::test]
async fn a_new_revision_that_never_becomes_ready_leaves_the_old_one_serving() {
    let mut world = World::start(Readiness::Manual, &manifest("a", "minReplicas: 1"));
    world.until_split(&[(1, 100)]).await;
    let one = digits().revision(1).unwrap();
    world.cluster.put(&one, replica("one")).unwrap();
    world.until_status(is_ready).await;

    world.edit(&manifest("b", "minReplicas: 1"));
    let two = digits().revision(2).unwrap();
    world.until_snapshot(|snapshot| snapshot.revision(&two).is_some()).await;
    let failure = weir_cluster::Failure::new(weir_cluster::FailureReason::CrashLoopBackOff, "it exits with 1");
    world.cluster.fail(&two, failure).unwrap();
    let status = world.until_status(|status| {
        let ready = status.condition(Condition::READY);
        let rollout = status.condition("RolloutComplete");
        ready.is_some_and(|ready| ready.reason.as_deref() == Some("RollingOut"))
            && rollout.is_some_and(|rollout| rollout.reason.as_deref() == Some("CrashLoopBackOff"))
    });
    let status = status.await;
    let ready = status.condition(Condition::READY).unwrap();
    assert_eq!(ready.status, ConditionStatus::True);
    assert_eq!(
        ready.message.as_deref(),
        Some("digits-predictor-00002 failed to start: it exits with 1; digits-predictor-00001 keeps serving")
    );
    assert_eq!(split(&world.cluster.snapshot()), [(1, 100)]);

    world.cluster.put(&two, replica("two")).unwrap();
    world.until_split(&[(2, 100)]).await;
}

/// Returns the minimum that the autoscaler reads for a revision.
fn min(snapshot: &Snapshot, revision: &RevisionName) -> Option<u32> {
    let policy = snapshot.revision(revision)?.scaling.as_ref()?;
    Some(policy.min)
}

fn replica(name: &str) -> weir_cluster::Replica {
    weir_cluster::Replica {
        endpoints: weir_cluster::Endpoints::default(),
        ..weir_cluster::Replica::new(name, weir_cluster::Phase::Ready)
    }
}

#[tokio::test]
async fn a_service_stays_ready_at_zero_and_a_bound_creates_no_revision() {
    let mut world = World::start(Readiness::Immediate, &manifest("a", "minReplicas: 1"));
    world.until_status(is_ready).await;
    world.edit(&manifest("a", "minReplicas: 0"));
    let one = digits().revision(1).unwrap();
    world.until_snapshot(|s| min(s, &one) == Some(0)).await;
    world.cluster.scale(&one, 0).await.unwrap();
    let status = world.until_status(|status| ready_reason(status).0 == "Standby").await;
    assert!(is_ready(&status));
    assert_eq!(world.cluster.snapshot().revisions.len(), 1);
}

fn automatic(path: &str) -> String {
    let annotations = "{weir.dev/rollout: automatic, weir.dev/rollout-steps: '10@0s,50@0s'}";
    let named = format!("{{name: digits, annotations: {annotations}}}");
    manifest(path, "minReplicas: 1").replace("{name: digits}", &named)
}

#[tokio::test]
async fn an_automatic_rollout_completes_on_good_evidence() {
    let mut world = World::start(Readiness::Immediate, &automatic("a"));
    world.until_status(is_ready).await;
    world.edit(&automatic("b"));
    world.until_split(&[(1, 90), (2, 10)]).await;
    world.serve_until_split(0, &[(2, 100)]).await;
}

#[tokio::test]
async fn an_automatic_rollout_rolls_back_on_bad_evidence() {
    let mut world = World::start(Readiness::Immediate, &automatic("a"));
    world.until_status(is_ready).await;
    world.edit(&automatic("b"));
    world.until_split(&[(1, 90), (2, 10)]).await;
    world.serve_until_split(30, &[(1, 100)]).await;
    let status = world.until_status(|status| {
        let complete = status.condition("RolloutComplete");
        let is_back = complete.is_some_and(|c| c.reason.as_deref() == Some("RolledBack"));
        // Waits until the gateway has the route that leads back to revision 1.
        is_back && is_ready(status)
    });
    let status = status.await;
    let complete = status.condition("RolloutComplete").unwrap();
    let message = complete.message.as_deref().unwrap();
    let begin = "digits-predictor-00002 was rolled back: 30.0 % of its requests failed";
    assert!(message.starts_with(begin), "{message}");
}

#[tokio::test]
async fn a_certificate_that_a_gateway_does_not_trust_is_in_the_status_until_it_is_right() {
    let mut world = World::start(Readiness::Immediate, &manifest("a", "minReplicas: 1"));
    world.until_status(is_ready).await;
    let revision = digits().revision(1).unwrap();
    let replica = world.cluster.snapshot().revision(&revision).unwrap().ready().next().unwrap().name.clone();
    let untrusted = Activity { untrusted: [(replica.clone(), "it has expired".into())].into(), ..Activity::default() };
    world.work.send_modify(|work| drop(work.insert(revision.clone(), untrusted.into())));
    let is_named = |condition: &Condition| condition.message.as_deref().is_some_and(|text| text.contains(&*replica));
    let status = world.until_status(|status| status.condition("ReplicasUntrusted").is_some_and(is_named)).await;
    assert_eq!(ready_reason(&status).0, "ReplicasUntrusted");
    world.work.send_modify(|work| drop(work.remove(&revision)));
    let status = world.until_status(is_ready).await;
    assert!(status.condition("ReplicasUntrusted").is_none());
}

#[tokio::test]
async fn an_invalid_edit_is_reported_and_workloads_keep_running() {
    let mut world = World::start(Readiness::Immediate, &manifest("a", "minReplicas: 1"));
    world.until_status(is_ready).await;
    world.edit(&manifest("a", "minReplicas: -1"));
    let status = world.until_status(|status| ready_reason(status).0 == "InvalidSpec").await;
    let message = status.condition(Condition::READY).unwrap().message.clone().unwrap();
    assert!(message.ends_with("service.yaml:6:5: spec.predictor.minReplicas: 'MinReplicas' cannot be less than 0"));
    assert_eq!(split(&world.cluster.snapshot()), [(1, 100)]);
}

#[tokio::test]
async fn a_revision_has_the_same_number_after_a_restart() {
    let mut world = World::start(Readiness::Immediate, &manifest("a", "minReplicas: 1"));
    world.until_split(&[(1, 100)]).await;
    world.edit(&manifest("b", "minReplicas: 1"));
    world.until_split(&[(2, 100)]).await;

    let World { folder, stop, .. } = world;
    drop(stop);
    let mut world = World::again(folder, Readiness::Immediate);
    world.until_split(&[(2, 100)]).await;
    world.edit(&manifest("a", "minReplicas: 1"));
    world.until_split(&[(1, 100)]).await;
    world.edit(&manifest("c", "minReplicas: 1"));
    world.until_split(&[(3, 100)]).await;
}

/// Returns a runtime with this image, and services that use it.
fn fleet(image: &str, services: usize) -> String {
    let runtime = format!(
        "apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {{name: fleet}}
spec:
  supportedModelFormats: [{{name: fleet, autoSelect: true}}]
  containers: [{{name: kserve-container, image: '{image}'}}]
"
    );
    let service = |number: usize| {
        manifest("a", "minReplicas: 1")
            .replace("{name: digits}", &format!("{{name: s{number}}}"))
            .replace("pytorch", "fleet")
    };
    let all = std::iter::once(runtime).chain((0..services).map(service));
    all.collect::<Vec<_>>().join("---\n")
}

/// Returns the second revisions that exist and are not ready.
fn rolling(snapshot: &Snapshot) -> Vec<RevisionName> {
    let second =
        snapshot.revisions.values().filter(|revision| revision.name.number() == 2 && revision.ready().next().is_none());
    second.map(|revision| revision.name.clone()).collect()
}

#[tokio::test]
async fn a_changed_runtime_rolls_four_services_at_once_and_a_failing_one_blocks_no_other() {
    const SERVICES: usize = 10;
    let mut world = World::start(Readiness::Manual, &fleet("server:1", SERVICES));
    let made = |number: u32| {
        move |snapshot: &Arc<Snapshot>| {
            let named = snapshot.revisions.keys().filter(|name| name.number() == number);
            named.count() == SERVICES
        }
    };
    world.until_snapshot(made(1)).await;
    for name in world.cluster.snapshot().revisions.keys() {
        world.cluster.put(name, replica(name.as_str())).unwrap();
    }
    let all_ready =
        |statuses: &Arc<Statuses>| statuses.len() == SERVICES && statuses.values().all(|status| is_ready(status));
    world.until_statuses(all_ready).await;

    world.edit(&fleet("server:2", SERVICES));
    let waits = |statuses: &Arc<Statuses>| {
        let reasons = statuses.values().filter_map(|status| status.condition("RolloutComplete")?.reason.as_deref());
        reasons.filter(|reason| *reason == "WaitingForTurn").count() == SERVICES - 4
    };
    world.until_statuses(waits).await;
    let mut failing = None;
    while !made(2)(&world.cluster.snapshot()) || rolling(&world.cluster.snapshot()).len() > 1 {
        let rolling = rolling(&world.cluster.snapshot());
        assert!(rolling.len() <= 4, "{rolling:?}");
        let failing = failing.get_or_insert_with(|| rolling[0].clone());
        let next = rolling.iter().find(|name| *name != failing);
        if let Some(name) = next {
            world.cluster.put(name, replica(name.as_str())).unwrap();
        }
        let changed = timeout(SOON, world.snapshots.changed()).await;
        assert!(changed.is_ok(), "{rolling:?}");
    }
    assert_eq!(rolling(&world.cluster.snapshot()), [failing.unwrap()]);
}

#[tokio::test]
async fn without_auto_update_a_changed_runtime_waits_for_the_manifest() {
    let disabled = |text: String| {
        let annotated = "{name: s0, annotations: {serving.kserve.io/disable-auto-update: 'true'}}";
        text.replace("{name: s0}", annotated)
    };
    let mut world = World::start(Readiness::Immediate, &disabled(fleet("server:1", 2)));
    let all_ready = |statuses: &Arc<Statuses>| statuses.len() == 2 && statuses.values().all(|status| is_ready(status));
    world.until_statuses(all_ready).await;
    world.edit(&disabled(fleet("server:2", 2)));
    let service = |number| ServiceName::new("default", &format!("s{number}")).unwrap();
    let are_rolled_out = |statuses: &Arc<Statuses>| {
        let reason = |number| {
            let condition = statuses.get(&service(number))?.condition("RolloutComplete")?;
            condition.reason.clone()
        };
        let both = [reason(0), reason(1)];
        both == [Some("AutoUpdateDisabled".to_owned()), Some("RolledOut".to_owned())]
    };
    world.until_statuses(are_rolled_out).await;
    let second = |number| service(number).revision(2).unwrap();
    let snapshot = world.cluster.snapshot();
    assert!(snapshot.revision(&second(0)).is_none() && snapshot.revision(&second(1)).is_some());
    let edited = disabled(fleet("server:2", 2)).replacen("pvc://models/a", "pvc://models/b", 1);
    world.edit(&edited);
    let zero = second(0);
    world.until_snapshot(|snapshot| snapshot.revision(&zero).is_some()).await;
}

/// Returns the reason of `Ready`, and its message.
fn ready_reason(status: &InferenceServiceStatus) -> (&str, &str) {
    let ready = status.condition(Condition::READY);
    let reason = ready.and_then(|ready| ready.reason.as_deref());
    let message = ready.and_then(|ready| ready.message.as_deref());
    (reason.unwrap_or_default(), message.unwrap_or_default())
}

#[tokio::test]
async fn services_without_an_answer_do_not_block_others() {
    // One concurrent slot is left. If the services were applied one after the other, the test would time out.
    let names: Vec<_> = (0..15).map(|number| format!("a{number}")).collect();
    let slow: Vec<_> = names.iter().map(String::as_str).collect();
    let named = |name: &&str| {
        let service = manifest("a", "minReplicas: 1");
        service.replace("{name: digits}", &format!("{{name: {name}}}"))
    };
    let others: String = slow.iter().map(|name| named(name) + "---\n").collect();
    let with = |path: &str| format!("{others}{}", manifest(path, "minReplicas: 1"));
    let (mut world, _cluster) = World::reluctant(Readiness::Immediate, &with("a"), &slow, Answer::Silence);
    world.until_status(is_ready).await;
    world.edit(&with("b"));
    world.until_split(&[(2, 100)]).await;
    assert_eq!(world.cluster.snapshot().routes.as_slice().len(), 1);
}

#[tokio::test]
async fn a_denied_service_is_reported_and_retried() {
    let text = manifest("a", "minReplicas: 1");
    let (mut world, cluster) = World::reluctant(Readiness::Immediate, &text, &["digits"], Answer::Denial);
    let denied = world.until_status(|status| ready_reason(status).0 == "Denied").await;
    let message = ready_reason(&denied).1;
    assert!(message.ends_with("exceeded quota: raise the quota"), "{message}");
    assert!(!is_ready(&denied));
    cluster.recover();
    world.until_status(is_ready).await;
}

#[tokio::test]
async fn an_overloaded_cluster_is_reported_and_retried() {
    let text = |path| manifest(path, "minReplicas: 1");
    let (mut world, cluster) = World::reluctant(Readiness::Immediate, &text("a"), &["digits"], Answer::Unavailability);
    let reports_overload = |status: &InferenceServiceStatus| ready_reason(status).1.contains("too many requests");
    let begun = world.until_status(reports_overload).await;
    let expected =
        "digits-predictor-00001 is starting; the API server is not available: too many requests; Weir retries";
    assert_eq!(ready_reason(&begun), ("Loading", expected));
    cluster.recover();
    world.until_status(is_ready).await;

    cluster.answer("digits", Answer::Unavailability);
    world.edit(&text("b"));
    let waits = world.until_status(reports_overload).await;
    assert_eq!(ready_reason(&waits).0, "RollingOut");
    assert!(is_ready(&waits), "the serving revision keeps serving");
    assert_eq!(split(&world.cluster.snapshot()), [(1, 100)]);
    cluster.recover();
    world.until_split(&[(2, 100)]).await;
    world.until_status(|status| ready_reason(status) == ("Ready", "")).await;
}

#[tokio::test]
async fn a_revert_removes_what_an_unanswered_change_made() {
    let text = |path| manifest(path, "minReplicas: 1");
    let (mut world, cluster) = World::reluctant(Readiness::Manual, &text("a"), &[], Answer::Silence);
    world.until_split(&[(1, 100)]).await;
    world.cluster.put(&digits().revision(1).unwrap(), replica("one")).unwrap();
    world.until_status(|status| ready_reason(status) == ("Ready", "")).await;

    cluster.answer("digits", Answer::LateUnavailability);
    world.edit(&text("b"));
    world.until_status(|status| ready_reason(status).1.contains("too many requests")).await;
    let two = digits().revision(2).unwrap();
    assert!(world.cluster.snapshot().revision(&two).is_some());
    world.edit(&text("a"));
    let is_removed = |snapshot: &Arc<Snapshot>| snapshot.revision(&two).is_none();
    world.until_snapshot(is_removed).await;
}
