use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use weir_cluster::{
    Destination, Failure, FailureReason, FailureReport, GpuSharing, Host, Outlook, Phase, ReadyCall, Revision, Route,
    ScalingPolicy, ServiceName, Split, Workload,
};

use super::*;
use crate::Options;
use crate::objects::{FAILURES, PodContext, ROUTE, RevisionObjects, WORKLOAD, aliases, complete};
use crate::stored::StoredRevision;
use crate::written::WrittenFailures;

fn service() -> ServiceName {
    ServiceName::new("vision", "digits").unwrap()
}

fn workload() -> Workload {
    let template: PodTemplateSpec = serde_json::from_value(json!({
        "spec": { "containers": [{
            "name": "kserve-container",
            "readinessProbe": { "httpGet": { "path": "/v2/health/ready", "port": 8080 } },
        }] },
    }))
    .unwrap();
    Workload { concurrency: NonZeroU32::new(4), ..Workload::new(service().revision(1).unwrap(), template, 1) }
}

fn objects() -> RevisionObjects {
    let pod = complete(&StoredRevision::of(&workload()), &Options::default(), &PodContext::default()).unwrap();
    RevisionObjects::of(&workload(), pod, None).unwrap()
}

fn deployment(replicas: i32) -> Deployment {
    let mut deployment = objects().deployment;
    deployment.spec.as_mut().unwrap().replicas = Some(replicas);
    deployment
}

fn headless() -> Service {
    objects().service
}

/// Returns the Service that stores the route, at this resource version.
fn routed(version: u64) -> Service {
    let split = Split::all(workload().revision);
    let route = Route::new(service(), Destination::Split(split));
    let mut own = aliases(&service(), &route, &Options::default(), None).unwrap().remove(1);
    own.metadata.resource_version = Some(version.to_string());
    own
}

fn pod(name: &str) -> Pod {
    let template = deployment(1).spec.unwrap().template;
    let mut pod = Pod {
        metadata: template.metadata.unwrap(),
        spec: template.spec,
        status: serde_json::from_value(json!({
            "podIP": "10.0.0.7", "conditions": [{ "type": "Ready", "status": "True" }],
        }))
        .unwrap(),
    };
    pod.metadata.name = Some(name.to_owned());
    pod.metadata.namespace = Some("vision".to_owned());
    pod
}

fn list<K>(objects: Vec<K>) -> Vec<Event<K>> {
    let listed = objects.into_iter().map(Event::InitApply);
    [Event::Init].into_iter().chain(listed).chain([Event::InitDone]).collect()
}

/// Returns the state of a cluster with one service of one ready replica.
fn observed() -> Observed {
    let mut observed = Observed::new(&Options::default(), 100, Notes::default());
    let deployments = list(vec![deployment(1)]).into_iter().map(Change::Deployment);
    let services = list(vec![headless(), routed(90)]).into_iter().map(Change::Service);
    let pods = list(vec![pod("a")]).into_iter().map(Change::Pod);
    let slices = list(Vec::new()).into_iter().map(Change::Gateways);
    observed.take(Change::NoAutoscalers);
    deployments.chain(services).chain(pods).chain(slices).for_each(|c| observed.take(c));
    observed
}

fn snapshot(observed: &mut Observed) -> Snapshot {
    observed.snapshot().unwrap().clone()
}

#[test]
fn nothing_is_shown_before_all_is_known() {
    let mut observed = Observed::new(&Options::default(), 0, Notes::default());
    for event in list(vec![deployment(1)]) {
        observed.take(Change::Deployment(event));
    }
    assert_eq!(observed.snapshot(), None);
}

fn scaled_at(version: u64, replicas: i32) -> Change {
    let mut deployment = deployment(replicas);
    deployment.metadata.resource_version = Some(version.to_string());
    Change::Deployment(Event::Apply(deployment))
}

fn noted_at(version: u64, replicas: u32) -> Change {
    Change::Scaled(NotedReplicas { revision: workload().revision, replicas, version })
}

