//! How long replicas take to start.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Phase, Revision};

use crate::Fleet;

/// When each replica of one revision began to start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Births {
    /// Unset before the first look.
    met: Option<BTreeMap<Arc<str>, Birth>>,
    /// Since when fewer replicas exist than are asked for: those that do not exist yet start too.
    short: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Birth {
    /// We saw it come, at this time.
    Seen(Duration),
    /// It was starting already at this time.
    Earlier(Duration),
    /// It does not start: it is up, or down.
    Over,
}

/// How long the latest starts of one service took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Starts {
    took: VecDeque<Duration>,
}

/// What a start is taken for before one was measured: a model of some hundred megabytes from a local
/// disk.
const UNMEASURED: Duration = Duration::from_secs(10);

/// Enough for a ninth tenth, few enough to follow a change of model or machine.
const STARTS: usize = 32;

impl Births {
    /// Takes in the revision's state at this moment.
    pub(crate) fn observe(&mut self, revision: &Revision, starts: &mut Starts, now: Duration) {
        // What starts already when we first look began earlier.
        let begins = match self.met {
            None => Birth::Earlier(now),
            Some(_) => Birth::Seen(now),
        };
        let before = self.met.take().unwrap_or_default();
        let mut met = BTreeMap::new();
        for replica in &revision.replicas {
            let old = before.get(&replica.name).copied();
            let birth = match replica.phase {
                Phase::Pending | Phase::Starting => old.unwrap_or(Birth::Over).begin(begins),
                Phase::Ready => {
                    starts.note(old, now);
                    Birth::Over
                }
                Phase::Unready | Phase::BackOff | Phase::Terminating => Birth::Over,
            };
            met.insert(replica.name.clone(), birth);
        }
        self.met = Some(met);
        self.short = match missing(revision) {
            0 => None,
            _ => self.short.or(Some(now)),
        };
    }

    /// The replicas of the revision, which was observed just now.
    pub(crate) fn fleet(&self, revision: &Revision, starts: &Starts, now: Duration) -> Fleet {
        let met = self.met.iter().flatten();
        let short = now.saturating_sub(self.short.unwrap_or(now));
        let mut starting = vec![short; missing(revision)];
        let born = met.filter_map(|(_, birth)| match birth {
            Birth::Seen(at) | Birth::Earlier(at) => Some(now.saturating_sub(*at)),
            Birth::Over => None,
        });
        starting.extend(born);
        let longest = starting.iter().max().copied().unwrap_or_default();
        Fleet {
            wanted: revision.wanted,
            ready: u32::try_from(revision.ready().count()).unwrap_or(u32::MAX),
            starting,
            credits: revision.concurrency.map(std::num::NonZeroU32::get),
            cold_start: starts.usual().unwrap_or(UNMEASURED.max(longest)),
        }
    }
}

impl Birth {
    /// It starts; `new` is how, if it did not before.
    fn begin(self, new: Self) -> Self {
        match self {
            Self::Seen(_) | Self::Earlier(_) => self,
            Self::Over => new,
        }
    }
}

/// Replicas that are asked for and do not exist yet.
fn missing(revision: &Revision) -> usize {
    let wanted = revision.replicas.iter().filter(|r| r.phase.is_wanted());
    (revision.wanted as usize).saturating_sub(wanted.count())
}

impl Starts {
    fn note(&mut self, birth: Option<Birth>, now: Duration) {
        match birth {
            Some(Birth::Seen(at)) => {
                if self.took.len() == STARTS {
                    self.took.pop_front();
                }
                self.took.push_back(now.saturating_sub(at));
            }
            Some(Birth::Earlier(_) | Birth::Over) | None => {}
        }
    }

    /// Nine of ten took no longer.
    fn usual(&self) -> Option<Duration> {
        let mut took: Vec<_> = self.took.iter().copied().collect();
        took.sort_unstable();
        let rank = (took.len() * 9).div_ceil(10);
        took.get(rank.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use weir_cluster::{Endpoints, Replica, ServiceName, Workload};

    use super::*;

    fn revision(replicas: &[(&str, Phase)]) -> Revision {
        let service = ServiceName::new("default", "digits").unwrap();
        let workload = Workload {
            revision: service.revision(1).unwrap(),
            template: Arc::new(PodTemplateSpec::default()),
            storage: Vec::new(),
            replicas: 0,
            concurrency: None,
        };
        let replica = |(name, phase): &(&str, Phase)| Replica {
            name: (*name).into(),
            phase: *phase,
            endpoints: Endpoints::default(),
            restarts: 0,
            failure: None,
        };
        let mut revision = Revision::new(&workload, replicas.len() as u32);
        revision.replicas = replicas.iter().map(replica).collect();
        revision
    }

    struct World(Births, Starts);

    impl World {
        fn look(&mut self, second: u64, replicas: &[(&str, Phase)]) -> Fleet {
            let now = Duration::from_secs(second);
            let revision = revision(replicas);
            self.0.observe(&revision, &mut self.1, now);
            self.0.fleet(&revision, &self.1, now)
        }
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_start_that_was_seen_whole_is_measured() {
        let mut world = World(Births::default(), Starts::default());
        world.look(0, &[]);
        world.look(1, &[("a", Phase::Pending)]);
        let fleet = world.look(3, &[("a", Phase::Starting)]);
        assert_eq!(
            (fleet.starting, fleet.cold_start),
            (vec![seconds(2)], UNMEASURED)
        );
        let fleet = world.look(5, &[("a", Phase::Ready)]);
        assert_eq!((fleet.ready, fleet.starting.len()), (1, 0));
        assert_eq!(fleet.cold_start, seconds(4));
    }

    #[test]
    fn a_start_that_had_begun_is_not() {
        let mut world = World(Births::default(), Starts::default());
        let fleet = world.look(0, &[("a", Phase::Starting)]);
        assert_eq!(fleet.starting, [seconds(0)]);
        let fleet = world.look(30, &[("a", Phase::Starting)]);
        assert_eq!(fleet.cold_start, seconds(30));
        assert_eq!(
            world.look(31, &[("a", Phase::Ready)]).cold_start,
            UNMEASURED
        );
    }

    #[test]
    fn what_fails_does_not_start_until_it_does_again() {
        let mut world = World(Births::default(), Starts::default());
        world.look(0, &[]);
        world.look(1, &[("a", Phase::Starting)]);
        assert!(world.look(2, &[("a", Phase::BackOff)]).starting.is_empty());
        let again = world.look(4, &[("a", Phase::Starting)]);
        assert_eq!(again.starting, [seconds(0)]);
    }

    #[test]
    fn what_does_not_exist_yet_starts() {
        let mut births = Births::default();
        let mut starts = Starts::default();
        let mut revision = revision(&[("a", Phase::Ready)]);
        revision.wanted = 3;
        births.observe(&revision, &mut starts, seconds(5));
        births.observe(&revision, &mut starts, seconds(7));
        let fleet = births.fleet(&revision, &starts, seconds(7));
        assert_eq!((fleet.ready, fleet.starting), (1, vec![seconds(2); 2]));
    }
}
