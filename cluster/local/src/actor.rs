//! The task that owns the cluster: it notes what is asked and what replicas tell, starts and stops them,
//! and publishes what runs. It never waits for a replica.

mod fleet;

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use weir_cluster::{
    Applied, ClusterError, Desired, Gateway, Ledger, Revision, RevisionName, ServiceName, Snapshot,
};

use self::fleet::Fleet;
use crate::cluster::unavailable;
use crate::log::Printer;
use crate::options::Options;
use crate::recipe::Recipe;
use crate::replica::Event;

/// News of replicas that wait for the actor; more wait in the replicas' tasks.
const NEWS: usize = 64;

/// What is asked of the cluster.
#[derive(Debug)]
pub(crate) enum Ask {
    Apply(Box<Desired>, oneshot::Sender<Result<Applied, ClusterError>>),
    Forget(ServiceName, oneshot::Sender<Applied>),
    Scale(RevisionName, u32, oneshot::Sender<Result<(), ClusterError>>),
    Stop(oneshot::Sender<()>),
}

/// Answers that are sent once what they say can be seen.
type Answer = Box<dyn FnOnce() + Send>;

struct Actor {
    options: Options,
    ledger: Ledger,
    recipes: BTreeMap<RevisionName, Arc<Recipe>>,
    revisions: BTreeMap<RevisionName, Revision>,
    fleet: Fleet,
    gateways: watch::Receiver<Arc<[Gateway]>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    /// Set once it is to stop: who waits for that.
    stopping: Option<Vec<oneshot::Sender<()>>>,
}

/// Starts the task. It ends, and its replicas with it, once nobody can ask any more.
pub(crate) fn spawn(
    options: Options,
    printer: Printer,
    asks: mpsc::Receiver<Ask>,
    gateways: watch::Receiver<Arc<[Gateway]>>,
) -> watch::Receiver<Arc<Snapshot>> {
    let (snapshots, receiver) = watch::channel(Arc::new(Snapshot::default()));
    let (sender, events) = mpsc::channel(NEWS);
    let actor = Actor {
        fleet: Fleet::new(options.logs(), printer, sender),
        options,
        ledger: Ledger::new(),
        recipes: BTreeMap::new(),
        revisions: BTreeMap::new(),
        gateways,
        snapshots,
        stopping: None,
    };
    tokio::spawn(actor.run(asks, events));
    receiver
}

impl Actor {
    async fn run(mut self, mut asks: mpsc::Receiver<Ask>, mut events: mpsc::Receiver<Event>) {
        loop {
            let mut answer: Option<Answer> = None;
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => answer = self.ask(ask),
                    None => return,
                },
                Some(event) = events.recv() => self.note(event),
                Ok(()) = self.gateways.changed() => {}
            }
            self.reconcile();
            self.publish();
            if let Some(answer) = answer {
                answer();
            }
            self.tell_stopped();
        }
    }

    /// Does what is asked.
    fn ask(&mut self, ask: Ask) -> Option<Answer> {
        match ask {
            Ask::Apply(desired, answer) => {
                let result = self.apply(*desired);
                Some(Box::new(move || tell(answer, result)))
            }
            Ask::Forget(service, answer) => {
                let applied = self.ledger.forget(&service);
                Some(Box::new(move || tell(answer, applied)))
            }
            Ask::Scale(revision, replicas, answer) => {
                let result = self.scale(&revision, replicas);
                Some(Box::new(move || tell(answer, result)))
            }
            Ask::Stop(answer) => {
                self.ledger = Ledger::new();
                self.stopping.get_or_insert_default().push(answer);
                None
            }
        }
    }

    fn apply(&mut self, desired: Desired) -> Result<Applied, ClusterError> {
        if self.stopping.is_some() {
            return Err(unavailable("it is stopping".to_owned()));
        }
        let mut recipes = Vec::new();
        for workload in desired.workloads() {
            let recipe = Recipe::of(workload, &self.options)?;
            recipes.push((workload.revision.clone(), Arc::new(recipe)));
        }
        let applied = self.ledger.apply(desired)?;
        self.recipes.extend(recipes);
        Ok(applied)
    }

    fn scale(&mut self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.ledger.scale(revision, replicas)?;
        let most = self
            .recipes
            .get(revision)
            .map(|recipe| recipe.ports.max_replicas());
        if let Some(most) = most.filter(|most| replicas as usize > *most) {
            tracing::warn!(
                %revision, replicas, most,
                "the command uses neither $(PORT) nor $(GRPC_PORT), so it has one replica"
            );
        }
        Ok(())
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Is(name, replica) => {
                if let Some(revision) = self.revisions.get_mut(&name) {
                    self.fleet.note(revision, replica);
                }
            }
            Event::Gone(name, replica) => {
                if let Some(revision) = self.revisions.get_mut(&name) {
                    self.fleet.forget(revision, &replica);
                }
            }
        }
    }

    fn reconcile(&mut self) {
        self.ledger.refresh(&mut self.revisions);
        let revisions = &self.revisions;
        self.recipes.retain(|name, _| revisions.contains_key(name));
        for (name, revision) in &mut self.revisions {
            if let Some(recipe) = self.recipes.get(name) {
                revision.ready_call = recipe.ready_call();
                revision.without_effect.clone_from(&recipe.without_effect);
                self.fleet.reconcile(revision, recipe);
            }
        }
        // A revision that nobody asks for may have had no replica left to wait for.
        self.ledger.refresh(&mut self.revisions);
    }

    /// Publishes what runs, if it is not what was published.
    fn publish(&mut self) {
        let revisions = self.revisions.iter();
        let revisions =
            revisions.map(|(name, revision)| (name.clone(), Arc::new(revision.clone())));
        let mut next = Snapshot {
            generation: self.snapshots.borrow().generation,
            routes: self.ledger.routes().clone(),
            revisions: Arc::new(revisions.collect()),
            gateways: self.gateways.borrow_and_update().clone(),
        };
        if next != **self.snapshots.borrow() {
            next.generation += 1;
            self.snapshots.send_replace(Arc::new(next));
        }
    }

    fn tell_stopped(&mut self) {
        let Some(waiting) = &mut self.stopping else {
            return;
        };
        if self.fleet.is_empty() {
            waiting.drain(..).for_each(|answer| tell(answer, ()));
        }
    }
}

/// Who asked may have left; then nobody is told.
fn tell<T>(answer: oneshot::Sender<T>, value: T) {
    let _ = answer.send(value);
}