#[test]
fn a_noted_number_is_shown_before_a_watch_reports_it() {
    let mut observed = observed();
    let mut after = |change| {
        observed.take(change);
        let seen = snapshot(&mut observed);
        seen.revision(&workload().revision).unwrap().desired
    };
    assert_eq!(after(scaled_at(101, 1)), 1);
    assert_eq!(after(noted_at(105, 0)), 0);
    // An older watch event, and an older answer, do not count.
    assert_eq!(after(scaled_at(103, 1)), 0);
    assert_eq!(after(noted_at(102, 7)), 0);
    assert_eq!(after(scaled_at(105, 0)), 0);
    // Another writer sets a number; an answer that arrives late does not count.
    assert_eq!(after(scaled_at(106, 3)), 3);
    assert_eq!(after(noted_at(105, 0)), 3);
    let mut gone = deployment(0);
    gone.metadata.resource_version = Some("110".to_owned());
    assert_eq!(after(Change::Deployment(Event::Delete(gone))), 0);
    assert_eq!(after(noted_at(120, 5)), 0);
}

proptest::proptest! {
    #[test]
    fn the_newest_number_is_shown_in_any_order_of_answers_and_watch_events(
        numbers in proptest::collection::vec((0..9_u32, proptest::bool::ANY, 0..1000_u32), 1..12),
    ) {
        let mut all: Vec<_> = (101_u64..).zip(numbers).collect();
        let newest = all.last().unwrap().1.0;
        all.sort_by_key(|(_, (_, _, order))| *order);
        let mut observed = observed();
        for (version, (replicas, by_watch, _)) in all {
            let change = if by_watch {
                scaled_at(version, i32::try_from(replicas).unwrap())
            } else {
                noted_at(version, replicas)
            };
            observed.take(change);
        }
        let seen = snapshot(&mut observed);
        proptest::prop_assert_eq!(seen.revision(&workload().revision).unwrap().desired, newest);
    }
}

#[test]
fn a_revision_is_built_from_its_objects() {
    let seen = snapshot(&mut observed());
    let revision = seen.revision(&workload().revision).unwrap();
    assert_eq!(revision.identity, workload().identity());
    assert_eq!((revision.desired, revision.concurrency), (1, NonZeroU32::new(4)));
    assert_eq!(revision.ready_call, ReadyCall::V2);
    assert_eq!(revision.ready().count(), 1);
    assert!(seen.routes.of(&service()).is_some());
}

#[test]
fn the_generation_of_routes_is_never_below_that_of_the_start() {
    let mut observed = observed();
    assert_eq!(snapshot(&mut observed).routes.generation, 100);
    observed.take(Change::Service(Event::Apply(routed(120))));
    assert_eq!(snapshot(&mut observed).routes.generation, 120);
    let mut last = routed(130);
    last.metadata.annotations = None;
    observed.take(Change::Service(Event::Apply(last)));
    let emptied = snapshot(&mut observed);
    assert_eq!((emptied.routes.generation, emptied.routes.of(&service())), (130, None));
}

#[test]
fn an_event_that_says_nothing_new_makes_no_snapshot() {
    let mut observed = observed();
    let before = snapshot(&mut observed);
    observed.take(Change::Pod(Event::Apply(pod("a"))));
    observed.take(Change::Deployment(Event::Apply(deployment(1))));
    assert_eq!(snapshot(&mut observed), before);
    observed.take(Change::Deployment(Event::Apply(deployment(2))));
    assert_eq!(snapshot(&mut observed).generation, before.generation + 1);
}

/// Returns the Service with the route of vision/digits, as an editor of the namespace changes it.
fn rerouted(change: impl FnOnce(&mut Service, &mut serde_json::Value)) -> Service {
    let mut service = routed(150);
    let text = service.annotations()[ROUTE].clone();
    let mut route = serde_json::from_str(&text).unwrap();
    change(&mut service, &mut route);
    let annotations = service.metadata.annotations.as_mut().unwrap();
    annotations.insert(ROUTE.to_owned(), route.to_string());
    service
}

fn route_after(change: impl FnOnce(&mut Service, &mut serde_json::Value)) -> Arc<Route> {
    let mut observed = observed();
    observed.take(Change::Service(Event::Apply(rerouted(change))));
    snapshot(&mut observed).routes.of(&service()).unwrap().clone()
}

