//! Services through many edits: what holds whatever happens.

use proptest::prelude::*;

use super::Plan;
use super::world::{CANARY, World, split};
use crate::Valid;
use crate::rollout::Stage;
use crate::sample::{model, valid};

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
