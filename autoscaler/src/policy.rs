//! What the owner of a revision wants of its replicas.

mod annotations;
mod declared;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use weir_cluster::RevisionName;

pub use declared::{Accepted, Declared};

/// The policy of each revision whose replicas are ours to set; others are left alone.
pub type Policies = BTreeMap<RevisionName, Policy>;

/// What the owner of a revision wants of its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Replicas at least. A controller raises it for a revision that must stay up, such as the stable
    /// one while another is rolled out.
    pub min: u32,
    /// Replicas at most; unset sets no limit but [`Policy::MOST`]. Where it is below `min`, `min` holds.
    pub max: Option<NonZeroU32>,
    /// Requests should be at a replica this long after they came.
    pub queue_delay: Duration,
    /// The share of requests, 0 to 1, for which that should hold.
    pub share: f64,
    /// How much idle time may be spent to avoid cold starts.
    pub economy: Economy,
    /// A limit on what one replica is counted on for, beside what it was measured to do.
    pub metric: Option<Metric>,
    /// How long nothing may happen before the last replica ends; unset leaves it to the law.
    pub retention: Option<Duration>,
    /// How long every other replica is kept at least after it was last needed.
    pub scale_down_delay: Duration,
    /// How far back arrivals are looked at.
    pub window: Duration,
    /// Replicas to start with when a request comes at zero.
    pub activation: NonZeroU32,
}

/// What one replica is counted on for, at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// So many requests at once.
    Concurrency(f64),
    /// So many requests per second.
    Rps(f64),
}

/// How much idle time may be spent to avoid cold starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Economy {
    /// As little as pays for itself.
    Economy,
    /// A few times the length of a start.
    #[default]
    Balanced,
    /// As much as helps.
    Latency,
}

impl Policy {
    /// More replicas of one revision than this are a mistake: declaring them is refused.
    pub const MOST: u32 = 10_000;

    /// Where `autoscaling.knative.dev/window` is not given: long enough to count the arrivals of a
    /// service that has one each few seconds, and the field's usual value.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// The number of replicas within the bounds that is closest to this one.
    #[must_use]
    pub fn bound(&self, replicas: u32) -> u32 {
        let min = self.min.min(Self::MOST);
        replicas.clamp(min, self.most().max(min))
    }

    /// Replicas at most.
    #[must_use]
    pub fn most(&self) -> u32 {
        let max = self.max.map_or(Self::MOST, NonZeroU32::get);
        max.max(self.min).min(Self::MOST)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            min: 1,
            max: None,
            queue_delay: Duration::from_secs(1),
            share: 0.99,
            economy: Economy::default(),
            metric: None,
            retention: None,
            scale_down_delay: Duration::ZERO,
            window: Self::WINDOW,
            activation: NonZeroU32::MIN,
        }
    }
}

impl Economy {
    /// A replica is kept this many times as long as a start takes. Once is break-even: at worst twice the
    /// cost of knowing the future, when only its own time counts. The rest is for requests that would
    /// wait for the start.
    pub(crate) fn starts(self) -> u32 {
        match self {
            Self::Economy => 1,
            Self::Balanced => 3,
            Self::Latency => 10,
        }
    }

    /// No replica is kept longer for nothing, however long it takes to start.
    pub(crate) fn longest(self) -> Duration {
        match self {
            Self::Economy => Duration::from_secs(5 * 60),
            Self::Balanced => Duration::from_secs(30 * 60),
            Self::Latency => Duration::from_secs(4 * 60 * 60),
        }
    }
}
