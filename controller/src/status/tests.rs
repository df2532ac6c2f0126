use std::collections::BTreeMap;
use std::sync::Arc;

use weir_cluster::{
    Address, Conflict, Destination, Failure, FailureReason, Gateway, GpuSharing, Ledger, OtherAutoscaler, Phase,
    Replica, ReplicasField, Report, Revision, Route, Routes, ServiceName, SharedGpu, Tag, UntrustedByRevision,
};
use weir_crds::inference_service::{Condition, ConditionStatus, ModelState, TransitionStatus};

use super::*;
use crate::fixtures::{change_pods, errors, model, platform, service, validated};
use crate::history::{LoadState, RuntimeChange, revise};
use crate::manifest::validate::{AutoUpdate, Platform, validate};
use crate::plan::plan;
use crate::rollout::{Candidate, CandidateShare, PreviousRevision, Stage, Strategy};
use crate::runtimes::Runtimes;

/// Service that has been planned and applied, with the cluster state that a test sets.
struct World {
    declared: Service,
    validated: Validated,
    history: History,
    plan: Plan,
    applied: Applied,
    snapshot: Snapshot,
    reports: LatestReports,
    untrusted: UntrustedByRevision,
}

impl World {
    fn new(spec: &str) -> Self {
        let validated = validated(&[], spec);
        let history = revise(&validated, &History::default(), RuntimeChange::Follow, 0).unwrap();
        let plan = plan(&validated, &history, 0).unwrap();
        let mut ledger = Ledger::new();
        let applied = ledger.apply(plan.desired.clone()).unwrap();
        let mut revisions = BTreeMap::new();
        ledger.refresh(&mut revisions);
        Self {
            declared: service(&[], spec),
            validated,
            history,
            plan,
            applied,
            snapshot: Snapshot {
                routes: ledger.routes().clone(),
                revisions: Arc::new(revisions),
                ..Snapshot::default()
            },
            reports: LatestReports::default(),
            untrusted: UntrustedByRevision::default(),
        }
    }

    fn revision(&mut self, change: impl FnOnce(&mut Revision)) {
        let revisions = Arc::make_mut(&mut self.snapshot.revisions);
        change(Arc::make_mut(revisions.values_mut().next().unwrap()));
        self.history = self.history.clone().observed(&self.snapshot);
    }

    fn gateway(&mut self, routes: u64) {
        let name: Arc<str> = "gateway".into();
        self.snapshot.gateways = Arc::new([Gateway {
            name: name.clone(),
            serving: Address::Unix(std::path::Path::new("/g").into()),
            admin: None,
        }]);
        let report = Report { routes, ..Report::default() };
        self.reports = [(name, Arc::new(report))].into();
    }

    fn conflicts(&self) -> Vec<Conflict> {
        let all = self.snapshot.routes.conflicts().into_iter();
        all.filter(|conflict| conflict.loser == self.declared.name).collect()
    }

    fn status(&self) -> InferenceServiceStatus {
        self.status_after(&InferenceServiceStatus::default(), 5)
    }

    fn status_after(&self, before: &InferenceServiceStatus, now: u64) -> InferenceServiceStatus {
        status(&StatusInputs { conflicts: &self.conflicts(), now, ..self.inputs(before) })
    }

    fn inputs<'a>(&'a self, before: &'a InferenceServiceStatus) -> StatusInputs<'a> {
        StatusInputs {
            declared: &self.declared,
            validation: Ok(&self.validated),
            unserved: None,
            history: &self.history,
            plan: Some(&self.plan),
            applied: Ok(Some(self.applied)),
            unavailable: None,
            snapshot: &self.snapshot,
            reports: &self.reports,
            untrusted: &self.untrusted,
            conflicts: &[],
            before,
            now: 9,
        }
    }
}

fn replica() -> Replica {
    Replica { endpoints: weir_cluster::Endpoints::default(), ..Replica::new("digits-0", Phase::Ready) }
}

fn found<'a>(status: &'a InferenceServiceStatus, kind: &str) -> &'a Condition {
    status.condition(kind).unwrap()
}

fn ready(status: &InferenceServiceStatus) -> (ConditionStatus, &str) {
    let ready = found(status, Condition::READY);
    (ready.status, ready.reason.as_deref().unwrap_or_default())
}