#[test]
fn a_route_has_the_hosts_of_its_name_and_the_age_of_its_object() {
    let route = route_after(|object, route| {
        route["since"] = 1.into();
        route["hosts"] = json!(["digits.vision", "roll.team-a", "digits-vision.example.com"]);
        let made = serde_json::from_value(json!("2026-01-02T03:04:05Z")).unwrap();
        object.metadata.creation_timestamp = Some(made);
    });
    let hosts: Vec<_> = route.hosts.iter().map(Host::as_str).collect();
    assert_eq!(hosts, ["digits.vision", "digits-vision.example.com"]);
    let refused: Vec<_> = route.refused_hosts.iter().map(Host::as_str).collect();
    assert_eq!(refused, ["roll.team-a"]);
    assert_eq!(route.since, 1_767_323_045);
}

#[test]
fn a_route_of_another_name_or_to_anothers_revision_is_not_read() {
    let own = workload().revision;
    let leads_to = |route: &Route| route.revisions().cloned().collect::<Vec<_>>();
    let anothers = route_after(|_, route| {
        route["destination"]["split"][0]["revision"] = "other-predictor-00001".into();
    });
    assert_eq!(leads_to(&anothers), [own]);
    let mut observed = observed();
    let renamed = rerouted(|object, _| object.metadata.name = Some("elsewhere".to_owned()));
    observed.take(Change::Service(Event::Delete(routed(140))));
    observed.take(Change::Service(Event::Apply(renamed)));
    assert_eq!(snapshot(&mut observed).routes.as_slice(), []);
}

#[test]
fn an_unreadable_object_keeps_its_last_good_state() {
    let mut observed = observed();
    let before = snapshot(&mut observed);
    for (mut object, annotation) in [(headless(), WORKLOAD), (routed(150), ROUTE)] {
        let annotations = object.metadata.annotations.as_mut().unwrap();
        annotations.insert(annotation.to_owned(), "{".to_owned());
        observed.take(Change::Service(Event::Apply(object)));
    }
    let after = snapshot(&mut observed);
    assert_eq!(after.revisions, before.revisions);
    assert_eq!(after.routes.as_slice(), before.routes.as_slice());
}

#[test]
fn an_ending_revision_is_shown_until_its_last_pod_is_gone() {
    let mut observed = observed();
    let name = workload().revision;
    assert!(snapshot(&mut observed).revision(&name).is_some());
    observed.take(Change::Service(Event::Delete(headless())));
    observed.take(Change::Deployment(Event::Delete(deployment(1))));
    let ending = snapshot(&mut observed);
    let revision = ending.revision(&name).unwrap();
    assert_eq!((revision.desired, revision.replicas.len()), (0, 1));
    observed.take(Change::Pod(Event::Delete(pod("a"))));
    assert_eq!(snapshot(&mut observed).revision(&name), None);
}

#[test]
fn a_repeated_list_drops_the_objects_that_it_lacks() {
    let mut observed = observed();
    for event in list(vec![pod("b")]) {
        observed.take(Change::Pod(event));
    }
    let seen = snapshot(&mut observed);
    let replicas = &seen.revision(&workload().revision).unwrap().replicas;
    let names: Vec<_> = replicas.iter().map(|replica| &*replica.name).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn gateways_are_the_ready_endpoints() {
    let slice = |ready: bool| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "weir-gateway-1", "namespace": "weir-system" },
            "addressType": "IPv4",
            "endpoints": [{
                "addresses": ["10.0.0.9"], "conditions": { "ready": ready },
                "targetRef": { "kind": "Pod", "name": "weir-gateway-a" },
            }],
            "ports": [{ "name": "http", "port": 8080 }, { "name": "admin", "port": 9090 }],
        }))
        .unwrap()
    };
    let mut observed = observed();
    observed.take(Change::Gateways(Event::Apply(slice(true))));
    let gateways = snapshot(&mut observed).gateways;
    assert_eq!(&*gateways[0].name, "weir-gateway-a");
    assert_eq!(gateways[0].serving.to_string(), "10.0.0.9:8080");
    assert_eq!(gateways[0].admin.as_ref().unwrap().to_string(), "10.0.0.9:9090");
    observed.take(Change::Gateways(Event::Apply(slice(false))));
    assert!(snapshot(&mut observed).gateways.is_empty());
}

