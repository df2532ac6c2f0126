//! Measures the start times of replicas.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Phase, Replica, Revision};

use crate::Replicas;

/// Tracks when each replica of one revision began to start.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartTracker {
    /// State of each replica by name; `None` before the first observation.
    states: Option<BTreeMap<Arc<str>, StartState>>,
    /// For each desired replica that does not exist yet, the time since when it is missing, longest first. Missing
    /// replicas count as starting.
    missing_since: Vec<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum StartState {
    /// The replica began to start at this time.
    Began(Duration),
    /// The replica was first observed at this time, and had begun to start before.
    BeganBefore(Duration),
    /// The replica is not starting: it is ready, unready or ending.
    NotStarting,
}

/// Durations of the latest starts of one service.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartTimes {
    latest: Arc<[Duration]>,
}

/// Start time that is assumed before one was measured: a model of some hundred megabytes loads that fast from a local
/// disk.
const UNMEASURED: Duration = Duration::from_secs(10);

/// Number of starts that are remembered: enough for a 0.9 quantile, few enough to follow a change of model or machine.
const KEPT: usize = 32;

impl StartTracker {
    /// Records the revision's state at this moment.
    pub(crate) fn observe(&mut self, revision: &Revision, times: &mut StartTimes, now: Duration) {
        let is_first = self.states.is_none();
        let before = self.states.take().unwrap_or_default();
        let mut states = BTreeMap::new();
        for replica in &revision.replicas {
            let old = before.get(&replica.name).copied();
            let old = old.unwrap_or(StartState::NotStarting);
            let state = match replica.phase {
                Phase::Pending | Phase::Starting if old != StartState::NotStarting => old,
                Phase::Pending | Phase::Starting if is_first => StartState::BeganBefore(now),
                Phase::Pending | Phase::Starting => StartState::Began(self.asked(replica, &before, now)),
                Phase::Ready => {
                    times.add(old, now);
                    StartState::NotStarting
                }
                Phase::Unready | Phase::BackOff | Phase::Terminating => StartState::NotStarting,
            };
            states.insert(replica.name.clone(), state);
        }
        self.states = Some(states);
        self.missing_since.resize(missing(revision), now);
    }

    /// Returns the time at which a starting replica was requested. A new replica fills the place that has been missing
    /// for the shortest time, because a quota may block the other places for hours.
    fn asked(&mut self, replica: &Replica, before: &BTreeMap<Arc<str>, StartState>, now: Duration) -> Duration {
        if before.contains_key(&replica.name) {
            return now;
        }
        self.missing_since.pop().unwrap_or(now)
    }

    /// Returns the replicas of the revision, which was observed just now.
    pub(crate) fn replicas(&self, revision: &Revision, times: &StartTimes, now: Duration) -> Replicas {
        let missing = self.missing_since.iter();
        let mut starting: Vec<_> = missing.map(|since| now.saturating_sub(*since)).collect();
        let states = self.states.iter().flat_map(BTreeMap::values);
        starting.extend(states.filter_map(|state| state.age(now)));
        let longest = starting.iter().max().copied().unwrap_or_default();
        Replicas {
            desired: revision.desired,
            ready: u32::try_from(revision.ready().count()).unwrap_or(u32::MAX),
            starting,
            credits: revision.concurrency.map(NonZeroU32::get),
            cold_start: times.usual().unwrap_or(UNMEASURED.max(longest)),
        }
    }
}

impl StartState {
    /// Returns the time since the start began, as far as it is known.
    fn age(self, now: Duration) -> Option<Duration> {
        match self {
            Self::Began(at) | Self::BeganBefore(at) => Some(now.saturating_sub(at)),
            Self::NotStarting => None,
        }
    }
}

/// Returns the number of desired replicas that do not exist yet.
fn missing(revision: &Revision) -> usize {
    let existing = revision.replicas.iter().filter(|r| r.phase.is_counted());
    (revision.desired as usize).saturating_sub(existing.count())
}

impl StartTimes {
    /// Adds a start that ends now. A start whose beginning was not observed has no known duration and is ignored.
    fn add(&mut self, state: StartState, now: Duration) {
        match state {
            StartState::Began(at) => {
                let too_many = (self.latest.len() + 1).saturating_sub(KEPT);
                let kept = self.latest.iter().skip(too_many).copied();
                self.latest = kept.chain([now.saturating_sub(at)]).collect();
            }
            StartState::BeganBefore(_) | StartState::NotStarting => {}
        }
    }

