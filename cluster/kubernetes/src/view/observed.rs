//! State that the watches have shown, as a value, and the snapshot that follows from it. Pure.

mod downloads;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use weir_cluster::{
    Domains, Endpoints, Failure, FailureReason, Gateway, Host, Identity, Phase, Replica, Revision, RevisionName,
    Revisions, Route, Routes, SharedGpu, Snapshot,
};

use crate::objects::{FAILURES, ROUTE, WORKLOAD, created, gpus, named_revision_of, revision_of, service_of};
use crate::view::drift::{Drift, ManagedObject};
use crate::view::endpoints::{self, Replicas};
use crate::view::fetching_pods::{Downloads, FetchingPods};
use crate::view::generation::generation;
use crate::view::gpu_sharing::{GpuNode, GpuUse};
use crate::view::other_autoscalers::{self, AutoscalerTarget, Targeted};
use crate::view::placements::{Placement, Placements};
use crate::view::replica::Unseen;
use crate::view::reported_failures::ReportedFailures;
use crate::watch::watch_cache::{Edit, Key, WatchCache, key};
use crate::watch::watch_scope::WatchScope;
use crate::written::{WrittenFailures, WrittenRevision, WrittenRoute};
use crate::{Options, error, view::gateways, view::replica};

/// Refused hosts that one log line names at most.
const LISTED: usize = 5;

/// Event of one of the watches, or another change of the state.
#[derive(Debug)]
pub(crate) enum Change {
    /// Event of a revision's Deployment.
    Deployment(Event<Deployment>),
    /// Event of a revision's or a service's Service.
    Service(Event<Service>),
    /// Event of a replica's Pod.
    Pod(Event<Pod>),
    /// Event of the gateways' EndpointSlices.
    Gateways(Event<EndpointSlice>),
    /// Event of a revision's EndpointSlices.
    Endpoints(Event<EndpointSlice>),
    /// Event of a HorizontalPodAutoscaler, which may scale a service of Weir.
    Autoscaler(Event<HorizontalPodAutoscaler>),
    /// Event of a node with NVIDIA GPUs, of which only the metadata is known.
    Node(Event<PartialObjectMeta<Node>>),
    /// HorizontalPodAutoscalers cannot be watched, so none is assumed to exist.
    NoAutoscalers,
    /// Objects were written, so the set of drifted services may have changed.
    Wrote,
    /// Tick of the clock: the time in seconds since 1970.
    Clock(u64),
    /// New number of a revision's replicas, as the API server answered a scale request.
    Scaled(NotedReplicas),
    /// Progress that the pods which fetch their models have reported.
    Downloads(Downloads),
}

/// Number of replicas that the API server has stored. The watches of a busy API server show it seconds later.
#[derive(Clone, Debug)]
pub(crate) struct NotedReplicas {
    /// Revision that was scaled.
    pub(crate) revision: RevisionName,
    /// Desired replicas of the revision.
    pub(crate) replicas: u32,
    /// Resource version of the Deployment with this number.
    pub(crate) version: u64,
}

/// State of the cluster as the watches have shown it.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    deployments: WatchCache<Scaled>,
    services: WatchCache<Written>,
    pods: WatchCache<WatchedPod>,
    /// Time at the last [`Change::Clock`], in seconds since 1970.
    now: u64,
    slices: WatchCache<Vec<Gateway>>,
    endpoints: WatchCache<(RevisionName, Key, Vec<Replica>)>,
    autoscalers: WatchCache<Targeted>,
    /// Nodes with shared GPUs; none if nodes are not watched.
    gpu_nodes: WatchCache<GpuNode>,
    /// GPUs of the pods of each revision, by pod.
    gpu_uses: BTreeMap<RevisionName, BTreeMap<Arc<str>, GpuUse>>,
    /// True if HorizontalPodAutoscalers cannot be watched, so the first snapshot does not wait for them.
    lacks_autoscalers: bool,
    /// Replicas of each revision by name, from `pods` or from `endpoints`.
    replicas: BTreeMap<RevisionName, Replicas>,
    /// Replicas of `endpoints` by slice. A replica may be in two slices while it moves, or one per address family.
    in_slices: BTreeMap<RevisionName, BTreeMap<Key, Vec<Replica>>>,
    scope: WatchScope,
    domains: Domains,
    /// Generation of routes: the newest resource version of any Service of Weir.
    newest: u64,
    notes: Notes,
    unpublished: Unpublished,
    last: Snapshot,
}

