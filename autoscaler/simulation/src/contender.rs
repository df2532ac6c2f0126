//! The policies that `weir simulate --policy` compares, by the names that it takes.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weir_cluster::ScalingPolicy;

use crate::policy::{
    AibrixPolicy, DynamoPolicy, FixedPolicy, HpaPolicy, KedaPolicy, KpaPolicy, Policy, RayPolicy, WeirPolicy, WvaPolicy,
};
use crate::{Service, Workload};

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The autoscaler's own law.
    Weir,
    /// Knative, at 0.7 of what a replica takes at once.
    Kpa,
    /// Knative, at the critical utilization.
    KpaTuned,
    /// Kubernetes' autoscaler on queue over compute time, as Triton's guides say.
    Hpa,
    /// KEDA's HTTP add-on, at 0.7 of what a replica takes at once.
    Keda,
    /// KEDA's HTTP add-on, at the critical utilization.
    KedaTuned,
    /// Ray Serve, at 0.7 of what a replica takes at once.
    Ray,
    /// Ray Serve, at the critical utilization.
    RayTuned,
    /// AIBrix's APA, at 0.7 of what a replica takes at once.
    Aibrix,
    /// llm-d's autoscaler, as its guide for production says.
    Wva,
    /// llm-d's autoscaler without a wait before it starts some.
    WvaUp0,
    /// Dynamo's planner by throughput.
    Dynamo,
    /// Dynamo's planner by throughput and load.
    DynamoLoad,
    /// As many as the busiest ten seconds need.
    FixedAtPeak,
    /// Always as many as this says.
    Fixed(u32),
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no policy: write {names}, or fixed=5", names = names())]
pub struct UnknownContender(String);

/// Utilization that Knative aims at where nothing else is said; the others have no default for GPUs.
const UTILIZATION: f64 = 0.7;

impl Contender {
    /// Every one with a name of its own.
    pub const ALL: [Self; 14] = [
        Self::Weir,
        Self::Kpa,
        Self::KpaTuned,
        Self::Hpa,
        Self::Keda,
        Self::KedaTuned,
        Self::Ray,
        Self::RayTuned,
        Self::Aibrix,
        Self::Wva,
        Self::WvaUp0,
        Self::Dynamo,
        Self::DynamoLoad,
        Self::FixedAtPeak,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Weir => "weir",
            Self::Kpa => "kpa",
            Self::KpaTuned => "kpa-tuned",
            Self::Hpa => "hpa",
            Self::Keda => "keda",
            Self::KedaTuned => "keda-tuned",
            Self::Ray => "ray",
            Self::RayTuned => "ray-tuned",
            Self::Aibrix => "aibrix",
            Self::Wva => "wva",
            Self::WvaUp0 => "wva-up0",
            Self::Dynamo => "dynamo",
            Self::DynamoLoad => "dynamo-load",
            Self::FixedAtPeak | Self::Fixed(_) => "fixed",
        }
    }

    /// The policy, for this workload; Weir's own scales by `scaling`.
    #[must_use]
    pub fn policy(self, workload: &Workload, scaling: &ScalingPolicy) -> Box<dyn Policy> {
        let service = &workload.service;
        let most = service.most();
        let target = self.per_replica(service);
        match self {
            Self::Weir => Box::new(WeirPolicy::new(scaling.clone())),
            Self::Kpa | Self::KpaTuned => Box::new(KpaPolicy::new(target)),
            Self::Hpa => Box::new(HpaPolicy::new()),
            Self::Keda | Self::KedaTuned => Box::new(KedaPolicy::new(target)),
            Self::Ray | Self::RayTuned => Box::new(RayPolicy::new(target)),
            Self::Aibrix => Box::new(AibrixPolicy::new(target)),
            Self::Wva => Box::new(WvaPolicy::new(most, Duration::from_secs(240))),
            Self::WvaUp0 => Box::new(WvaPolicy::new(most, Duration::ZERO)),
            Self::Dynamo | Self::DynamoLoad => {
                let by_load = (self == Self::DynamoLoad).then_some(workload.target);
                let batch = service.time(most);
                Box::new(DynamoPolicy::new(service.capacity(), batch, by_load))
            }
            Self::FixedAtPeak => Box::new(FixedPolicy::at_peak(workload)),
            Self::Fixed(replicas) => Box::new(FixedPolicy { replicas }),
        }
    }

    /// Replicas that are ready when the first request may come: a fixed number was there before.
    #[must_use]
    pub fn at_first(self, workload: &Workload) -> u32 {
        match self {
            Self::FixedAtPeak => FixedPolicy::at_peak(workload).replicas,
            Self::Fixed(replicas) => replicas,
            Self::Weir
            | Self::Kpa
            | Self::KpaTuned
            | Self::Hpa
            | Self::Keda
            | Self::KedaTuned
            | Self::Ray
            | Self::RayTuned
            | Self::Aibrix
            | Self::Wva
            | Self::WvaUp0
            | Self::Dynamo
            | Self::DynamoLoad => 0,
        }
    }

    /// Requests in flight per replica that policies by concurrency aim at.
    fn per_replica(self, service: &Service) -> f64 {
        let is_tuned = matches!(self, Self::KpaTuned | Self::KedaTuned | Self::RayTuned);
        let critical = service.critical_utilization();
        let utilization = if is_tuned { critical } else { UTILIZATION };
        f64::from(service.most()) * utilization
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(replicas) => write!(f, "fixed={replicas}"),
            other => f.pad(other.name()),
        }
    }
}

impl FromStr for Contender {
    type Err = UnknownContender;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownContender(text.to_owned());
        if let Some(replicas) = text.strip_prefix("fixed=") {
            let replicas = replicas.parse().map_err(|_| unknown())?;
            return Ok(Self::Fixed(replicas));
        }
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.name() == text).ok_or_else(unknown)
    }
}

fn names() -> String {
    Contender::ALL.map(Contender::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name() {
        for contender in Contender::ALL {
            assert_eq!(contender.to_string().parse(), Ok(contender));
        }
        assert_eq!("fixed=5".parse(), Ok(Contender::Fixed(5)));
        let error = "kap".parse::<Contender>().unwrap_err().to_string();
        assert!(error.contains("\"kap\" is no policy: write weir, kpa"), "{error}");
        assert!("fixed=x".parse::<Contender>().is_err());
    }
}
