//! Bounds a group's batches after one ran out of the device's memory, and raises the bound again by probes.

use std::time::{Duration, Instant};

/// Time from a failure or a successful probe to the next probe. It is long compared with a batch, so that a failed run
/// and its retries cost a small part of the device's time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest time between two probes. Each failed probe doubles the time up to this one. Afterwards a lasting lack of
/// memory costs two failed runs a minute, and memory that becomes free again is used half a minute later at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(32);

/// Factor between a bound and the weight of a probe. The bound reaches any weight up to 1024 after ten probes.
const GROWTH: usize = 2;

/// The largest weight for which a device has memory, as far as the group's batches have shown it.
///
/// A batch that runs out of memory sets the bound to the largest of its parts that ran. The memory may have been taken
/// by another model or process, so larger batches are tried again after a while: the bound rises when one of them runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MemoryBound {
    bound: Option<Bound>,
}

#[derive(Clone, Copy, Debug)]
struct Bound {
    weight: usize,
    /// Time from which batches larger than `weight` are tried.
    probe_at: Instant,
    pause: Duration,
}

impl MemoryBound {
    /// Returns the largest weight of a batch formed now, where the policy allows `most`.
    pub(super) fn most(&self, most: usize, now: Instant) -> usize {
        let Some(bound) = self.bound else { return most };
        let weight = if now < bound.probe_at { bound.weight } else { bound.weight.saturating_mul(GROWTH) };
        weight.min(most)
    }

    /// Returns the largest weight for which the device has memory, without probes; `None` if no batch ran out of it. A
    /// bound that no batch has probed for [`LONGEST_PAUSE`] limits none, and is left out.
    pub(super) fn weight(&self, now: Instant) -> Option<usize> {
        let bound = self.bound.filter(|bound| now < bound.probe_at + LONGEST_PAUSE)?;
        Some(bound.weight)
    }

    /// Records that a batch ran out of memory, and that its largest part that ran had the weight `fits`.
    pub(super) fn exceeded(&mut self, fits: usize, now: Instant) {
        let pause = match self.bound {
            None => FIRST_PAUSE,
            Some(bound) if now < bound.probe_at => bound.pause,
            Some(bound) => (bound.pause * 2).min(LONGEST_PAUSE),
        };
        self.bound = Some(Bound { weight: fits.max(1), probe_at: now + pause, pause });
    }