#[test]
fn ready_means_loaded_and_routed() {
    let mut world = World::new(&model("a", &[]));
    assert_eq!(ready(&world.status()), (ConditionStatus::Unknown, "Loading"));
    world.revision(|revision| revision.replicas.push(replica()));
    assert_eq!(ready(&world.status()), (ConditionStatus::Unknown, "NotLive"));
    world.gateway(world.applied.routes - 1);
    assert_eq!(ready(&world.status()), (ConditionStatus::Unknown, "NotLive"));
    world.gateway(world.applied.routes);
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::True, "Ready"));
    assert_eq!(status.url.as_deref(), Some("http://digits-default.example.com"));
    assert_eq!(status.cluster_serving_runtime_name.as_deref(), Some("weir-libtorch"));
    let model = status.model_status.unwrap();
    assert_eq!(model.transition_status, TransitionStatus::UpToDate);
    assert_eq!(model.copies.unwrap().total_copies, Some(1));
    let predictor = &status.components["predictor"];
    assert_eq!(predictor.latest_ready_revision.as_deref(), Some("digits-predictor-00001"));
    assert_eq!(predictor.traffic[0].percent, Some(100));
}

#[test]
fn addresses_inside_have_the_clusters_domain() {
    let mut world = World::new(&model("a", &[]));
    world.validated.exposure.cluster_domain = "k8s.example".to_owned();
    let status = world.status();
    let url = |address: Option<weir_crds::inference_service::Address>| address.unwrap().url.unwrap();
    let of_predictor = status.components["predictor"].address.clone();
    assert_eq!(
        [url(status.address), url(of_predictor)],
        ["http://digits.default.svc.k8s.example", "http://digits-predictor.default.svc.k8s.example",]
    );
}

#[test]
fn a_service_stays_ready_at_zero() {
    let mut world = World::new(&model("a", &["minReplicas: 0"]));
    world.gateway(world.applied.routes);
    world.revision(|revision| revision.replicas.push(replica()));
    world.revision(|revision| {
        revision.replicas.clear();
        revision.desired = 0;
    });
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::True, "Standby"));
    let states = status.model_status.unwrap().states.unwrap();
    assert_eq!(states.active_model_state, ModelState::Standby);
}

#[test]
fn a_model_that_fails_to_load_has_its_reason() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| {
        revision.failure = Some(Failure::new(FailureReason::StorageFailed, "there is no /here/models/a"));
    });
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::False, "StorageFailed"));
    let model = status.model_status.unwrap();
    assert_eq!(model.transition_status, TransitionStatus::BlockedByFailedLoad);
    let failure = model.last_failure_info.unwrap();
    assert_eq!(failure.message.as_deref(), Some("there is no /here/models/a"));
}

#[test]
fn a_node_that_does_not_answer_is_no_failure_to_start() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| {
        revision.replicas.clear();
        revision.failure = Some(Failure::new(FailureReason::NodeNotReady, "its node gpu-1 does not answer"));
    });
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::False, "NodeNotReady"));
    assert_eq!(
        found(&status, Condition::PREDICTOR_READY).message.as_deref(),
        Some("digits-predictor-00001 does not serve: its node gpu-1 does not answer")
    );
}

#[test]
fn time_alone_changes_nothing() {
    let mut world = World::new(&model("a", &["scaleTarget: 3"]));
    let first = world.status();
    assert_eq!(world.status_after(&first, 900), first);
    world.gateway(world.applied.routes);
    let second = world.status_after(&first, 901);
    let since = |status: &InferenceServiceStatus, kind| {
        found(status, kind).last_transition_time.as_ref().map(|time| time.0.as_second())
    };
    assert_eq!(since(&second, Condition::INGRESS_READY), Some(901));
    assert_eq!(since(&second, Condition::PREDICTOR_READY), Some(5));
    assert!(found(&second, "FieldsIgnored").message.as_ref().unwrap().contains("scaleTarget"));
}

#[test]
fn an_invalid_spec_is_reported_with_its_position_and_changes_nothing_else() {
    let mut world = World::new(&model("a", &[]));
    world.gateway(world.applied.routes);
    world.revision(|revision| revision.replicas.push(replica()));
    let before = world.status();
    let spec = model("a", &["minReplicas: -1"]);
    assert!(!errors(&[], &spec).is_empty());
    let declared = service(&[], &spec);
    let platform: Platform = platform();
    let errors = validate(&declared, &Runtimes::default(), &platform).unwrap_err();
    let status = status(&StatusInputs {
        declared: &declared,
        validation: Err(&errors),
        unserved: Some(&errors),
        ..world.inputs(&before)
    });
    assert_eq!(ready(&status), (ConditionStatus::False, "InvalidSpec"));
    assert_eq!(found(&status, Condition::PREDICTOR_READY).status, ConditionStatus::True);
    let message = found(&status, Condition::READY).message.clone().unwrap();
    assert_eq!(message, "service.yaml:7:5: spec.predictor.minReplicas: 'MinReplicas' cannot be less than 0");
    assert_eq!((status.url, status.components), (before.url, before.components));
}

