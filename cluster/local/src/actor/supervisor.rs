//! Supervisor that starts, stops and kills the tasks of replicas. Each task owns one process.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{LatestReports, Phase, Replica, Revision, replica_loads};

use crate::launch_spec::LaunchSpec;
use crate::log::{self, Log, Printer};
use crate::ports::PortPool;
use crate::reconcile::{Action, actions};
use crate::replica::{Event, Task, TaskContext};

/// The tasks of all replicas, by replica name. Dropping the supervisor kills every replica.
#[derive(Debug)]
pub(super) struct Supervisor {
    logs: PathBuf,
    printer: Printer,
    events: mpsc::Sender<Event>,
    pool: PortPool,
    /// Reports of the gateways with the requests at each replica, at most a second old.
    reports: watch::Receiver<Arc<LatestReports>>,
    tasks: HashMap<Arc<str>, RunningTask>,
    started: HashMap<String, u32>,
}

#[derive(Debug)]
struct RunningTask {
    stop: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Supervisor {
    pub(super) fn new(
        logs: PathBuf,
        printer: Printer,
        events: mpsc::Sender<Event>,
        reports: watch::Receiver<Arc<LatestReports>>,
    ) -> Self {
        Self { logs, printer, events, pool: PortPool::new(), reports, tasks: HashMap::new(), started: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts and stops replicas until the desired number is reached, or the maximum that the command's ports allow.
    pub(super) fn reconcile(&mut self, revision: &mut Revision, spec: &Arc<LaunchSpec>) {
        let desired = (revision.desired as usize).min(spec.ports.max_replicas());
        let loads = replica_loads(&self.reports.borrow(), &revision.name);
        for action in actions(desired, &revision.replicas, &loads) {
            match action {
                Action::Start => self.start(revision, spec),
                Action::Stop(name) => self.stop(revision, &name),
            }
        }
    }

    /// Records the state of a replica. A replica that was asked to stop is terminating, whatever state its task sent,
    /// and its failure is no longer the revision's. While any replica is ready, the revision has no failure.
    pub(super) fn update(&self, revision: &mut Revision, mut replica: Replica) {
        let running = self.tasks.get(&replica.name);
        if running.is_some_and(|running| running.stop.is_cancelled()) {
            replica.phase = Phase::Terminating;
        }
        if replica.phase.is_counted() && replica.failure.is_some() {
            revision.failure.clone_from(&replica.failure);
        }
        let known = revision.replicas.iter_mut().find(|known| known.name == replica.name);
        if let Some(known) = known {
            *known = replica;
        }
        if revision.ready().next().is_some() {
            revision.failure = None;
        }
    }

    /// Removes a replica that has ended for good.
    pub(super) fn forget(&mut self, revision: &mut Revision, name: &str) {
        self.tasks.remove(name);
        revision.replicas.retain(|replica| *replica.name != *name);
    }

    fn start(&mut self, revision: &mut Revision, spec: &Arc<LaunchSpec>) {
        let prefix = prefix(revision);
        let replica = pending(self.name(&prefix));
        let stop = CancellationToken::new();
        let context = TaskContext {
            events: self.events.clone(),
            stop: stop.clone(),
            pool: self.pool.clone(),
            reports: self.reports.clone(),
        };
        let task = Task::new(
            revision.name.clone(),
            replica.clone(),
            spec.clone(),
            Log::new(&self.logs, replica.name.clone(), self.printer.clone()),
            context,
        );
        let running = RunningTask { stop, _task: AbortOnDropHandle::new(tokio::spawn(task.run())) };
        self.tasks.insert(replica.name.clone(), running);
        revision.replicas.push(replica);
        log::delete_old(&self.logs, &prefix, |name| self.tasks.contains_key(name));
    }

    fn stop(&self, revision: &mut Revision, name: &str) {
        let replica = revision.replicas.iter_mut().find(|replica| *replica.name == *name);
        if let Some(replica) = replica {
            replica.phase = Phase::Terminating;
        }
        if let Some(running) = self.tasks.get(name) {
            running.stop.cancel();
        }
    }

    /// Returns a replica name that was not used before in this process.
    fn name(&mut self, prefix: &str) -> Arc<str> {
        let number = self.started.entry(prefix.to_owned()).or_insert(0);
        let name = format!("{prefix}-{number}").into();
        *number += 1;
        name
    }
}

/// Returns the prefix of a revision's replica names. It includes the namespace unless that is `default`, because all
/// namespaces share one log directory.
fn prefix(revision: &Revision) -> String {
    match revision.name.service().namespace() {
        "default" => revision.name.as_str().to_owned(),
        namespace => format!("{namespace}.{}", revision.name.as_str()),
    }
}

/// Creates a replica that has not been started.
fn pending(name: Arc<str>) -> Replica {
    Replica::new(name, Phase::Pending)
}
