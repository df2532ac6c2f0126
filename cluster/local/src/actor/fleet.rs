//! The tasks of all replicas.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{Endpoints, Phase, Replica, Revision};

use crate::log::{Log, Printer};
use crate::ports::Pool;
use crate::recipe::Recipe;
use crate::replica::{Event, Task, Ties};
use crate::steps::{Step, steps};

/// The tasks of all replicas, by the replicas' names. Dropping it kills every replica.
#[derive(Debug)]
pub(super) struct Fleet {
    logs: PathBuf,
    printer: Printer,
    events: mpsc::Sender<Event>,
    pool: Pool,
    tasks: HashMap<Arc<str>, Running>,
    started: HashMap<String, u32>,
}

#[derive(Debug)]
struct Running {
    stop: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Fleet {
    pub(super) fn new(logs: PathBuf, printer: Printer, events: mpsc::Sender<Event>) -> Self {
        Self {
            logs,
            printer,
            events,
            pool: Pool::new(),
            tasks: HashMap::new(),
            started: HashMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Starts and stops replicas until there are as many as are desired, or as there can be.
    pub(super) fn reconcile(&mut self, revision: &mut Revision, recipe: &Arc<Recipe>) {
        let desired = (revision.desired as usize).min(recipe.ports.max_replicas());
        for step in steps(desired, &revision.replicas) {
            match step {
                Step::Start => self.start(revision, recipe),
                Step::Stop(name) => self.stop(revision, &name),
            }
        }
    }

    /// Notes how a replica is. One that was told to stop is terminating, whatever it said before it heard
    /// of that.
    pub(super) fn note(&self, revision: &mut Revision, mut replica: Replica) {
        let running = self.tasks.get(&replica.name);
        if running.is_some_and(|running| running.stop.is_cancelled()) {
            replica.phase = Phase::Terminating;
        }
        match &replica.failure {
            Some(failure) => revision.failure = Some(failure.clone()),
            None if replica.phase == Phase::Ready => revision.failure = None,
            None => {}
        }
        let known = revision
            .replicas
            .iter_mut()
            .find(|known| known.name == replica.name);
        if let Some(known) = known {
            *known = replica;
        }
    }

    /// Notes that a replica ended for good.
    pub(super) fn forget(&mut self, revision: &mut Revision, name: &str) {
        self.tasks.remove(name);
        revision.replicas.retain(|replica| *replica.name != *name);
    }

    fn start(&mut self, revision: &mut Revision, recipe: &Arc<Recipe>) {
        let replica = Replica {
            name: self.name(revision),
            phase: Phase::Pending,
            endpoints: Endpoints::default(),
            restarts: 0,
            failure: None,
        };
        let stop = CancellationToken::new();
        let ties = Ties {
            events: self.events.clone(),
            stop: stop.clone(),
            pool: self.pool.clone(),
        };
        let task = Task::new(
            revision.name.clone(),
            replica.clone(),
            recipe.clone(),
            Log::new(&self.logs, replica.name.clone(), self.printer.clone()),
            ties,
        );
        let running = Running {
            stop,
            _task: AbortOnDropHandle::new(tokio::spawn(task.run())),
        };
        self.tasks.insert(replica.name.clone(), running);
        revision.replicas.push(replica);
    }

    fn stop(&self, revision: &mut Revision, name: &str) {
        let replica = revision
            .replicas
            .iter_mut()
            .find(|replica| *replica.name == *name);
        if let Some(replica) = replica {
            replica.phase = Phase::Terminating;
        }
        if let Some(running) = self.tasks.get(name) {
            running.stop.cancel();
        }
    }

    /// A name that no replica had before in this process; namespaces share a directory of logs.
    fn name(&mut self, revision: &Revision) -> Arc<str> {
        let prefix = match revision.name.service().namespace() {
            "default" => revision.name.as_str().to_owned(),
            namespace => format!("{namespace}.{}", revision.name.as_str()),
        };
        let number = self.started.entry(prefix.clone()).or_insert(0);
        let name = format!("{prefix}-{number}").into();
        *number += 1;
        name
    }
}