#[test]
fn a_missing_runtime_is_reported_and_leaves_running_replicas_alone() {
    let mut world = World::new(&model("a", &[]));
    world.gateway(world.applied.routes);
    world.revision(|revision| revision.replicas.push(replica()));
    let before = world.status();
    let none = Runtimes::declared(Vec::new());
    let errors = validate(&world.declared, &none, &platform()).unwrap_err();
    let mut kept = world.validated.clone();
    (kept.predictor.has_pods, kept.predictor.runtime) = (false, None);
    let status = status(&StatusInputs { validation: Ok(&kept), unserved: Some(&errors), ..world.inputs(&before) });
    assert_eq!(ready(&status), (ConditionStatus::True, "Ready"));
    assert_eq!(status.cluster_serving_runtime_name, before.cluster_serving_runtime_name);
    let reported = found(&status, "RuntimeUnusable");
    let message = reported.message.as_deref().unwrap();
    assert_eq!(reported.status, ConditionStatus::True);
    assert!(
        message.contains("spec.predictor.model.modelFormat: no runtime serves the format pytorch")
            && message.contains("digits-predictor-00001 keeps running unchanged"),
        "{message}"
    );
    assert_eq!(before.condition("RuntimeUnusable"), None);
}

#[test]
fn the_last_failure_of_any_replica_is_reported_beside_ready_ones() {
    let failing = |name: &str, at, code| Replica {
        name: name.into(),
        phase: Phase::BackOff,
        failure: Some(Failure { at, exit_code: code, ..Failure::new(FailureReason::Exited, format!("{name} ended")) }),
        ..replica()
    };
    let mut world = World::new(&model("a", &[]));
    let gone = Replica { phase: Phase::Terminating, ..failing("digits-9", Some(99), Some(9)) };
    world.revision(|revision| {
        let failed = [("digits-1", Some(7), Some(1)), ("digits-2", Some(8), Some(137)), ("digits-3", None, None)];
        let failed = failed.map(|(name, at, code)| failing(name, at, code));
        revision.replicas = [replica(), gone].into_iter().chain(failed).collect();
    });
    let model = world.status().model_status.unwrap();
    let info = model.last_failure_info.unwrap();
    assert_eq!(
        (info.location.as_deref(), info.exit_code, info.message.as_deref()),
        (Some("digits-2"), Some(137), Some("digits-2 ended"))
    );
    assert_eq!(info.time.unwrap().0.as_second(), 8);
    assert_eq!(info.model_revision_name.as_deref(), Some("digits-predictor-00001"));
    let copies = model.copies.unwrap();
    assert_eq!((copies.total_copies, copies.failed_copies), (Some(1), 3));
}

#[test]
fn a_failure_without_a_time_has_that_of_its_first_report() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| {
        revision.failure = Some(Failure::new(FailureReason::NotStarted, "no such image"));
    });
    let time = |status: &InferenceServiceStatus| {
        let model = status.model_status.clone().unwrap();
        model.last_failure_info.unwrap().time.unwrap().0.as_second()
    };
    let first = world.status_after(&InferenceServiceStatus::default(), 5);
    assert_eq!((time(&first), time(&world.status_after(&first, 900))), (5, 5));
}

#[test]
fn a_changed_runtime_that_is_not_followed_is_reported() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| revision.replicas.push(replica()));
    change_pods(&mut world.validated, "later");
    let reported = |status: &InferenceServiceStatus| {
        let complete = found(status, "RolloutComplete");
        (complete.status, complete.reason.clone().unwrap())
    };
    let waiting = (ConditionStatus::Unknown, "WaitingForTurn".to_owned());
    assert_eq!(reported(&world.status()), waiting);
    world.validated.auto_update = AutoUpdate::Disabled;
    let kept = (ConditionStatus::True, "AutoUpdateDisabled".to_owned());
    assert_eq!(reported(&world.status()), kept);
    world.revision(|revision| {
        revision.replicas.clear();
        revision.failure = Some(Failure::new(FailureReason::Exited, "it ends"));
    });
    assert_eq!(reported(&world.status()), waiting);
}

#[test]
fn urls_for_outside_have_the_scheme_of_the_platform() {
    let mut world = World::new(&model("a", &[]));
    world.validated.exposure.scheme = UrlScheme::Https;
    let status = world.status();
    let url = "https://digits-default.example.com";
    assert_eq!(status.url.as_deref(), Some(url));
    let predictor = &status.components["predictor"];
    assert!(predictor.url.as_ref().unwrap().starts_with("https://"));
    let inside = status.address.unwrap().url.unwrap();
    assert!(inside.starts_with("http://"), "{inside}");
}

