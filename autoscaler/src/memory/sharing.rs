//! Whether more replicas do more: those that take turns on one GPU, or on the cores of one machine, do not.

use std::time::Duration;

use crate::{Coverage, Sample};

/// What replicas did together while all were full, and how many may be tried next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sharing {
    count: FullCount,
    /// The fewest that did about as much as there are now.
    base: Option<Throughput>,
    limit: Option<Limit>,
    /// Since when so many replicas do much less than the fewer did.
    slower: Option<(u32, Duration)>,
    /// When the last step down to the fewer was made, and to how many.
    step: Option<(Duration, u32)>,
    /// When, by the time in which gateways reported, replicas were last full.
    full: Duration,
}

/// What so many replicas did together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Replicas that were ready.
    pub replicas: u32,
    /// Requests per second of all of them together.
    pub rate: f64,
}

/// What was answered while all of so many replicas were full.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FullCount {
    replicas: u32,
    seconds: f64,
    answered: f64,
}

/// A limit while more replicas did not do more.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    /// Replicas of which it is known.
    tried: u32,
    /// When more may be tried.
    next: Duration,
    /// How long the wait for it is.
    pause: Duration,
}

/// The least from which a throughput is told: seconds, and requests.
const SECONDS: f64 = 10.0;
const REQUESTS: f64 = 20.0;

/// More replicas that do less than this part of what they should do nothing of their own: a model that waits for memory
/// or for the network still does more.
const GAIN: f64 = 0.25;

/// Replicas that do so many times what fewer did are not told to do as much, however many they are.
const MUCH_MORE: f64 = 2.0;

/// So many times as many are tried without a pause: a machine may give each GPU to so many, and the next has one of
/// its own.
const TRIED: u32 = 4;

/// Replicas that take turns do about as much together as fewer did. Where they do less than this part of it, requests take
/// longer than they did, and the fewer would do no more.
const AS_MUCH: f64 = 0.8;

/// Requests have become longer when replicas do less for so long at least, and for so many times what an answer takes:
/// replicas that end have their turns until then.
const LONGER: Duration = Duration::from_secs(60);
const ANSWERS: u32 = 3;

/// The first pause, which doubles: machines may have come, and requests may be longer than they were.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// The longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(4 * 60 * 60);

/// What was known is forgotten when no replica was full for so long.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

impl Sharing {
    /// Takes in what was answered, by the time in which gateways reported, of replicas that take so many requests at
    /// once.
    pub(crate) fn observe(&mut self, now: Duration, sample: &Sample, credits: f64) {
        if now.saturating_sub(self.full) > FORGOTTEN {
            *self = Self::default();
        }
        if !is_full(sample, credits) {
            return;
        }
        self.full = now;
        let Some(measured) = self.count.add(sample) else {
            return;
        };
        if self.is_slower(measured) {
            self.note_slower(now, measured, sample);
        } else {
            self.slower = None;
            self.judge(now, measured);
        }
    }

    /// True if the replicas do much less than the fewer did: with a limit, even where no more of them are ready.
    fn is_slower(&self, measured: Throughput) -> bool {
        let is_judged = |base: Throughput| self.limit.is_some() || measured.replicas > base.replicas;
        self.base.is_some_and(|base| is_judged(base) && measured.rate < AS_MUCH * base.rate)
    }

    /// Forgets what requests that took less time taught, once so many replicas have done less for long enough.
    fn note_slower(&mut self, now: Duration, measured: Throughput, sample: &Sample) {
        let since = match self.slower {
            Some((replicas, since)) if replicas == measured.replicas => since,
            _ => now,
        };
        self.slower = Some((measured.replicas, since));
        let answer = sample.load.activity.service_time.mean();
        let enough = LONGER.max(answer.unwrap_or_default() * ANSWERS);
        if now.saturating_sub(since) >= enough {
            (self.base, self.limit, self.slower) = (Some(measured), None, None);
        }
    }

    /// How many may be asked for, and the fewer that did as much; unset while there is no reason for a limit.
    pub(crate) fn limit(&self, now: Duration) -> Option<(u32, Throughput)> {
        let (base, limit) = (self.base?, self.limit?);
        let more = limit.tried.saturating_add(limit.tried.div_ceil(4));
        let is_tried = limit.tried >= base.replicas.saturating_mul(TRIED) && now < limit.next;
        Some((if is_tried { limit.tried } else { more }, base))
    }

    /// How many of the replicas stay for now where the fewer are enough: half, and half of these a while later. Where it
    /// is the requests that have become longer, too few are full before there are much too few.
    pub(crate) fn step_down(&mut self, now: Duration, desired: u32) -> u32 {
        match self.step {
            Some((at, most)) if now.saturating_sub(at) < LONGER => most,
            _ => {
                let most = desired.div_ceil(2);
                self.step = Some((now, most));
                most
            }
        }
    }