/// Observations of the watches that the code which writes objects needs.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Newest known versions of the services' objects.
    pub(crate) drift: Arc<Mutex<Drift>>,
    /// Placements of replicas, which decide the order of their deletion.
    pub(crate) placements: Arc<Mutex<Placements>>,
    /// Failure annotations of the revisions' Services, which gateways read.
    pub(crate) reported: Arc<Mutex<ReportedFailures>>,
    /// Pods that fetch their models.
    pub(crate) fetching: Arc<Mutex<FetchingPods>>,
}

/// Facts about a pod, from its metadata and status.
#[derive(Clone, Debug)]
struct WatchedPod {
    revision: RevisionName,
    replica: Replica,
    placement: Option<Placement>,
    gpus: Option<GpuUse>,
    /// Set while no scheduler has looked at the pod.
    unseen: Option<Unseen>,
    /// Address at which the pod reports the download of its model, while it fetches.
    progress_address: Option<SocketAddr>,
}

/// Facts about a revision from its Deployment.
#[derive(Clone, Debug)]
struct Scaled {
    revision: RevisionName,
    replicas: u32,
    /// Resource version of the Deployment that last stated the number.
    version: u64,
    /// GPUs of each pod.
    gpus: u32,
    /// Reason why the Deployment cannot create pods; None if it can.
    failure: Option<Failure>,
    /// True if no further pod became available within the Deployment's progress deadline: Kubernetes' default, ten
    /// minutes.
    is_late: bool,
}

/// Changes that the last snapshot does not show yet.
#[derive(Debug, Default)]
struct Unpublished {
    revisions: BTreeSet<RevisionName>,
    has_routes: bool,
    has_gateways: bool,
}

/// Content of a Service's annotation.
#[derive(Clone, Debug, PartialEq)]
enum Written {
    Revision(RevisionName, Box<RevisionNotes>),
    Route(Arc<Route>),
}

/// Contents of the annotations of a revision's Service.
#[derive(Clone, Debug, PartialEq)]
struct RevisionNotes {
    workload: WrittenRevision,
    failures: WrittenFailures,
}

impl Observed {
    /// Creates an empty observation. The generation of its routes is at least `generation`.
    pub(crate) fn new(options: &Options, generation: u64, notes: Notes) -> Self {
        Self {
            scope: options.scope,
            domains: options.domains(),
            notes,
            newest: generation,
            unpublished: Unpublished { has_routes: true, ..Unpublished::default() },
            ..Self::default()
        }
    }

    /// Returns the present state, or None until everything that existed at the start is known. The generation grows
    /// with each change.
    pub(crate) fn snapshot(&mut self) -> Option<&Snapshot> {
        if !self.is_complete() {
            return None;
        }
        let mut next = self.last.clone();
        let unpublished = std::mem::take(&mut self.unpublished);
        let is_changed = [
            self.refresh(&mut next, unpublished.revisions),
            unpublished.has_routes && self.reroute(&mut next),
            unpublished.has_gateways && self.regroup(&mut next),
            self.compare(&mut next),
        ];
        if is_changed.contains(&true) || next.generation == 0 {
            next.generation += 1;
            self.last = next;
        }
        Some(&self.last)
    }

    fn is_complete(&self) -> bool {
        let of_replicas = match self.scope {
            WatchScope::Gateway => self.endpoints.is_complete(),
            WatchScope::Control => {
                let has_autoscalers = self.autoscalers.is_complete() || self.lacks_autoscalers;
                self.deployments.is_complete() && self.pods.is_complete() && has_autoscalers
            }
        };
        of_replicas && self.services.is_complete() && self.slices.is_complete()
    }

    /// Applies an event to the state.
    pub(crate) fn take(&mut self, change: Change) {
        match change {
            Change::Deployment(event) => self.take_deployment(event),
            Change::Service(event) => self.take_service(event),
            Change::Pod(event) => self.take_pod(event),
            Change::Gateways(event) => self.take_slice(event),
            Change::Endpoints(event) => self.take_endpoints(event),
            Change::Autoscaler(event) => self.take_autoscaler(event),
            Change::Node(event) => self.take_node(event),
            Change::NoAutoscalers => self.lacks_autoscalers = true,
            Change::Wrote => {}
            Change::Clock(now) => self.take_clock(now),
            Change::Scaled(noted) => self.take_noted(noted),
            Change::Downloads(downloads) => self.take_downloads(&downloads),
        }
    }

