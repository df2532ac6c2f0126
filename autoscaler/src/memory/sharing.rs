//! Detects replicas that share a GPU or the cores of one machine, so that more of them do not serve more requests.

use std::time::Duration;

use crate::{Coverage, Sample};

/// Throughput of the replicas while all were full, and the number that may be tried next. The base is the smallest
/// number of replicas whose throughput larger numbers did not clearly exceed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sharing {
    count: FullCount,
    /// The base; `None` before the first measurement.
    base: Option<Throughput>,
    limit: Option<Limit>,
    /// Number of replicas, and the time since when they have served much less than the base did; `None` while they do
    /// not.
    slower: Option<(u32, Duration)>,
    /// Time and target of the last step down towards the base; None before the first.
    step: Option<(Duration, u32)>,
    /// Time, counted while gateways reported, at which replicas were last full.
    full: Duration,
}

/// Measured throughput of a number of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throughput {
    /// Number of ready replicas.
    pub replicas: u32,
    /// Requests per second of all of them together.
    pub rate: f64,
}

/// Requests answered while all of a number of replicas were full.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FullCount {
    replicas: u32,
    seconds: f64,
    answered: f64,
}

/// Limit on the number while more replicas do not serve more requests.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Limit {
    /// Highest number of replicas known not to help.
    tried: u32,
    /// Time at which more may be tried.
    next: Duration,
    /// Length of the pause until then.
    pause: Duration,
}

/// Least time in seconds and least requests from which a throughput is measured.
const SECONDS: f64 = 10.0;
const REQUESTS: f64 = 20.0;

/// Part of their expected throughput that additional replicas must reach to count as useful. Replicas that wait for
/// memory or for the network still reach it; those that only share a GPU do not.
const GAIN: f64 = 0.25;

/// Throughput, relative to that of the base, at which more replicas count as useful however many there are.
const MUCH_MORE: f64 = 2.0;

/// Multiple of the base's number of replicas that is tried without a pause. Several replicas may share each GPU of a
/// machine, so the next one may get a GPU alone.
const TRIED: u32 = 4;

/// Replicas that share a GPU serve about as much together as the base did. If they serve less than this part of it, the
/// cause is not the sharing: requests take longer than before, and the base would serve no more either.
const AS_MUCH: f64 = 0.8;

/// Least time for which replicas must serve less before requests count as longer: a duration, and a multiple of the
/// mean service time, whichever is longer. Until then, ending replicas may still share the GPU.
const LONGER: Duration = Duration::from_secs(60);
const ANSWERS: u32 = 3;

/// First pause, which doubles each time. After it more replicas are tried, because machines may have been added or
/// requests have become longer.
const PAUSE: Duration = Duration::from_secs(5 * 60);

/// Longest pause between two tries.
const LONGEST: Duration = Duration::from_secs(4 * 60 * 60);

/// Time after which everything is forgotten if no replica was full.
const FORGOTTEN: Duration = Duration::from_secs(10 * 60);

impl Sharing {
    /// Observes the answered requests of replicas with this concurrency; `now` counts only the time in which gateways
    /// reported.
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

    /// Returns true if the replicas serve much less than the base did. Without a limit, only a larger number than the
    /// base is compared.
    fn is_slower(&self, measured: Throughput) -> bool {
        let is_judged = |base: Throughput| self.limit.is_some() || measured.replicas > base.replicas;
        self.base.is_some_and(|base| is_judged(base) && measured.rate < AS_MUCH * base.rate)
    }

    /// Starts over with this measurement as the base once this number of replicas has served less for long enough,
    /// because the old base was measured with shorter requests.
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

    /// Returns the highest number of replicas allowed, and the base; `None` if there is no limit.
    pub(crate) fn limit(&self, now: Duration) -> Option<(u32, Throughput)> {
        let (base, limit) = (self.base?, self.limit?);
        let more = limit.tried.saturating_add(limit.tried.div_ceil(4));
        let is_tried = limit.tried >= base.replicas.saturating_mul(TRIED) && now < limit.next;
        Some((if is_tried { limit.tried } else { more }, base))
    }

    /// Returns how many replicas stay for now on the way down to the base: half, and half of these after [`LONGER`]. If
    /// requests have become longer instead, this shows before there are much too few replicas.
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
            // Ending replicas may still share the GPU.
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

    /// Records that this number of replicas serves no more than the base.
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
    /// Returns the part of the expected throughput that the additional replicas reached.
    fn gain(self, more: Self) -> f64 {
        let should = f64::from(more.replicas) / f64::from(self.replicas) - 1.0;
        (more.rate / self.rate - 1.0) / should
    }
}

impl FullCount {
    /// Adds a sample of full replicas, and returns their throughput once enough is known.
    fn add(&mut self, sample: &Sample) -> Option<Throughput> {
        let replicas = sample.replicas.ready;
        if self.replicas != replicas {
            *self = Self { replicas, ..Self::default() };
            return None; // Part of this time belongs to the previous number of replicas.
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

/// Returns true if requests are queued although each replica is full.
fn is_full(sample: &Sample, credits: f64) -> bool {
    let activity = &sample.load.activity;
    let places = credits * f64::from(sample.replicas.ready);
    sample.coverage == Coverage::Complete
        && sample.replicas.ready > 0
        && activity.queued > 0
        && f64::from(activity.in_flight) >= FULL * places
}

/// Least share of the credits in use at full replicas; a few are between two requests.
const FULL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Load, Replicas};

    /// Simulates two minutes from this second, in which `ready` full replicas with one request each answer `rate`
    /// requests per second.
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
    fn replicas_that_do_not_help_limit_the_next_steps_and_then_pause() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 2, 10);
        assert_eq!(limit(&sharing, 120), None);
        full(&mut sharing, 120, 4, 10);
        assert_eq!(limit(&sharing, 240), Some(5));
        full(&mut sharing, 240, 8, 11);
        assert_eq!(limit(&sharing, 360), Some(8));
        let (_, base) = sharing.limit(Duration::ZERO).unwrap();
        assert_eq!(base.replicas, 2);
        // The pause after the second try is twice as long.
        full(&mut sharing, 740, 8, 11);
        assert_eq!(limit(&sharing, 840), Some(8));
        assert_eq!(limit(&sharing, 900), Some(10));
    }

    #[test]
    fn a_replica_with_its_own_gpu_ends_the_limit() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 240, 5, 20);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn twice_the_throughput_ends_the_limit() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 240, 16, 21);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn longer_requests_end_the_limit() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 2, 20);
        full(&mut sharing, 120, 4, 19);
        assert_eq!(limit(&sharing, 240), Some(5));
        full(&mut sharing, 240, 3, 9);
        assert_eq!(limit(&sharing, 360), None);
    }

    #[test]
    fn the_limit_is_forgotten_when_the_load_has_gone() {
        let mut sharing = Sharing::default();
        full(&mut sharing, 0, 1, 10);
        full(&mut sharing, 120, 4, 10);
        full(&mut sharing, 1000, 4, 10);
        assert_eq!(limit(&sharing, 1120), None);
    }
}
