//! Decides whether a service would serve a request. Health watches call this each second, so unlike routing it does not
//! advance the split sequence.

use http::request::Parts;
use weir_cluster::{Destination, RevisionName};

use super::{RouteTable, host};
use crate::wire::headers;

impl RouteTable {
    /// True if the revision that the request's head selects, by a pin, a tag or the host of a tag, would serve it. If
    /// the head selects none, true if any revision with a weight would: a canary that is down does not make its service
    /// unhealthy.
    pub(crate) fn would_serve(&self, parts: &Parts) -> bool {
        let found = self.matcher.by_address(host(parts), parts.uri.path());
        let Some(found) = found else {
            return false;
        };
        let pin = headers::text(&parts.headers, &headers::REVISION);
        let tag = headers::text(&parts.headers, &headers::TAG);
        let mut is_split = false;
        let chosen = found.revision(pin, tag, || {
            is_split = true;
            0
        });
        match (chosen, &found.route.destination) {
            (Ok(_), Destination::Split(split)) if is_split => {
                let mut targets = split.targets().iter().filter(|target| target.weight > 0);
                targets.any(|target| self.is_up(&target.revision))
            }
            (Ok(revision), Destination::Split(_) | Destination::Nowhere(_)) => self.is_up(revision),
            (Err(_), _) => false,
        }
    }

    /// True if a revision has a replica, or starts one for its next request.
    fn is_up(&self, revision: &RevisionName) -> bool {
        let queue = self.queues.get(revision);
        queue.is_some_and(|queue| queue.readiness().why_down().is_none())
    }
}
