//! Requests for replicas that wait or are under way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;
use weir_cluster::{ClusterError, RevisionName, Scale};

/// A cluster that has not noted a number by then is asked again with the next decision.
const DEADLINE: Duration = Duration::from_secs(5);

/// Requests at once: at some milliseconds each, hundreds of wake-ups are through in a tenth of a second, and an API
/// server, which serves some hundred at once, keeps room for others.
const AT_ONCE: usize = 32;

/// Time that the snapshot may take to show what the cluster has noted, before it is asked for the same again.
const SHOWN_WITHIN: Duration = Duration::from_secs(2);

/// Requests for replicas that wait or are under way: at most one under way for each revision, so that an old number
/// never overtakes a new one; a slow one holds up no other, and wake-ups go first.
pub(super) struct ScaleRequests {
    scale: Arc<dyn Scale>,
    /// Revisions that wait, in the order of their requests.
    wake_ups: VecDeque<RevisionName>,
    changes: VecDeque<RevisionName>,
    /// The number for each of them.
    waiting: BTreeMap<RevisionName, u32>,
    revisions: BTreeSet<RevisionName>,
    under_way: FuturesUnordered<BoxFuture<'static, ScaleOutcome>>,
    /// What the cluster has noted and the snapshot may not show yet.
    noted: BTreeMap<RevisionName, Noted>,
}

/// Order of a request among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// A request waits, and there is no replica.
    WakeUp,
    /// There are replicas, or nobody waits for the first.
    Change,
}

/// How a request for replicas ended.
pub(super) struct ScaleOutcome {
    revision: RevisionName,
    replicas: u32,
    result: Result<(), ClusterError>,
}

struct Noted {
    replicas: u32,
    at: Instant,
}

impl ScaleRequests {
    pub(super) fn new(scale: Arc<dyn Scale>) -> Self {
        Self {
            scale,
            wake_ups: VecDeque::new(),
            changes: VecDeque::new(),
            waiting: BTreeMap::new(),
            revisions: BTreeSet::new(),
            under_way: FuturesUnordered::new(),
            noted: BTreeMap::new(),
        }
    }

    /// Whether so many are asked for already, or another number is under way.
    pub(super) fn has(&self, revision: &RevisionName, replicas: u32) -> bool {
        let is_shown_soon = |noted: &Noted| noted.replicas == replicas && noted.is_fresh();
        self.revisions.contains(revision)
            || self.waiting.get(revision) == Some(&replicas)
            || self.noted.get(revision).is_some_and(is_shown_soon)
    }

    /// Asks for so many replicas. Of a revision that waits, the number changes.
    pub(super) fn ask(&mut self, revision: &RevisionName, replicas: u32, urgency: Urgency) {
        if self.waiting.insert(revision.clone(), replicas).is_none() {
            let waiting = match urgency {
                Urgency::WakeUp => &mut self.wake_ups,
                Urgency::Change => &mut self.changes,
            };
            waiting.push_back(revision.clone());
        }
        self.begin();
    }

    /// Waits until a number is noted or refused; forever when none is asked for.
    pub(super) async fn next(&mut self) -> ScaleOutcome {
        let Some(outcome) = self.under_way.next().await else {
            return std::future::pending().await;
        };
        self.revisions.remove(&outcome.revision);
        self.noted.retain(|_, noted| noted.is_fresh());
        if outcome.result.is_ok() {
            let noted = Noted {
                replicas: outcome.replicas,
                at: Instant::now(),
            };
            self.noted.insert(outcome.revision.clone(), noted);
        }
        self.begin();
        outcome
    }

    /// Begins as many as there is room for.
    fn begin(&mut self) {
        while self.under_way.len() < AT_ONCE {
            let next = self.wake_ups.pop_front();
            let Some(revision) = next.or_else(|| self.changes.pop_front()) else {
                return;
            };
            if let Some(replicas) = self.waiting.remove(&revision) {
                self.revisions.insert(revision.clone());
                let asked = ask(self.scale.clone(), revision, replicas);
                self.under_way.push(Box::pin(asked));
            }
        }
    }
}

async fn ask(scale: Arc<dyn Scale>, revision: RevisionName, replicas: u32) -> ScaleOutcome {
    let asked = tokio::time::timeout(DEADLINE, scale.scale(&revision, replicas)).await;
    let result = asked.unwrap_or_else(|elapsed| {
        Err(ClusterError::Unavailable {
            what: format!("scaling of {revision}"),
            source: Box::new(elapsed),
        })
    });
    ScaleOutcome {
        revision,
        replicas,
        result,
    }
}