    fn take_deployment(&mut self, event: Event<Deployment>) {
        self.see(&event);
        let edits = self.deployments.take(event, scaled);
        let names = edits.iter().flat_map(Edit::values);
        let names = names.map(|scaled| scaled.revision.clone());
        self.unpublished.revisions.extend(names);
    }

    /// Applies a stored number of replicas, unless a watch has shown a later one.
    fn take_noted(&mut self, noted: NotedReplicas) {
        let Some(scaled) = self.deployments.get_mut(&key_of(&noted.revision)) else {
            return;
        };
        if scaled.version < noted.version {
            scaled.replicas = noted.replicas;
            scaled.version = noted.version;
            self.unpublished.revisions.insert(noted.revision);
        }
    }

    /// Records an object for drift detection, because another client may have changed it. A gateway applies no objects,
    /// so it has nothing to compare with.
    fn see<K: ManagedObject>(&self, event: &Event<K>) {
        if self.scope == WatchScope::Gateway {
            return;
        }
        match event {
            Event::Apply(object) | Event::InitApply(object) => self.notes.drift.lock().see(object),
            Event::Delete(object) => self.notes.drift.lock().miss(object),
            Event::Init | Event::InitDone => {}
        }
    }

    fn take_pod(&mut self, event: Event<Pod>) {
        let now = self.now;
        let edits = self.pods.take(event, |object, before| {
            let before = before.map(|before| &before.replica);
            let replica = replica::replica(object, before);
            let unseen = Unseen::of(object);
            Some(WatchedPod {
                revision: revision_of(object)?,
                placement: Placement::of(object, &replica),
                gpus: GpuUse::of(object),
                replica: match &unseen {
                    Some(unseen) => unseen.with_failure(replica, now),
                    None => replica,
                },
                unseen,
                progress_address: replica::progress_address(object),
            })
        });
        edits.iter().for_each(|edit| self.note_fetching(edit));
        for edit in &edits {
            self.note_gpus_of(edit);
        }
        let mut placements = self.notes.placements.lock();
        for Edit { before, after } in edits {
            if let Some(WatchedPod { revision, replica, .. }) = before {
                placements.set(&revision, &replica.name, None);
                let replicas = self.replicas.entry(revision.clone()).or_default();
                replicas.remove(&replica.name);
                self.unpublished.revisions.insert(revision);
            }
            if let Some(pod) = after {
                placements.set(&pod.revision, &pod.replica.name, pod.placement);
                let replicas = self.replicas.entry(pod.revision.clone()).or_default();
                replicas.insert(pod.replica);
                self.unpublished.revisions.insert(pod.revision);
            }
        }
    }

    /// Adds a failure to pods that no scheduler has looked at for too long: no event reports that.
    fn take_clock(&mut self, now: u64) {
        self.now = now;
        for pod in self.pods.values() {
            let Some(unseen) = &pod.unseen else { continue };
            let replica = unseen.with_failure(pod.replica.clone(), now);
            if replica.failure.is_some() {
                let replicas = self.replicas.entry(pod.revision.clone()).or_default();
                replicas.insert(replica);
                self.unpublished.revisions.insert(pod.revision.clone());
            }
        }
    }

    fn take_endpoints(&mut self, event: Event<EndpointSlice>) {
        let known = std::mem::take(&mut self.replicas);
        let none = Replicas::default();
        let edits = self.endpoints.take(event, |slice, _| {
            let name = endpoints::revision(slice)?;
            let before = known.get(&name).unwrap_or(&none);
            let replicas = endpoints::replicas(slice, before);
            Some((name, key(slice), replicas))
        });
        self.replicas = known;
        for Edit { before, after } in edits {
            if let Some((name, key, _)) = before {
                self.in_slices.entry(name.clone()).or_default().remove(&key);
                self.gather(name);
            }
            if let Some((name, key, replicas)) = after {
                let slices = self.in_slices.entry(name.clone()).or_default();
                slices.insert(key, replicas);
                self.gather(name);
            }
        }
    }

    /// Collects a revision's replicas from its slices. If a replica is in several, one with an IPv4 address wins.
    fn gather(&mut self, name: RevisionName) {
        let slices = self.in_slices.get(&name).into_iter().flatten();
        let all = slices.flat_map(|(_, replicas)| replicas.iter().cloned());
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(endpoints::has_ipv4);
        let replicas = all.into_iter().collect();
        self.replicas.insert(name.clone(), replicas);
        self.unpublished.revisions.insert(name);
    }