#[test]
fn a_gateway_with_addresses_of_both_families_is_listed_once_by_ipv4() {
    let slice = |slice: &str, address: &str| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": slice, "namespace": "weir-system" },
            "addressType": if address.contains(':') { "IPv6" } else { "IPv4" },
            "endpoints": [{
                "addresses": [address], "conditions": { "ready": true },
                "targetRef": { "kind": "Pod", "name": "weir-gateway-a" },
            }],
            "ports": [{ "name": "http", "port": 8080 }],
        }))
        .unwrap()
    };
    for addresses in [["10.0.0.9", "fd00::9"], ["fd00::9", "10.0.0.9"]] {
        let mut observed = observed();
        for (name, address) in ["s", "t"].into_iter().zip(addresses) {
            observed.take(Change::Gateways(Event::Apply(slice(name, address))));
        }
        let gateways = snapshot(&mut observed).gateways;
        let serving: Vec<_> = gateways.iter().map(|g| g.serving.to_string()).collect();
        assert_eq!(serving, ["10.0.0.9:8080"]);
    }
}

/// Returns a slice of a revision's endpoints: each pod's name, and whether it serves.
fn endpoints(slice: &str, pods: &[(&str, bool)]) -> EndpointSlice {
    endpoints_at(slice, "10.0.0.7", pods)
}

/// Returns a slice of a revision's endpoints at this address.
fn endpoints_at(slice: &str, address: &str, pods: &[(&str, bool)]) -> EndpointSlice {
    let endpoint = |(name, serving): &(&str, bool)| {
        json!({
            "addresses": [address], "conditions": { "ready": true, "serving": serving },
            "targetRef": { "kind": "Pod", "name": name, "namespace": "vision" },
        })
    };
    let endpoints: Vec<_> = pods.iter().map(endpoint).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": slice, "namespace": "vision",
            "labels": {
                "weir.dev/revision": "digits-predictor-00001",
                "kubernetes.io/service-name": "digits-predictor-00001",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": if address.contains(':') { "IPv6" } else { "IPv4" },
        "endpoints": endpoints, "ports": [{ "name": "http", "port": 8080 }],
    }))
    .unwrap()
}

/// Returns the state that a gateway observes of a service with this policy.
fn seen_by_gateway(scaling: Option<ScalingPolicy>, slices: Vec<EndpointSlice>) -> Observed {
    let of_gateway = Options { scope: WatchScope::Gateway, ..Options::default() };
    let mut observed = Observed::new(&of_gateway, 0, Notes::default());
    let mut workload = workload();
    workload.scaling = scaling.map(Arc::new);
    let pod = PodTemplateSpec::default();
    let service = RevisionObjects::of(&workload, pod, None).unwrap().service;
    let services = list(vec![service]).into_iter().map(Change::Service);
    let none = list(Vec::new()).into_iter().map(Change::Gateways);
    let slices = list(slices).into_iter().map(Change::Endpoints);
    for change in services.chain(none).chain(slices) {
        observed.take(change);
    }
    observed
}

fn first(observed: &mut Observed) -> Arc<Revision> {
    let name = workload().revision;
    snapshot(observed).revision(&name).unwrap().clone()
}

fn sleepy() -> ScalingPolicy {
    ScalingPolicy { min: 0, ..ScalingPolicy::default() }
}

#[test]
fn a_gateway_sees_endpoints_as_replicas() {
    let pods = [("a", true), ("b", false)];
    let mut observed = seen_by_gateway(Some(sleepy()), vec![endpoints("s", &pods)]);
    let revision = first(&mut observed);
    let phases: Vec<_> = revision.replicas.iter().map(|r| (&*r.name, r.phase)).collect();
    assert_eq!(phases, [("a", Phase::Ready), ("b", Phase::Starting)]);
    assert_eq!(revision.desired, 2);
    let moved = endpoints("t", &[("b", true)]);
    observed.take(Change::Endpoints(Event::Apply(moved)));
    observed.take(Change::Endpoints(Event::Apply(endpoints("s", &[("a", false)]))));
    let revision = first(&mut observed);
    let phases: Vec<_> = revision.replicas.iter().map(|r| (&*r.name, r.phase)).collect();
    assert_eq!(phases, [("a", Phase::Unready), ("b", Phase::Ready)]);
}

