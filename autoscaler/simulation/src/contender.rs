//! The policies that `weir simulate --policy` compares, by name.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weir_cluster::ScalingPolicy;

use crate::policy::{
    AibrixPolicy, DynamoPolicy, FixedPolicy, HpaPolicy, KedaPolicy, KpaPolicy, Policy, RayPolicy, WeirPolicy, WvaPolicy,
};
use crate::{Service, Workload};

/// A policy that can be chosen by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// Weir's own control law.
    Weir,
    /// Knative's autoscaler, with a target of 0.7 of a replica's concurrency.
    Kpa,
    /// Knative's autoscaler, with the critical utilization as its target.
    KpaTuned,
    /// Kubernetes' HPA on the ratio of queue time to compute time, as in Triton's guides.
    Hpa,
    /// KEDA's HTTP add-on, with a target of 0.7 of a replica's concurrency.
    Keda,
    /// KEDA's HTTP add-on, with the critical utilization as its target.
    KedaTuned,
    /// Ray Serve, with a target of 0.7 of a replica's concurrency.
    Ray,
    /// Ray Serve, with the critical utilization as its target.
    RayTuned,
    /// AIBrix's APA, with a target of 0.7 of a replica's concurrency.
    Aibrix,
    /// llm-d's Workload Variant Autoscaler, configured as in its production guide.
    Wva,
    /// llm-d's Workload Variant Autoscaler without stabilization before it scales up.
    WvaUp0,
    /// Dynamo's planner by throughput.
    Dynamo,
    /// Dynamo's planner by throughput and load.
    DynamoLoad,
    /// A fixed number of replicas, enough for the busiest ten seconds.
    FixedAtPeak,
    /// This fixed number of replicas.
    Fixed(u32),
}

/// A name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a policy: write {names}, or fixed=5", names = names())]
pub struct UnknownContender(String);

/// Default target of Knative, as a share of a replica's concurrency. The other policies have no default for GPUs.
const UTILIZATION: f64 = 0.7;

impl Contender {
    /// All policies except fixed numbers.
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

    /// Returns the policy for this workload; only Weir's own law uses `scaling`.
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

    /// Returns the replicas that are ready before the first request. A fixed number is assumed to be up already.
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

    /// Returns the target of policies by concurrency: requests in flight per replica.
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
        assert!(error.contains("\"kap\" is not a policy: write weir, kpa"), "{error}");
        assert!("fixed=x".parse::<Contender>().is_err());
    }
}