#[test]
fn a_host_of_an_older_service_is_reported_and_left_out_of_urls() {
    let mut world = World::new(&model("a", &[]));
    let alone = world.status();
    let taken = Host::parse("digits-default.example.com").unwrap();
    assert_eq!(alone.url, Some(format!("http://{taken}")));
    // The other service is in another namespace. Neither has an age, so the names decide.
    let older = ServiceName::new("a", "other").unwrap();
    let mut route = Route::new(older, Destination::Nowhere("".into()));
    route.hosts = vec![taken];
    let mut routes = world.snapshot.routes.as_slice().to_vec();
    routes.push(Arc::new(route));
    world.snapshot.routes = Arc::new(Routes::new(9, routes));
    let status = world.status();
    let conflict = status.condition("HostConflict").unwrap();
    let expected = "host digits-default.example.com belongs to a/other, which is older: \
        rename this service or its canary, or delete the older service";
    assert_eq!(conflict.message.as_deref(), Some(expected));
    assert_eq!(status.url, None);
    assert_eq!(status.address, alone.address);
    let components = (&status.components["predictor"], &alone.components["predictor"]);
    assert_eq!(components.0.url, components.1.url);
}

#[test]
fn unplaced_replicas_are_reported_while_others_serve() {
    let mut world = World::new(&model("a", &[]));
    world.gateway(world.applied.routes);
    world.revision(|revision| {
        revision.desired = 3;
        revision.replicas.push(replica());
        let cause = "no node takes it: add a node";
        revision.unplaced = Some(Failure::new(FailureReason::NotStarted, cause));
    });
    let status = world.status();
    let reported = found(&status, "ReplicasUnplaced");
    assert_eq!(
        (reported.status, reported.message.as_deref()),
        (ConditionStatus::True, Some("digits-predictor-00001 has 1 of 3 replicas: no node takes it: add a node"))
    );
    world.revision(|revision| revision.unplaced = None);
    assert!(world.status().condition("ReplicasUnplaced").is_none());
}

#[test]
fn replicas_that_gateways_do_not_trust_are_reported_and_not_ready_if_no_other_serves() {
    let mut world = World::new(&model("a", &[]));
    world.gateway(world.applied.routes);
    let names = ["digits-0", "digits-1", "digits-2", "digits-3"];
    world.revision(|revision| {
        revision.replicas.extend(names.map(|name| Replica::new(name, Phase::Ready)));
    });
    let revision = world.declared.name.revision(1).unwrap();
    let distrust = |names: &[&str]| names.iter().map(|name| (Arc::from(*name), Arc::from("it has expired"))).collect();
    world.untrusted = [(revision.clone(), distrust(&["digits-1", "gone"]))].into();
    let status = world.status();
    let reported = found(&status, "ReplicasUntrusted");
    let message = reported.message.as_deref().unwrap();
    let sentence = "gateways do not trust the certificates of these replicas of digits-predictor-00001: digits-1 (it has \
                    expired); delete such a pod";
    assert!(reported.status == ConditionStatus::True && message.starts_with(sentence), "{message}");
    assert_eq!(ready(&status), (ConditionStatus::True, "Ready"));
    world.untrusted = [(revision, distrust(&names))].into();
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::False, "ReplicasUntrusted"));
    let message = found(&status, Condition::PREDICTOR_READY).message.as_deref().unwrap();
    assert!(message.contains("digits-2 (it has expired) and 1 more; delete such a pod"), "{message}");
    world.untrusted.clear();
    let status = world.status();
    assert!(status.condition("ReplicasUntrusted").is_none() && ready(&status).0 == ConditionStatus::True);
}

#[test]
fn gpus_that_other_pods_share_are_reported() {
    let mut world = World::new(&model("a", &[]));
    assert!(world.status().condition("GpuNotIsolated").is_none());
    let shared = |node: &str, sharing, pods| SharedGpu { node: node.into(), sharing, pods };
    world.revision(|revision| {
        let sliced = ["a", "b", "c", "d", "e"].map(|node| shared(node, GpuSharing::TimeSlicing, Some(4)));
        revision.shared_gpus.extend(sliced);
        revision.shared_gpus.insert(shared("m", GpuSharing::Mps, None));
        revision.shared_gpus.insert(shared("u", GpuSharing::Unknown, None));
    });
    let status = world.status();
    let reported = found(&status, "GpuNotIsolated");
    let message = "digits-predictor-00001 is not isolated from other pods: each GPU of a, b, c and 2 more nodes is shared \
                   by 4 pods in turn (time-slicing): they slow each other down, and any may use all its memory; each GPU \
                   of m is shared by several pods at the same time (MPS): they slow each other down, and a fault in one \
                   may end all; each GPU of u is shared by several pods: they slow each other down, and any may use all \
                   its memory";
    assert_eq!((reported.status, reported.message.as_deref()), (ConditionStatus::True, Some(message)));
}

