use proptest::prelude::*;
use proptest::strategy::Strategy as Values;
use weir_cluster::ServiceName;

use super::Strategy;
use super::*;

fn name(number: u32) -> RevisionName {
    let service = ServiceName::new("default", "digits").unwrap();
    service.revision(number).unwrap()
}

fn rollout(strategy: Strategy) -> Rollout {
    Rollout {
        stable: Some(name(1)),
        previous: None,
        candidate: Some(Candidate {
            revision: name(2),
            stage: Stage::Waiting,
            since: 0,
        }),
        kept_replicas: 3,
        strategy,
        rollback_window: None,
    }
}

fn automatic() -> Strategy {
    let step = |percent| Step {
        percent,
        min_duration: Duration::from_secs(10),
    };
    Strategy::Automatic(Arc::new(Limits {
        steps: [10, 50].map(step).into(),
        ..Limits::default()
    }))
}

fn sample(succeeded: u64, failed: u64, ms: u64) -> Sample {
    Sample {
        succeeded,
        failed,
        p99: Some(Duration::from_millis(ms)),
    }
}

fn evidence(candidate: Sample) -> Evidence {
    Evidence {
        ready: [name(1), name(2)].into(),
        candidate,
        stable: sample(1000, 0, 10),
        watched: Duration::MAX,
    }
}

fn idle() -> Evidence {
    Evidence {
        ready: [name(1)].into(),
        watched: Duration::MAX,
        ..Evidence::default()
    }
}

#[test]
fn a_revision_that_never_becomes_ready_receives_no_traffic() {
    for strategy in [
        Strategy::Manual(None),
        Strategy::Manual(Some(20)),
        automatic(),
    ] {
        let before = rollout(strategy);
        let (after, moved) = step(&before, &idle(), 1_000_000);
        assert_eq!((&after, moved, after.percent()), (&before, None, 0));
    }
}

#[test]
fn without_a_share_it_is_promoted_as_soon_as_it_is_ready() {
    let ready = evidence(Sample::default());
    let (after, moved) = step(&rollout(Strategy::Manual(None)), &ready, 7);
    assert_eq!(moved, Some(Transition::Promoted(name(2))));
    assert_eq!((after.stable, after.candidate), (Some(name(2)), None));
    let previous = PreviousRevision {
        revision: name(1),
        since: 7,
        kept_replicas: 3,
    };
    assert_eq!(after.previous, Some(previous));
}

#[test]
fn a_manual_share_holds_until_it_is_changed() {
    let ready = evidence(Sample::default());
    let (mut after, moved) = step(&rollout(Strategy::Manual(Some(20))), &ready, 7);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 20)));
    assert_eq!(
        step(&after, &evidence(sample(0, 1000, 500)), 700),
        (after.clone(), None)
    );
    after.strategy = Strategy::Manual(Some(0));
    assert_eq!((after.percent(), after.stable.clone()), (0, Some(name(1))));
    assert_eq!(step(&after, &ready, 701), (after.clone(), None));
    after.strategy = Strategy::Manual(None);
    let (after, _) = step(&after, &ready, 702);
    assert_eq!(after.stable, Some(name(2)));
}

#[test]
fn a_candidate_at_zero_scales_up_before_it_is_promoted() {
    let (mut asleep, _) = step(
        &rollout(Strategy::Manual(Some(0))),
        &evidence(Sample::default()),
        7,
    );
    asleep.strategy = Strategy::Manual(None);
    let (waiting, moved) = step(&asleep, &idle(), 8);
    assert_eq!(moved, None);
    assert_eq!(
        waiting.candidate.as_ref().map(|c| &c.stage),
        Some(&Stage::Waiting)
    );
    let (after, _) = step(&waiting, &evidence(Sample::default()), 9);
    assert_eq!(after.stable, Some(name(2)));
}

#[test]
fn good_evidence_moves_it_step_by_step() {
    let good = evidence(sample(500, 1, 11));
    let (first, moved) = step(&rollout(automatic()), &good, 100);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 10)));
    assert_eq!(step(&first, &good, 109), (first.clone(), None));
    let (second, moved) = step(&first, &good, 110);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 50)));
    let (last, moved) = step(&second, &good, 120);
    assert_eq!(
        (moved, last.candidate),
        (Some(Transition::Promoted(name(2))), None)
    );
}

