use proptest::prelude::*;

use super::*;
use crate::rollout::Placement;

fn capacity(ready: u32, desired: u32) -> Capacity {
    Capacity { ready, desired, placement: Placement::Complete }
}

/// Evidence of a canary with these (ready, desired) replicas. All four replicas of the stable revision are ready.
fn loaded(own: (u32, u32)) -> CanaryEvidence {
    CanaryEvidence {
        service: CanaryService::Loaded,
        own: capacity(own.0, own.1),
        stable: capacity(4, 4),
        needed: 4,
        most: None,
    }
}

/// A canary that receives its whole share of 50 %, with `ready` replicas.
fn whole(ready: u32) -> CanaryShare {
    CanaryShare {
        share: CandidateShare { percent: 50, target: 50 },
        since: 10,
        needed_replicas: 4,
        ready_replicas: ready,
    }
}

#[test]
fn a_share_grows_with_each_replica_that_becomes_ready() {
    let mut canary = CanaryShare::new(0);
    let mut percents = Vec::new();
    for (at, ready) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 3)] {
        let service = if ready == 0 { CanaryService::NotLoaded } else { CanaryService::Loaded };
        canary = canary.next(60, &CanaryEvidence { service, ..loaded((ready, 3)) }, at);
        percents.push((canary.share.percent, canary.since));
    }
    assert_eq!(percents, [(0, 1), (25, 2), (25, 2), (50, 4), (60, 5)]);
    assert_eq!((canary.hold(6), canary.hold(65)), (Some(3), None));
}

#[test]
fn a_canary_without_a_ready_replica_gives_its_share_to_the_stable_revision() {
    for (state, expected) in [
        (CanaryEvidence { service: CanaryService::Failing, ..loaded((0, 2)) }, 0),
        (CanaryEvidence { service: CanaryService::NotLoaded, ..loaded((0, 2)) }, 0),
        (loaded((0, 2)), 0),
        // The canary is scaled to zero; the next request starts a replica.
        (loaded((0, 0)), 50),
        // The stable revision has no ready replica either.
        (CanaryEvidence { stable: capacity(0, 4), ..loaded((0, 2)) }, 50),
        (CanaryEvidence { service: CanaryService::Failing, stable: capacity(0, 4), ..loaded((0, 2)) }, 0),
    ] {
        assert_eq!(whole(2).next(50, &state, 20).share.percent, expected, "{state:?}");
    }
    let lost = whole(2).next(50, &loaded((0, 2)), 20);
    assert_eq!(lost.next(50, &loaded((1, 2)), 30).share.percent, 25);
}

#[test]
fn replicas_that_are_left_after_a_loss_get_no_more_requests_than_before() {
    // All requests together need twelve replicas.
    let busy = |own| CanaryEvidence { stable: capacity(6, 6), needed: 6, ..loaded(own) };
    let before = CanaryShare { needed_replicas: 12, ..whole(6) };
    let lost = before.next(50, &busy((2, 6)), 20);
    assert_eq!(lost.share, CandidateShare { percent: 25, target: 50 });
    // The fair share of two of eight replicas is 25 %; two sixths of the former 50 % would be only 16 %.
    assert_eq!(lost.next(50, &busy((6, 6)), 30).share.percent, 50);
    let ended = before.next(50, &busy((2, 2)), 20);
    assert_eq!(ended.share.percent, 50, "the autoscaler found two enough");
    let started = before.next(50, &busy((6, 9)), 20);
    assert_eq!(started.share.percent, 50, "further ones take nothing away");
}

#[test]
fn a_share_waits_for_replicas_that_are_asked_for_and_ten_minutes_for_others() {
    let quarter = CanaryShare::new(0).next(50, &loaded((1, 2)), 100);
    assert_eq!(quarter.share.percent, 25);
    assert_eq!(quarter.hold(699), Some(2));
    assert_eq!(quarter.hold(700), None);
    assert_eq!(quarter.next(50, &loaded((1, 2)), 10_000).share.percent, 25, "one has no room");
    assert_eq!(quarter.next(50, &loaded((1, 1)), 699).share.percent, 25);
    assert_eq!(quarter.next(50, &loaded((1, 1)), 700).share.percent, 50);
    let most = CanaryEvidence { most: Some(1), ..loaded((1, 1)) };
    assert_eq!(quarter.next(50, &most, 101).share.percent, 50);
}

#[test]
fn a_share_follows_the_manifest_down_at_once_and_up_with_its_replicas() {
    let lower = whole(2).next(10, &loaded((2, 2)), 20);
    assert_eq!((lower.share.percent, lower.since), (10, 20));
    assert_eq!(lower.next(0, &loaded((2, 2)), 30).share.percent, 0);
    let higher = whole(2).next(80, &loaded((2, 2)), 20);
    assert_eq!(higher.share, CandidateShare { percent: 50, target: 80 });
    assert_eq!(higher.next(80, &loaded((4, 4)), 30).share.percent, 80);
}

fn services() -> impl Strategy<Value = CanaryService> {
    prop_oneof![Just(CanaryService::NotLoaded), Just(CanaryService::Failing), Just(CanaryService::Loaded)]
}

prop_compose! {
    fn evidences()(
        service in services(),
        own in (0_u32..6, 0_u32..6),
        stable in (0_u32..6, 0_u32..6),
        needed in 0_u32..300,
        most in prop::option::of(1_u32..6),
    ) -> CanaryEvidence {
        CanaryEvidence { service, own: capacity(own.0, own.1), stable: capacity(stable.0, stable.1), needed, most }
    }
}

proptest! {
    /// The rules for a canary's share hold for every sequence of evidence and manifests.
    #[test]
    fn a_canarys_share_keeps_its_laws(steps in prop::collection::vec((0_u8..=100, evidences(), 0_u64..900), 1..20)) {
        let (mut canary, mut now) = (CanaryShare::new(0), 0);
        for (target, evidence, passes) in steps {
            now += passes;
            let next = canary.next(target, &evidence, now);
            prop_assert_eq!(next.next(target, &evidence, now).share, next.share);
            prop_assert!(next.share.percent <= target && next.share.target == target);
            let serves = evidence.service == CanaryService::Loaded;
            prop_assert!(serves || next.share.percent == 0);
            let sleeps = evidence.own.desired == 0;
            let is_down = evidence.own.ready == 0 && evidence.stable.ready > 0 && !sleeps;
            prop_assert!(!is_down || next.share.percent == 0);
            prop_assert!(next.hold(next.since + 600).is_none());
            canary = next;
        }
    }
}