#[test]
fn a_pod_with_addresses_of_both_families_is_one_replica_at_its_ipv4_address() {
    let seen = |slices: &[(&str, &str)]| -> Vec<String> {
        let at = |(name, address): &(&str, &str)| endpoints_at(name, address, &[("a", true)]);
        let mut observed = seen_by_gateway(None, slices.iter().map(at).collect());
        let revision = first(&mut observed);
        let addresses = revision.replicas.iter().map(|r| r.endpoints.http.clone());
        addresses.map(|address| address.unwrap().to_string()).collect()
    };
    let (four, six) = ("10.0.0.7", "fd00::7");
    // The order of the slices does not matter.
    assert_eq!(seen(&[("s", four), ("t", six)]), ["10.0.0.7:8080"]);
    assert_eq!(seen(&[("s", six), ("t", four)]), ["10.0.0.7:8080"]);
    assert_eq!(seen(&[("s", six)]), ["[fd00::7]:8080"]);
}

#[test]
fn a_revision_without_endpoints_is_at_zero_only_if_its_policy_allows_zero() {
    for (policy, is_asleep) in [(Some(sleepy()), true), (Some(ScalingPolicy::default()), false), (None, false)] {
        let mut observed = seen_by_gateway(policy, Vec::new());
        assert_eq!(first(&mut observed).is_at_zero(), is_asleep);
    }
}

#[test]
fn a_gateway_sees_an_ending_revision_until_its_last_endpoint_is_gone() {
    let mut observed = seen_by_gateway(None, vec![endpoints("s", &[("a", true)])]);
    first(&mut observed);
    observed.take(Change::Service(Event::Delete(headless())));
    assert_eq!(first(&mut observed).desired, 0);
    observed.take(Change::Endpoints(Event::Delete(endpoints("s", &[("a", true)]))));
    assert_eq!(snapshot(&mut observed).revision(&workload().revision), None);
}

#[test]
fn gpus_are_shared_while_the_labels_of_the_node_show_it() {
    let mut observed = observed();
    let mut with_gpu = pod("a");
    let spec = with_gpu.spec.as_mut().unwrap();
    spec.node_name = Some("gpu-0".to_owned());
    spec.containers[0].resources = serde_json::from_value(json!({ "limits": { "nvidia.com/gpu": "1" } })).unwrap();
    observed.take(Change::Pod(Event::Apply(with_gpu)));
    let shared = |observed: &mut Observed| {
        let snapshot = observed.snapshot().unwrap();
        snapshot.revisions[&workload().revision].shared_gpus.iter().cloned().collect::<Vec<_>>()
    };
    assert_eq!(shared(&mut observed), []);
    let node = |labels: serde_json::Value| {
        let node = json!({ "metadata": { "name": "gpu-0", "labels": labels } });
        Change::Node(Event::Apply(serde_json::from_value(node).unwrap()))
    };
    let sliced = json!({ "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4" });
    observed.take(node(sliced));
    let (sharing, pods) = (GpuSharing::TimeSlicing, Some(4));
    assert_eq!(shared(&mut observed), [SharedGpu { node: "gpu-0".into(), sharing, pods }]);
    observed.take(node(json!({ "nvidia.com/gpu.sharing-strategy": "none" })));
    assert_eq!(shared(&mut observed), []);
}

#[test]
fn pods_that_cannot_be_created_are_reported_with_advice() {
    let mut refused = deployment(1);
    refused.status = serde_json::from_value(json!({ "conditions": [{
        "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
        "message": r#"pods "a" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1"#,
    }] }))
    .unwrap();
    let mut observed = observed();
    observed.take(Change::Deployment(Event::Apply(refused)));
    let serving = first(&mut observed);
    assert_eq!(serving.failure, None, "one is ready");
    let unplaced = serving.unplaced.clone().unwrap();
    assert!(unplaced.message.contains("raise the quota"));
    observed.take(Change::Pod(Event::Delete(pod("a"))));
    let failure = first(&mut observed).failure.clone().unwrap();
    assert!(failure.message.starts_with("its pods cannot be made: "));
    assert!(failure.message.contains("exceeded quota"), "{}", failure.message);
    assert!(failure.message.contains("raise the quota"), "{}", failure.message);
}

