//! The server as the source of the collected metrics.

use std::fmt;
use std::sync::Arc;

use super::watchdog::now;
use prometheus_client::registry::Registry;
use weir_serve::byte_budget::ByteBudget;

use crate::metrics::{self, GpuSample, ModelSample, Options, Pool, Requests, Sources};
use crate::server::Server;

/// Adds the server's metrics to the process's registry.
pub(super) fn register(
    registry: &mut Registry,
    server: Arc<Server>,
    body_budget: ByteBudget,
    options: Options,
) -> Requests {
    metrics::register(registry, Arc::new(ServerSources { server, body_budget }), options)
}

struct ServerSources {
    server: Arc<Server>,
    body_budget: ByteBudget,
}

impl fmt::Debug for ServerSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSources")
    }
}

impl Sources for ServerSources {
    fn models(&self) -> Vec<ModelSample> {
        let sample = |version: crate::repository::ServingVersion<crate::launch::LoadedModel>| {
            let tags = &version.served.config.metric_tags;
            let watch = version.served.engine.watch();
            let batch_limit = watch.limit(self.server.batch_monitor().limit());
            ModelSample {
                name: version.model,
                version: version.version,
                tags: tags.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
                snapshot: version.served.engine.snapshot(),
                predicted_wait: version.served.engine.predicted_wait(),
                batch_bound: version.served.engine.batch_bound(),
                load: version.served.load,
                running_batch: watch.age(now()),
                batch_limit: batch_limit.unwrap_or_default(),
                memory: version.served.engine.memory(),
            }
        };
        self.server.serving().into_iter().map(sample).collect()
    }

    fn request_bodies(&self) -> Pool {
        Pool { total: self.body_budget.limit() as u64, used: self.body_budget.in_use() as u64 }
    }

    fn gpus(&self) -> Vec<GpuSample> {
        self.server.gpus()
    }
}
