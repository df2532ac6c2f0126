//! The loop: what is declared, made so, one named step after the other.

mod apply;
mod check;
mod evidence;
mod looks;
mod memory;
mod progress;
mod remember;
mod tell;
mod wait;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster::{
    Apply, Conflict, Directory, LatestReports, Reports, RevisionName, Routes, ServiceName, Snapshot,
};

use crate::rollout::step;
use crate::validate::{Platform, Valid};
use crate::{
    ControllerError, Declaration, Declared, History, Move, Plan, Scaling, Service, plan, revise,
};
use looks::Looks;
use memory::Memory;
use progress::{Progress, Services};
use wait::Watches;

/// The bounds of every revision there is, for the autoscaler.
pub type Bounds = BTreeMap<RevisionName, Arc<Scaling>>;

/// The longest a cluster or what declares may take for one answer: an API server that needs longer is
/// ill, and the next pass asks again.
const DEADLINE: Duration = Duration::from_secs(10);

/// Makes what is declared so.
pub struct Controller {
    declared: Arc<dyn Declared>,
    cluster: Arc<dyn Apply>,
    watches: Watches,
    platform: Platform,
    services: BTreeMap<ServiceName, Box<Memory>>,
    claims: Claims,
    bounds: watch::Sender<Arc<Bounds>>,
    progress: Progress,
}

/// What came of a pass over some services.
#[derive(Default)]
struct Passed {
    /// Services that failed.
    errors: u64,
    /// Whether anything was done.
    is_new: bool,
}

/// All that is known when a pass begins.
struct World {
    declaration: Arc<Declaration>,
    snapshot: Arc<Snapshot>,
    reports: Arc<LatestReports>,
    conflicts: Arc<Conflicts>,
    now: u64,
}

/// Hosts that are claimed in vain, by who claims them.
type Conflicts = BTreeMap<ServiceName, Vec<Conflict>>;

/// The conflicts of the routes that were last looked at: to find them takes a look at every host.
#[derive(Default)]
struct Claims {
    of: Arc<Routes>,
    conflicts: Arc<Conflicts>,
}

/// What became of a pass over one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// It did what there was to do.
    Made,
    /// All is as it was.
    Rested,
}

impl Controller {
    /// A controller of what is declared, over a cluster.
    #[must_use]
    pub fn new<C>(declared: Arc<dyn Declared>, cluster: Arc<C>, platform: Platform) -> Self
    where
        C: Apply + Directory + Reports + 'static,
    {
        let watches = Watches {
            declared: declared.watch(),
            snapshot: Directory::watch(&*cluster),
            reports: Reports::watch(&*cluster),
        };
        Self {
            progress: Progress::new(declared.watch()),
            declared,
            cluster,
            watches,
            platform,
            services: BTreeMap::new(),
            claims: Claims::default(),
            bounds: watch::Sender::default(),
        }
    }

    /// What the autoscaler has to keep to, and every change.
    #[must_use]
    pub fn bounds(&self) -> watch::Receiver<Arc<Bounds>> {
        self.bounds.subscribe()
    }

    /// Registers its metrics.
    pub fn register(&self, registry: &mut Registry) {
        self.progress.register(registry);
    }