#[test]
fn a_silent_node_is_reported_beside_a_replica_that_serves() {
    let mut silent = pod("b");
    silent.spec.as_mut().unwrap().node_name = Some("gpu-1".to_owned());
    silent.status = serde_json::from_value(json!({
        "podIP": "10.0.0.8",
        "conditions": [
            { "type": "Ready", "status": "False" }, { "type": "ContainersReady", "status": "True" },
        ],
    }))
    .unwrap();
    let mut observed = observed();
    observed.take(Change::Pod(Event::Apply(silent)));
    let serving = first(&mut observed);
    assert_eq!(serving.failure, None, "one is ready");
    let unplaced = serving.unplaced.clone().unwrap();
    assert_eq!(unplaced.reason, FailureReason::NodeNotReady);
    assert!(unplaced.message.starts_with("its node gpu-1 does not answer"));
    observed.take(Change::Pod(Event::Delete(pod("a"))));
    assert_eq!(first(&mut observed).failure, Some(unplaced));
}

#[test]
fn a_replica_that_stays_unready_after_it_was_ready_fails_its_revision_until_it_is_ready() {
    let mut unready = pod("a");
    unready.status = serde_json::from_value(json!({
        "podIP": "10.0.0.7",
        "conditions": [
            { "type": "PodScheduled", "status": "True" },
            { "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z" },
        ],
        "containerStatuses": [{
            "name": "kserve-container", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:10Z" } },
        }],
    }))
    .unwrap();
    let mut observed = observed();
    // A controller that starts only now still concludes that the pod was ready.
    observed.take(Change::Pod(Event::Delete(pod("a"))));
    observed.take(Change::Pod(Event::Apply(unready)));
    observed.take(Change::Clock(1_767_225_689));
    let waits = first(&mut observed);
    assert_eq!((waits.replicas[0].phase, &waits.failure), (Phase::Unready, &None));
    observed.take(Change::Clock(1_767_225_690));
    assert_eq!(first(&mut observed).failure.as_ref().unwrap().reason, FailureReason::NotReady);
    observed.take(Change::Pod(Event::Apply(pod("a"))));
    assert_eq!(first(&mut observed).failure, None);
}

#[test]
fn an_ended_pod_does_not_fail_a_revision_whose_next_pod_starts() {
    let mut evicted = pod("a");
    evicted.status = serde_json::from_value(json!({
        "phase": "Failed", "reason": "Evicted", "message": "the node was low on memory",
    }))
    .unwrap();
    let starting = |name: &str| {
        let mut starting = pod(name);
        starting.status = serde_json::from_value(json!({ "phase": "Pending" })).unwrap();
        Change::Pod(Event::Apply(starting))
    };
    let mut observed = observed();
    first(&mut observed);
    observed.take(Change::Pod(Event::Apply(evicted)));
    let failure = first(&mut observed).failure.clone().unwrap();
    assert!(failure.message.contains("low on memory"), "{failure:?}");
    observed.take(starting("b"));
    assert_eq!(first(&mut observed).failure, Some(failure), "it may end too");
    observed.take(Change::Pod(Event::Apply(pod("b"))));
    assert_eq!(first(&mut observed).failure, None, "it serves");
    observed.take(Change::Pod(Event::Delete(pod("b"))));
    observed.take(starting("c"));
    assert_eq!(first(&mut observed).failure, None, "that was another");
}

#[test]
fn a_pod_that_its_node_does_not_set_up_is_reported_once_it_is_late() {
    let mut late = deployment(1);
    late.status = serde_json::from_value(json!({ "conditions": [{
        "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded",
    }] }))
    .unwrap();
    let waits = |address: Option<&str>| {
        let mut waits = pod("a");
        waits.status = serde_json::from_value(json!({
            "podIP": address, "conditions": [{ "type": "PodScheduled", "status": "True" }],
        }))
        .unwrap();
        waits
    };
    let mut observed = observed();
    observed.take(Change::Pod(Event::Apply(waits(None))));
    assert_eq!(first(&mut observed).failure, None, "it may take a while");
    observed.take(Change::Deployment(Event::Apply(late)));
    let failure = first(&mut observed).failure.clone().unwrap();
    assert!(failure.message.contains("`kubectl describe pod a`"), "{}", failure.message);
    observed.take(Change::Pod(Event::Apply(waits(Some("10.0.0.7")))));
    assert_eq!(first(&mut observed).failure, None, "it is set up");
}

