//! Credits change hands: whoever is given some leaves them for a while to the gateway that had them.
//!
//! Gateways learn of each other, and of replicas, at different moments, and what one has sent to a replica
//! stays there until it is answered. So a gateway takes less at once, and more only after [`HANDOVER`].
//! As long as news reach all gateways within that time, less the time of the longest request under way, no
//! replica gets more than it takes: at any moment all gateways keep to the shares of one same state. What
//! takes longer than that, a stream for instance, may meet as many others as its gateway had before.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::queue::partition::{GatewaySet, Ownership};

/// News reach all gateways within a fraction of a second; the rest is for requests under way, most of
/// which take less than a second too. Half of the requests wait so long when one gateway becomes two,
/// so it is not more.
pub(crate) const HANDOVER: Duration = Duration::from_secs(2);

/// What a gateway may do, by the gateways and replicas there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    gateways: GatewaySet,
    pub(super) ownership: Ownership,
}

/// What it could do before, as long as that counts.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Since when it has a share at all.
    starts: Option<Instant>,
    /// Earlier states, and until when each counts.
    previous: SmallVec<[(Allocation, Instant); 1]>,
}

impl Allocation {
    /// With replicas that take so many requests at once, all together.
    pub(super) fn new(gateways: GatewaySet, credits: u32) -> Self {
        Self { gateways, ownership: gateways.ownership(credits) }
    }

    /// Requests at once at a replica that takes `limit`.
    pub(super) fn allowed(self, limit: u32, offset: u32) -> u32 {
        match self.ownership {
            Ownership::Sharing => self.gateways.share(limit, offset),
            Ownership::Owner => limit,
            Ownership::NonOwner(_) => 0,
        }
    }
}

impl Handover {
    /// It has no share before this time.
    pub(super) fn start(&mut self, at: Option<Instant>) {
        self.starts = at;
    }

    /// One state follows another.
    pub(super) fn change(&mut self, from: Allocation, to: Allocation, now: Instant) {
        self.pass(now);
        if from != to {
            self.previous.retain(|(allocation, _)| *allocation != from);
            self.previous.push((from, now + HANDOVER));
        }
    }

    /// Forgets what does not count any more.
    pub(super) fn pass(&mut self, now: Instant) {
        self.starts = self.starts.filter(|at| *at > now);
        self.previous.retain(|(_, until)| *until > now);
    }

    /// When more may be used next.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let ends = self.previous.iter().map(|(_, until)| *until);
        ends.chain(self.starts).min()
    }

    /// Requests at once at a replica that takes `limit`, by all that counts still.
    pub(super) fn allowed(&self, limit: u32, offset: u32) -> u32 {
        if self.starts.is_some() {
            return 0;
        }
        let previous = self.previous.iter();
        let allowed = previous.map(|(allocation, _)| allocation.allowed(limit, offset));
        allowed.min().unwrap_or(limit)
    }
}
