//! Services through many edits, over a cluster that is a value.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_cluster::{
    Destination, Endpoints, Ledger, Phase, Replica, Revision, RevisionName, Route, Snapshot,
};

use super::*;
use crate::rollout::{Move, Stage, step};
use crate::sample::{model, valid};
use crate::{Sample, revise};

/// A cluster and a history, without clock and tasks.
#[derive(Clone, Default)]
struct World {
    ledger: Ledger,
    revisions: BTreeMap<RevisionName, Revision>,
    history: History,
    now: u64,
    started: u32,
}

impl World {
    fn snapshot(&self) -> Snapshot {
        let revisions = self.revisions.iter();
        let revisions = revisions.map(|(name, r)| (name.clone(), Arc::new(r.clone())));
        Snapshot {
            generation: 0,
            routes: self.ledger.routes().clone(),
            revisions: Arc::new(revisions.collect()),
            gateways: Arc::new([]),
        }
    }

    /// One pass of the controller.
    fn pass(&mut self, valid: &Valid) -> (Plan, Option<Move>) {
        let snapshot = self.snapshot();
        let history = self.history.clone().observed(&snapshot);
        let history = revise(valid, &history, self.now).unwrap();
        let mut history = history.observed(&snapshot);
        let evidence = history.evidence(&snapshot, &BTreeMap::<_, Sample>::new());
        let (rollout, moved) = step(&history.rollout, &evidence, self.now);
        history.rollout = rollout;
        let planned = plan(valid, &history, self.now).unwrap();
        assert_eq!(plan(valid, &history, self.now).unwrap(), planned);
        self.history = history;
        self.ledger.apply(planned.desired.clone()).unwrap();
        self.ledger.refresh(&mut self.revisions);
        (planned, moved)
    }

    /// Every replica that is asked for becomes ready, of the revisions with these numbers.
    fn start(&mut self, which: impl Fn(u32) -> bool) {
        for (name, revision) in &mut self.revisions {
            if which(name.number()) {
                revision.replicas.truncate(revision.wanted as usize);
                while revision.replicas.len() < revision.wanted as usize {
                    self.started += 1;
                    revision.replicas.push(replica(self.started));
                }
            }
        }
    }

    /// Sets counts as an autoscaler does: as few as the bounds let it.
    fn scale_down(&mut self, planned: &Plan) {
        for (name, scaling) in &planned.scaling {
            self.ledger.scale(name, scaling.min).unwrap();
        }
        self.ledger.refresh(&mut self.revisions);
        self.start(|_| true);
    }

    fn ready(&self) -> Vec<u32> {
        let ready = self
            .revisions
            .values()
            .filter(|r| r.ready().next().is_some());
        ready.map(|revision| revision.name.number()).collect()
    }
}

fn replica(number: u32) -> Replica {
    Replica {
        name: format!("r{number}").into(),
        phase: Phase::Ready,
        endpoints: Endpoints::default(),
        restarts: 0,
        failure: None,
    }
}

fn weights(route: Option<&Route>) -> Vec<(u32, u32)> {
    match route.map(|route| &route.destination) {
        Some(Destination::Split(split)) => {
            let targets = split.targets().iter();
            targets
                .map(|target| (target.revision.number(), target.weight))
                .collect()
        }
        Some(Destination::Nowhere(_)) | None => Vec::new(),
    }
}

fn split(plan: &Plan) -> Vec<(u32, u32)> {
    weights(plan.desired.route())
}

fn tags(plan: &Plan) -> Vec<(String, u32)> {
    let route = plan.desired.route().unwrap();
    let tags = route.tags.iter();
    tags.map(|tagged| (tagged.tag.to_string(), tagged.revision.number()))
        .collect()
}

#[test]
fn a_canary_by_percent_from_first_to_last() {
    let fields = |percent: &str| model("b", &[percent]);
    let mut world = World::default();
    let (first, _) = world.pass(&valid(&[], &model("a", &[])));
    assert_eq!(split(&first), [(1, 100)]);
    world.start(|_| true);
    let canary = valid(&[], &fields("canaryTrafficPercent: 20"));
    let (waiting, _) = world.pass(&canary);
    assert_eq!(
        (split(&waiting), waiting.desired.workloads().len()),
        (vec![(1, 100)], 2)
    );
    world.start(|_| true);
    let (shifted, moved) = world.pass(&canary);
    assert!(matches!(moved, Some(Move::Shifted(_, 20))));
    assert_eq!(split(&shifted), [(1, 80), (2, 20)]);
    assert_eq!(
        tags(&shifted),
        [("prev".to_owned(), 1), ("latest".to_owned(), 2)]
    );
    let hosts: Vec<_> = shifted.desired.route().unwrap().tags[1].hosts.clone();
    assert_eq!(hosts[0].as_str(), "latest-digits-default.example.com");
    let (back, _) = world.pass(&valid(&[], &fields("canaryTrafficPercent: 0")));
    assert_eq!(split(&back), [(1, 100)]);
    let (promoted, moved) = world.pass(&valid(&[], &model("b", &[])));
    assert!(matches!(moved, Some(Move::Promoted(_))));
    assert_eq!(split(&promoted), [(2, 100)]);
    assert_eq!(
        tags(&promoted),
        [("latest".to_owned(), 2), ("prev".to_owned(), 1)]
    );
}