#[test]
fn another_autoscaler_is_reported_with_advice_until_the_manifest_declares_it() {
    let reported = |writes, desired, class: &[(&str, &str)]| {
        let mut world = World::new(&model("a", &[]));
        world.validated = validated(class, &model("a", &[]));
        world.revision(|revision| {
            revision.desired = desired;
            let name = "HorizontalPodAutoscaler mine".into();
            revision.scaled_by = Some(OtherAutoscaler { name, writes });
        });
        let status = world.status();
        let reported = status.condition("ScaledByAnother");
        reported.map(|condition| condition.message.clone().unwrap())
    };
    let class = |class| [("serving.kserve.io/autoscalerClass", class)];
    let of_deployment = reported(ReplicasField::Replicas, 2, &[]);
    assert_eq!(
        of_deployment.as_deref(),
        Some(
            "HorizontalPodAutoscaler mine sets the replicas of digits-predictor-00001, so Weir's autoscaler does not: if \
             this is intended, set the annotation serving.kserve.io/autoscalerClass: external; otherwise delete \
             HorizontalPodAutoscaler mine"
        )
    );
    assert_eq!(reported(ReplicasField::Replicas, 2, &class("none")), of_deployment);
    let at_zero = reported(ReplicasField::Replicas, 0, &[]).unwrap();
    assert!(at_zero.contains("requests do not start one"), "{at_zero}");
    let of_service = reported(ReplicasField::MinReplicas, 2, &[]).unwrap();
    assert!(of_service.contains("autoscalerClass: none"), "{of_service}");
    for (writes, declared) in [
        (ReplicasField::Replicas, "external"),
        (ReplicasField::MinReplicas, "none"),
        (ReplicasField::MinReplicas, "external"),
    ] {
        assert_eq!(reported(writes, 2, &class(declared)), None, "{declared}");
    }
}

#[test]
fn a_stopped_service_does_not_report_kept_replicas() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| revision.replicas.push(replica()));
    world.history.rollout.previous =
        Some(PreviousRevision { revision: world.validated.service.revision(7).unwrap(), since: 1, kept_replicas: 2 });
    let reported = |world: &World| {
        let status = world.status();
        let complete = found(&status, "RolloutComplete");
        (complete.status, complete.message.clone())
    };
    let (status, message) = reported(&world);
    assert_eq!(status, ConditionStatus::True);
    assert!(message.unwrap().contains("keeps 2 replicas"));
    world.validated.is_stopped = true;
    assert_eq!(reported(&world), (ConditionStatus::True, None));
}

#[test]
fn a_stopped_service_does_not_report_what_a_rollout_waits_for() {
    let mut world = World::new(&model("a", &[]));
    let mut reported = |stage: Stage, is_stopped: bool| {
        world.history.rollout.candidate = Some(Candidate::new(world.validated.service.revision(2).unwrap(), stage, 1));
        world.validated.is_stopped = is_stopped;
        let status = world.status();
        let complete = found(&status, "RolloutComplete");
        (complete.status, complete.message.clone())
    };
    for stage in [Stage::Waiting, Stage::Shifting(0)] {
        let (status, message) = reported(stage.clone(), false);
        assert_eq!(status, ConditionStatus::Unknown);
        assert!(message.is_some());
        assert_eq!(reported(stage, true), (ConditionStatus::False, None));
    }
    let why: Arc<str> = "1 of 2 of its requests failed".into();
    let (status, message) = reported(Stage::RolledBack(why), true);
    assert_eq!(status, ConditionStatus::False);
    assert!(message.unwrap().contains("was rolled back: 1 of 2"));
}

#[test]
fn the_last_exit_of_a_program_is_part_of_the_last_failure() {
    let mut world = World::new(&model("a", &[]));
    let exit = Failure { at: Some(7), exit_code: Some(139), ..Failure::new(FailureReason::Exited, "it ended") };
    let reported = |world: &World| {
        let info = world.status().model_status.unwrap().last_failure_info.unwrap();
        (info.message.unwrap(), info.exit_code, info.time, info.location)
    };
    let at = |seconds| time(seconds);
    world.revision(|revision| revision.replicas.push(Replica { last_exit: Some(exit.clone()), ..replica() }));
    let location = Some("digits-0".to_owned());
    assert_eq!(reported(&world), ("it ended".to_owned(), Some(139), at(7), location.clone()));
    // The program was started again and is not ready yet.
    let now = Failure { at: Some(9), ..Failure::new(FailureReason::NotReady, "it is not ready") };
    world.revision(|revision| {
        revision.replicas[0].phase = Phase::Unready;
        revision.replicas[0].failure = Some(now);
    });
    let message = "it is not ready; its program ended before: it ended (exit status 139 at 1970-01-01T00:00:07Z)";
    assert_eq!(reported(&world), (message.to_owned(), Some(139), at(9), location));
}

