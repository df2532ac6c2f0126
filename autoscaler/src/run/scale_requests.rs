//! Scale requests to the cluster that are queued or in flight.

mod ended;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use weir_cluster::{ClusterError, RevisionName, Scale};

use self::ended::{EndedRequests, Ending};

/// Timeout of a scale request, after which it is retried.
const DEADLINE: Duration = Duration::from_secs(5);

/// Most concurrent requests. At a few milliseconds each, hundreds of wake-ups take a tenth of a second, and an API
/// server, which serves some hundred requests at once, keeps room for other clients.
const AT_ONCE: usize = 32;

/// Scale requests that are queued or in flight. At most one per revision is in flight, so that an old number never
/// overtakes a new one. A slow request holds up no other revision, and wake-ups go first.
pub(super) struct ScaleRequests {
    scale: Arc<dyn Scale>,
    /// Queued revisions, in the order of their requests.
    wake_ups: VecDeque<RevisionName>,
    changes: VecDeque<RevisionName>,
    /// Number and urgency of each queued request.
    waiting: BTreeMap<RevisionName, Waiting>,
    revisions: BTreeSet<RevisionName>,
    under_way: FuturesUnordered<BoxFuture<'static, ScaleOutcome>>,
    ended: EndedRequests,
}

/// Urgency of a scale request; the more urgent goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The revision has replicas, or no request waits for the first one.
    Change,
    /// A request waits, and there is no replica.
    WakeUp,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    replicas: u32,
    urgency: Urgency,
}

/// Outcome of a scale request.
pub(super) struct ScaleOutcome {
    revision: RevisionName,
    replicas: u32,
    result: Result<(), ClusterError>,
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
            ended: EndedRequests::default(),
        }
    }

    /// Returns true if a new request is unnecessary for now: the same number is queued at the same urgency, was
    /// requested a moment ago, or any number is in flight.
    pub(super) fn is_pending(&self, revision: &RevisionName, replicas: u32, urgency: Urgency) -> bool {
        let is_same = |waiting: &Waiting| waiting.replicas == replicas && waiting.urgency >= urgency;
        self.revisions.contains(revision)
            || self.waiting.get(revision).is_some_and(is_same)
            || self.ended.has(revision, replicas, urgency)
    }

    /// Requests this number of replicas. A queued request of the revision takes the new number, and moves up if the new
    /// one is more urgent.
    pub(super) fn request(&mut self, revision: &RevisionName, replicas: u32, urgency: Urgency) {
        let before = self.waiting.get(revision).map(|waiting| waiting.urgency);
        if before < Some(urgency) {
            self.unqueue(revision);
            self.queue(urgency).push_back(revision.clone());
        }
        let waiting = Waiting { replicas, urgency: before.map_or(urgency, |before| before.max(urgency)) };
        self.waiting.insert(revision.clone(), waiting);
        self.begin();
    }

    /// Records that the snapshot shows the decided number, and withdraws any other queued request of the revision.
    pub(super) fn withdraw(&mut self, revision: &RevisionName, replicas: u32) {
        self.ended.shown(revision, replicas);
        if self.waiting.remove(revision).is_some() {
            self.unqueue(revision);
        }
    }

    fn queue(&mut self, urgency: Urgency) -> &mut VecDeque<RevisionName> {
        match urgency {
            Urgency::WakeUp => &mut self.wake_ups,
            Urgency::Change => &mut self.changes,
        }
    }

    fn unqueue(&mut self, revision: &RevisionName) {
        for queue in [&mut self.wake_ups, &mut self.changes] {
            queue.retain(|queued| queued != revision);
        }
    }

    /// Waits until the cluster has accepted or refused a request; forever if none is in flight.
    pub(super) async fn next(&mut self) -> ScaleOutcome {
        let Some(outcome) = self.under_way.next().await else {
            return std::future::pending().await;
        };
        self.revisions.remove(&outcome.revision);
        let ending = match outcome.result {
            Ok(()) => Ending::Noted,
            Err(_) => Ending::Failed,
        };
        self.ended.add(&outcome.revision, outcome.replicas, ending);
        self.begin();
        outcome
    }

    /// Starts queued requests up to the limit.
    fn begin(&mut self) {
        while self.under_way.len() < AT_ONCE {
            let next = self.wake_ups.pop_front();
            let Some(revision) = next.or_else(|| self.changes.pop_front()) else {
                return;
            };
            if let Some(waiting) = self.waiting.remove(&revision) {
                self.revisions.insert(revision.clone());
                let asked = ask(self.scale.clone(), revision, waiting.replicas);
                self.under_way.push(Box::pin(asked));
            }
        }
    }
}

async fn ask(scale: Arc<dyn Scale>, revision: RevisionName, replicas: u32) -> ScaleOutcome {
    let asked = tokio::time::timeout(DEADLINE, scale.scale(&revision, replicas)).await;
    let result = asked.unwrap_or_else(|elapsed| {
        Err(ClusterError::Unavailable { what: format!("scaling of {revision}"), source: Box::new(elapsed) })
    });
    ScaleOutcome { revision, replicas, result }
}

