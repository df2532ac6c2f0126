//! The server as the metrics collector sees it.

use std::fmt;
use std::sync::Arc;

use prometheus_client::registry::Registry;

use crate::intake::Intake;
use crate::metrics::{self, ModelSample, Options, Pool, Requests, Sources};
use crate::server::Server;

/// Adds the server's metrics to the process's registry.
pub(super) fn register(
    registry: &mut Registry,
    server: Arc<Server>,
    intake: Intake,
    options: Options,
) -> Requests {
    metrics::register(registry, Arc::new(Observed { server, intake }), options)
}

struct Observed {
    server: Arc<Server>,
    intake: Intake,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observed")
    }
}

impl Sources for Observed {
    fn models(&self) -> Vec<ModelSample> {
        let sample = |one: crate::repository::ServingVersion<crate::launch::Loaded>| {
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
        self.server.serving().into_iter().map(sample).collect()
    }

    fn request_bodies(&self) -> Pool {
        Pool {
            total: self.intake.limit() as u64,
            used: self.intake.held() as u64,
        }
    }
}