    /// Refreshes the revisions of an autoscaler that was added, removed or retargeted, because it changes what Weir
    /// scales. Changes of its status are ignored.
    fn take_autoscaler(&mut self, event: Event<HorizontalPodAutoscaler>) {
        let edits = self.autoscalers.take(event, |object, _| other_autoscalers::targeted(object));
        let edits = edits.iter().filter(|edit| edit.before != edit.after);
        for targeted in edits.flat_map(Edit::values) {
            match &targeted.target {
                AutoscalerTarget::Revision(name) => {
                    self.unpublished.revisions.extend([name.clone()]);
                }
                // Revisions that no snapshot has shown yet are in `unpublished` already.
                AutoscalerTarget::Service(service) => {
                    let known = self.last.revisions_of(service);
                    let names = known.map(|revision| revision.name.clone());
                    self.unpublished.revisions.extend(names);
                }
            }
        }
    }

    /// Refreshes the revisions with GPUs on a node after a change of its labels.
    fn take_node(&mut self, event: Event<PartialObjectMeta<Node>>) {
        let edits = self.gpu_nodes.take(event, |node, _| GpuNode::of(node));
        let edits = edits.iter().filter(|edit| edit.before != edit.after);
        let nodes: BTreeSet<_> = edits.flat_map(Edit::values).map(|node| node.name.as_str()).collect();
        let users = self.gpu_uses.iter().filter(|(_, uses)| uses.values().any(|gpu| nodes.contains(&*gpu.node)));
        self.unpublished.revisions.extend(users.map(|(revision, _)| revision.clone()));
    }

    /// Returns the GPUs that a revision's pods share with other pods.
    fn shared_gpus(&self, revision: &RevisionName) -> BTreeSet<SharedGpu> {
        let uses = self.gpu_uses.get(revision).into_iter().flat_map(BTreeMap::values);
        uses.filter_map(|gpu| gpu.shared(self.gpu_nodes.get(&(String::new(), gpu.node.to_string())))).collect()
    }

    fn note_gpus_of(&mut self, edit: &Edit<WatchedPod>) {
        if let Some(pod) = &edit.before {
            self.note_gpus(&pod.revision, &pod.replica.name, None);
        }
        if let Some(pod) = &edit.after {
            self.note_gpus(&pod.revision, &pod.replica.name, pod.gpus.clone());
        }
    }

    /// Records the GPUs of a pod; `None` if the pod has none or is gone.
    fn note_gpus(&mut self, revision: &RevisionName, pod: &Arc<str>, gpus: Option<GpuUse>) {
        match gpus {
            Some(gpus) => {
                self.gpu_uses.entry(revision.clone()).or_default().insert(pod.clone(), gpus);
            }
            None => {
                let Some(uses) = self.gpu_uses.get_mut(revision) else {
                    return;
                };
                uses.remove(pod);
                if uses.is_empty() {
                    self.gpu_uses.remove(revision);
                }
            }
        }
    }

    fn take_slice(&mut self, event: Event<EndpointSlice>) {
        let edits = self.slices.take(event, |slice, _| Some(gateways::gateways(slice)));
        self.unpublished.has_gateways |= !edits.is_empty();
    }

    fn take_service(&mut self, event: Event<Service>) {
        self.see(&event);
        self.newest = self.newest.max(version(&event));
        let edits = self.services.take(event, |object, before| {
            written(object, &self.domains).unwrap_or_else(|error| {
                let service = object.name_any();
                tracing::warn!(service, %error, "cannot be read: its last good state stays");
                before.cloned()
            })
        });
        edits.iter().for_each(warn_of_refused);
        edits.iter().for_each(|edit| self.note_reported(edit));
        for written in edits.iter().flat_map(Edit::values) {
            match written {
                Written::Revision(name, _) => self.unpublished.revisions.extend([name.clone()]),
                Written::Route(_) => self.unpublished.has_routes = true,
            }
        }
    }

