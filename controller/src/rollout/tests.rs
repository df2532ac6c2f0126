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
        candidate: Some(Candidate::new(name(2), Stage::Waiting, 0)),
        needed_replicas: 0,
        strategy,
        rollback_window: None,
    }
}

fn automatic() -> Strategy {
    let step = |percent| Step { percent, min_duration: Duration::from_secs(10) };
    Strategy::Automatic(Arc::new(Limits { steps: [10, 50].map(step).into(), ..Limits::default() }))
}

fn sample(succeeded: u64, failed: u64, ms: u64) -> Sample {
    Sample { succeeded, failed, p99: Some(Duration::from_millis(ms)) }
}

/// Returns the ready and desired replicas of both revisions.
fn capacities(stable: (u32, u32), candidate: (u32, u32)) -> BTreeMap<RevisionName, Capacity> {
    let of = |(ready, desired)| Capacity { ready, desired, placement: Placement::Complete };
    [(name(1), of(stable)), (name(2), of(candidate))].into()
}

fn evidence(candidate: Sample) -> Evidence {
    Evidence {
        capacities: capacities((3, 3), (3, 3)),
        most: None,
        candidate,
        stable: sample(1000, 0, 10),
        watched: Duration::MAX,
    }
}

fn idle() -> Evidence {
    Evidence { capacities: capacities((3, 3), (0, 1)), watched: Duration::MAX, ..Evidence::default() }
}

#[test]
fn a_revision_that_never_becomes_ready_receives_no_traffic() {
    for strategy in [Strategy::Manual(None), Strategy::Manual(Some(20)), automatic()] {
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
    let previous = PreviousRevision { revision: name(1), since: 7, kept_replicas: 3 };
    assert_eq!(after.previous, Some(previous));
}

#[test]
fn a_manual_share_holds_until_it_is_changed() {
    let ready = evidence(Sample::default());
    let (mut after, moved) = step(&rollout(Strategy::Manual(Some(20))), &ready, 7);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 20)));
    assert_eq!(step(&after, &evidence(sample(0, 1000, 500)), 700), (after.clone(), None));
    after.strategy = Strategy::Manual(Some(0));
    let (mut after, moved) = step(&after, &ready, 701);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 0)));
    assert_eq!((after.percent(), after.stable.clone()), (0, Some(name(1))));
    assert_eq!(step(&after, &ready, 702), (after.clone(), None));
    after.strategy = Strategy::Manual(None);
    let (after, _) = step(&after, &ready, 703);
    assert_eq!(after.stable, Some(name(2)));
}

#[test]
fn a_candidate_at_zero_scales_up_before_it_is_promoted() {
    let (mut asleep, _) = step(&rollout(Strategy::Manual(Some(0))), &evidence(Sample::default()), 7);
    asleep.strategy = Strategy::Manual(None);
    let (waiting, moved) = step(&asleep, &idle(), 8);
    assert_eq!(moved, None);
    assert_eq!(waiting.candidate.as_ref().map(|c| &c.stage), Some(&Stage::Waiting));
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
    assert_eq!((moved, last.candidate), (Some(Transition::Promoted(name(2))), None));
}

