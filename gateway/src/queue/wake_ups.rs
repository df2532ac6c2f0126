//! Wake-ups: requests for the first replicas of revisions at zero, and the number of them that one client may have at a
//! time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_access::ClientId;
use weir_cluster::RevisionName;

use super::shares::ClientShare;

/// Maximum number of revisions that may wait for their first replica because of one client's requests, for each unit of
/// its weight. A person who looks at all services of a team wakes fewer, and a cluster starts fewer replicas at the
/// same time.
const MAX_EACH: usize = 32;

/// Largest weight that counts.
const MAX_WEIGHT: usize = 16;

/// Longest time for which a wake-up counts: large models take minutes to load. After it, the client may wake another
/// revision, because the first one may never get a replica.
const LONGEST: Duration = Duration::from_secs(300);

/// Number of clients above which those without a current wake-up are forgotten.
const MAX_CLIENTS: usize = 1024;

/// Wake-ups of all revisions of a gateway.
#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    /// Notified when a request arrives for a revision without replicas, so that a report is published at once.
    report: Notify,
    clients: Mutex<HashMap<ClientId, Vec<WakeUp>>>,
}

/// A revision that waits for its first replica.
#[derive(Clone, Debug)]
struct WakeUp {
    revision: RevisionName,
    until: Instant,
}

/// The client whose request woke a revision, and the time until which the wake-up counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct WokenBy {
    client: ClientId,
    until: Instant,
}

impl WakeUps {
    /// Makes the gateway publish a report at once, so that the autoscaler starts a replica.
    pub(super) fn report(&self) {
        self.report.notify_one();
    }

    /// Waits until a report should be published at once.
    pub(crate) async fn reported(&self) {
        self.report.notified().await;
    }

    /// Counts a revision that a client's request wakes. Returns `None` if too many revisions wait because of this
    /// client.
    pub(super) fn begin(&self, share: ClientShare, revision: &RevisionName, now: Instant) -> Option<WokenBy> {
        let mut clients = self.clients.lock();
        if clients.len() > MAX_CLIENTS {
            clients.retain(|_, own| own.iter().any(|one| one.until > now));
        }
        let own = clients.entry(share.client).or_default();
        own.retain(|one| one.until > now && one.revision != *revision);
        if own.len() >= MAX_EACH * usize::from(share.weight.get()).min(MAX_WEIGHT) {
            return None;
        }
        let until = now + LONGEST;
        own.push(WakeUp { revision: revision.clone(), until });
        Some(WokenBy { client: share.client, until })
    }

    /// Stops counting a revision that has got a replica, or never will.
    pub(super) fn end(&self, woken: WokenBy, revision: &RevisionName) {
        let mut clients = self.clients.lock();
        if let Some(own) = clients.get_mut(&woken.client) {
            own.retain(|one| one.revision != *revision);
            if own.is_empty() {
                clients.remove(&woken.client);
            }
        }
    }
}

impl WokenBy {
    /// Returns true if the replica that this request's wake-up requested may still come.
    pub(super) fn counts(self, now: Instant) -> bool {
        now < self.until
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use weir_cluster::ServiceName;

    use super::*;
    use crate::clock::now;

    fn revision(number: usize) -> RevisionName {
        let service = ServiceName::new("default", &format!("model-{number}")).unwrap();
        service.revision(1).unwrap()
    }

    fn share(client: &str, weight: u16) -> ClientShare {
        ClientShare { client: ClientId::of(client), weight: NonZeroU16::new(weight).unwrap() }
    }

    #[test]
    fn a_client_wakes_a_limited_number_of_revisions_at_a_time() {
        let (wakes, start) = (WakeUps::default(), now());
        let begun: Vec<_> = (0..100).filter_map(|one| wakes.begin(share("a", 1), &revision(one), start)).collect();
        assert_eq!(begun.len(), MAX_EACH);
        // A revision counts once, however often it is woken. Another client, and a greater weight, have more wake-ups.
        assert!(wakes.begin(share("a", 1), &revision(3), start).is_some());
        assert!(wakes.begin(share("b", 1), &revision(99), start).is_some());
        assert!(wakes.begin(share("a", 2), &revision(98), start).is_some());
        assert!(wakes.begin(share("a", 1), &revision(97), start).is_none());
        wakes.end(begun[0], &revision(0));
        wakes.end(begun[1], &revision(1));
        assert!(wakes.begin(share("a", 1), &revision(97), start).is_some());
    }

    #[test]
    fn a_revision_that_never_gets_a_replica_counts_for_some_minutes() {
        let (wakes, start) = (WakeUps::default(), now());
        let begun: Vec<_> = (0..32).filter_map(|one| wakes.begin(share("a", 1), &revision(one), start)).collect();
        assert!(wakes.begin(share("a", 1), &revision(99), start + LONGEST / 2).is_none());
        assert!(begun[0].counts(start) && !begun[0].counts(start + LONGEST));
        assert!(wakes.begin(share("a", 1), &revision(99), start + LONGEST).is_some());
    }

    #[test]
    fn any_number_of_clients_takes_bounded_memory() {
        let (wakes, mut at) = (WakeUps::default(), now());
        for number in 0..10 * MAX_CLIENTS {
            wakes.begin(share(&number.to_string(), 1), &revision(number), at);
            at += LONGEST / 100;
        }
        assert!(wakes.clients.lock().len() <= MAX_CLIENTS + 1);
    }
}
