//! Moves credits between gateways: a gateway that gains credits does not use them for [`HANDOVER`], because the gateway
//! that had them may still have requests at the replicas.
//!
//! Gateways learn of each other and of replicas at different moments, and a request stays at its replica until it is
//! answered. So a gateway that loses credits stops using them at once, and a gateway that gains credits waits. No
//! replica exceeds its limit as long as each change reaches all gateways, and requests end, within [`HANDOVER`]
//! together: then at any moment all gateways keep to the shares of one common state. A longer request, for example a
//! stream, may overlap with as many others as its gateway had credits before.

use std::time::{Duration, Instant};

use smallvec::SmallVec;

use crate::queue::partition::{GatewaySet, Ownership};

/// Time for which a gateway does not use gained credits. A change reaches all gateways within a fraction of a second;
/// the remaining time is for requests in flight, most of which take less than a second too. Half of the requests wait
/// this long when one gateway becomes two, so the time is not longer.
pub(crate) const HANDOVER: Duration = Duration::from_secs(2);

/// A gateway's rights to a revision's credits, derived from the gateways and replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Allocation {
    gateways: GatewaySet,
    pub(super) ownership: Ownership,
}

/// Earlier allocations that still restrict this gateway.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Time at which the gateway's first share begins; `None` if it has begun.
    starts: Option<Instant>,
    /// Earlier allocations, each with the time until which it counts.
    previous: SmallVec<[(Allocation, Instant); 1]>,
}

impl Allocation {
    /// Creates the allocation for replicas that together take `credits` requests at once.
    pub(super) fn new(gateways: GatewaySet, credits: u32) -> Self {
        Self { gateways, ownership: gateways.ownership(credits) }
    }

    /// Returns the number of gateways that send requests to the replicas: one if it owns all credits.
    pub(super) fn gateways(self) -> u32 {
        match self.ownership {
            Ownership::Sharing => self.gateways.count(),
            Ownership::Owner | Ownership::NonOwner => 1,
        }
    }

    /// Returns how many requests this gateway may have at a replica whose limit is `limit`.
    pub(super) fn allowed(self, limit: u32, offset: u32) -> u32 {
        match self.ownership {
            Ownership::Sharing => self.gateways.share(limit, offset),
            Ownership::Owner => limit,
            Ownership::NonOwner => 0,
        }
    }
}

impl Handover {
    /// Allows this gateway no share before `at`; `None` allows its share at once.
    pub(super) fn start(&mut self, at: Option<Instant>) {
        self.starts = at;
    }

    /// Records that the allocation changes from `from` to `to`.
    pub(super) fn change(&mut self, from: Allocation, to: Allocation, now: Instant) {
        self.pass(now);
        if from != to {
            self.previous.retain(|(allocation, _)| *allocation != from);
            self.previous.push((from, now + HANDOVER));
        }
    }

    /// Drops the restrictions that have ended.
    pub(super) fn pass(&mut self, now: Instant) {
        self.starts = self.starts.filter(|at| *at > now);
        self.previous.retain(|(_, until)| *until > now);
    }

    /// Returns the next time at which a restriction ends.
    pub(super) fn next_end(&self) -> Option<Instant> {
        let ends = self.previous.iter().map(|(_, until)| *until);
        ends.chain(self.starts).min()
    }

    /// Returns how many requests this gateway may have at a replica whose limit is `limit`, by the earlier allocations.
    pub(super) fn allowed(&self, limit: u32, offset: u32) -> u32 {
        if self.starts.is_some() {
            return 0;
        }
        let previous = self.previous.iter();
        let allowed = previous.map(|(allocation, _)| allocation.allowed(limit, offset));
        allowed.min().unwrap_or(limit)
    }
}