    /// Records the failure annotation of a revision's Service after a change of the Service.
    fn note_reported(&self, edit: &Edit<Written>) {
        let failures = |written: &Option<Written>| match written {
            Some(Written::Revision(name, notes)) => Some((name.clone(), notes.failures.clone())),
            Some(Written::Route(_)) | None => None,
        };
        let mut reported = self.notes.reported.lock();
        if let Some((name, _)) = failures(&edit.before) {
            reported.set(&name, None);
        }
        if let Some((name, failures)) = failures(&edit.after) {
            let text = failures.text().ok().flatten();
            reported.set(&name, text.as_deref());
        }
    }

    /// Builds the routes again. Equal routes get the later generation too: the controller waits for the generation of the
    /// object that it wrote.
    fn reroute(&self, next: &mut Snapshot) -> bool {
        let routes = self.services.values().filter_map(Written::route);
        let routes = Arc::new(Routes::new(self.newest, routes.cloned().collect()));
        std::mem::replace(&mut next.routes, routes) != next.routes
    }

    fn regroup(&self, next: &mut Snapshot) -> bool {
        let mut all: Vec<_> = self.slices.values().flatten().collect();
        // Gateways are deduplicated like replicas: the last of a name wins, and IPv4 sorts last.
        all.sort_by_key(|gateway| endpoints::is_ipv4(&gateway.serving));
        let named = all.into_iter().map(|gateway| (&gateway.name, gateway));
        let by_name: BTreeMap<_, _> = named.collect();
        let gateways = by_name.into_values().cloned().collect();
        std::mem::replace(&mut next.gateways, gateways) != next.gateways
    }

    fn compare(&self, next: &mut Snapshot) -> bool {
        let drift = self.notes.drift.lock();
        let is_other = *drift.services() != *next.drifted;
        if is_other {
            next.drifted = Arc::new(drift.services().clone());
        }
        is_other
    }

    fn refresh(&mut self, next: &mut Snapshot, names: BTreeSet<RevisionName>) -> bool {
        let mut edited: Option<Revisions> = None;
        for name in names {
            let before = next.revisions.get(&name);
            let after = self.revision(&name, before.map(AsRef::as_ref));
            if before.map(AsRef::as_ref) == after.as_ref() {
                continue;
            }
            let revisions = edited.get_or_insert_with(|| (*next.revisions).clone());
            match after {
                Some(revision) => revisions.insert(name, Arc::new(revision)),
                None => revisions.remove(&name),
            };
        }
        let is_changed = edited.is_some();
        if let Some(revisions) = edited {
            next.revisions = Arc::new(revisions);
        }
        self.replicas.retain(|_, replicas| !replicas.is_empty());
        self.in_slices.retain(|_, slices| !slices.is_empty());
        is_changed
    }

    /// Returns a revision as its objects show it. A revision without a Service is ending, and stays until its last pod
    /// is gone.
    fn revision(&self, name: &RevisionName, before: Option<&Revision>) -> Option<Revision> {
        let key = key_of(name);
        let replicas = self.replicas.get(name);
        let replicas = replicas.map(Replicas::to_vec).unwrap_or_default();
        let Some(Written::Revision(_, notes)) = self.services.get(&key) else {
            let ends = before.filter(|_| !replicas.is_empty())?;
            return Some(Revision { desired: 0, scaling: None, scaled_by: None, replicas, ..ends.clone() });
        };
        let (written, failures) = (&notes.workload, &notes.failures);
        if self.scope == WatchScope::Gateway {
            return Some(self.revision_of_gateway(name, written, failures, replicas));
        }
        let scaled = self.deployments.get(&key);
        // While the Deployment is being created or deleted, there is nothing to scale.
        let scalable = scaled.map(|_| written);
        let other = other_autoscalers::of_revision(self.autoscalers.values(), name);
        let unmade = scaled.and_then(|scaled| scaled.failure.clone());
        let is_late = scaled.is_some_and(|scaled| scaled.is_late);
        let late = replicas.iter().find(|one| is_late && is_bare(one));
        Some(Revision {
            name: name.clone(),
            identity: Identity::from_label(&written.identity),
            desired: scaled.map_or(0, |scaled| scaled.replicas),
            concurrency: written.concurrency,
            scaling: scalable.and_then(|written| written.left_by(other)).map(Arc::new),
            scaled_by: other.cloned(),
            gpus: scaled.map_or(0, |scaled| scaled.gpus),
            ready_call: written.ready_call(),
            transport: written.transport(),
            ignored_fields: Vec::new(),
            reported_outlook: None,
            unplaced: unplaced(&replicas, unmade.as_ref()),
            shared_gpus: self.shared_gpus(name),
            failure: failure(&replicas, unmade.or(late.map(not_set_up)), before),
            replicas,
        })
    }

