//! The task that owns the cluster's state: it handles requests and replica events, starts and stops replicas, and
//! publishes snapshots. It never waits for a replica.

mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use weir_cluster::{
    Applied, ClusterError, Desired, Gateway, Gateways, Ledger, Reports, Revision, RevisionName, Revisions, ServiceName,
    Snapshot,
};

use self::supervisor::Supervisor;
use crate::launch_spec::LaunchSpec;
use crate::log::Printer;
use crate::options::Options;
use crate::replica::Event;

/// Capacity of the event channel, and the number of requests and events that the actor handles before it publishes a
/// snapshot. A full channel makes the replicas' tasks wait.
const BATCH: usize = 64;

/// A request to the cluster, with the channel for its reply.
#[derive(Debug)]
pub(crate) enum Request {
    Apply(Box<Desired>, oneshot::Sender<Result<Applied, ClusterError>>),
    Forget(ServiceName, oneshot::Sender<Applied>),
    Scale(RevisionName, u32, oneshot::Sender<Result<(), ClusterError>>),
    /// Stops everything. `longest` gets the longest time that a replica may take, and `ended` a message once all have
    /// ended.
    Stop {
        longest: oneshot::Sender<Duration>,
        ended: oneshot::Sender<()>,
    },
}

/// Sends a reply. The actor calls it after publishing, so that the snapshot already shows the effect of the request.
type Reply = Box<dyn FnOnce() + Send>;

struct Actor {
    options: Options,
    ledger: Ledger,
    specs: BTreeMap<RevisionName, Arc<LaunchSpec>>,
    revisions: Revisions,
    /// Services with requests or events since the last publication.
    changed: BTreeSet<ServiceName>,
    supervisor: Supervisor,
    gateways: watch::Receiver<Arc<[Gateway]>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// Set while the cluster is stopping: channels for the replies, sent when every replica has ended.
    stopping: Option<Vec<oneshot::Sender<()>>>,
}

/// Starts the task. It ends, and its replicas with it, once every sender of requests is dropped.
pub(crate) fn spawn(
    options: Options,
    printer: Printer,
    requests: mpsc::Receiver<Request>,
    gateways: &Gateways,
) -> watch::Receiver<Arc<Snapshot>> {
    let (snapshots, receiver) = watch::channel(Arc::new(Snapshot::default()));
    let (sender, events) = mpsc::channel(BATCH);
    let actor = Actor {
        supervisor: Supervisor::new(options.logs(), printer, sender, gateways.watch()),
        options,
        ledger: Ledger::new(),
        specs: BTreeMap::new(),
        revisions: Revisions::new(),
        changed: BTreeSet::new(),
        gateways: gateways.members(),
        snapshots,
        stopping: None,
    };
    tokio::spawn(actor.run(requests, events));
    receiver
}

