//! Serialized form of the limits on how fast the number of replicas changes.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_cluster::{ChangeLimit, PolicySelect, RatePolicy, ScalingBehavior, ScalingRules};

/// Serialized form of a scaling behavior.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenBehavior {
    up: Option<WrittenRules>,
    down: Option<WrittenRules>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRules {
    window: Duration,
    policies: Vec<WrittenRate>,
    select: WrittenSelect,
    tolerance: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenRate {
    most: WrittenMost,
    period: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenMost {
    Pods(u32),
    Percent(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum WrittenSelect {
    Max,
    Min,
    Disabled,
}

impl WrittenBehavior {
    /// Returns the serialized form; None if nothing is limited.
    pub(super) fn of(behavior: &ScalingBehavior) -> Option<Self> {
        let written =
            Self { up: behavior.up.as_ref().map(WrittenRules::of), down: behavior.down.as_ref().map(WrittenRules::of) };
        (!behavior.is_unbounded()).then_some(written)
    }

    /// Returns the behavior that was written.
    pub(super) fn behavior(&self) -> ScalingBehavior {
        ScalingBehavior {
            up: self.up.as_ref().map(WrittenRules::rules),
            down: self.down.as_ref().map(WrittenRules::rules),
        }
    }
}

impl WrittenRules {
    fn of(rules: &ScalingRules) -> Self {
        Self {
            window: rules.window,
            policies: rules.policies.iter().map(WrittenRate::of).collect(),
            select: match rules.select {
                PolicySelect::Max => WrittenSelect::Max,
                PolicySelect::Min => WrittenSelect::Min,
                PolicySelect::Disabled => WrittenSelect::Disabled,
            },
            tolerance: rules.tolerance,
        }
    }

    fn rules(&self) -> ScalingRules {
        ScalingRules {
            window: self.window.min(ScalingRules::LONGEST_WINDOW),
            policies: self.policies.iter().map(|rate| rate.policy()).collect(),
            select: match self.select {
                WrittenSelect::Max => PolicySelect::Max,
                WrittenSelect::Min => PolicySelect::Min,
                WrittenSelect::Disabled => PolicySelect::Disabled,
            },
            tolerance: self.tolerance,
        }
    }
}

impl WrittenRate {
    fn of(policy: &RatePolicy) -> Self {
        Self {
            most: match policy.most {
                ChangeLimit::Pods(most) => WrittenMost::Pods(most),
                ChangeLimit::Percent(most) => WrittenMost::Percent(most),
            },
            period: policy.period,
        }
    }

    fn policy(self) -> RatePolicy {
        RatePolicy {
            most: match self.most {
                WrittenMost::Pods(most) => ChangeLimit::Pods(most),
                WrittenMost::Percent(most) => ChangeLimit::Percent(most),
            },
            period: self.period.min(ScalingRules::LONGEST_PERIOD),
        }
    }
}