    fn judge(&mut self, now: Duration, measured: Throughput) {
        let base = *self.base.get_or_insert(measured);
        if measured.replicas <= base.replicas {
            // Replicas that end have their turns still.
            if self.limit.is_none() || measured.rate > base.rate {
                self.base = Some(measured);
            }
        } else if base.gain(measured) >= GAIN || measured.rate >= MUCH_MORE * base.rate {
            self.base = Some(measured);
            self.limit = None;
        } else if measured.replicas >= base.replicas.saturating_mul(2) {
            self.note(now, measured.replicas);
        }
    }

    /// Notes that so many do no more than fewer did.
    fn note(&mut self, now: Duration, tried: u32) {
        match self.limit {
            Some(limit) if limit.tried >= tried => {}
            last => {
                let pause = last.map_or(PAUSE, |last| (last.pause * 2).min(LONGEST));
                self.limit = Some(Limit { tried, next: now.saturating_add(pause), pause });
            }
        }
    }
}

impl Throughput {
    /// The part of what the replicas above these should do that they did.
    fn gain(self, more: Self) -> f64 {
        let should = f64::from(more.replicas) / f64::from(self.replicas) - 1.0;
        (more.rate / self.rate - 1.0) / should
    }
}

impl FullCount {
    /// Adds a sample of replicas that were full, and returns what they do once enough is known.
    fn add(&mut self, sample: &Sample) -> Option<Throughput> {
        let replicas = sample.replicas.ready;
        if self.replicas != replicas {
            *self = Self { replicas, ..Self::default() };
            return None; // Of this time, a part is that of the replicas before.
        }
        self.seconds += sample.load.span.as_secs_f64();
        self.answered += sample.load.activity.service_time.count() as f64;
        if self.seconds < SECONDS || self.answered < REQUESTS {
            return None;
        }
        let rate = self.answered / self.seconds;
        (self.seconds, self.answered) = (0.0, 0.0);
        Some(Throughput { replicas, rate })
    }
}

/// Whether requests wait although each replica has all that it takes.
fn is_full(sample: &Sample, credits: f64) -> bool {
    let activity = &sample.load.activity;
    let places = credits * f64::from(sample.replicas.ready);
    sample.coverage == Coverage::Complete
        && sample.replicas.ready > 0
        && activity.queued > 0
        && f64::from(activity.in_flight) >= FULL * places
}

/// The part of the places that full replicas have taken at least: some are between two requests.
const FULL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Load, Replicas};

    /// Two minutes from this second on in which so many replicas that take one request at once answer so many a second.
    fn full(sharing: &mut Sharing, from: u64, ready: u32, rate: u32) {
        for second in from..from + 120 {
            let mut activity = Activity { queued: 5, in_flight: ready, ..Activity::default() };
            for _ in 0..rate {
                activity.service_time.record(Duration::from_millis(100));
            }
            let sample = Sample {
                at: Duration::ZERO,
                coverage: Coverage::Complete,
                load: Load { span: Duration::from_secs(1), activity },
                replicas: Replicas { ready, ..Replicas::default() },
            };
            sharing.observe(Duration::from_secs(second), &sample, 1.0);
        }
    }

    fn limit(sharing: &Sharing, second: u64) -> Option<u32> {
        let limit = sharing.limit(Duration::from_secs(second));
        limit.map(|(most, _)| most)
    }

    #[test]
    fn replicas_that_do_more_have_no_limit() {
        let mut sharing = Sharing::default();
        for (step, ready) in [1, 2, 4, 8].into_iter().enumerate() {
            full(&mut sharing, 120 * step as u64, ready, 10 * ready);
        }
        assert_eq!(limit(&sharing, 480), None);
    }

    #[test]
    fn those_that_do_not_are_followed_by_few_and_then_by_none_for_a_while() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 2, 10);
        assert_eq!(limit(&sharing, 120), None);
        full(&mut sharing, 120, 4, 10);
        assert_eq!(limit(&sharing, 240), Some(5));
        full(&mut sharing, 240, 8, 11);
        assert_eq!(limit(&sharing, 360), Some(8));
        let (_, base) = sharing.limit(Duration::ZERO).unwrap();
        assert_eq!(base.replicas, 2);
        // The pause after the second is twice as long.
        full(&mut sharing, 740, 8, 11);
        assert_eq!(limit(&sharing, 840), Some(8));
        assert_eq!(limit(&sharing, 900), Some(10));
    }

    #[test]
    fn a_gpu_of_its_own_ends_the_limit() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 240, 5, 20);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn twice_as_much_ends_the_limit_however_many_do_it() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 240, 16, 21);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn requests_that_have_become_longer_end_the_limit() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 2, 20);
        full(&mut sharing, 120, 4, 19);
        assert_eq!(limit(&sharing, 240), Some(5));
        full(&mut sharing, 240, 3, 9);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn what_was_is_forgotten_when_the_load_has_gone() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 1000, 4, 10);
        assert_eq!(limit(&sharing, 1120), None);
    }
}
