//! Metrics of the webhook: requests by outcome, and the duration of answers.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use crate::clock;

/// Upper bounds in seconds. An object of some KiB takes a millisecond and one of the largest size a second. An API
/// server waits 3 s by the chart's configuration, and 30 s at most.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 3.0, 10.0];

/// Metrics of the webhook. Clones share them.
#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    requests: Family<Label, Counter>,
    duration: Histogram,
}

/// Outcome of a request, as the metrics label it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Outcome {
    /// The object may be written.
    Allowed,
    /// The object has errors, which the answer lists.
    Refused,
    /// There was no verdict: the API server admits the object without the webhook.
    Error,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let label = match self {
            Self::Allowed => "allowed",
            Self::Refused => "refused",
            Self::Error => "error",
        };
        EncodeLabelValue::encode(&label, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: Outcome,
}

impl Default for WebhookMetrics {
    /// Returns the metrics of a webhook before its first request. Every outcome exists from the start, so that its rate
    /// is 0 and not missing.
    fn default() -> Self {
        let requests = Family::<Label, Counter>::default();
        for outcome in [Outcome::Allowed, Outcome::Refused, Outcome::Error] {
            drop(requests.get_or_create(&Label { outcome }));
        }
        Self { requests, duration: Histogram::new(BOUNDS) }
    }
}

impl WebhookMetrics {
    /// Registers both metrics in a process's registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "weir_webhook_requests",
            "Objects that API servers asked the webhook about, by outcome",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "weir_webhook_duration",
            "Time from a request's head to the webhook's answer",
            Unit::Seconds,
            self.duration.clone(),
        );
    }

    /// Begins to record a request.
    pub(super) fn begin(&self) -> Recording {
        Recording { metrics: self.clone(), begun: clock::now(), outcome: Outcome::Error }
    }
}

/// Recording of a request, which ends when it is dropped, also if the API server stops waiting. Until there is a
/// verdict, the outcome is an error.
pub(super) struct Recording {
    metrics: WebhookMetrics,
    begun: Instant,
    outcome: Outcome,
}

impl Recording {
    /// Records the outcome of the verdict.
    pub(super) fn note(&mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let outcome = self.outcome;
        self.metrics.requests.get_or_create(&Label { outcome }).inc();
        let took = self.begun.elapsed();
        self.metrics.duration.observe(took.as_secs_f64());
    }
}