/// Returns an autoscaler that is not Weir's, with this target.
fn autoscaler(kind: &str, version: &str, name: &str) -> HorizontalPodAutoscaler {
    let target = json!({ "apiVersion": version, "kind": kind, "name": name });
    serde_json::from_value(json!({
        "metadata": { "name": "mine", "namespace": "vision" },
        "spec": { "scaleTargetRef": target, "maxReplicas": 5 },
    }))
    .unwrap()
}

/// Returns the state of a cluster whose revision may run 2 to 9 replicas.
fn bounded() -> Observed {
    let mut observed = observed();
    let mut scaled = workload();
    scaled.scaling = Some(Arc::new(ScalingPolicy { min: 2, max: Some(9), ..ScalingPolicy::default() }));
    let pod = objects().deployment.spec.unwrap().template;
    let objects = RevisionObjects::of(&scaled, pod, None).unwrap();
    observed.take(Change::Service(Event::Apply(objects.service)));
    observed
}

/// Returns the bounds that are left to Weir's autoscaler, if any, and the name of the other autoscaler.
fn left(observed: &mut Observed) -> (Option<(u32, u32)>, Option<String>) {
    let seen = snapshot(observed);
    let revision = seen.revision(&workload().revision).unwrap();
    let bounds = |policy: &Arc<ScalingPolicy>| (policy.bound(0), policy.most());
    let other = revision.scaled_by.as_ref();
    (revision.scaling.as_ref().map(bounds), other.map(|other| other.name.to_string()))
}

#[test]
fn a_revision_is_left_to_another_autoscaler_until_that_is_gone() {
    let mut observed = bounded();
    let own = (Some((2, 9)), None);
    assert_eq!(left(&mut observed), own);
    let mine = Some("HorizontalPodAutoscaler mine".to_owned());
    let of_pods = autoscaler("Deployment", "apps/v1", "digits-predictor-00001");
    observed.take(Change::Autoscaler(Event::Apply(of_pods)));
    assert_eq!(left(&mut observed), (None, mine.clone()));
    let of_service = autoscaler("InferenceService", "serving.kserve.io/v1beta1", "digits");
    observed.take(Change::Autoscaler(Event::Apply(of_service.clone())));
    assert_eq!(left(&mut observed), (Some((2, 2)), mine));
    observed.take(Change::Autoscaler(Event::Delete(of_service)));
    assert_eq!(left(&mut observed), own);
}

#[test]
fn the_first_snapshot_waits_for_autoscalers_unless_they_cannot_be_watched() {
    let mut observed = bounded();
    observed.lacks_autoscalers = false;
    assert_eq!(observed.snapshot(), None);
    for event in list(Vec::new()) {
        observed.take(Change::Autoscaler(event));
    }
    assert_eq!(left(&mut observed), (Some((2, 9)), None));
}

#[test]
fn a_deleted_revision_is_not_scaled_while_its_last_pod_ends() {
    let bounds = |observed: &mut Observed| left(observed).0;
    let mut observed = bounded();
    assert_eq!(bounds(&mut observed), Some((2, 9)));
    observed.take(Change::Deployment(Event::Delete(deployment(1))));
    assert_eq!(bounds(&mut observed), None);
    observed.take(Change::Deployment(Event::Apply(deployment(1))));
    assert_eq!(bounds(&mut observed), Some((2, 9)));
    observed.take(Change::Service(Event::Delete(headless())));
    assert_eq!(bounds(&mut observed), None);
    observed.take(Change::Pod(Event::Delete(pod("a"))));
    assert_eq!(snapshot(&mut observed).revisions.len(), 0);
}

