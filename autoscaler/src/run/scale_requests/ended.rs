//! Requests for replicas that ended, and that the snapshot does not show yet.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use weir_cluster::RevisionName;

use super::Urgency;

/// Time that the snapshot may take to show what the cluster has noted, before it is asked for the same again.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// Time before a number that the cluster did not note is asked for again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Longest time before the same is asked for again: an API server that is overwhelmed or refuses gets an eighth of the
/// requests, and one that is back is used within seconds.
const LONGEST: Duration = Duration::from_secs(8);

/// Requests that ended: the same number is not asked for again before a pause, which doubles each time. That of wake-ups
/// does not, for somebody waits.
#[derive(Debug, Default)]
pub(super) struct EndedRequests(BTreeMap<RevisionName, Ended>);

/// Result of a request, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The cluster has noted the number.
    Noted,
    /// It was refused, or there was no answer in time.
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
    /// Adds a request that ends now.
    pub(super) fn add(&mut self, revision: &RevisionName, replicas: u32, ending: Ending) {
        // What was not asked for again as long after its pause as that was has been given up, or its revision is gone.
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
        let ended = Ended { replicas, at: Instant::now(), first_pause, pause };
        self.0.insert(revision.clone(), ended);
    }

    /// True if it is too early to ask for so many again.
    pub(super) fn has(&self, revision: &RevisionName, replicas: u32, urgency: Urgency) -> bool {
        let ended = self.0.get(revision);
        ended.is_some_and(|ended| ended.replicas == replicas && ended.age() < ended.pause(urgency))
    }

    /// Forgets the request for a number that the snapshot shows.
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