    /// Runs until it is told to stop, or nobody declares or runs anything any more. What runs then goes
    /// on.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            let world = self.watches.world(&mut self.claims, now());
            self.pass(&world).await;
            tokio::select! {
                () = stop.cancelled() => return,
                going_on = self.watches.changed() => if going_on.is_err() { return },
            }
        }
    }

    async fn pass(&mut self, world: &World) {
        let made = self.make_all(world).await;
        let forgotten = self.forget_others(world).await;
        if made.is_new || forgotten.is_new {
            self.publish_bounds();
        }
        let statuses = self.services.values().map(|memory| &*memory.status);
        let errors = made.errors + forgotten.errors;
        self.progress.passed(Services::of(statuses), errors);
    }

    /// What is declared.
    async fn make_all(&mut self, world: &World) -> Passed {
        let mut passed = Passed::default();
        for service in world.declaration.services.values() {
            match self.service(world, service).await {
                Ok(Pass::Rested) => {}
                Ok(Pass::Made) => passed.is_new = true,
                Err(error) => {
                    passed.is_new = true;
                    passed.errors += 1;
                    tracing::warn!(service = %service.name, "{error}; it is tried again");
                }
            }
        }
        passed
    }

    /// What is declared no more.
    async fn forget_others(&mut self, world: &World) -> Passed {
        let gone: Vec<_> = self
            .services
            .keys()
            .filter(|name| !world.declaration.services.contains_key(name))
            .cloned()
            .collect();
        let mut passed = Passed {
            is_new: !gone.is_empty(),
            ..Passed::default()
        };
        for service in gone {
            if let Err(error) = self.forget(&service).await {
                passed.errors += 1;
                tracing::warn!(%service, "{error}; it is tried again");
            }
        }
        passed
    }

    /// One service, through all steps, unless nothing is new for it.
    async fn service(
        &mut self,
        world: &World,
        service: &Arc<Service>,
    ) -> Result<Pass, ControllerError> {
        if let Some(memory) = self.services.get(&service.name)
            && let Some(rests) = &memory.rests
            && rests.is(&Looks::at(world, service, memory))
        {
            return Ok(Pass::Rested);
        }
        let mut memory = match self.services.remove(&service.name) {
            Some(memory) => memory,
            None => Box::new(remember::recall(&*self.declared, service).await?),
        };
        check::check(&mut memory, service, world, &self.platform);
        let before = memory.history.clone();
        let done = self.make(world, &mut memory).await;
        let told = tell::status(&*self.declared, world, service, &mut memory).await;
        let done = done.and(told);
        let is_still = done.is_ok() && memory.history == before && !memory.is_timed(world.now);
        memory.rests = is_still.then(|| Looks::at(world, service, &memory));
        self.services.insert(service.name.clone(), memory);
        done.map(|()| Pass::Made)
    }

    /// Makes it so, if it can be.
    async fn make(&self, world: &World, memory: &mut Memory) -> Result<(), ControllerError> {
        let Some(valid) = memory.valid() else {
            return Ok(());
        };
        let (plan, moved) = decide(world, &valid, memory)?;
        remember::keep(&*self.declared, &valid.service, memory).await?;
        if let Some(moved) = moved {
            tell::moved(&*self.declared, &valid.service, &moved).await?;
        }
        apply::apply(&*self.cluster, plan, memory).await
    }

    async fn forget(&mut self, service: &ServiceName) -> Result<(), ControllerError> {
        in_time("ending a service", self.cluster.forget(service)).await?;
        in_time("forgetting a service", self.declared.forget(service)).await?;
        self.services.remove(service);
        Ok(())
    }

    fn publish_bounds(&self) {
        let plans = self
            .services
            .values()
            .filter_map(|memory| memory.plan.as_ref());
        let all = plans.flat_map(|plan| plan.scaling.clone());
        let all: Arc<Bounds> = Arc::new(all.collect());
        self.bounds.send_if_modified(|bounds| {
            let is_new = *bounds != all;
            *bounds = all;
            is_new
        });
    }
}

impl Claims {
    /// The conflicts of these routes.
    fn conflicts(&mut self, routes: &Arc<Routes>) -> Arc<Conflicts> {
        if !Arc::ptr_eq(routes, &self.of) {
            let mut conflicts = Conflicts::new();
            for conflict in routes.conflicts() {
                let of_loser = conflicts.entry(conflict.loser.clone()).or_default();
                of_loser.push(conflict);
            }
            self.of = routes.clone();
            self.conflicts = Arc::new(conflicts);
        }
        self.conflicts.clone()
    }
}

impl World {
    fn conflicts_of(&self, service: &ServiceName) -> &[Conflict] {
        self.conflicts.get(service).map_or(&[], Vec::as_slice)
    }
}

/// The pure middle: which revisions there are, who takes over from whom, what should run.
fn decide(
    world: &World,
    valid: &Valid,
    memory: &mut Memory,
) -> Result<(Plan, Option<Move>), ControllerError> {
    let history = History::clone(&memory.history).observed(&world.snapshot);
    let mut history = revise(valid, &history, world.now)?.observed(&world.snapshot);
    let samples = memory.window.samples(&history.rollout, &world.reports);
    let evidence = history.evidence(&world.snapshot, &samples);
    let (rollout, moved) = step(&history.rollout, &evidence, world.now);
    history.rollout = rollout;
    let plan = plan(valid, &history, world.now)?;
    if *memory.history != history {
        memory.history = Arc::new(history);
    }
    Ok((plan, moved))
}

async fn in_time<T, E: Into<ControllerError>>(
    what: &str,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, ControllerError> {
    match tokio::time::timeout(DEADLINE, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(ControllerError::Deadline {
            what: what.to_owned(),
            limit: DEADLINE,
        }),
    }
}

/// Histories outlive the process, so their times are those of the world.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that owns the controller's clock"
)]
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
