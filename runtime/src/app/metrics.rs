//! The server as the metrics collector sees it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::metrics::{self, ModelSample, Options, Requests, Sources};
use crate::server::Server;

/// Adds the server's metrics to the process's registry.
pub(super) fn register(registry: &mut Registry, server: Arc<Server>, options: Options) -> Requests {
    metrics::register(registry, Arc::new(Models(server)), options)
}

struct Models(Arc<Server>);

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Models")
    }
}

impl Sources for Models {
    fn models(&self) -> Vec<ModelSample> {
        let sample = |one: crate::repository::Serving<crate::launch::Loaded>| {
            let tags = &one.served.config.metric_tags;
            ModelSample {
                name: one.model,
                version: one.version,
                tags: tags
                    .iter()
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
                snapshot: one.served.engine.snapshot(),
                predicted_wait: one.served.engine.predicted_wait(),
                load: one.served.load,
            }
        };
        self.0.serving().into_iter().map(sample).collect()
    }
}
