//! State that the watches have shown, as a value, and the snapshot that follows from it. Pure.

mod downloads;
mod facts;
mod revision;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use weir_cluster::{Domains, Gateway, Replica, RevisionName, Revisions, Routes, SharedGpu, Snapshot};

use self::facts::{Scaled, Written, scaled, warn_of_refused, written};
use crate::objects::revision_of;
use crate::options::WatchScope;
use crate::view::drift::ManagedObject;
use crate::view::endpoints::{self, Replicas};
use crate::view::generation;
use crate::view::gpu_sharing::{GpuNode, GpuUse};
use crate::view::notes::{Downloads, Notes};
use crate::view::other_autoscalers::{self, AutoscalerTarget, Targeted};
use crate::view::placements::Placement;
use crate::view::replica::Overdue;
use crate::watch::watch_cache::{Edit, Key, WatchCache, key};
use crate::{Options, view::gateways, view::replica};

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

/// Facts about a pod, from its metadata and status.
#[derive(Clone, Debug)]
struct WatchedPod {
    revision: RevisionName,
    replica: Replica,
    placement: Option<Placement>,
    gpus: Option<GpuUse>,
    /// Failure that the pod has once enough time has passed.
    overdue: Option<Overdue>,
    /// Address at which the pod reports the download of its model, while it fetches.
    progress_address: Option<SocketAddr>,
}

/// Changes that the last snapshot does not show yet.
#[derive(Debug, Default)]
struct Unpublished {
    revisions: BTreeSet<RevisionName>,
    has_routes: bool,
    has_gateways: bool,
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
            let overdue = Overdue::of(object);
            Some(WatchedPod {
                revision: revision_of(object)?,
                placement: Placement::of(object, &replica),
                gpus: GpuUse::of(object),
                replica: match &overdue {
                    Some(overdue) => overdue.with_failure(replica, now),
                    None => replica,
                },
                overdue,
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

    /// Adds the failures that begin with time alone to their pods: no event reports them.
    fn take_clock(&mut self, now: u64) {
        self.now = now;
        for pod in self.pods.values() {
            let Some(overdue) = &pod.overdue else { continue };
            let replica = overdue.with_failure(pod.replica.clone(), now);
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
                tracing::warn!(service, %error, "cannot read the annotations of a Service; their last valid state stays in use");
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

    /// Builds the routes again. Equal routes get the later generation too: the controller waits for the generation of
    /// the object that it wrote.
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
}

/// Returns the key of a revision's Service and Deployment.
fn key_of(revision: &RevisionName) -> Key {
    let namespace = revision.service().namespace();
    (namespace.to_owned(), revision.as_str().to_owned())
}

/// Returns the resource version of the Service that an event is about.
fn version(event: &Event<Service>) -> u64 {
    let object = match event {
        Event::Apply(object) | Event::Delete(object) | Event::InitApply(object) => object,
        Event::Init | Event::InitDone => return 0,
    };
    generation(object)
}