#[test]
fn the_revision_before_keeps_its_replicas_for_a_while_and_sleeps_then() {
    let mut world = World::default();
    let (a, b) = (
        valid(&[], &model("a", &["minReplicas: 0"])),
        valid(&[], &model("b", &["minReplicas: 0"])),
    );
    world.pass(&a);
    let one = a.service.revision(1).unwrap();
    world.ledger.scale(&one, 3).unwrap();
    world.ledger.refresh(&mut world.revisions);
    world.start(|_| true);
    let (rolling, _) = world.pass(&b);
    assert_eq!(rolling.scaling[&one].min, 3);
    world.start(|_| true);
    let (promoted, _) = world.pass(&b);
    assert_eq!(promoted.scaling[&one].min, 3);
    world.now += bounds::HELD;
    let (later, _) = world.pass(&b);
    assert_eq!(
        (later.scaling[&one].min, later.desired.workloads().len()),
        (0, 2)
    );
}

#[test]
fn a_new_revision_has_a_replica_though_it_may_sleep_later() {
    let mut world = World::default();
    let sleepy = valid(&[], &model("a", &["minReplicas: 0", "maxReplicas: 4"]));
    let (first, _) = world.pass(&sleepy);
    let one = sleepy.service.revision(1).unwrap();
    assert_eq!(
        (
            first.desired.workloads()[0].replicas,
            first.scaling[&one].min
        ),
        (1, 1)
    );
    world.start(|_| true);
    let (second, _) = world.pass(&sleepy);
    assert_eq!(
        (second.scaling[&one].min, second.scaling[&one].max),
        (0, Some(4))
    );
}