#[test]
fn a_candidate_without_room_says_what_it_waits_for_and_fails_after_ten_minutes() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| revision.replicas.push(replica()));
    world.gateway(world.applied.routes);
    let stable = world.history.rollout.stable.clone().unwrap();
    let next = world.validated.service.revision(2).unwrap();
    world.history.rollout.candidate = Some(Candidate::new(next.clone(), Stage::Waiting, 100));
    let lacks = Some("nvidia.com/gpu".into());
    let cause = "no node takes it (1 Insufficient nvidia.com/gpu): add a node";
    let failure = Failure { at: Some(160), lacks, ..Failure::new(FailureReason::NotStarted, cause) };
    let mut without =
        Revision { name: next.clone(), replicas: Vec::new(), ..world.snapshot.revisions[&stable].as_ref().clone() };
    without.desired = 1;
    without.failure = Some(failure);
    Arc::make_mut(&mut world.snapshot.revisions).insert(next, Arc::new(without));
    let reported = |now| {
        let status = world.status_after(&InferenceServiceStatus::default(), now);
        let complete = found(&status, "RolloutComplete").clone();
        assert_eq!(found(&status, Condition::READY).status, ConditionStatus::True);
        (complete.status, complete.reason.unwrap(), complete.message.unwrap())
    };
    let (status, reason, message) = reported(759);
    assert_eq!((status, &*reason), (ConditionStatus::Unknown, "WaitingForRoom"));
    assert_eq!(
        message,
        "digits-predictor-00002 has waited for room (nvidia.com/gpu) since 1970-01-01T00:02:40Z, and counts as failed at \
         1970-01-01T00:12:40Z: no node takes it (1 Insufficient nvidia.com/gpu): add a node; digits-predictor-00001 \
         keeps serving"
    );
    let (status, reason, message) = reported(760);
    assert_eq!((status, &*reason), (ConditionStatus::False, "NotStarted"));
    let expected =
        "digits-predictor-00002 failed to start: no room (nvidia.com/gpu) since 1970-01-01T00:02:40Z: no node takes it";
    assert!(message.starts_with(expected), "{message}");
}

#[test]
fn a_canary_with_too_few_replicas_says_how_many_requests_it_gets() {
    let spec = format!("{}{}", model("a", &[]), crate::fixtures::CANARY);
    let mut world = World::new(&spec);
    for revision in Arc::make_mut(&mut world.snapshot.revisions).values_mut() {
        let revision = Arc::make_mut(revision);
        revision.replicas.push(replica());
        revision.desired = 4;
    }
    world.history = world.history.clone().observed(&world.snapshot);
    let reported = |world: &World| {
        let status = world.status();
        let canary = status.condition(Condition::CANARY_PREDICTOR_READY).unwrap().clone();
        (canary.status, canary.reason.unwrap(), canary.message, status.canary_statuses[0].traffic_percent)
    };
    let share = |percent| CandidateShare { percent, target: 30 };
    world.history.canaries[0].progress.share = share(30);
    assert_eq!(reported(&world), (ConditionStatus::True, "AllCanariesReady".to_owned(), None, 30));
    world.history.canaries[0].progress.share = share(7);
    let message = "blue receives 7 of 30 % of the requests until more of its replicas are ready: 1 of 4 are now";
    assert_eq!(reported(&world), (ConditionStatus::Unknown, "InProgress".to_owned(), Some(message.to_owned()), 7));
}

/// Argo CD shows a false condition as a broken service and an unknown one as progress. Otherwise it requires
/// `UpToDate`.
#[test]
fn a_share_that_the_manifest_sets_completes_the_rollout() {
    let mut world = World::new(&model("a", &[]));
    world.revision(|revision| revision.replicas.push(replica()));
    // The candidate is the stable revision too, because only its loaded state matters here.
    let revision = world.history.rollout.stable.clone().unwrap();
    world.history.rollout.candidate = Some(Candidate::new(revision, Stage::Shifting(0), 1));
    let mut reported = |strategy: Strategy| {
        world.history.rollout.strategy = strategy;
        let status = world.status();
        let complete = found(&status, "RolloutComplete");
        let complete = (complete.status, complete.reason.clone().unwrap());
        (complete, status.model_status.unwrap().transition_status)
    };
    assert_eq!(
        reported(Strategy::Manual(Some(20))),
        ((ConditionStatus::True, "TrafficSplit".to_owned()), TransitionStatus::UpToDate)
    );
    assert_eq!(
        reported(Strategy::Automatic(Arc::default())),
        ((ConditionStatus::Unknown, "InProgress".to_owned()), TransitionStatus::InProgress)
    );
}

