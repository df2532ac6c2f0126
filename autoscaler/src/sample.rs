//! One observation of a revision.

use std::time::Duration;

use weir_cluster::{Activity, Histogram};

/// One observation of a revision: its load and its replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time since any fixed moment. Samples of one revision are in order of time.
    pub at: Duration,
    /// Part of the load that is known.
    pub coverage: Coverage,
    /// Load that the gateways reported.
    pub load: Load,
    /// Replicas of the revision.
    pub replicas: Replicas,
}

/// Part of the load that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every gateway that is up reports.
    Complete,
    /// Some gateways do not report, so the real load may be higher than the known one, never lower.
    Partial,
    /// No gateway reports, so the load is unknown.
    None,
}

/// The load of one revision, as the gateways reported it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Time over which `activity` was counted; zero if its counts are meaningless.
    pub span: Duration,
    /// Sum over all gateways: the counts within the span, and the state at its end.
    pub activity: Activity,
}

/// The replicas of one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicas {
    /// Desired number of replicas.
    pub desired: u32,
    /// Replicas that are ready for requests.
    pub ready: u32,
    /// Time since the start of each replica that is starting.
    pub starting: Vec<Duration>,
    /// Concurrent requests of a replica, if the service declares them; otherwise the gateways' reports say it.
    pub credits: Option<u32>,
    /// Time that a start takes, as the 0.9 quantile.
    pub cold_start: Duration,
}

impl Sample {
    /// Returns true if there is work, or if a first replica is starting: a replica that is stopped before it was ever
    /// ready never becomes ready. Load that no gateway reports does not count.
    pub(crate) fn is_active(&self) -> bool {
        let first = self.replicas.ready == 0 && self.replicas.committed() > 0;
        self.has_work() || first
    }

    /// Returns true if a request arrived, is queued or is in flight.
    pub(crate) fn has_work(&self) -> bool {
        self.load.activity.arrivals > 0 || self.load.is_busy()
    }
}

impl Load {
    /// Returns the wait of the oldest queued request.
    #[must_use]
    pub fn oldest(&self) -> Duration {
        Duration::from_micros(self.activity.oldest_us)
    }

    /// Returns the longest wait of this share of the requests, or that of the oldest queued request if it is longer.
    #[must_use]
    pub fn delay(&self, share: f64) -> Duration {
        let measured = self.activity.queue_delay.quantile(share);
        self.oldest().max(measured.unwrap_or_default())
    }

    /// Returns the number of requests that reached a replica, and how many of them waited longer than `target`.
    pub(crate) fn lateness(&self, target: Duration) -> (u64, u64) {
        let counts = self.activity.queue_delay.counts();
        let target = u64::try_from(target.as_micros()).unwrap_or(u64::MAX);
        let in_time = Histogram::bounds_us().partition_point(|bound| *bound <= target);
        let late = counts.get(in_time..).unwrap_or_default();
        (counts.iter().sum(), late.iter().sum())
    }

    /// Returns true if a request is queued or in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.activity.queued > 0 || self.activity.in_flight > 0
    }
}

impl Replicas {
    /// A start that takes this many times the usual time counts as stalled: it will probably never end, for instance
    /// because no machine is added for it.
    const STALLED_STARTS: u32 = 10;

    /// Least time before a start counts as stalled, however fast starts are.
    const STALLED_AFTER: Duration = Duration::from_secs(60);

    /// A start that takes this many times as long as nine of ten starts may be waiting for room.
    const OVERDUE_STARTS: u32 = 2;

    /// Least time before a start counts as overdue, however fast starts are.
    const OVERDUE_AFTER: Duration = Duration::from_secs(10);

    /// Returns the expected remaining time of each start that is not stalled. An overdue start is expected to take
    /// another quarter of a start: the longer it takes, the less its age says.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Duration> {
        let limit = (self.cold_start * Self::STALLED_STARTS).max(Self::STALLED_AFTER);
        let coming = self.starting.iter().filter(move |age| **age <= limit);
        coming.map(|age| {
            let rest = self.cold_start.saturating_sub(*age);
            rest.max(self.cold_start / 4)
        })
    }

    /// Returns true if a start takes much longer than usual. There may be no room for it, so more starts would not
    /// help.
    pub(crate) fn is_overdue(&self) -> bool {
        let limit = (self.cold_start * Self::OVERDUE_STARTS).max(Self::OVERDUE_AFTER);
        self.starting.iter().any(|age| *age > limit)
    }

    /// Returns the number of replicas that are ready or will be soon.
    pub(crate) fn committed(&self) -> u32 {
        let coming = u32::try_from(self.coming().count()).unwrap_or(u32::MAX);
        self.ready.saturating_add(coming)
    }
}