const CANARY: &str = "  canary:
  - trafficPercent: 30
    predictor: {name: blue, model: {modelFormat: {name: pytorch}, storageUri: pvc://models/blue}}
";

#[test]
fn a_named_canary_gets_its_share_when_it_has_loaded() {
    let mut world = World::default();
    let spec = format!("{}{CANARY}", model("a", &["canaryTrafficPercent: 50"]));
    let (first, _) = world.pass(&valid(&[], &spec));
    assert_eq!(split(&first), [(1, 100)]);
    world.start(|number| number == 1);
    assert_eq!(split(&world.pass(&valid(&[], &spec)).0), [(1, 100)]);
    world.start(|_| true);
    let (both, _) = world.pass(&valid(&[], &spec));
    assert_eq!(split(&both), [(1, 70), (2, 30)]);
    assert!(tags(&both).contains(&("blue".to_owned(), 2)));
    let third = valid(&[], &spec.replace("models/a", "models/c"));
    world.pass(&third);
    world.start(|_| true);
    assert_eq!(split(&world.pass(&third).0), [(1, 20), (2, 30), (3, 50)]);
}

#[test]
fn what_is_stopped_has_nothing_and_says_so() {
    let mut world = World::default();
    let stop = valid(&[("serving.kserve.io/stop", "true")], &model("a", &[]));
    let (stopped, _) = world.pass(&stop);
    assert!(stopped.desired.workloads().is_empty() && stopped.scaling.is_empty());
    match &stopped.desired.route().unwrap().destination {
        Destination::Nowhere(sentence) => {
            assert_eq!(&**sentence, "the service default/digits is stopped")
        }
        Destination::Split(split) => panic!("{split:?}"),
    }
}

#[test]
fn copies_go_to_the_revision_that_has_not_all_requests() {
    let mut world = World::default();
    let mirrored = |path: &str| {
        valid(
            &[("weir.dev/mirror", "10")],
            &model(path, &["canaryTrafficPercent: 0"]),
        )
    };
    let (first, _) = world.pass(&mirrored("a"));
    assert_eq!(first.desired.route().unwrap().mirror, None);
    world.start(|_| true);
    let (second, _) = world.pass(&mirrored("b"));
    let mirror = second.desired.route().unwrap().mirror.clone().unwrap();
    assert_eq!((mirror.revision.number(), mirror.percent), (2, 10));
}

/// What can happen to a service.
#[derive(Clone, Debug)]
enum Happens {
    Edit {
        path: u8,
        percent: Option<u8>,
        min: u8,
        canary: Option<u8>,
    },
    Bound {
        min: u8,
        max: u8,
    },
    Start(u8),
    Fail(u8),
    ScaleDown,
    Passes(u16),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (
            0..4_u8,
            prop::option::of(0..=100_u8),
            0..3_u8,
            prop::option::of(0..=100_u8)
        )
            .prop_map(|(path, percent, min, canary)| Happens::Edit {
                path,
                percent,
                min,
                canary
            }),
        (0..4_u8, 4..9_u8).prop_map(|(min, max)| Happens::Bound { min, max }),
        (1..6_u8).prop_map(Happens::Start),
        (1..6_u8).prop_map(Happens::Fail),
        Just(Happens::ScaleDown),
        (0..900_u16).prop_map(Happens::Passes),
    ]
}

struct Manifest {
    path: u8,
    percent: Option<u8>,
    bounds: (u8, u8),
    canary: Option<u8>,
}

impl Manifest {
    fn valid(&self) -> Valid {
        let mut fields = vec![
            format!("minReplicas: {}", self.bounds.0),
            format!("maxReplicas: {}", self.bounds.1),
        ];
        fields.extend(
            self.percent
                .map(|percent| format!("canaryTrafficPercent: {percent}")),
        );
        let fields: Vec<_> = fields.iter().map(String::as_str).collect();
        let canary = self
            .canary
            .map(|percent| CANARY.replace("30", &percent.to_string()));
        valid(
            &[],
            &format!(
                "{}{}",
                model(&self.path.to_string(), &fields),
                canary.unwrap_or_default()
            ),
        )
    }

    fn edit(&mut self, happens: &Happens) {
        match *happens {
            Happens::Edit {
                path,
                percent,
                min,
                canary,
            } => {
                (self.path, self.percent, self.canary) = (path, percent, canary);
                self.bounds.0 = min;
            }
            Happens::Bound { min, max } => self.bounds = (min, max),
            Happens::Start(_) | Happens::Fail(_) | Happens::ScaleDown | Happens::Passes(_) => {}
        }
    }
}

impl World {
    fn happens(&mut self, happens: &Happens, last: Option<&Plan>) {
        match *happens {
            Happens::Start(number) => self.start(|other| other == u32::from(number)),
            Happens::Fail(number) => {
                let failing = self
                    .revisions
                    .iter_mut()
                    .find(|(n, _)| n.number() == u32::from(number));
                if let Some((_, revision)) = failing {
                    revision.replicas.clear();
                }
            }
            Happens::ScaleDown => {
                if let Some(plan) = last {
                    self.scale_down(plan);
                }
            }
            Happens::Passes(seconds) => self.now += u64::from(seconds),
            Happens::Edit { .. } | Happens::Bound { .. } => {}
        }
    }
}

fn check(world: &World, before: &World, plan: &Plan, happens: &Happens) {
    // Weights are percents, of revisions that run.
    let split = split(plan);
    assert_eq!(
        split.iter().map(|(_, weight)| weight).sum::<u32>(),
        100,
        "{split:?}"
    );
    // What runs has bounds, and the other way round.
    let running: Vec<_> = plan
        .desired
        .workloads()
        .iter()
        .map(|w| &w.revision)
        .collect();
    assert!(plan.scaling.keys().eq(running.iter().copied()));
    for scaling in plan.scaling.values() {
        assert!(
            scaling.max.is_none_or(|max| scaling.min <= max),
            "{scaling:?}"
        );
    }
    // Only a revision that has loaded gets requests, beside the stable one.
    for (number, _) in &split {
        let name = world
            .history
            .records
            .iter()
            .find(|r| r.revision.number() == *number)
            .unwrap();
        let is_stable = world.history.rollout.stable.as_ref() == Some(&name.revision);
        assert!(is_stable || world.history.has_loaded(&name.revision));
    }
    // A stable revision that has loaded only gives way to one that is ready.
    let stable = |world: &World| world.history.rollout.stable.clone();
    let (old, new) = (stable(before), stable(world));
    if let Some(old) = old.filter(|old| before.history.has_loaded(old)) {
        let new = new.unwrap();
        assert!(
            old == new || before.ready().contains(&new.number()),
            "{old} {new}"
        );
        assert!(running.contains(&&old), "{old} is gone at once");
    }
    match happens {
        Happens::Bound { .. } => {
            assert_eq!(world.history.records.len(), before.history.records.len());
        }
        Happens::Edit { .. }
        | Happens::Start(_)
        | Happens::Fail(_)
        | Happens::ScaleDown
        | Happens::Passes(_) => {}
    }
    if let Some(candidate) = &world.history.rollout.candidate {
        assert!(candidate.stage != Stage::Waiting || plan.scaling[&candidate.revision].min >= 1);
    }
}

proptest! {
    #[test]
    fn plans_keep_their_laws(all in prop::collection::vec(happens(), 1..30)) {
        let mut world = World::default();
        let mut manifest = Manifest { path: 0, percent: None, bounds: (1, 4), canary: None };
        let mut last = Some(world.pass(&manifest.valid()).0);
        for happens in &all {
            manifest.edit(happens);
            world.happens(happens, last.as_ref());
            let before = world.clone();
            let (planned, _) = world.pass(&manifest.valid());
            check(&world, &before, &planned, happens);
            last = Some(planned);
        }
    }
}