impl ScaleOutcome {
    /// Logs why the number of replicas was not changed.
    pub(super) fn log(&self) {
        let revision = &self.revision;
        match &self.result {
            Ok(()) => {}
            // The revision was removed in the meantime.
            Err(ClusterError::UnknownRevision { .. }) => {
                tracing::debug!(%revision, "revision was removed before it was scaled");
            }
            Err(
                error @ (ClusterError::Unavailable { .. }
                | ClusterError::Name { .. }
                | ClusterError::Denied { .. }
                | ClusterError::Refused { .. }),
            ) => tracing::warn!(%revision, %error, "cannot scale the revision; retrying within seconds"),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use tokio::sync::{Semaphore, mpsc};
    use weir_cluster::ServiceName;

    use super::*;

    /// A cluster that accepts a number once it has a permit.
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

    struct Fixture {
        requests: ScaleRequests,
        cluster: Arc<Slow>,
        asked: mpsc::UnboundedReceiver<(RevisionName, u32)>,
    }

    fn fixture() -> Fixture {
        let (sender, asked) = mpsc::unbounded_channel();
        let cluster = Arc::new(Slow { asked: sender, permits: Semaphore::new(0) });
        Fixture { requests: ScaleRequests::new(cluster.clone()), cluster, asked }
    }

    impl Fixture {
        /// Lets the cluster accept this many requests; returns all requests that it received meanwhile.
        async fn note(&mut self, count: usize) -> Vec<(RevisionName, u32)> {
            self.cluster.permits.add_permits(count);
            for _ in 0..count {
                self.requests.next().await;
            }
            // Requests that started with the last one are polled once more, so that they have reached the cluster.
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
    async fn the_requests_in_flight_are_limited_and_wake_ups_go_first() {
        let mut asked = fixture();
        for number in 0..AT_ONCE * 2 {
            asked.requests.request(&revision(number), 2, Urgency::Change);
        }
        let woken = revision(999);
        asked.requests.request(&woken, 1, Urgency::WakeUp);
        let first = asked.note(1).await;
        assert_eq!(first.len(), AT_ONCE + 1);
        assert_eq!(first.last(), Some(&(woken, 1)));
        let rest = asked.note(AT_ONCE * 2).await;
        assert_eq!(rest.len(), AT_ONCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_queued_request_takes_the_last_number_and_the_highest_urgency() {
        let mut asked = fixture();
        for number in 0..=AT_ONCE + 1 {
            asked.requests.request(&revision(number), 2, Urgency::Change);
        }
        let (next, last) = (revision(AT_ONCE), revision(AT_ONCE + 1));
        assert!(asked.requests.is_pending(&last, 2, Urgency::Change));
        assert!(!asked.requests.is_pending(&last, 5, Urgency::Change));
        assert!(!asked.requests.is_pending(&last, 2, Urgency::WakeUp));
        asked.requests.request(&last, 1, Urgency::WakeUp);
        asked.requests.request(&last, 5, Urgency::Change);
        assert!(asked.requests.is_pending(&last, 5, Urgency::WakeUp));
        let all = asked.note(AT_ONCE + 2).await;
        assert_eq!(all.len(), AT_ONCE + 2);
        assert_eq!(all[AT_ONCE..], [(last, 5), (next, 2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_withdrawn_request_is_never_sent() {
        let mut asked = fixture();
        for number in 0..=AT_ONCE {
            asked.requests.request(&revision(number), 0, Urgency::Change);
        }
        let last = revision(AT_ONCE);
        asked.requests.withdraw(&last, 1);
        asked.requests.withdraw(&revision(0), 1);
        let all = asked.note(AT_ONCE).await;
        assert_eq!(all.len(), AT_ONCE);
        assert!(!all.contains(&(last.clone(), 0)), "{all:?}");
        asked.requests.request(&last, 3, Urgency::Change);
        assert_eq!(asked.note(1).await, [(last, 3)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_accepted_number_is_requested_again_only_if_the_snapshot_does_not_show_it() {
        let (change, wake) = (Urgency::Change, Urgency::WakeUp);
        let mut asked = fixture();
        let one = revision(1);
        asked.requests.request(&one, 3, change);
        assert!(asked.requests.is_pending(&one, 3, change) && asked.requests.is_pending(&one, 4, change));
        // If the snapshot does not show it in time, the pause doubles, except for a wake-up.
        for pause in [2, 4, 8, 8] {
            asked.note(1).await;
            assert!(!asked.requests.is_pending(&one, 4, change));
            tokio::time::advance(Duration::from_millis(pause * 1000 - 100)).await;
            assert!(asked.requests.is_pending(&one, 3, change));
            assert_eq!(asked.requests.is_pending(&one, 3, wake), pause == 2);
            tokio::time::advance(Duration::from_millis(100)).await;
            assert!(!asked.requests.is_pending(&one, 3, change), "{pause}");
            asked.requests.request(&one, 3, change);
        }
        asked.note(1).await;
        asked.requests.withdraw(&one, 3);
        assert!(!asked.requests.is_pending(&one, 3, change));
    }
}
