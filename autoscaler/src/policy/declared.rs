//! From what people write to a policy.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use super::annotations::{self, Annotation, COUNT, Reader};
use super::{Metric, Policy};
use crate::PolicyError;

/// What an InferenceService says about the scale of its predictor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared<'a> {
    /// `minReplicas`: absent is 1.
    pub min_replicas: Option<i32>,
    /// `maxReplicas`: absent or 0 sets no limit.
    pub max_replicas: Option<i32>,
    /// `scaleMetric` as written; `cpu` and `memory` have no effect.
    pub scale_metric: Option<&'a str>,
    /// `scaleTarget`: without a metric it counts requests in flight.
    pub scale_target: Option<i32>,
    /// Annotations; those of the component before those of the object.
    pub annotations: Option<&'a BTreeMap<String, String>>,
}

/// A policy, and what was written for nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The policy.
    pub policy: Policy,
    /// Annotations without effect, each with the reason: a clause.
    pub without_effect: Vec<(&'static str, &'static str)>,
}

impl Declared<'_> {
    /// The policy that follows from it. Annotations go before fields, as they do in KServe.
    ///
    /// # Errors
    /// The first knob that cannot be read.
    pub fn accept(&self) -> Result<Accepted, PolicyError> {
        let mut policy = self.fields()?;
        let mut target = self.target()?;
        let mut without_effect = Vec::new();
        let empty = BTreeMap::new();
        let given = self.annotations.unwrap_or(&empty);
        for (name, annotation) in annotations::KNOWN {
            let Some(value) = given.get(*name) else {
                continue;
            };
            let reader = Reader { name, value };
            match annotation {
                Annotation::Sets(set) => set(&mut policy, reader)?,
                Annotation::Aims(aim) => aim(&mut target, reader)?,
                Annotation::WithoutEffect(because) => without_effect.push((*name, *because)),
            }
        }
        policy.metric = target.metric();
        Ok(Accepted {
            policy,
            without_effect,
        })
    }

    fn fields(&self) -> Result<Policy, PolicyError> {
        let min = count("minReplicas", self.min_replicas.unwrap_or(1))?;
        let max = count("maxReplicas", self.max_replicas.unwrap_or(0))?;
        Ok(Policy {
            min,
            max: NonZeroU32::new(max),
            ..Policy::default()
        })
    }

    fn target(&self) -> Result<Target, PolicyError> {
        let kind = self
            .scale_metric
            .map(|kind| Kind::read("scaleMetric", kind));
        let value = self.scale_target.map(|target| match target {
            1.. => Ok(f64::from(target)),
            ..1 => Err(PolicyError::new("scaleTarget", target, "a positive number")),
        });
        Ok(Target {
            kind: kind.transpose()?.unwrap_or(Kind::Concurrency),
            value: value.transpose()?,
            utilization: 1.0,
        })
    }
}

/// What a replica is counted on for, as it is put together from several knobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) kind: Kind,
    pub(super) value: Option<f64>,
    /// The share of the value to count on.
    pub(super) utilization: f64,
}

/// What the value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Concurrency,
    Rps,
    /// CPU time or memory: gateways do not see it.
    Resource,
}

impl Kind {
    pub(super) fn read(field: &'static str, kind: &str) -> Result<Self, PolicyError> {
        match kind {
            "concurrency" => Ok(Self::Concurrency),
            "rps" => Ok(Self::Rps),
            "cpu" | "memory" => Ok(Self::Resource),
            other => Err(PolicyError::new(
                field,
                other,
                "concurrency, rps, cpu or memory",
            )),
        }
    }
}

impl Target {
    fn metric(self) -> Option<Metric> {
        let value = self.value? * self.utilization;
        match self.kind {
            Kind::Concurrency => Some(Metric::Concurrency(value)),
            Kind::Rps => Some(Metric::Rps(value)),
            Kind::Resource => None,
        }
    }
}

fn count(field: &'static str, value: i32) -> Result<u32, PolicyError> {
    let count = u32::try_from(value).ok();
    let count = count.filter(|count| *count <= Policy::MOST);
    count.ok_or_else(|| PolicyError::new(field, value, COUNT))
}