#[test]
fn the_newest_revision_shows_its_tag_even_if_a_canary_is_the_same() {
    let mut world = World::new(&model("a", &[]));
    world.plan.shares[0].tags.insert(0, Tag::new("blue").unwrap());
    let status = world.status();
    let [entry] = &status.components["predictor"].traffic[..] else {
        panic!("{status:?}");
    };
    assert_eq!(entry.tag.as_deref(), Some("latest"));
    assert_eq!(entry.percent, Some(100));
}

/// State of one revision in the table of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadCase {
    Ready,
    /// The revision has loaded before, and is scaled to zero.
    AtZero,
    /// The revision has loaded before, and has no replica at the moment.
    Down,
    /// The revision has not loaded yet, and has no failure.
    New,
    Fails(FailureReason),
}

impl LoadCase {
    fn all() -> impl Iterator<Item = Self> {
        let others = [Self::Ready, Self::AtZero, Self::Down, Self::New];
        let fails = FailureReason::ALL.map(Self::Fails);
        others.into_iter().chain(fails)
    }

    fn has_loaded(self) -> bool {
        matches!(self, Self::Ready | Self::AtZero | Self::Down)
    }
}

/// Returns a service whose stable revision and candidate, if there is one, have these states.
fn rolling(stable: LoadCase, candidate: Option<(Stage, u8, LoadCase)>, strategy: Strategy) -> World {
    let mut world = World::new(&model("a", &[]));
    world.gateway(world.applied.routes);
    if let Some((stage, percent, _)) = &candidate {
        let next = validated(&[], &model("b", &[]));
        world.history.records[0].load = LoadState::Now;
        world.history = revise(&next, &world.history, RuntimeChange::Follow, 0).unwrap();
        let rolled_out = world.history.rollout.candidate.as_mut().unwrap();
        rolled_out.stage = stage.clone();
        rolled_out.share = CandidateShare { percent: *percent, target: *percent };
        world.plan = plan(&next, &world.history, 0).unwrap();
        let mut ledger = Ledger::new();
        world.applied = ledger.apply(world.plan.desired.clone()).unwrap();
        ledger.refresh(Arc::make_mut(&mut world.snapshot.revisions));
        world.validated = next;
        world.gateway(world.applied.routes);
    }
    world.history.rollout.strategy = strategy;
    let states = [Some(stable), candidate.map(|(_, _, state)| state)];
    for (i, state) in states.into_iter().flatten().enumerate() {
        world.set(i, state);
    }
    world
}

impl World {
    fn set(&mut self, index: usize, state: LoadCase) {
        let record = &mut self.history.records[index];
        record.load = match state {
            LoadCase::Ready => LoadState::Now,
            LoadCase::AtZero | LoadCase::Down => LoadState::Once,
            LoadCase::New | LoadCase::Fails(_) => LoadState::Never,
        };
        let revisions = Arc::make_mut(&mut self.snapshot.revisions);
        let revision = Arc::make_mut(revisions.get_mut(&record.revision).unwrap());
        (revision.desired, revision.failure) = (1, None);
        match state {
            LoadCase::Ready => revision.replicas.push(replica()),
            LoadCase::AtZero => revision.desired = 0,
            LoadCase::Down | LoadCase::New => {}
            LoadCase::Fails(reason) => revision.failure = Some(Failure::new(reason, "no")),
        }
    }
}

fn stages() -> Vec<Option<(Stage, u8)>> {
    vec![
        None,
        Some((Stage::Waiting, 0)),
        Some((Stage::Shifting(0), 0)),
        Some((Stage::Shifting(0), 20)),
        Some((Stage::Shifting(0), 100)),
        Some((Stage::RolledBack("slow".into()), 0)),
    ]
}

/// Checks every stage of a rollout with every state of both revisions.
#[test]
fn conditions_describe_every_stage_of_a_rollout() {
    for stage in stages() {
        let candidates: Vec<_> = match &stage {
            Some((stage, percent)) => LoadCase::all().map(|state| Some((stage.clone(), *percent, state))).collect(),
            None => vec![None],
        };
        for (stable, candidate) in LoadCase::all().flat_map(|stable| {
            let candidates = candidates.clone().into_iter();
            candidates.map(move |candidate| (stable, candidate))
        }) {
            check_conditions(stable, candidate);
        }
    }
}