#[test]
fn a_step_that_is_over_by_anothers_clock_is_watched_first() {
    let good = evidence(sample(500, 1, 11));
    let watched = |seconds| Evidence {
        watched: Duration::from_secs(seconds),
        ..good.clone()
    };
    let (first, _) = step(&rollout(automatic()), &good, 100);
    assert_eq!(step(&first, &watched(9), 700), (first.clone(), None));
    let (_, moved) = step(&first, &watched(10), 700);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 50)));
    // Of a step of days, a restart asks for no more than the usual minute.
    let mut long = first;
    long.strategy = Strategy::Automatic(Arc::new(Limits {
        steps: vec![Step {
            percent: 10,
            min_duration: Duration::from_secs(86400),
        }],
        ..Limits::default()
    }));
    assert_eq!(step(&long, &watched(59), 90_000), (long.clone(), None));
    let (_, moved) = step(&long, &watched(60), 90_000);
    assert_eq!(moved, Some(Transition::Promoted(name(2))));
}

#[test]
fn without_evidence_it_waits() {
    let (first, _) = step(&rollout(automatic()), &evidence(Sample::default()), 100);
    for few in [sample(0, 0, 1), sample(99, 0, 1), sample(0, 1, 1)] {
        assert_eq!(step(&first, &evidence(few), 100_000), (first.clone(), None));
    }
}

#[test]
fn bad_evidence_rolls_it_back_with_a_reason() {
    let (first, _) = step(&rollout(automatic()), &evidence(Sample::default()), 100);
    for (bad, expected) in [
        (
            sample(40, 2, 10),
            "4.8 % of its requests failed (stable revision: 0.0 %; allowed: 1.0 points more)",
        ),
        (
            sample(500, 0, 16),
            "its p99 latency is 16.0 ms (stable revision: 10.0 ms; allowed: 1.50 times as much)",
        ),
    ] {
        let (after, moved) = step(&first, &evidence(bad), 101);
        assert_eq!(
            moved,
            Some(Transition::RolledBack(name(2), expected.into()))
        );
        assert_eq!((after.percent(), after.stable.clone()), (0, Some(name(1))));
        let good = evidence(sample(500, 0, 10));
        assert_eq!(step(&after, &good, 100_000), (after.clone(), None));
    }
}

#[test]
fn errors_that_the_stable_revision_has_too_do_not_roll_back() {
    let (first, _) = step(&rollout(automatic()), &evidence(Sample::default()), 100);
    let mut both = evidence(sample(90, 20, 10));
    both.stable = sample(90, 20, 10);
    let (_, moved) = step(&first, &both, 110);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 50)));
}

fn samples() -> impl Values<Value = Sample> {
    (0..300_u64, 0..300_u64, prop::option::of(1..100_u64)).prop_map(|(succeeded, failed, ms)| {
        Sample {
            succeeded,
            failed,
            p99: ms.map(Duration::from_millis),
        }
    })
}

fn strategies() -> impl Values<Value = Strategy> {
    prop_oneof![
        prop::option::of(0..=100_u8).prop_map(Strategy::Manual),
        Just(automatic()),
    ]
}

proptest! {
    /// However evidence and wishes change: shares stay shares, only what is ready gets requests or is
    /// promoted, and there is always a stable revision.
    #[test]
    fn a_rollout_keeps_its_laws(
        steps in prop::collection::vec((strategies(), any::<bool>(), samples(), samples(), 0..60_u64), 1..20)
    ) {
        let mut rollout = rollout(Strategy::Manual(None));
        let (mut now, mut was_ready) = (0, false);
        for (strategy, is_ready, candidate, stable, passes) in steps {
            now += passes;
            rollout.strategy = strategy;
            let mut evidence = Evidence { candidate, stable, ..idle() };
            if is_ready {
                evidence.ready.insert(name(2));
            }
            was_ready |= is_ready;
            let (next, moved) = step(&rollout, &evidence, now);
            prop_assert_eq!(step(&rollout, &evidence, now), (next.clone(), moved.clone()));
            prop_assert!(next.percent() <= 100);
            prop_assert!(was_ready || next.percent() == 0);
            prop_assert!(was_ready || next.stable == Some(name(1)));
            prop_assert!(next.stable.is_some());
            prop_assert!(moved.is_none() || next != rollout);
            prop_assert!(is_ready || next.stable == rollout.stable);
            if let Some(Transition::RolledBack(_, reason)) = &moved {
                prop_assert!(!reason.is_empty() && next.percent() == 0);
            }
            rollout = next;
        }
    }
}
