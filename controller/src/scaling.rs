//! What the autoscaler has to keep to, as data.

use std::time::Duration;

/// The bounds and targets of one revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Replicas at least; 0 lets it sleep.
    pub min: u32,
    /// Replicas at most; unset: as many as there is room for.
    pub max: Option<u32>,
    /// How long requests may wait; unset: the law chooses.
    pub queue_delay: Option<Duration>,
    /// The share of requests, 0 to 1, for which that should hold; unset: the law chooses.
    pub share: Option<f64>,
    /// How much idle time may be spent to avoid cold starts; unset: the law chooses.
    pub economy: Option<Economy>,
    /// A limit on what one replica is counted on for; unset: what it was measured to do.
    pub metric: Option<Metric>,
    /// Who sets the number of replicas.
    pub by: ScaledBy,
    /// Replicas when the revision is made, at least.
    pub initial: u32,
    /// Replicas when it wakes from zero, at least.
    pub activation: u32,
    /// Idle time before the last replica goes; unset: the law chooses.
    pub idle_before_zero: Option<Duration>,
    /// Idle time before any other replica goes; unset: the law chooses.
    pub scale_down_delay: Option<Duration>,
    /// Time over which arrivals are averaged; unset: the law chooses.
    pub window: Option<Duration>,
}

/// A limit on what one replica is counted on for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// At most so many requests in flight at one replica.
    Concurrency(f64),
    /// At most so many requests a second at one replica.
    Rps(f64),
}

/// How much idle time may be spent to avoid cold starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Economy {
    /// As little as pays for itself.
    Economy,
    /// Some.
    Balanced,
    /// As much as helps.
    Latency,
}

/// Who sets the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledBy {
    /// Weir's autoscaler.
    Weir,
    /// Somebody else, or nobody.
    Others,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            min: 1,
            max: None,
            queue_delay: None,
            share: None,
            economy: None,
            metric: None,
            by: ScaledBy::Weir,
            initial: 1,
            activation: 1,
            idle_before_zero: None,
            scale_down_delay: None,
            window: None,
        }
    }
}

impl Scaling {
    /// The same with at least so many replicas, as far as its own maximum lets it.
    #[must_use]
    pub fn with_floor(&self, replicas: u32) -> Self {
        let floor = self.min.max(replicas);
        Self {
            min: self.max.map_or(floor, |max| floor.min(max)),
            ..self.clone()
        }
    }

    /// The same, free to sleep.
    #[must_use]
    pub fn asleep_when_idle(&self) -> Self {
        Self {
            min: 0,
            ..self.clone()
        }
    }

    /// Replicas of a revision that is new: at least one, because only loading shows that it loads.
    #[must_use]
    pub fn at_creation(&self) -> u32 {
        let replicas = self.min.max(self.initial).max(1);
        self.max.map_or(replicas, |max| replicas.min(max.max(1)))
    }
}