    /// Returns the revision as a gateway sees it. A gateway does not watch pods, so the failures are those that the
    /// controller reports.
    fn revision_of_gateway(
        &self,
        name: &RevisionName,
        written: &WrittenRevision,
        failures: &WrittenFailures,
        mut replicas: Vec<Replica>,
    ) -> Revision {
        for replica in &mut replicas {
            replica.last_exit = failures.exit(&replica.name);
        }
        let is_ready = replicas.iter().any(|replica| replica.phase == Phase::Ready);
        let other = other_autoscalers::of_revision(self.autoscalers.values(), name);
        Revision {
            name: name.clone(),
            identity: Identity::from_label(&written.identity),
            desired: least_desired(written, &replicas),
            concurrency: written.concurrency,
            scaling: written.left_by(other).map(Arc::new),
            scaled_by: other.cloned(),
            gpus: 0,
            ready_call: written.ready_call(),
            transport: written.transport(),
            ignored_fields: Vec::new(),
            failure: failures.failure().filter(|_| !is_ready),
            reported_outlook: Some(failures.outlook()),
            unplaced: None,
            shared_gpus: BTreeSet::new(),
            replicas,
        }
    }
}

/// Returns the least number of replicas that may be desired where that number is unknown: the replicas that exist, and
/// at least the policy's lower bound. Without a policy of Weir the number is at least one, because no request could
/// wake the revision.
fn least_desired(written: &WrittenRevision, replicas: &[Replica]) -> u32 {
    let counted = replicas.iter().filter(|r| r.phase.is_counted()).count();
    let least = written.scaling.as_ref().map_or(1, |s| s.policy().bound(0));
    least.max(u32::try_from(counted).unwrap_or(u32::MAX))
}

/// Returns the key of a revision's Service and Deployment.
fn key_of(revision: &RevisionName) -> Key {
    let namespace = revision.service().namespace();
    (namespace.to_owned(), revision.as_str().to_owned())
}

