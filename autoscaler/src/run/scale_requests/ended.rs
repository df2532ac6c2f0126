//! Scale requests that have ended but whose number the snapshot does not show yet.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_cluster::RevisionName;

use super::Urgency;
use crate::clock;

/// Time for the snapshot to show an accepted number, before it is requested again.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// Pause before a number that the cluster did not accept is requested again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Longest pause. An API server that is overloaded or refuses gets an eighth of the requests, and one that has
/// recovered is used within seconds.
const LONGEST: Duration = Duration::from_secs(8);

/// Ended requests. The same number is requested again only after a pause, which doubles each time. The pause of
/// wake-ups does not double, because a client's request is waiting.
#[derive(Debug, Default)]
pub(super) struct EndedRequests(BTreeMap<RevisionName, Ended>);

/// Result of a scale request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The cluster accepted the number.
    Noted,
    /// The cluster refused the number, or did not answer in time.
    Failed,
}

#[derive(Debug)]
struct Ended {
    replicas: u32,
    at: Instant,
    first_pause: Duration,
    pause: Duration,
}

impl EndedRequests {
    /// Adds a request that ended now.
    pub(super) fn add(&mut self, revision: &RevisionName, replicas: u32, ending: Ending) {
        // An entry is dropped once twice its pause has passed: the number is not wanted any more, or the revision is
        // gone.
        self.0.retain(|_, ended| ended.age() < ended.pause * 2);
        let first_pause = match ending {
            Ending::Noted => SHOWN_WITHIN,
            Ending::Failed => RETRY_DELAY,
        };
        let before = self.0.get(revision);
        let before = before.filter(|before| before.replicas == replicas);
        let pause = match before {
            Some(before) => (before.pause * 2).min(LONGEST),
            None => first_pause,
        };
        let ended = Ended { replicas, at: clock::now(), first_pause, pause };
        self.0.insert(revision.clone(), ended);
    }

    /// Returns true if it is too early to request this number again.
    pub(super) fn has(&self, revision: &RevisionName, replicas: u32, urgency: Urgency) -> bool {
        let ended = self.0.get(revision);
        ended.is_some_and(|ended| ended.replicas == replicas && ended.age() < ended.pause(urgency))
    }

    /// Drops the entry once the snapshot shows its number.
    pub(super) fn shown(&mut self, revision: &RevisionName, replicas: u32) {
        let ended = self.0.get(revision);
        if ended.is_some_and(|ended| ended.replicas == replicas) {
            self.0.remove(revision);
        }
    }
}

impl Ended {
    fn age(&self) -> Duration {
        self.at.elapsed()
    }

    fn pause(&self, urgency: Urgency) -> Duration {
        match urgency {
            Urgency::WakeUp => self.first_pause,
            Urgency::Change => self.pause,
        }
    }
}
