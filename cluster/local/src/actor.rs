//! The task that owns the cluster: it notes what is asked and what replicas tell, starts and stops them,
//! and publishes what runs. It never waits for a replica.

mod fleet;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use weir_cluster::{
    Applied, ClusterError, Desired, Gateway, Ledger, Revision, RevisionName, Revisions,
    ServiceName, Snapshot,
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
    revisions: Revisions,
    /// Services of which something was asked or told since the last look.
    touched: BTreeSet<ServiceName>,
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
        revisions: Revisions::new(),
        touched: BTreeSet::new(),
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
            let mut answers: Vec<Answer> = Vec::new();
            tokio::select! {
                ask = asks.recv() => match ask {
                    Some(ask) => answers.extend(self.ask(ask)),
                    None => return,
                },
                Some(event) = events.recv() => self.note(event),
                Ok(()) = self.gateways.changed() => {}
            }
            // What came meanwhile is published with it.
            for _ in 0..NEWS {
                match (asks.try_recv(), events.try_recv()) {
                    (Err(_), Err(_)) => break,
                    (ask, event) => {
                        answers.extend(ask.ok().and_then(|ask| self.ask(ask)));
                        event.into_iter().for_each(|event| self.note(event));
                    }
                }
            }
            let touched = std::mem::take(&mut self.touched);
            touched.iter().for_each(|service| self.reconcile(service));
            self.publish(&touched);
            answers.into_iter().for_each(|answer| answer());
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
                self.touched.insert(service.clone());
                let applied = self.ledger.forget(&service);
                Some(Box::new(move || tell(answer, applied)))
            }
            Ask::Scale(revision, replicas, answer) => {
                let result = self.scale(&revision, replicas);
                Some(Box::new(move || tell(answer, result)))
            }
            Ask::Stop(answer) => {
                self.ledger = Ledger::new();
                let all = self.revisions.keys().map(RevisionName::service);
                self.touched.extend(all.cloned());
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
        self.touched.insert(desired.service().clone());
        let applied = self.ledger.apply(desired)?;
        self.recipes.extend(recipes);
        Ok(applied)
    }

    fn scale(&mut self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.ledger.scale(revision, replicas)?;
        self.touched.insert(revision.service().clone());
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
        let (Event::Is(name, _) | Event::Gone(name, _)) = &event;
        let Some(revision) = self.revisions.get_mut(name) else {
            return;
        };
        self.touched.insert(name.service().clone());
        let revision = Arc::make_mut(revision);
        match event {
            Event::Is(_, replica) => self.fleet.note(revision, replica),
            Event::Gone(_, replica) => self.fleet.forget(revision, &replica),
        }
    }

    /// Brings what runs of one service in line with what is asked.
    fn reconcile(&mut self, service: &ServiceName) {
        self.ledger.refresh_service(service, &mut self.revisions);
        let all = RevisionName::all_of(service);
        for (name, revision) in self.revisions.range_mut(all.clone()) {
            if let Some(recipe) = self.recipes.get(name) {
                follow(recipe, revision, &mut self.fleet);
            }
        }
        // A revision that nobody asks for may have had no replica left to wait for.
        self.ledger.refresh_service(service, &mut self.revisions);
        let recipes = self.recipes.range(all).map(|(name, _)| name.clone());
        let gone = recipes.filter(|name| !self.revisions.contains_key(name));
        for name in gone.collect::<Vec<_>>() {
            self.recipes.remove(&name);
        }
    }

    /// Publishes what runs, if it is not what was published. Nothing but these services was touched.
    fn publish(&mut self, touched: &BTreeSet<ServiceName>) {
        let last = self.snapshots.borrow().clone();
        let gateways = self.gateways.borrow_and_update().clone();
        let routes = self.ledger.routes();
        let of = RevisionName::all_of;
        let is_same = |service: &ServiceName| {
            let now = self.revisions.range(of(service));
            now.eq(last.revisions.range(of(service)))
        };
        let is_known = Arc::ptr_eq(routes, &last.routes) && gateways == last.gateways;
        if is_known && touched.iter().all(is_same) {
            return;
        }
        self.snapshots.send_replace(Arc::new(Snapshot {
            generation: last.generation + 1,
            routes: routes.clone(),
            revisions: Arc::new(self.revisions.clone()),
            gateways,
        }));
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

/// Starts and stops what a revision lacks or has too many of. One that is as it should be stays the same
/// value.
fn follow(recipe: &Arc<Recipe>, revision: &mut Arc<Revision>, fleet: &mut Fleet) {
    let mut next = Revision::clone(revision);
    next.ready_call = recipe.ready_call();
    next.ignored_fields.clone_from(&recipe.ignored_fields);
    fleet.reconcile(&mut next, recipe);
    if next != **revision {
        *revision = Arc::new(next);
    }
}

/// Who asked may have left; then nobody is told.
fn tell<T>(answer: oneshot::Sender<T>, value: T) {
    let _ = answer.send(value);
}
