//! One observation of a revision.

use std::time::Duration;

use weir_cluster::{Activity, Histogram};

/// One observation of a revision: its load and its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time since any fixed moment. Samples of one revision come in order.
    pub at: Duration,
    /// How much of the load is known.
    pub coverage: Coverage,
    /// The load that the gateways reported.
    pub load: Load,
    /// The replicas of the revision.
    pub replicas: Replicas,
}

/// How much of the load is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every gateway that is up reports.
    Complete,
    /// Some gateway is silent: there may be more load than is seen, never less.
    Partial,
    /// No gateway reports: the load is not known.
    None,
}

/// The load of one revision, as the gateways reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// The time over which `activity` was counted; zero when its counts mean nothing.
    pub span: Duration,
    /// All gateways together: what happened within the span, and what is so at its end.
    pub activity: Activity,
}

/// The replicas of one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicas {
    /// Replicas that were asked for.
    pub desired: u32,
    /// Replicas that take requests.
    pub ready: u32,
    /// How long each of those that start has been starting.
    pub starting: Vec<Duration>,
    /// Requests a replica takes at once, where the service says so; else the gateways' reports tell.
    pub credits: Option<u32>,
    /// Time that a start takes, as a 0.9 quantile.
    pub cold_start: Duration,
}

impl Sample {
    /// Whether there is work, or a first replica starts: one that is stopped before it was ever ready
    /// never becomes ready. Load that no gateway reports does not count.
    pub(crate) fn is_active(&self) -> bool {
        let first = self.replicas.ready == 0 && self.replicas.committed() > 0;
        self.has_work() || first
    }

    /// Whether a request came, waits or is under way.
    pub(crate) fn has_work(&self) -> bool {
        self.load.activity.arrivals > 0 || self.load.is_busy()
    }
}

impl Load {
    /// How long the request that waits longest has waited.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        Duration::from_micros(self.activity.oldest_us)
    }

    /// How long this share of the requests waited at most, or how long one has waited that still does.
    #[must_use]
    pub fn delay(&self, share: f64) -> Duration {
        let measured = self.activity.queue_delay.quantile(share);
        self.oldest().max(measured.unwrap_or_default())
    }

    /// How many requests reached a replica, and how many of them after a longer wait than this.
    pub(crate) fn lateness(&self, target: Duration) -> (u64, u64) {
        let counts = self.activity.queue_delay.counts();
        let target = u64::try_from(target.as_micros()).unwrap_or(u64::MAX);
        let bounds = Histogram::bounds_us();
        let late = bounds.iter().zip(counts).filter(|(bound, _)| **bound > target);
        (counts.iter().sum(), late.map(|(_, count)| count).sum())
    }

    /// Whether a request waits or is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.activity.queued > 0 || self.activity.in_flight > 0
    }

    /// Whether more requests wait longer than they should than may: the queue is in trouble now.
    /// An empty queue is not, whatever was.
    pub(crate) fn is_late(&self, target: Duration, share: f64) -> bool {
        self.activity.queued > 0 && self.delay(share) > target
    }
}

impl Replicas {
    /// A start that takes this many times as long as starts do is not going to end: the machine it waits
    /// for does not come.
    const STALLED_STARTS: u32 = 10;

    /// Least time before a start counts as stalled, however fast starts were.
    const STALLED_AFTER: Duration = Duration::from_secs(60);

    /// A start that takes this many times as long as nine of ten do may wait for room.
    const OVERDUE_STARTS: u32 = 2;

    /// Least time before a start counts as overdue, however fast starts were.
    const OVERDUE_AFTER: Duration = Duration::from_secs(10);

    /// How much longer each start takes that will end. One that is overdue is expected to take a
    /// quarter of a start more: the longer it takes, the less its age says.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Duration> {
        let limit = (self.cold_start * Self::STALLED_STARTS).max(Self::STALLED_AFTER);
        let coming = self.starting.iter().filter(move |age| **age <= limit);
        coming.map(|age| {
            let rest = self.cold_start.saturating_sub(*age);
            rest.max(self.cold_start / 4)
        })
    }

    /// Whether some start takes much longer than starts do: there may be no room for it. More starts would not help.
    pub(crate) fn is_overdue(&self) -> bool {
        let limit = (self.cold_start * Self::OVERDUE_STARTS).max(Self::OVERDUE_AFTER);
        self.starting.iter().any(|age| *age > limit)
    }

    /// The replicas that take requests or soon will.
    pub(crate) fn committed(&self) -> u32 {
        let coming = u32::try_from(self.coming().count()).unwrap_or(u32::MAX);
        self.ready.saturating_add(coming)
    }
}