impl Actor {
    async fn run(mut self, mut requests: mpsc::Receiver<Request>, mut events: mpsc::Receiver<Event>) {
        loop {
            let mut replies: Vec<Reply> = Vec::new();
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => replies.push(self.handle(request)),
                    None => return,
                },
                Some(event) = events.recv() => self.handle_event(event),
                Ok(()) = self.gateways.changed() => {}
            }
            // Requests and events that arrived meanwhile are handled together and published in one snapshot.
            for _ in 0..BATCH {
                match (requests.try_recv(), events.try_recv()) {
                    (Err(_), Err(_)) => break,
                    (request, event) => {
                        replies.extend(request.ok().map(|request| self.handle(request)));
                        event.into_iter().for_each(|event| self.handle_event(event));
                    }
                }
            }
            let changed = std::mem::take(&mut self.changed);
            changed.iter().for_each(|service| self.reconcile(service));
            self.publish(&changed);
            replies.into_iter().for_each(|reply| reply());
            self.reply_stopped();
        }
    }

    /// Handles a request. Returns its reply.
    fn handle(&mut self, request: Request) -> Reply {
        match request {
            Request::Apply(desired, reply) => {
                let result = self.apply(*desired);
                Box::new(move || send(reply, result))
            }
            Request::Forget(service, reply) => {
                self.changed.insert(service.clone());
                let applied = self.ledger.forget(&service);
                Box::new(move || send(reply, applied))
            }
            Request::Scale(revision, replicas, reply) => {
                let result = self.scale(&revision, replicas);
                Box::new(move || send(reply, result))
            }
            Request::Stop { longest, ended } => {
                let time = self.longest_end();
                self.ledger = Ledger::new();
                let all = self.revisions.keys().map(RevisionName::service);
                self.changed.extend(all.cloned());
                self.stopping.get_or_insert_default().push(ended);
                Box::new(move || send(longest, time))
            }
        }
    }

    /// Returns the longest time that one of the replicas may take to end.
    fn longest_end(&self) -> Duration {
        let is_running = |name| self.revisions.get(name).is_some_and(|revision| !revision.replicas.is_empty());
        let specs = self.specs.iter().filter(|(name, _)| is_running(*name));
        specs.map(|(_, spec)| spec.pre_stop_delay.saturating_add(spec.grace)).max().unwrap_or_default()
    }

    fn apply(&mut self, desired: Desired) -> Result<Applied, ClusterError> {
        if self.stopping.is_some() {
            return Err(unavailable("the cluster is shutting down".to_owned()));
        }
        let mut specs = Vec::new();
        for workload in desired.workloads() {
            let spec = LaunchSpec::of(workload, &self.options)?;
            specs.push((workload.revision.clone(), Arc::new(spec)));
        }
        self.changed.insert(desired.service().clone());
        let applied = self.ledger.apply(desired)?;
        self.specs.extend(specs);
        Ok(applied)
    }

    fn scale(&mut self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.ledger.scale(revision, replicas)?;
        self.changed.insert(revision.service().clone());
        let most = self.specs.get(revision).map(|spec| spec.ports.max_replicas());
        if let Some(most) = most.filter(|most| replicas as usize > *most) {
            tracing::warn!(
                %revision, replicas, most,
                "only one replica can run: use $(PORT) or $(GRPC_PORT) in the command to run more"
            );
        }
        Ok(())
    }

    fn handle_event(&mut self, event: Event) {
        let (Event::Changed(name, _) | Event::Ended(name, _)) = &event;
        let Some(revision) = self.revisions.get_mut(name) else {
            return;
        };
        self.changed.insert(name.service().clone());
        let revision = Arc::make_mut(revision);
        match event {
            Event::Changed(_, replica) => self.supervisor.update(revision, *replica),
            Event::Ended(_, replica) => self.supervisor.forget(revision, &replica),
        }
    }

    /// Starts and stops replicas of one service until they match its desired state.
    fn reconcile(&mut self, service: &ServiceName) {
        self.ledger.refresh_service(service, &mut self.revisions);
        let all = RevisionName::all_of(service);
        for (name, revision) in self.revisions.range_mut(all.clone()) {
            if let Some(spec) = self.specs.get(name) {
                reconcile_revision(spec, revision, &mut self.supervisor);
            }
        }
        // A removed revision may have no replica left to wait for; refreshing again removes it now.
        self.ledger.refresh_service(service, &mut self.revisions);
        let specs = self.specs.range(all).map(|(name, _)| name.clone());
        let removed = specs.filter(|name| !self.revisions.contains_key(name));
        for name in removed.collect::<Vec<_>>() {
            self.specs.remove(&name);
        }
    }

    /// Publishes a snapshot if it differs from the last one. `changed` lists the only services whose revisions may
    /// differ.
    fn publish(&mut self, changed: &BTreeSet<ServiceName>) {
        let last = self.snapshots.borrow().clone();
        let gateways = self.gateways.borrow_and_update().clone();
        let routes = self.ledger.routes();
        let of = RevisionName::all_of;
        let is_same = |service: &ServiceName| {
            let now = self.revisions.range(of(service));
            now.eq(last.revisions.range(of(service)))
        };
        let is_known = Arc::ptr_eq(routes, &last.routes) && gateways == last.gateways;
        if is_known && changed.iter().all(is_same) {
            return;
        }
        self.snapshots.send_replace(Arc::new(Snapshot {
            generation: last.generation + 1,
            routes: routes.clone(),
            revisions: Arc::new(self.revisions.clone()),
            gateways,
            drifted: Arc::default(),
        }));
    }

    fn reply_stopped(&mut self) {
        let Some(waiting) = &mut self.stopping else {
            return;
        };
        if self.supervisor.is_empty() {
            waiting.drain(..).for_each(|reply| send(reply, ()));
        }
    }
}

/// Starts and stops replicas of a revision until it has the desired number. An unchanged revision keeps its pointer.
fn reconcile_revision(spec: &Arc<LaunchSpec>, revision: &mut Arc<Revision>, supervisor: &mut Supervisor) {
    let mut next = Revision::clone(revision);
    next.ready_call = spec.ready_call();
    next.ignored_fields.clone_from(&spec.ignored_fields);
    supervisor.reconcile(&mut next, spec);
    if next != **revision {
        *revision = Arc::new(next);
    }
}

/// Sends a reply. The error is ignored: a caller that has stopped waiting needs no reply.
fn send<T>(reply: oneshot::Sender<T>, value: T) {
    let _ = reply.send(value);
}

pub(crate) fn unavailable(reason: String) -> ClusterError {
    ClusterError::Unavailable {
        what: "the cluster on this machine".to_owned(),
        source: io::Error::other(reason).into(),
    }
}
