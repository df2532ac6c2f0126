//! Metrics of the control loop.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::watch;
use tokio::time::Instant;
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use crate::clock;
use crate::declaration::Declaration;

/// Metrics of the control loop. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct ReconcileMetrics {
    counts: Arc<Mutex<Counts>>,
    declared: watch::Receiver<Arc<Declaration>>,
}

#[derive(Debug)]
struct Counts {
    services: ReadyCounts,
    errors: u64,
    /// End of the last round in which no service had failed; at first, the start of the loop.
    succeeded: Instant,
}

/// Readiness of a service, as counted in the metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    NotReady,
    /// Not ready because an annotation stops it, so nothing is wrong.
    Stopped,
    #[default]
    Unknown,
}

/// Numbers of services by readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyCounts {
    ready: u64,
    unready: u64,
    stopped: u64,
    unknown: u64,
}

/// Result of the last attempts of all services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoopState {
    /// The last attempt of each service succeeded.
    Healthy,
    /// Some service failed, and is retried.
    Failing,
}

impl Readiness {
    /// Returns the readiness that a status states.
    pub(super) fn of(status: &InferenceServiceStatus) -> Self {
        let of_condition = |kind: &str| status.condition(kind).map(|found| found.status);
        let is_stopped = of_condition(Condition::STOPPED) == Some(ConditionStatus::True);
        match of_condition(Condition::READY) {
            Some(ConditionStatus::True) => Self::Ready,
            Some(ConditionStatus::False) if is_stopped => Self::Stopped,
            Some(ConditionStatus::False) => Self::NotReady,
            Some(ConditionStatus::Unknown) | None => Self::Unknown,
        }
    }
}

impl ReadyCounts {
    /// Counts services by their readiness.
    pub(super) fn of(readiness: impl Iterator<Item = Readiness>) -> Self {
        let mut services = Self::default();
        for ready in readiness {
            let count = match ready {
                Readiness::Ready => &mut services.ready,
                Readiness::NotReady => &mut services.unready,
                Readiness::Stopped => &mut services.stopped,
                Readiness::Unknown => &mut services.unknown,
            };
            *count += 1;
        }
        services
    }
}

impl ReconcileMetrics {
    /// Returns the metrics of a loop that starts now.
    pub(super) fn new(declared: watch::Receiver<Arc<Declaration>>) -> Self {
        let counts = Counts { services: ReadyCounts::default(), errors: 0, succeeded: clock::now() };
        Self { counts: Arc::new(Mutex::new(counts)), declared }
    }

    /// Records the services, and the errors since the last record. `state` says whether some service still fails.
    pub(super) fn record(&self, services: ReadyCounts, errors: u64, state: LoopState) {
        let mut counts = self.counts.lock();
        counts.services = services;
        counts.errors += errors;
        if state == LoopState::Healthy {
            counts.succeeded = clock::now();
        }
    }

    /// Resets the counts of services: the new leader counts them, and sums over both processes would be too large.
    pub(super) fn stand_by(&self) {
        self.counts.lock().services = ReadyCounts::default();
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for ReconcileMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (services, errors, age) = {
            let counts = self.counts.lock();
            (counts.services, counts.errors, counts.succeeded.elapsed())
        };
        by_readiness(&mut encoder, services)?;
        let problems = self.declared.borrow().problems.len();
        whole(&mut encoder, problems, errors, age)
    }
}

fn by_readiness(encoder: &mut DescriptorEncoder<'_>, services: ReadyCounts) -> Result<(), fmt::Error> {
    let name = "weir_controller_services";
    let help = "Services, by their condition Ready; those that their annotation stops are Stopped.";
    let kind = ConstGauge::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (ready, count) in [
        ("True", services.ready),
        ("False", services.unready),
        ("Stopped", services.stopped),
        ("Unknown", services.unknown),
    ] {
        ConstGauge::new(count).encode(family.encode_family(&[("ready", ready)])?)?;
    }
    Ok(())
}

fn whole(encoder: &mut DescriptorEncoder<'_>, problems: usize, errors: u64, age: Duration) -> Result<(), fmt::Error> {
    let name = "weir_controller_problems";
    let help = "Errors in the declared manifests; objects with errors keep their last valid version.";
    let gauge = ConstGauge::new(problems as u64);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
    let name = "weir_controller_reconcile_errors";
    let help = "Reconciliations of a service that failed and are retried.";
    let counter = ConstCounter::new(errors);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
    let name = "weir_controller_reconcile_age";
    let help = "Time since all services were last reconciled without an error; normally about one second.";
    let seconds = Some(&Unit::Seconds);
    let gauge = ConstGauge::new(age.as_secs_f64());
    gauge.encode(encoder.encode_descriptor(name, help, seconds, gauge.metric_type())?)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    fn samples(registry: &Registry) -> Vec<String> {
        let mut page = String::new();
        text::encode_registry(&mut page, registry).unwrap();
        let samples = page.lines().filter_map(|line| line.strip_prefix("weir_controller_"));
        samples.map(str::to_owned).collect()
    }

    #[test]
    fn services_are_counted_by_readiness_and_errors_add_up() {
        let declaration = Declaration { problems: vec!["a.yaml: broken".to_owned()], ..Declaration::default() };
        let (_sender, declared) = watch::channel(Arc::new(declaration));
        let metrics = ReconcileMetrics::new(declared);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let readiness =
            [Readiness::Ready, Readiness::Ready, Readiness::NotReady, Readiness::Stopped, Readiness::Unknown];
        metrics.record(ReadyCounts::of(readiness.into_iter()), 2, LoopState::Failing);
        metrics.record(ReadyCounts::of(readiness.into_iter()), 1, LoopState::Failing);
        let samples = samples(&registry);
        let (age, rest) = samples.split_last().unwrap();
        let expected = [
            "services{ready=\"True\"} 2",
            "services{ready=\"False\"} 1",
            "services{ready=\"Stopped\"} 1",
            "services{ready=\"Unknown\"} 1",
            "problems 1",
            "reconcile_errors_total 3",
        ];
        assert_eq!(rest, expected);
        let began = metrics.counts.lock().succeeded;
        let age: f64 = age.strip_prefix("reconcile_age_seconds ").unwrap().parse().unwrap();
        assert!(age <= began.elapsed().as_secs_f64(), "{age}");
        metrics.record(ReadyCounts::default(), 0, LoopState::Healthy);
        assert!(metrics.counts.lock().succeeded > began);
    }

    #[test]
    fn a_former_leader_counts_no_service() {
        let (_sender, declared) = watch::channel(Arc::default());
        let metrics = ReconcileMetrics::new(declared);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let ready = ReadyCounts::of([Readiness::Ready].into_iter());
        metrics.record(ready, 1, LoopState::Healthy);
        assert!(samples(&registry).contains(&"services{ready=\"True\"} 1".to_owned()));
        metrics.stand_by();
        let samples = samples(&registry);
        assert!(samples.contains(&"services{ready=\"True\"} 0".to_owned()));
        assert!(samples.contains(&"reconcile_errors_total 1".to_owned()));
    }
}
