//! How the loop does, for scrapers.

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
use weir_crds::inference_service::ConditionStatus;

use super::publish::ready;
use crate::Declaration;

/// How the loop does. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct ReconcileMetrics {
    state: Arc<Mutex<State>>,
    declared: watch::Receiver<Arc<Declaration>>,
}

#[derive(Debug)]
struct State {
    services: ReadyCounts,
    errors: u64,
    /// The end of the last pass without an error; before the first, the beginning.
    succeeded: Instant,
}

/// ReadyCounts by their condition `Ready`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadyCounts {
    ready: u64,
    unready: u64,
    unknown: u64,
}

impl ReadyCounts {
    /// Counts these.
    pub(super) fn of<'a>(statuses: impl Iterator<Item = &'a InferenceServiceStatus>) -> Self {
        let mut services = Self::default();
        for status in statuses {
            let count = match ready(status).map(|ready| ready.status) {
                Some(ConditionStatus::True) => &mut services.ready,
                Some(ConditionStatus::False) => &mut services.unready,
                Some(ConditionStatus::Unknown) | None => &mut services.unknown,
            };
            *count += 1;
        }
        services
    }
}

impl ReconcileMetrics {
    /// Of a loop that begins.
    pub(super) fn new(declared: watch::Receiver<Arc<Declaration>>) -> Self {
        let state = State {
            services: ReadyCounts::default(),
            errors: 0,
            succeeded: Instant::now(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            declared,
        }
    }

    /// A pass ended, with so many errors.
    pub(super) fn passed(&self, services: ReadyCounts, errors: u64) {
        let mut state = self.state.lock();
        state.services = services;
        state.errors += errors;
        if errors == 0 {
            state.succeeded = Instant::now();
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for ReconcileMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let (services, errors, age) = {
            let state = self.state.lock();
            (state.services, state.errors, state.succeeded.elapsed())
        };
        by_readiness(&mut encoder, services)?;
        let problems = self.declared.borrow().problems.len();
        whole(&mut encoder, problems, errors, age)
    }
}

fn by_readiness(
    encoder: &mut DescriptorEncoder<'_>,
    services: ReadyCounts,
) -> Result<(), fmt::Error> {
    let name = "weir_controller_services";
    let help = "ReadyCounts, by their condition Ready.";
    let kind = ConstGauge::new(0_u64).metric_type();
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (ready, count) in [
        ("True", services.ready),
        ("False", services.unready),
        ("Unknown", services.unknown),
    ] {
        ConstGauge::new(count).encode(family.encode_family(&[("ready", ready)])?)?;
    }
    Ok(())
}

fn whole(
    encoder: &mut DescriptorEncoder<'_>,
    problems: usize,
    errors: u64,
    age: Duration,
) -> Result<(), fmt::Error> {
    let name = "weir_controller_problems";
    let help = "Mistakes in what is declared now; the last good state stands.";
    let gauge = ConstGauge::new(problems as u64);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
    let name = "weir_controller_reconcile_errors";
    let help = "Steps for a service that failed, and are tried again.";
    let counter = ConstCounter::new(errors);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)?;
    let name = "weir_controller_reconcile_age";
    let help =
        "Since all services were last looked at without an error, which happens each second.";
    let seconds = Some(&Unit::Seconds);
    let gauge = ConstGauge::new(age.as_secs_f64());
    gauge.encode(encoder.encode_descriptor(name, help, seconds, gauge.metric_type())?)
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use weir_crds::inference_service::Condition;

    use super::*;

    fn status(ready: ConditionStatus) -> InferenceServiceStatus {
        let mut status = InferenceServiceStatus::default();
        status.conditions.push(Condition {
            kind: Condition::READY.to_owned(),
            status: ready,
            reason: None,
            message: None,
            severity: None,
            last_transition_time: None,
        });
        status
    }

    fn samples(registry: &Registry) -> Vec<String> {
        let mut page = String::new();
        text::encode_registry(&mut page, registry).unwrap();
        let samples = page
            .lines()
            .filter_map(|line| line.strip_prefix("weir_controller_"));
        samples.map(str::to_owned).collect()
    }

    #[test]
    fn services_are_counted_as_they_are_and_errors_add_up() {
        let declaration = Declaration {
            problems: vec!["a.yaml: broken".to_owned()],
            ..Declaration::default()
        };
        let (_sender, declared) = watch::channel(Arc::new(declaration));
        let progress = ReconcileMetrics::new(declared);
        let mut registry = Registry::default();
        progress.register(&mut registry);
        let statuses = [
            status(ConditionStatus::True),
            status(ConditionStatus::True),
            status(ConditionStatus::False),
            InferenceServiceStatus::default(),
        ];
        progress.passed(ReadyCounts::of(statuses.iter()), 2);
        progress.passed(ReadyCounts::of(statuses.iter()), 1);
        let samples = samples(&registry);
        let (age, rest) = samples.split_last().unwrap();
        let expected = [
            "services{ready=\"True\"} 2",
            "services{ready=\"False\"} 1",
            "services{ready=\"Unknown\"} 1",
            "problems 1",
            "reconcile_errors_total 3",
        ];
        assert_eq!(rest, expected);
        let began = progress.state.lock().succeeded;
        let age: f64 = age
            .strip_prefix("reconcile_age_seconds ")
            .unwrap()
            .parse()
            .unwrap();
        assert!(age <= began.elapsed().as_secs_f64(), "{age}");
        progress.passed(ReadyCounts::default(), 0);
        assert!(progress.state.lock().succeeded > began);
    }
}