    /// Returns the durations of the latest starts, oldest first.
    pub(crate) fn latest(&self) -> Arc<[Duration]> {
        Arc::clone(&self.latest)
    }

    /// Returns the 0.9 quantile; `None` before the first measured start.
    fn usual(&self) -> Option<Duration> {
        let mut sorted = self.latest.to_vec();
        sorted.sort_unstable();
        let rank = (sorted.len() * 9).div_ceil(10);
        sorted.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use weir_cluster::{ServiceName, Workload};

    use super::*;

    fn revision(replicas: &[(&str, Phase)]) -> Revision {
        let service = ServiceName::new("default", "digits").unwrap();
        let workload = Workload::new(service.revision(1).unwrap(), PodTemplateSpec::default(), 0);
        let replica = |(name, phase): &(&str, Phase)| Replica::new(*name, *phase);
        let mut revision = Revision::new(&workload, replicas.len() as u32);
        revision.replicas = replicas.iter().map(replica).collect();
        revision
    }

    struct World(StartTracker, StartTimes);

    impl World {
        fn look(&mut self, second: u64, replicas: &[(&str, Phase)]) -> Replicas {
            let now = Duration::from_secs(second);
            let revision = revision(replicas);
            self.0.observe(&revision, &mut self.1, now);
            self.0.replicas(&revision, &self.1, now)
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_start_observed_from_its_beginning_is_measured() {
        let mut world = World(StartTracker::default(), StartTimes::default());
        world.look(0, &[]);
        world.look(1, &[("a", Phase::Pending)]);
        let replicas = world.look(3, &[("a", Phase::Starting)]);
        assert_eq!((replicas.starting, replicas.cold_start), (vec![seconds(2)], UNMEASURED));
        let replicas = world.look(5, &[("a", Phase::Ready)]);
        assert_eq!((replicas.ready, replicas.starting.len()), (1, 0));
        assert_eq!(replicas.cold_start, seconds(4));
    }

    #[test]
    fn a_start_that_had_begun_before_is_not_measured() {
        let mut world = World(StartTracker::default(), StartTimes::default());
        let replicas = world.look(0, &[("a", Phase::Starting)]);
        assert_eq!(replicas.starting, [seconds(0)]);
        let replicas = world.look(30, &[("a", Phase::Starting)]);
        assert_eq!(replicas.cold_start, seconds(30));
        assert_eq!(world.look(31, &[("a", Phase::Ready)]).cold_start, UNMEASURED);
    }

    #[test]
    fn a_failed_replica_is_not_starting_until_it_restarts() {
        let mut world = World(StartTracker::default(), StartTimes::default());
        world.look(0, &[]);
        world.look(1, &[("a", Phase::Starting)]);
        assert!(world.look(2, &[("a", Phase::BackOff)]).starting.is_empty());
        let again = world.look(4, &[("a", Phase::Starting)]);
        assert_eq!(again.starting, [seconds(0)]);
    }

    #[test]
    fn a_start_delayed_by_a_quota_includes_the_delay() {
        let mut tracker = StartTracker::default();
        let mut times = StartTimes::default();
        let mut look = |second, desired, pods: &[(&str, Phase)]| {
            let mut revision = revision(pods);
            revision.desired = desired;
            tracker.observe(&revision, &mut times, seconds(second));
            tracker.replicas(&revision, &times, seconds(second))
        };
        look(0, 1, &[("a", Phase::Ready)]);
        look(10, 2, &[("a", Phase::Ready)]);
        // A replica that ends and is replaced has not waited for the quota.
        look(50, 2, &[]);
        look(51, 2, &[("c", Phase::Starting)]);
        assert_eq!(look(55, 2, &[("c", Phase::Ready)]).cold_start, seconds(5));
        let both = |phase| [("c", Phase::Ready), ("b", phase)];
        assert_eq!(look(90, 2, &both(Phase::Starting)).starting, [seconds(80)]);
        assert_eq!(look(95, 2, &both(Phase::Ready)).cold_start, seconds(85));
    }

    #[test]
    fn a_missing_replica_counts_as_starting() {
        let mut tracker = StartTracker::default();
        let mut times = StartTimes::default();
        let mut revision = revision(&[("a", Phase::Ready)]);
        revision.desired = 3;
        tracker.observe(&revision, &mut times, seconds(5));
        tracker.observe(&revision, &mut times, seconds(7));
        let replicas = tracker.replicas(&revision, &times, seconds(7));
        assert_eq!((replicas.ready, replicas.starting), (1, vec![seconds(2); 2]));
    }
}