    /// Records that a batch of this weight ran, where the policy allows `most`.
    pub(super) fn ran(&mut self, weight: usize, most: usize, now: Instant) {
        if self.bound.is_none_or(|bound| weight <= bound.weight) {
            return;
        }
        let raised = Bound { weight, probe_at: now + FIRST_PAUSE, pause: FIRST_PAUSE };
        self.bound = (weight < most).then_some(raised);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 64;
    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "the test needs a start time to compute later times from")]
    fn start() -> Instant {
        Instant::now()
    }

    /// Runs full batches, one every 10 ms, on a device with memory for `room(second)` rows. Returns each batch's weight
    /// and time, and true if it ran out of memory.
    fn run(bound: &mut MemoryBound, seconds: u64, room: impl Fn(u64) -> usize) -> Vec<(u64, usize, bool)> {
        let start = start();
        let batch = |step: u64| {
            let now = start + Duration::from_millis(step * 10);
            let (weight, room) = (bound.most(MOST, now), room(step / 100));
            let failed = weight > room;
            if failed {
                // The engine halves a batch until its parts fit.
                let parts = std::iter::successors(Some(weight), |weight| Some(weight.div_ceil(2)));
                let fits = parts.take_while(|weight| *weight > 1).find(|weight| *weight <= room);
                bound.exceeded(fits.unwrap_or(1), now);
            } else {
                bound.ran(weight, MOST, now);
            }
            (step / 100, weight, failed)
        };
        (0..seconds * 100).map(batch).collect()
    }

    fn failures(batches: &[(u64, usize, bool)]) -> usize {
        batches.iter().filter(|(_, _, failed)| *failed).count()
    }

    #[test]
    fn without_a_failure_every_batch_is_as_large_as_the_policy_allows() {
        let batches = run(&mut MemoryBound::default(), 10, |_| MOST);
        assert!(batches.iter().all(|(_, weight, _)| *weight == MOST));
    }

    #[test]
    fn batches_shrink_at_once_and_come_back_when_the_neighbour_leaves() {
        let batches =
            run(&mut MemoryBound::default(), 200, |second| if (10..100).contains(&second) { 8 } else { MOST });
        let at =
            |wanted: u64| batches.iter().filter(move |(second, _, _)| *second == wanted).map(|(_, weight, _)| *weight);
        assert!(at(9).all(|weight| weight == MOST));
        assert_eq!(at(10).nth(1), Some(8), "the first batch after the failure");
        assert!(at(99).all(|weight| weight == 8 || weight == 16));
        assert!(at(140).all(|weight| weight == MOST), "no more than {LONGEST_PAUSE:?} and three probes later");
        assert!(failures(&batches) <= 8, "{}", failures(&batches));
    }

    #[test]
    fn two_batches_that_fail_together_count_as_one_failed_probe() {
        let (mut bound, now) = (MemoryBound::default(), start());
        bound.exceeded(8, now);
        bound.exceeded(8, now);
        assert_eq!(bound.most(MOST, now + SECOND), 16);
        bound.exceeded(8, now + SECOND);
        bound.exceeded(8, now + SECOND);
        assert_eq!(bound.most(MOST, now + SECOND * 2), 8);
        assert_eq!(bound.most(MOST, now + SECOND * 3), 16);
    }

    #[test]
    fn a_bound_at_the_largest_weight_is_forgotten() {
        let (mut bound, now) = (MemoryBound::default(), start());
        bound.exceeded(32, now);
        assert_eq!(bound.weight(now), Some(32));
        bound.ran(MOST, MOST, now);
        assert_eq!(bound.weight(now), None);
        assert_eq!(bound.most(2 * MOST, now), 2 * MOST);
    }

    #[test]
    fn the_bound_of_a_shape_that_no_longer_runs_is_not_reported() {
        let (mut bound, now) = (MemoryBound::default(), start());
        bound.exceeded(8, now);
        assert_eq!(bound.weight(now + LONGEST_PAUSE), Some(8));
        assert_eq!(bound.weight(now + FIRST_PAUSE + LONGEST_PAUSE), None);
        assert_eq!(bound.most(MOST, now + FIRST_PAUSE + LONGEST_PAUSE), 16, "its next batch is a probe");
    }

    proptest! {
        #[test]
        fn a_lasting_lack_of_memory_costs_few_runs_and_never_blocks_the_device(room in 1..MOST) {
            let batches = run(&mut MemoryBound::default(), 300, |_| room);
            // Six halvings at first, at most six probes that raise the bound, with a failed one after each, and then
            // a failed probe in each longest pause.
            prop_assert!(failures(&batches) <= 6 + 2 * 6 + 5 + 300 / 32, "{}", failures(&batches));
            let late = batches.iter().filter(|(second, _, failed)| *second >= 100 && !failed);
            prop_assert!(late.clone().all(|(_, weight, _)| *weight > room / 2 || *weight == room), "{room}");
        }

        #[test]
        fn whatever_happened_batches_are_whole_again_soon_after_the_memory_is_free(
            rooms in prop::collection::vec(1..=MOST, 1..20),
        ) {
            let seconds = rooms.len() as u64;
            let room = |second: u64| rooms.get(second as usize).copied().unwrap_or(MOST);
            let batches = run(&mut MemoryBound::default(), seconds + 60, room);
            let last = batches.last().map(|(_, weight, _)| *weight);
            prop_assert_eq!(last, Some(MOST));
            prop_assert!(batches.iter().all(|(_, weight, _)| (1..=MOST).contains(weight)));
        }
    }
}