impl Noted {
    fn is_fresh(&self) -> bool {
        self.at.elapsed() < SHOWN_WITHIN
    }
}

impl ScaleOutcome {
    /// Logs why the number of replicas was not changed.
    pub(super) fn log(&self) {
        let revision = &self.revision;
        match &self.result {
            Ok(()) => {}
            // The revision was removed in between.
            Err(ClusterError::UnknownRevision { .. }) => {
                tracing::debug!(%revision, "removed before it was scaled");
            }
            Err(
                error @ (ClusterError::Unavailable { .. }
                | ClusterError::Name { .. }
                | ClusterError::Denied { .. }
                | ClusterError::Refused { .. }),
            ) => tracing::warn!(%revision, %error, "cannot scale; retrying within a second"),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::{Semaphore, mpsc};
    use weir_cluster::ServiceName;

    use super::*;

    /// A cluster that notes a number once it is let to.
    struct Slow {
        asked: mpsc::UnboundedSender<(RevisionName, u32)>,
        permits: Semaphore,
    }

    #[async_trait]
    impl Scale for Slow {
        async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
            let _ = self.asked.send((revision.clone(), replicas));
            if let Ok(permit) = self.permits.acquire().await {
                permit.forget();
            }
            Ok(())
        }
    }

    fn revision(number: usize) -> RevisionName {
        let service = ServiceName::new("default", &format!("s{number:03}")).unwrap();
        service.revision(1).unwrap()
    }

    struct Asked {
        requests: ScaleRequests,
        cluster: Arc<Slow>,
        asked: mpsc::UnboundedReceiver<(RevisionName, u32)>,
    }

    fn asked() -> Asked {
        let (sender, asked) = mpsc::unbounded_channel();
        let cluster = Arc::new(Slow {
            asked: sender,
            permits: Semaphore::new(0),
        });
        Asked {
            requests: ScaleRequests::new(cluster.clone()),
            cluster,
            asked,
        }
    }

    impl Asked {
        /// Lets so many be noted; returns all that the cluster was asked for meanwhile.
        async fn note(&mut self, count: usize) -> Vec<(RevisionName, u32)> {
            self.cluster.permits.add_permits(count);
            for _ in 0..count {
                self.requests.next().await;
            }
            // Those that began with the last are polled once more, and have asked then.
            let more = self.requests.next();
            let _ = tokio::time::timeout(Duration::from_millis(1), more).await;
            let mut all = Vec::new();
            while let Ok(one) = self.asked.try_recv() {
                all.push(one);
            }
            all
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_are_under_way_and_wake_ups_go_first() {
        let mut asked = asked();
        for number in 0..AT_ONCE * 2 {
            asked.requests.ask(&revision(number), 2, Urgency::Change);
        }
        let woken = revision(999);
        asked.requests.ask(&woken, 1, Urgency::WakeUp);
        let first = asked.note(1).await;
        assert_eq!(first.len(), AT_ONCE + 1);
        assert_eq!(first.last(), Some(&(woken, 1)));
        let rest = asked.note(AT_ONCE * 2).await;
        assert_eq!(rest.len(), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_waits_takes_the_last_number() {
        let mut asked = asked();
        for number in 0..=AT_ONCE {
            asked.requests.ask(&revision(number), 2, Urgency::Change);
        }
        let last = revision(AT_ONCE);
        assert!(asked.requests.has(&last, 2) && !asked.requests.has(&last, 5));
        asked.requests.ask(&last, 5, Urgency::Change);
        let all = asked.note(AT_ONCE + 1).await;
        assert_eq!(all.len(), AT_ONCE + 1);
        assert!(all.contains(&(last, 5)), "{all:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_noted_is_asked_for_again_only_if_it_is_not_shown() {
        let mut asked = asked();
        let one = revision(1);
        asked.requests.ask(&one, 3, Urgency::Change);
        assert!(asked.requests.has(&one, 3) && asked.requests.has(&one, 4));
        asked.note(1).await;
        assert!(asked.requests.has(&one, 3) && !asked.requests.has(&one, 4));
        tokio::time::advance(SHOWN_WITHIN).await;
        assert!(!asked.requests.has(&one, 3));
    }
}
