//! Serialized form of a scaling policy.

mod behavior;

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_cluster::{Economy, ScaleTarget, ScalingPolicy};

use self::behavior::WrittenBehavior;
use super::read_time;

/// Highest quantile that a target may name.
const HIGHEST_QUANTILE: f64 = 0.9999;

/// Serialized form of a scaling policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenScaling {
    min: u32,
    max: Option<u32>,
    queue_delay: Duration,
    quantile: f64,
    economy: WrittenEconomy,
    target: Option<WrittenTarget>,
    retention: Option<Duration>,
    scale_down_delay: Duration,
    window: Duration,
    activation: NonZeroU32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    behavior: Option<WrittenBehavior>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenEconomy {
    Economy,
    Balanced,
    Latency,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenTarget {
    Concurrency(f64),
    Rps(f64),
}

impl WrittenScaling {
    /// Returns the serialized form of a policy.
    pub(crate) fn of(policy: &ScalingPolicy) -> Self {
        Self {
            min: policy.min,
            max: policy.max,
            queue_delay: policy.queue_delay,
            quantile: policy.quantile,
            economy: match policy.economy {
                Economy::Economy => WrittenEconomy::Economy,
                Economy::Balanced => WrittenEconomy::Balanced,
                Economy::Latency => WrittenEconomy::Latency,
            },
            target: policy.target.map(|target| match target {
                ScaleTarget::Concurrency(each) => WrittenTarget::Concurrency(each),
                ScaleTarget::Rps(each) => WrittenTarget::Rps(each),
            }),
            retention: policy.retention,
            scale_down_delay: policy.scale_down_delay,
            window: policy.window,
            activation: policy.activation,
            behavior: WrittenBehavior::of(&policy.behavior),
        }
    }

    /// Returns the policy, clamped to the bounds that validation sets for users: everyone who may edit objects of the
    /// namespace can write any numbers.
    pub(crate) fn policy(&self) -> ScalingPolicy {
        ScalingPolicy {
            min: self.min.min(ScalingPolicy::MOST),
            max: self.max,
            queue_delay: read_time(self.queue_delay),
            quantile: self.quantile.clamp(0.0, HIGHEST_QUANTILE),
            economy: match self.economy {
                WrittenEconomy::Economy => Economy::Economy,
                WrittenEconomy::Balanced => Economy::Balanced,
                WrittenEconomy::Latency => Economy::Latency,
            },
            target: self.target.and_then(WrittenTarget::target),
            retention: self.retention.map(read_time),
            scale_down_delay: read_time(self.scale_down_delay),
            window: read_time(self.window),
            activation: self.activation,
            behavior: self.behavior.as_ref().map(WrittenBehavior::behavior).unwrap_or_default(),
        }
    }
}

impl WrittenTarget {
    /// Returns the target; None if no number of replicas could meet it.
    fn target(self) -> Option<ScaleTarget> {
        let (target, each) = match self {
            Self::Concurrency(each) => (ScaleTarget::Concurrency(each), each),
            Self::Rps(each) => (ScaleTarget::Rps(each), each),
        };
        (each.is_finite() && each > 0.0).then_some(target)
    }
}