#[test]
fn a_gateway_sees_the_failures_that_the_controller_reports() {
    let mut observed = seen_by_gateway(Some(sleepy()), vec![endpoints("s", &[("a", false)])]);
    assert_eq!(first(&mut observed).outlook(), Outlook::Starts);
    let exit = Failure { exit_code: Some(137), ..Failure::new(FailureReason::OutOfMemory, "it used too much") };
    let cause = Failure::new(FailureReason::NotStarted, "the image cannot be pulled");
    let report = FailureReport {
        revision: workload().revision,
        outlook: Outlook::Fails,
        failure: Some(cause.clone()),
        exits: vec![("a".into(), exit.clone())],
    };
    let text = WrittenFailures::of(&report).text().unwrap().unwrap();
    let service = |text: Option<&str>| {
        let mut service = RevisionObjects::of(&workload(), PodTemplateSpec::default(), None).unwrap().service;
        let annotations = service.metadata.annotations.as_mut().unwrap();
        annotations.extend(text.map(|text| (FAILURES.to_owned(), text.to_owned())));
        service
    };
    observed.take(Change::Service(Event::Apply(service(Some(&text)))));
    let failing = first(&mut observed);
    assert_eq!((failing.outlook(), failing.failure.clone()), (Outlook::Fails, Some(cause)));
    assert_eq!(failing.replicas[0].last_exit, Some(exit.clone()));
    // A ready replica clears the failure and keeps the last exit.
    observed.take(Change::Endpoints(Event::Apply(endpoints("s", &[("a", true)]))));
    let ready = first(&mut observed);
    assert_eq!((ready.failure.clone(), ready.last_exit()), (None, Some(&exit)));
    // Invalid text, which an editor of the namespace may write, is ignored.
    for other in [None, Some("{")] {
        observed.take(Change::Service(Event::Apply(service(other))));
        let mended = first(&mut observed);
        assert_eq!((mended.outlook(), mended.last_exit()), (Outlook::Starts, None), "{other:?}");
    }
}

/// Returns a pod whose init container fetches the model in this state.
fn fetching(state: serde_json::Value) -> Pod {
    let mut pod = pod("b");
    let container =
        json!({ "name": "storage-initializer", "env": [{ "name": "WEIR_PROGRESS_PORT", "value": "9095" }] });
    pod.spec.as_mut().unwrap().init_containers = Some(vec![serde_json::from_value(container).unwrap()]);
    pod.status = serde_json::from_value(json!({
        "podIP": "10.0.0.8",
        "initContainerStatuses": [{
            "name": "storage-initializer", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state,
        }],
    }))
    .unwrap();
    pod
}

#[test]
fn a_replica_shows_the_progress_that_its_pod_reports_until_it_has_fetched() {
    let mut observed = observed();
    let download = |observed: &mut Observed| {
        let seen = snapshot(observed);
        let replicas = seen.revision(&workload().revision).unwrap().replicas.clone();
        replicas.into_iter().find(|replica| &*replica.name == "b").unwrap().download
    };
    let key = || ("vision".to_owned(), "b".to_owned());
    observed.take(Change::Pod(Event::Apply(fetching(json!({ "running": {} })))));
    assert_eq!(observed.notes.fetching.lock()[&key()].address, "10.0.0.8:9095".parse().unwrap());
    assert_eq!(download(&mut observed), None);
    let unknown = ("vision".to_owned(), "c".to_owned());
    let reported = [(key(), "fetching 1 of 2 B".into()), (unknown, "hostile".into())];
    observed.take(Change::Downloads(reported.into()));
    assert_eq!(download(&mut observed).as_deref(), Some("fetching 1 of 2 B"));
    // An event of the pod leaves the progress, and so does a report that says the same.
    let generation = snapshot(&mut observed).generation;
    observed.take(Change::Pod(Event::Apply(fetching(json!({ "running": {} })))));
    observed.take(Change::Downloads([(key(), "fetching 1 of 2 B".into())].into()));
    assert_eq!(snapshot(&mut observed).generation, generation);
    observed.take(Change::Downloads(Default::default()));
    assert_eq!(download(&mut observed), None);
    observed.take(Change::Downloads([(key(), "fetching 2 of 2 B".into())].into()));
    observed.take(Change::Pod(Event::Apply(fetching(json!({ "terminated": { "exitCode": 0 } })))));
    assert_eq!(download(&mut observed), None);
    assert!(observed.notes.fetching.lock().is_empty());
    observed.take(Change::Pod(Event::Apply(fetching(json!({ "running": {} })))));
    observed.take(Change::Pod(Event::Delete(fetching(json!({ "running": {} })))));
    assert!(observed.notes.fetching.lock().is_empty());
}
