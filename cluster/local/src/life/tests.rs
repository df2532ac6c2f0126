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

#[test]
fn a_crash_loop_waits_longer_and_longer() {
    let mut life = Life::new(1);
    let mut waits = Vec::new();
    for _ in 0..10 {
        life.started();
        waits.push(life.ended(ms(0)).as_millis());
    }
    assert_eq!(
        waits,
        [
            200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000
        ]
    );
    assert_eq!((life.restarts(), life.phase()), (9, Phase::BackOff));
    assert!(life.is_crash_loop());
    assert_eq!(wait(u32::MAX), LONGEST_WAIT);
}

#[test]
fn one_that_worked_is_back_at_once() {
    let mut life = Life::new(1);
    life.started();
    life.answered(Answer::Ready, ms(100));
    assert_eq!(life.ended(ms(2100)), Duration::ZERO);
    life.started();
    life.answered(Answer::Ready, ms(3000));
    assert_eq!(life.ended(ms(4999)), FIRST_WAIT);
    assert!(!life.is_crash_loop());
}

#[test]
fn a_few_misses_are_forgiven() {
    let mut life = Life::new(3);
    life.started();
    life.answered(Answer::NotReady, ms(0));
    assert_eq!(
        (life.phase(), life.ask_again()),
        (Phase::Starting, ASK_UNREADY)
    );
    life.answered(Answer::Ready, ms(1));
    assert_eq!((life.phase(), life.ask_again()), (Phase::Ready, ASK_READY));
    for _ in 0..2 {
        life.answered(Answer::NotReady, ms(2));
    }
    assert_eq!(
        (life.phase(), life.ask_again()),
        (Phase::Ready, ASK_UNREADY)
    );
    life.answered(Answer::Ready, ms(3));
    for _ in 0..3 {
        life.answered(Answer::NotReady, ms(4));
    }
    assert_eq!(life.phase(), Phase::Unready);
    life.answered(Answer::Ready, ms(5));
    assert_eq!(life.phase(), Phase::Ready);
}

proptest! {
    #[test]
    fn laws(events in proptest::collection::vec(prop_oneof![
        Just(Event::Started), Just(Event::Ready), Just(Event::NotReady), Just(Event::Ended)
    ], 0..60)) {
        let mut life = Life::new(2);
        let mut starts = 0;
        for (i, event) in events.iter().enumerate() {
            let (now, before) = (ms(700 * i as u64), life.phase());
            match event {
                Event::Started => {
                    life.started();
                    starts += 1;
                    prop_assert_eq!(life.phase(), Phase::Starting);
                }
                Event::Ready => life.answered(Answer::Ready, now),
                Event::NotReady => life.answered(Answer::NotReady, now),
                Event::Ended => {
                    prop_assert!(life.ended(now) <= LONGEST_WAIT);
                    prop_assert_eq!(life.phase(), Phase::BackOff);
                }
            }
            // Only a process that runs can become ready, and only a good answer makes it so.
            if life.phase() == Phase::Ready && before != Phase::Ready {
                prop_assert!(matches!(event, Event::Ready));
                prop_assert!(matches!(before, Phase::Starting | Phase::Unready));
            }
            prop_assert_eq!(life.restarts(), u32::saturating_sub(starts, 1));
        }
        life.stopping();
        life.answered(Answer::Ready, Duration::MAX);
        prop_assert_eq!(life.phase(), Phase::Terminating);
    }
}
