//! Laws that hold for every queue after any operations: 22 laws with 10 000 cases each.

#[path = "laws/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use weir_batcher::{Curve, Next, ReorderBuffer, SubmitError, TimeoutAction, cleared_after, form_at};
use world::{End, Op, World, at, calm, millis, ops, policy};

/// Cases per law; all twenty-two laws take a quarter of a minute on one core.
const CASES: u32 = 10_000;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_leaves_twice(policy in policy(), ops in ops()) {
        let world = World::played(policy, &ops);
        for thing in &world.things {
            prop_assert_eq!(thing.ends.len(), 1, "{:?}", thing);
        }
        prop_assert_eq!(world.assembler.queued(), 0);
    }

    #[test]
    fn first_come_first_out_within_group_and_level(policy in policy(), ops in ops()) {
        let world = World::played(policy, &ops);
        let ran: Vec<_> = world.ran().filter(|thing| !thing.is_late()).collect();
        for (i, later) in ran.iter().enumerate() {
            for earlier in &ran[..i] {
                let peers = (earlier.group, earlier.level) == (later.group, later.level);
                prop_assert!(!peers || earlier.number < later.number, "{:?} {:?}", earlier, later);
            }
        }
    }

    #[test]
    fn no_batch_is_empty_or_over_its_limit(policy in policy(), ops in ops()) {
        let most = policy.max_weight;
        let world = World::played(policy, &ops);
        for batch in &world.batches {
            let weight: usize = batch.iter().map(|&i| world.things[i].weight).sum();
            prop_assert!(!batch.is_empty());
            prop_assert!(weight <= most || batch.len() == 1, "{} over {}", weight, most);
        }
    }

    #[test]
    fn no_batch_is_larger_than_the_memory_of_the_device(policy in policy(), ops in ops()) {
        // The steps take less than a second together, after which larger batches are tried again.
        let world = World::played(policy, &ops);
        prop_assert_eq!(world.too_large, 0);
    }

    #[test]
    fn no_batch_mixes_groups(policy in policy(), ops in ops()) {
        let world = World::played(policy, &ops);
        for batch in &world.batches {
            let group = world.things[batch[0]].group;
            prop_assert!(batch.iter().all(|&i| world.things[i].group == group));
        }
    }

    #[test]
    fn nothing_waits_past_its_delay_while_a_device_is_free(policy in policy(), ops in ops()) {
        let delay = policy.delay;
        let mut world = World::new(policy);
        for op in &ops {
            world.step(op);
            let oldest = world.queued().map(|thing| thing.arrived).min();
            match world.ask() {
                Next::Run(batch) => world.note(batch),
                Next::Idle => prop_assert_eq!(world.queued().count(), 0),
                Next::WaitUntil(until) => {
                    prop_assert!(!delay.is_zero());
                    prop_assert!(until <= at(oldest.unwrap_or_default()) + delay);
                }
            }
        }
    }

    #[test]
    fn the_expected_time_is_that_of_the_batch_due_now(policy in policy(), ops in ops()) {
        let mut world = World::new(policy);
        for op in &ops {
            world.step(op);
            let expected = world.assembler.expected(at(world.now));
            match world.ask() {
                Next::Run(batch) => {
                    prop_assert!(expected.is_none_or(|run| run == batch.expected));
                    world.note(batch);
                }
                Next::WaitUntil(_) | Next::Idle => prop_assert_eq!(expected, None),
            }
        }
    }

    #[test]
    fn each_announced_wait_ends_in_the_future_and_with_an_event(policy in policy(), ops in ops()) {
        let mut world = World::new(policy);
        for op in &ops {
            world.step(op);
            let before = world.queued().count();
            let until = match world.ask() {
                Next::Run(batch) => {
                    world.note(batch);
                    continue;
                }
                Next::Idle => continue,
                Next::WaitUntil(until) => until,
            };
            prop_assert!(until > at(world.now));
            world.now = until - at(0);
            match world.ask() {
                Next::Run(batch) => world.note(batch),
                // The item that was due then has expired, or its timeout has moved it back.
                Next::WaitUntil(next) => prop_assert!(next > until),
                Next::Idle => prop_assert!(before > 0),
            }
        }
    }

    #[test]
    fn a_cancelled_item_never_runs(policy in policy(), ops in ops()) {
        let mut world = World::new(policy);
        world.play(&ops);
        let victims: Vec<usize> = world.queued().map(|thing| thing.number).step_by(2).collect();
        for &victim in &victims {
            world.cancel(victim);
        }
        world.drain();
        for victim in victims {
            prop_assert!(!world.batches.iter().flatten().any(|&i| i == victim));
        }
    }

    #[test]
    fn an_expired_item_never_runs_and_no_other_item_expires(policy in policy(), ops in ops()) {
        let world = World::played(policy, &ops);
        for thing in &world.things {
            let over = |when: Duration| thing.end().is_some_and(|end| end <= when);
            match thing.ends[0] {
                End::Ran(when) => prop_assert!(!over(when), "{:?}", thing),
                End::Expired(when) => prop_assert!(over(when), "{:?}", thing),
                End::Cancelled => {}
            }
        }
    }

    #[test]
    fn a_delayed_item_goes_behind_all_in_time_of_its_level(mut policy in policy(), ops in ops()) {
        policy.default_queue_policy.timeout_action = TimeoutAction::Delay;
        let world = World::played(policy, &ops);
        let ran: Vec<_> = world.ran().collect();
        for (i, late) in ran.iter().enumerate().filter(|(_, thing)| thing.is_late()) {
            let from = late.timeout.unwrap_or_default();
            for after in &ran[i + 1..] {
                let peers = (late.group, late.level) == (after.group, after.level);
                let in_time = !after.is_late() && after.arrived < from;
                prop_assert!(!peers || !in_time, "{:?} before {:?}", late, after);
            }
        }
    }

    #[test]
    fn a_drain_runs_everything_without_waiting_and_ends_idle(policy in policy(), ops in ops()) {
        let mut world = World::new(policy);
        world.play(&ops);
        world.assembler.drain();
        for _ in 0..=world.things.len() {
            match world.ask() {
                Next::Run(batch) => world.note(batch),
                Next::WaitUntil(_) => prop_assert!(false, "waits"),
                Next::Idle => break,
            }
        }
        prop_assert!(matches!(world.assembler.next(at(world.now)), Next::Idle));
        world.step(&Op::admit());
        prop_assert_eq!(world.refusals.last(), Some(&SubmitError::Draining));
        prop_assert!(matches!(world.assembler.next(at(world.now)), Next::Idle));
    }

    #[test]
    fn overtaking_is_bounded_by_ageing(policy in policy(), ops in ops()) {
        let ageing = policy.ageing;
        let world = World::played(policy, &ops);
        let ran: Vec<_> = world.ran().filter(|thing| !thing.is_late()).collect();
        for (i, second) in ran.iter().enumerate() {
            for first in &ran[..i] {
                let overtaken = first.group == second.group && first.number > second.number;
                let most = ageing * second.level.saturating_sub(first.level);
                let by = first.arrived.saturating_sub(second.arrived);
                prop_assert!(!overtaken || (first.level < second.level && by <= most));
            }
        }
    }

    #[test]
    fn the_oldest_group_goes_first_when_there_is_no_delay(ops in ops()) {
        let mut world = World::new(calm());
        for op in &ops {
            let oldest = world.queued().map(|thing| (thing.arrived, thing.number)).min();
            let done = world.batches.len();
            world.step(op);
            if let (Op::Next, Some((_, number))) = (op, oldest) {
                prop_assert_eq!(world.batches[done][0], number);
            }
        }
    }

    #[test]
    fn a_batch_that_runs_before_its_delay_is_full_or_preferred_or_expects_no_more(policy in policy(), ops in ops()) {
        let (delay, most) = (policy.delay, policy.max_weight);
        let largest = policy.preferred.iter().max().copied();
        let preferred = policy.preferred.clone();
        let mut world = World::new(policy);
        // Number of waits by the number of items that they gathered.
        let mut waits = BTreeMap::<usize, usize>::new();
        for op in ops.iter().filter(|op| !matches!(op, Op::Record { .. } | Op::OutOfMemory { .. } | Op::Next)) {
            world.step(op);
            let queued: Vec<_> = world.queued().map(|thing| (thing.group, thing.arrived)).collect();
            let Next::Run(batch) = world.ask() else { continue };
            let (group, weight) = (batch.group, batch.weight);
            world.note(batch);
            let peers: Vec<_> = queued.iter().filter(|(other, _)| *other == group).collect();
            let overdue = peers.iter().map(|(_, arrived)| *arrived + delay).min() <= Some(world.now);
            let left = world.queued().filter(|thing| thing.group == group);
            let next = left.map(|thing| thing.weight).max().unwrap_or(0);
            let full = weight >= most || weight + next > largest.unwrap_or(most).min(most);
            let waited = overdue || full || preferred.contains(&weight);
            let enough = waits.range(..=peers.len()).any(|(_, waits)| *waits >= 4);
            prop_assert!(waited || enough, "{} items after {:?}", peers.len(), waits);
            *waits.entry(peers.len()).or_default() += usize::from(waited);
        }
    }

    #[test]
    fn queues_never_exceed_their_limits(policy in policy(), ops in ops()) {
        let mut world = World::new(policy.clone());
        for op in &ops {
            world.step(op);
            prop_assert!(world.assembler.queued() <= policy.max_queued);
            for level in 1..=policy.levels {
                let most = policy.queue_policy(level).max_queue_size;
                let queued = world.queued().filter(|thing| thing.level == level).count();
                prop_assert!(most == 0 || queued <= most);
            }
        }
    }

    #[test]
    fn a_chosen_size_is_never_worse_per_row_than_a_smaller(
        samples in prop::collection::vec((1..40_usize, 1..1_000_u64), 0..30),
        most in 1..50_usize,
    ) {
        let mut curve = Curve::default();
        for (weight, micros) in samples {
            curve.record(weight, Duration::from_micros(micros));
        }
        let chosen = curve.choose(most);
        prop_assert!((1..=most).contains(&chosen));
        let row = |weight: usize| Some(curve.time(weight)?.as_secs_f64() / weight as f64);
        for smaller in 1..chosen {
            // Times are whole nanoseconds, but the choice is computed with fractions.
            prop_assert!(row(smaller).is_none_or(|smaller| smaller + 2e-9 >= row(chosen).unwrap_or(0.0)));
        }
    }

    #[test]
    fn a_reorder_buffer_releases_all_once_and_in_order(
        mut places in (1..60_u64).prop_map(|n| (0..n).collect::<Vec<_>>()).prop_shuffle(),
        given_up in prop::collection::vec(any::<bool>(), 60),
    ) {
        let mut buffer = ReorderBuffer::default();
        let mut out = Vec::new();
        for &place in &places {
            out.extend(if given_up[place as usize] {
                buffer.skip(place)
            } else {
                buffer.fill(place, place)
            });
            prop_assert!(out.is_sorted());
        }
        places.sort_unstable();
        places.retain(|&place| !given_up[place as usize]);
        prop_assert_eq!(out, places);
        prop_assert_eq!(buffer.held(), 0);
    }

    #[test]
    fn a_longer_queue_never_predicts_a_shorter_wait(policy in policy(), ops in ops()) {
        let mut world = World::new(policy);
        let mut before = Vec::new();
        for op in &ops {
            let length = world.assembler.queued();
            world.step(op);
            let levels = (0..=3).map(|level| world.assembler.predicted_wait(level, at(world.now)));
            let waits: Vec<_> = levels.collect();
            // Both predictions are for the same moment, and only the queue has changed.
            if matches!(op, Op::Admit(_)) && world.assembler.queued() > length && !before.is_empty() {
                prop_assert!(waits.iter().zip(&before).all(|(now, then)| now >= then));
            }
            // Level 0 means the default level, which need not be the first.
            prop_assert!(waits[1..].is_sorted());
            before = waits;
        }
    }

    #[test]
    fn a_backlog_is_cleared_when_the_free_devices_had_enough_time(
        mut busy in prop::collection::vec(0..5_000_u64, 1..8),
        backlog in 0..50_000_u64,
    ) {
        busy.sort_unstable();
        let mut spans: Vec<Duration> = busy.iter().map(|&ms| millis(ms)).collect();
        let cleared = cleared_after(&mut spans, millis(backlog));
        let worked: Duration = spans.iter().map(|&span| cleared.saturating_sub(span)).sum();
        prop_assert!(worked.abs_diff(millis(backlog)) < Duration::from_micros(1));
        prop_assert!(cleared >= spans[0]);
    }

    #[test]
    fn a_batch_ahead_is_formed_as_late_as_it_can_be(
        now in 0..10_000_u64, free in 0..20_000_u64, prepare in 0..10_000_u64,
    ) {
        let formed = form_at(at(now), at(free), millis(prepare));
        prop_assert!(formed >= at(now));
        let in_time = formed + millis(prepare) <= at(free);
        prop_assert!(in_time || formed == at(now), "late without need");
        let latest = formed + millis(prepare) >= at(free);
        prop_assert!(latest, "earlier than it has to be");
    }

    #[test]
    fn the_same_steps_have_the_same_outcome(policy in policy(), ops in ops()) {
        let mut worlds = [World::new(policy.clone()), World::new(policy)];
        for world in &mut worlds {
            world.play(&ops);
            world.drain();
        }
        let [one, other] = worlds;
        prop_assert_eq!(one.batches, other.batches);
    }
}