#[test]
fn a_step_that_is_over_by_anothers_clock_is_watched_first() {
    let good = evidence(sample(500, 1, 11));
    let watched = |seconds| Evidence { watched: Duration::from_secs(seconds), ..good.clone() };
    let (first, _) = step(&rollout(automatic()), &good, 100);
    assert_eq!(step(&first, &watched(9), 700), (first.clone(), None));
    let (_, moved) = step(&first, &watched(10), 700);
    assert_eq!(moved, Some(Transition::Shifted(name(2), 50)));
    // After a restart a step of days needs no more than the default minute of observation.
    let mut long = first;
    long.strategy = Strategy::Automatic(Arc::new(Limits {
        steps: vec![Step { percent: 10, min_duration: Duration::from_secs(86400) }],
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
        (sample(40, 2, 10), "4.8 % of its requests failed (stable revision: 0.0 %; allowed: 1.0 points more)"),
        (sample(500, 0, 16), "its p99 latency is 16.0 ms (stable revision: 10.0 ms; allowed: 1.50 times as much)"),
    ] {
        let (after, moved) = step(&first, &evidence(bad), 101);
        assert_eq!(moved, Some(Transition::RolledBack(name(2), expected.into())));
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
    (0..300_u64, 0..300_u64, prop::option::of(1..100_u64)).prop_map(|(succeeded, failed, ms)| Sample {
        succeeded,
        failed,
        p99: ms.map(Duration::from_millis),
    })
}

fn strategies() -> impl Values<Value = Strategy> {
    prop_oneof![prop::option::of(0..=100_u8).prop_map(Strategy::Manual), Just(automatic()),]
}

proptest! {
    /// However evidence and strategy change, shares stay valid, only a ready revision gets requests or is promoted, and
    /// there is always a stable revision.
    #[test]
    fn a_rollout_keeps_its_laws(
        steps in prop::collection::vec((strategies(), any::<bool>(), samples(), samples(), 0..900_u64, 1..6_u32), 1..20)
    ) {
        let mut rollout = rollout(Strategy::Manual(None));
        let (mut now, mut was_ready) = (0, false);
        for (strategy, is_ready, candidate, stable, passes, of_candidate) in steps {
            now += passes;
            rollout.strategy = strategy;
            let mut evidence = Evidence { candidate, stable, ..idle() };
            if is_ready {
                evidence.capacities = capacities((3, 3), (of_candidate, 4));
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

/// Returns evidence in which this many of four replicas of the candidate are ready.
fn four(ready: u32) -> Evidence {
    Evidence { capacities: capacities((4, 4), (ready, 4)), ..evidence(sample(500, 0, 10)) }
}

#[test]
fn a_promotion_moves_a_share_for_each_replica_that_is_ready() {
    let mut now = rollout(Strategy::Manual(None));
    for (ready, percent) in [(1, 25), (2, 50), (3, 75)] {
        let (next, moved) = step(&now, &four(ready), 10 * u64::from(ready));
        assert_eq!(moved, Some(Transition::Shifted(name(2), percent)));
        assert_eq!((next.percent(), next.stable.clone()), (percent, Some(name(1))));
        assert_eq!(step(&next, &four(ready), 100), (next.clone(), None));
        now = next;
    }
    let (promoted, moved) = step(&now, &four(4), 40);
    assert_eq!(moved, Some(Transition::Promoted(name(2))));
    assert_eq!(promoted.previous.unwrap().kept_replicas, 4);
}

#[test]
fn a_candidate_that_loses_its_replicas_gives_its_share_to_the_stable_revision() {
    for strategy in [Strategy::Manual(Some(20)), automatic()] {
        let (shifted, _) = step(&rollout(strategy), &four(4), 100);
        assert!(shifted.percent() > 0);
        let (back, moved) = step(&shifted, &four(0), 101);
        assert_eq!(moved, Some(Transition::Shifted(name(2), 0)));
        assert_eq!(step(&back, &four(0), 900), (back.clone(), None));
        let (again, _) = step(&back, &four(4), 901);
        assert_eq!(again.percent(), shifted.percent());
        // The candidate is scaled to zero, or the stable revision has no ready replica either.
        for others in [((4, 4), (0, 0)), ((0, 4), (0, 4))] {
            let evidence = Evidence { capacities: capacities(others.0, others.1), ..four(0) };
            assert_eq!(step(&shifted, &evidence, 101).0.percent(), shifted.percent(), "{others:?}");
        }
    }
}

#[test]
fn the_last_step_of_an_automatic_rollout_waits_for_replicas_too() {
    let mut now = rollout(automatic());
    let mut percents = Vec::new();
    for (at, ready) in [(0, 1), (20, 1), (40, 2), (60, 2), (80, 3), (100, 4)] {
        (now, _) = step(&now, &four(ready), at);
        percents.push(now.percent());
    }
    assert_eq!(percents, [10, 25, 50, 50, 75, 0]);
    assert_eq!(now.stable, Some(name(2)));
}

#[test]
fn a_share_waits_for_a_replica_no_longer_than_ten_minutes() {
    let (quarter, _) = step(&rollout(Strategy::Manual(None)), &four(1), 100);
    assert_eq!(step(&quarter, &four(1), 699), (quarter.clone(), None));
    let (promoted, moved) = step(&quarter, &four(1), 700);
    assert_eq!(moved, Some(Transition::Promoted(name(2))));
    assert_eq!(promoted.stable, Some(name(2)));
}

#[test]
fn a_candidate_with_fewer_replicas_at_most_gets_all_requests_once_it_has_them() {
    let most = |ready| Evidence { most: Some(2), ..four(ready) };
    let (half, _) = step(&rollout(Strategy::Manual(None)), &most(1), 100);
    assert_eq!(half.percent(), 50);
    let (promoted, _) = step(&half, &most(2), 101);
    assert_eq!(promoted.stable, Some(name(2)));
}

#[test]
fn a_stable_revision_without_ready_replicas_does_not_delay_a_rollout() {
    let broken = Evidence { capacities: capacities((0, 4), (1, 4)), ..four(1) };
    let (promoted, _) = step(&rollout(Strategy::Manual(None)), &broken, 100);
    assert_eq!(promoted.stable, Some(name(2)));
}

#[test]
fn a_candidate_without_room_keeps_that_of_the_stable_revision() {
    let mut lacking = four(1);
    let candidate = lacking.capacities.get_mut(&name(2)).unwrap();
    candidate.placement = Placement::Lacking;
    let (first, _) = step(&rollout(Strategy::Manual(None)), &lacking, 40);
    assert_eq!(step(&first, &lacking, 99), (first.clone(), None));
    let (quarter, _) = step(&first, &lacking, 100);
    let exchange = |rollout: &Rollout| rollout.exchange().map(|part| (part.stable_most, part.candidate));
    assert_eq!(exchange(&quarter), Some((Some(3), 4)));
    assert!(quarter.holds(101).all(|hold| hold.purpose == Purpose::Takeover));
    let (half, _) = step(&quarter, &four(2), 110);
    assert_eq!((half.percent(), exchange(&half)), (50, Some((Some(2), 4))));
    let (promoted, _) = step(&half, &four(4), 120);
    assert_eq!(promoted.previous.unwrap().kept_replicas, 0);
}

#[test]
fn a_rolled_back_rollout_keeps_the_stable_replicas_for_a_minute() {
    let (first, _) = step(&rollout(automatic()), &four(1), 100);
    let kept = |rollout: &Rollout, now| {
        let mut holds = rollout.holds(now).filter(|hold| hold.revision == name(1));
        holds.next().map(|hold| (hold.replicas, hold.until))
    };
    assert_eq!(kept(&first, 101), Some((4, 700)));
    let bad = Evidence { candidate: sample(40, 2, 10), ..four(1) };
    let (back, _) = step(&first, &bad, 150);
    assert_eq!((kept(&back, 151), kept(&back, 210)), (Some((4, 210)), None));
}

fn stages() -> impl Values<Value = Stage> {
    prop_oneof![Just(Stage::Waiting), (0..4_usize).prop_map(Stage::Shifting), Just(Stage::RolledBack("slow".into())),]
}

proptest! {
    /// Holds end whatever the stage, and however long a rollout stands still.
    #[test]
    fn every_hold_of_every_stage_ends(
        stage in stages(), strategy in strategies(), percents in (0..=100_u8, 0..=100_u8), needed in 0..50_u32,
        window in prop::option::of(0..5000_u64), since in 0..1000_u64, has_previous in any::<bool>(), is_rolling in any::<bool>(),
    ) {
        let rollout = Rollout {
            previous: has_previous.then(|| PreviousRevision { revision: name(3), since, kept_replicas: needed }),
            candidate: is_rolling.then(|| Candidate {
                revision: name(2),
                stage,
                since,
                share: CandidateShare { percent: percents.0.min(percents.1), target: percents.1 },
                surge: Surge::Full,
            }),
            needed_replicas: needed,
            rollback_window: window.map(Duration::from_secs),
            ..rollout(strategy)
        };
        let longest = rollout.window().max(Duration::from_secs(600)).as_secs();
        prop_assert!(rollout.holds(0).all(|hold| hold.until <= since + longest && hold.replicas <= needed));
        prop_assert_eq!(rollout.holds(since + longest).count(), 0);
    }
}
