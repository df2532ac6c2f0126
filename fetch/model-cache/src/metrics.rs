//! Metrics of the cache.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Metrics of a cache. Clones share them.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    asked: Family<Label, Counter>,
    pub(crate) served: Counter,
    pub(crate) received: Counter,
    pub(crate) evictions: Counter,
    pub(crate) damaged: Counter,
    pub(crate) entries: Gauge,
    pub(crate) stored: Gauge,
}

/// Answer to a request for a model, as the metrics label it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    /// The files were in the cache.
    Hit,
    /// The client fetches the files.
    Miss,
    /// The client waits for another one.
    Wait,
    /// The client has no valid token, or the cache cannot store the model.
    Refused,
}

impl EncodeLabelValue for Outcome {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let label = match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Wait => "wait",
            Self::Refused => "refused",
        };
        EncodeLabelValue::encode(&label, encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    outcome: Outcome,
}

impl Default for CacheMetrics {
    /// Returns the metrics before the first request. Every outcome exists from the start, so that its rate is 0 and not
    /// missing.
    fn default() -> Self {
        let asked = Family::<Label, Counter>::default();
        for outcome in [Outcome::Hit, Outcome::Miss, Outcome::Wait, Outcome::Refused] {
            drop(asked.get_or_create(&Label { outcome }));
        }
        Self {
            asked,
            served: Counter::default(),
            received: Counter::default(),
            evictions: Counter::default(),
            damaged: Counter::default(),
            entries: Gauge::default(),
            stored: Gauge::default(),
        }
    }
}

impl CacheMetrics {
    /// Registers all metrics in a process's registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("weir_model_cache_requests", "Requests of pods for a model, by outcome", self.asked.clone());
        registry.register_with_unit(
            "weir_model_cache_served",
            "Bytes of models that pods read from the cache",
            Unit::Bytes,
            self.served.clone(),
        );
        registry.register_with_unit(
            "weir_model_cache_received",
            "Bytes of models that pods stored in the cache",
            Unit::Bytes,
            self.received.clone(),
        );
        registry.register("weir_model_cache_evictions", "Models removed to make room", self.evictions.clone());
        registry.register(
            "weir_model_cache_damaged",
            "Models removed because a file was missing or had another digest",
            self.damaged.clone(),
        );
        registry.register("weir_model_cache_models", "Models in the cache", self.entries.clone());
        registry.register_with_unit(
            "weir_model_cache_stored",
            "Bytes on disk of the models in the cache",
            Unit::Bytes,
            self.stored.clone(),
        );
    }

    /// Counts a request for a model.
    pub(crate) fn count(&self, outcome: Outcome) {
        self.asked.get_or_create(&Label { outcome }).inc();
    }
}
