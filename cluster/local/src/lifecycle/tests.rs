use proptest::prelude::*;

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Started,
    Ready,
    NotReady,
    Ended,
}

fn lifecycle(failures: u32, successes: u32) -> Lifecycle {
    Lifecycle::new(Thresholds { failures, successes, period: UNREADY_PERIOD })
}

#[test]
fn probes_in_a_row_make_a_replica_ready_as_its_success_threshold_says() {
    let period = Duration::from_secs(5);
    let mut lifecycle = Lifecycle::new(Thresholds { failures: 1, successes: 3, period });
    let now = Duration::ZERO;
    for _ in 0..2 {
        lifecycle.started();
        assert_eq!(lifecycle.next_probe(), UNREADY_PERIOD);
        let results = [true, true, false, true, true, true];
        let phases = results.map(|succeeds| {
            lifecycle.probed(if succeeds { ProbeResult::Success } else { ProbeResult::Failure }, now);
            (lifecycle.phase(), lifecycle.next_probe() == period)
        });
        let starts = (Phase::Starting, true);
        assert_eq!(phases, [starts, starts, (Phase::Starting, false), starts, starts, (Phase::Ready, false)]);
        // After it becomes unready, the replica needs the same number of successes again.
        lifecycle.probed(ProbeResult::Failure, now);
        lifecycle.probed(ProbeResult::Success, now);
        assert_eq!(lifecycle.phase(), Phase::Unready);
    }
}

#[test]
fn a_crash_loop_waits_longer_and_longer() {
    let mut lifecycle = lifecycle(1, 1);
    let mut waits = Vec::new();
    for _ in 0..10 {
        lifecycle.started();
        waits.push(lifecycle.ended(ms(0)).as_millis());
    }
    assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    assert_eq!((lifecycle.restarts(), lifecycle.phase()), (9, Phase::BackOff));
    assert!(lifecycle.is_crash_loop());
    assert_eq!(backoff(u32::MAX), LONGEST_BACKOFF);
}

#[test]
fn a_replica_that_worked_restarts_at_once() {
    let mut lifecycle = lifecycle(1, 1);
    lifecycle.started();
    lifecycle.probed(ProbeResult::Success, ms(100));
    assert_eq!(lifecycle.ended(ms(2100)), Duration::ZERO);
    lifecycle.started();
    lifecycle.probed(ProbeResult::Success, ms(3000));
    assert_eq!(lifecycle.ended(ms(4999)), FIRST_BACKOFF);
    assert!(!lifecycle.is_crash_loop());
}

#[test]
fn a_few_failed_probes_leave_a_replica_ready() {
    let mut lifecycle = lifecycle(3, 1);
    lifecycle.started();
    lifecycle.probed(ProbeResult::Failure, ms(0));
    assert_eq!((lifecycle.phase(), lifecycle.next_probe()), (Phase::Starting, UNREADY_PERIOD));
    lifecycle.probed(ProbeResult::Success, ms(1));
    assert_eq!((lifecycle.phase(), lifecycle.next_probe()), (Phase::Ready, READY_PERIOD));
    for _ in 0..2 {
        lifecycle.probed(ProbeResult::Failure, ms(2));
    }
    assert_eq!((lifecycle.phase(), lifecycle.next_probe()), (Phase::Ready, UNREADY_PERIOD));
    lifecycle.probed(ProbeResult::Success, ms(3));
    for _ in 0..3 {
        lifecycle.probed(ProbeResult::Failure, ms(4));
    }
    assert_eq!(lifecycle.phase(), Phase::Unready);
    lifecycle.probed(ProbeResult::Success, ms(5));
    assert_eq!(lifecycle.phase(), Phase::Ready);
}

proptest! {
    #[test]
    fn phases_and_restarts_follow_the_events(events in proptest::collection::vec(prop_oneof![
        Just(Event::Started), Just(Event::Ready), Just(Event::NotReady), Just(Event::Ended)
    ], 0..60)) {
        let mut lifecycle = lifecycle(2, 1);
        let mut starts = 0;
        for (i, event) in events.iter().enumerate() {
            let (now, before) = (ms(700 * i as u64), lifecycle.phase());
            match event {
                Event::Started => {
                    lifecycle.started();
                    starts += 1;
                    prop_assert_eq!(lifecycle.phase(), Phase::Starting);
                }
                Event::Ready => lifecycle.probed(ProbeResult::Success, now),
                Event::NotReady => lifecycle.probed(ProbeResult::Failure, now),
                Event::Ended => {
                    prop_assert!(lifecycle.ended(now) <= LONGEST_BACKOFF);
                    prop_assert_eq!(lifecycle.phase(), Phase::BackOff);
                }
            }
            // Only a running process can become ready, and only by a successful probe.
            if lifecycle.phase() == Phase::Ready && before != Phase::Ready {
                prop_assert!(matches!(event, Event::Ready));
                prop_assert!(matches!(before, Phase::Starting | Phase::Unready));
            }
            prop_assert_eq!(lifecycle.restarts(), u32::saturating_sub(starts, 1));
        }
        lifecycle.stopping();
        lifecycle.probed(ProbeResult::Success, Duration::MAX);
        prop_assert_eq!(lifecycle.phase(), Phase::Terminating);
    }
}