fn check_conditions(stable: LoadCase, candidate: Option<(Stage, u8, LoadCase)>) {
    let case = format!("{stable:?} {candidate:?}");
    let strategy = Strategy::Manual(Some(20));
    let status = rolling(stable, candidate.clone(), strategy).status();
    let percent = candidate.as_ref().map_or(0, |(_, percent, _)| *percent);
    let next = candidate.as_ref().map(|(_, _, state)| *state);
    let answers = (percent == 100 || stable.has_loaded()) && (percent == 0 || next.is_some_and(LoadCase::has_loaded));
    let (is_ready, reason) = ready(&status);
    assert_eq!(is_ready == ConditionStatus::True, answers, "{case}");
    assert_eq!(is_ready == ConditionStatus::False, !reason_is_loading(reason) && !answers, "{case}");
    let complete = found(&status, "RolloutComplete");
    let is_complete = match &candidate {
        None => stable.has_loaded(),
        Some((Stage::Shifting(_), _, _)) => true,
        Some((Stage::Waiting | Stage::RolledBack(_), _, _)) => false,
    };
    assert_eq!(complete.status == ConditionStatus::True, is_complete, "{case}");
    let fails = match &candidate {
        None => matches!(stable, LoadCase::Fails(_)),
        Some((Stage::Waiting, _, state)) => matches!(state, LoadCase::Fails(_)),
        Some((Stage::Shifting(_), _, _)) => false,
        Some((Stage::RolledBack(_), _, _)) => true,
    };
    assert_eq!(complete.status == ConditionStatus::False, fails, "{case}");
    let predictor = &status.components["predictor"];
    let expected = match next {
        Some(next) if next.has_loaded() => Some("digits-predictor-00002"),
        Some(_) | None if stable.has_loaded() => Some("digits-predictor-00001"),
        Some(_) | None => None,
    };
    assert_eq!(predictor.latest_ready_revision.as_deref(), expected, "{case}");
    for condition in &status.conditions {
        let says_why = condition.message.is_some() || condition.status == ConditionStatus::True;
        assert!(says_why || condition.kind == "Stopped", "{case}: {condition:?}");
    }
}

fn reason_is_loading(reason: &str) -> bool {
    reason == "Loading"
}

#[test]
fn a_failing_candidate_is_reported_beside_the_stable_revision() {
    let waiting = |stable, candidate| {
        let status = rolling(stable, Some((Stage::Waiting, 0, candidate)), Strategy::default()).status();
        let reported = |kind| {
            let condition = found(&status, kind);
            let reason = condition.reason.clone().unwrap();
            (reason, condition.message.clone().unwrap_or_default())
        };
        (reported(Condition::READY), reported("RolloutComplete"))
    };
    let exits = LoadCase::Fails(FailureReason::Exited);
    let text = |reason: &str, message: &str| (reason.to_owned(), message.to_owned());
    assert_eq!(
        waiting(LoadCase::Ready, exits),
        (
            text("RollingOut", "digits-predictor-00002 failed to start: no; digits-predictor-00001 keeps serving"),
            text("Exited", "digits-predictor-00002 failed to start: no; digits-predictor-00001 keeps serving")
        )
    );
    assert_eq!(
        waiting(LoadCase::Fails(FailureReason::NodeNotReady), LoadCase::New),
        (
            text("NodeNotReady", "digits-predictor-00001 does not serve: no; digits-predictor-00002 is starting"),
            text("Waiting", "digits-predictor-00002 is not ready yet")
        )
    );
}

#[test]
fn a_share_that_waits_for_replicas_says_until_when() {
    let shifting = Some((Stage::Shifting(0), 25, LoadCase::Ready));
    let mut world = rolling(LoadCase::Ready, shifting, Strategy::default());
    let candidate = world.history.rollout.candidate.as_mut().unwrap();
    candidate.share.target = 100;
    world.history.rollout.needed_replicas = 4;
    let status = world.status();
    let complete = found(&status, "RolloutComplete");
    assert_eq!(
        complete.message.as_deref(),
        Some(
            "digits-predictor-00002 receives 25 % of the requests, rising to 100 % as its replicas become ready, at the \
             latest at 1970-01-01T00:10:00Z; digits-predictor-00001 keeps 4 replicas until 1970-01-01T00:10:00Z, for an \
             instant rollback"
        )
    );
    let model = status.model_status.unwrap();
    assert_eq!(model.transition_status, TransitionStatus::InProgress);
}

#[test]
fn a_loading_revision_says_how_far_its_download_is() {
    let mut world = World::new(&model("a", &[]));
    let fetched = "fetching 3.1 of 12.4 GB, 210 MB/s, 44 s left";
    let loading = Replica { phase: Phase::Pending, download: Some(fetched.into()), ..replica() };
    world.revision(|revision| revision.replicas.push(loading));
    let status = world.status();
    assert_eq!(ready(&status), (ConditionStatus::Unknown, "Loading"));
    let message = found(&status, Condition::READY).message.as_deref();
    assert_eq!(message, Some(&*format!("digits-predictor-00001 is starting: {fetched}")));
}