/// Returns the facts from a Deployment, but keeps a known number of replicas that is newer.
fn scaled(object: &Deployment, before: Option<&Scaled>) -> Option<Scaled> {
    let spec = object.spec.as_ref()?;
    let replicas = spec.replicas.unwrap_or(1);
    let seen = (generation(object), u32::try_from(replicas).unwrap_or_default());
    let known = before.map(|before| (before.version, before.replicas));
    let (version, replicas) = match known {
        Some(known) if known.0 > seen.0 => known,
        Some(_) | None => seen,
    };
    let status = object.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    let late = conditions.clone().find(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded"));
    let unmade = conditions.find(|c| c.type_ == "ReplicaFailure" && c.status == "True");
    Some(Scaled {
        revision: named_revision_of(object)?,
        replicas,
        version,
        gpus: gpus(&spec.template),
        failure: unmade.map(not_made),
        is_late: late.is_some(),
    })
}

/// Returns the failure of a Deployment whose pods the API server refuses to create.
fn not_made(condition: &DeploymentCondition) -> Failure {
    let message = condition.message.as_deref().unwrap_or_default();
    let sentence = format!("its pods cannot be made: {}", error::advice(message));
    let since = condition.last_transition_time.as_ref();
    Failure {
        at: since.and_then(|since| u64::try_from(since.0.as_second()).ok()),
        lacks: replica::room::lacking(message),
        ..Failure::new(FailureReason::NotStarted, sentence)
    }
}

/// Returns true if a replica has a node, but no address and no known cause of the delay. A pod without a node, and one
/// that pulls an image or fetches a model, has a known cause.
fn is_bare(replica: &Replica) -> bool {
    replica.phase == Phase::Pending && replica.failure.is_none() && replica.endpoints == Endpoints::default()
}

/// Reports a pod that its node has not set up. The exact cause is in the pod's Events, which Weir does not read.
fn not_set_up(replica: &Replica) -> Failure {
    let message = format!(
        "its node has not set it up in ten minutes: a Secret, a ConfigMap or a volume that it mounts may be missing, see \
         `kubectl describe pod {}`",
        replica.name
    );
    Failure::new(FailureReason::NotStarted, message)
}

/// Returns the latest cause of a revision not being ready; None once a replica is ready.
fn failure(replicas: &[Replica], unmade: Option<Failure>, before: Option<&Revision>) -> Option<Failure> {
    if replicas.iter().any(|replica| replica.phase == Phase::Ready) {
        return None;
    }
    let now = replicas
        .iter()
        .filter(|replica| replica.phase.is_counted() || has_just_ended(replica, before))
        .find_map(|replica| replica.failure.clone());
    let former = || before.and_then(|before| before.failure.clone());
    now.or(unmade).or_else(|| former().filter(replica::lasts))
}

/// Returns true if a replica has ended since the last snapshot. An evicted pod remains long after its replacement came
/// up, and must not count as a later failure.
fn has_just_ended(replica: &Replica, before: Option<&Revision>) -> bool {
    before.is_some_and(|before| {
        let mut former = before.replicas.iter();
        let former = former.find(|former| former.name == replica.name);
        former.is_none_or(|former| former.phase.is_counted())
    })
}

/// Returns why some desired replicas cannot start, whatever the others do.
fn unplaced(replicas: &[Replica], unmade: Option<&Failure>) -> Option<Failure> {
    let mut failures = replicas.iter().filter_map(|replica| {
        let failure = replica.failure.as_ref();
        failure.filter(|failure| has_no_place(replica.phase, failure.reason))
    });
    unmade.or(failures.next()).cloned()
}

fn has_no_place(phase: Phase, reason: FailureReason) -> bool {
    match reason {
        FailureReason::NotStarted => matches!(phase, Phase::Pending | Phase::BackOff),
        FailureReason::NodeNotReady => phase.is_counted(),
        FailureReason::StorageFailed
        | FailureReason::Exited
        | FailureReason::CrashLoopBackOff
        | FailureReason::OutOfMemory
        | FailureReason::Hung
        | FailureReason::NotReady => false,
    }
}

impl Written {
    fn route(&self) -> Option<&Arc<Route>> {
        match self {
            Self::Revision(..) => None,
            Self::Route(route) => Some(route),
        }
    }
}

/// Reads the annotations of a Service with Weir's label. Everyone who may edit Services in the namespace can write
/// them. Therefore the Service's own name determines the service or revision, the API server's timestamp determines the
/// age, and only hosts that follow from the name are accepted.
fn written(object: &Service, domains: &Domains) -> Result<Option<Written>, Box<dyn std::error::Error + Send + Sync>> {
    let annotations = object.annotations();
    if let (Some(name), Some(text)) = (named_revision_of(object), annotations.get(WORKLOAD)) {
        let workload = serde_json::from_str(text)?;
        // Failures are only shown to users, and anyone who may edit the Service may have changed them, so an invalid
        // annotation is ignored.
        let failures = annotations.get(FAILURES).and_then(|text| serde_json::from_str(text).ok());
        let notes = RevisionNotes { workload, failures: failures.unwrap_or_default() };
        return Ok(Some(Written::Revision(name, Box::new(notes))));
    }
    let (Some(service), Some(text)) = (service_of(object), annotations.get(ROUTE)) else {
        return Ok(None);
    };
    if service.full_name() != object.name_any() {
        let because = format!("the route of {service} is kept in the Service of that name alone");
        return Err(because.into());
    }
    let written: WrittenRoute = serde_json::from_str(text)?;
    let mut route = written.route(&service, created(object))?;
    domains.refuse_foreign_hosts(&mut route);
    Ok(Some(Written::Route(Arc::new(route))))
}

/// Logs once which hosts of a route do not belong to its service.
fn warn_of_refused(edit: &Edit<Written>) {
    let route = |written: &Option<Written>| written.as_ref().and_then(Written::route).cloned();
    let Some(after) = route(&edit.after).filter(|route| !route.refused_hosts.is_empty()) else {
        return;
    };
    let before = route(&edit.before);
    if before.is_none_or(|before| before.refused_hosts != after.refused_hosts) {
        let hosts: Vec<_> = after.refused_hosts.iter().take(LISTED).map(Host::to_string).collect();
        tracing::warn!(
            service = %after.service, count = after.refused_hosts.len(), hosts = hosts.join(", "),
            "the Service claims hosts that do not follow from its name: requests for them do not go there"
        );
    }
}

/// Returns the resource version of the Service that an event is about.
fn version(event: &Event<Service>) -> u64 {
    let object = match event {
        Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) => object,
        Event::Init | Event::InitDone => return 0,
    };
    generation(object)
}
