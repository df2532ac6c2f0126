//! `weir model-cache`: keeps the models that pods of a node have downloaded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster_kubernetes::{Client, user_of_token};
use weir_model_cache::{AUDIENCE, Agent, CacheLimits, Namespace, ReviewError, TokenReviewer, serve};
use weir_ops::registry;

use super::process::Process;
use crate::args::ModelCacheArgs;
use crate::error::Exit;
use crate::error::{CliError, with_sources};
use crate::ports;

/// The API server, which reviews the tokens of pods.
struct ApiServer(Client);

#[async_trait::async_trait]
impl TokenReviewer for ApiServer {
    async fn review(&self, token: &str) -> Result<Option<Namespace>, ReviewError> {
        let user = user_of_token(&self.0, token, AUDIENCE).await;
        let user = user.map_err(|error| ReviewError(with_sources(&error)))?;
        Ok(user.and_then(|user| Namespace::of_user(&user)))
    }
}

/// Runs until a signal stops the process.
///
/// # Errors
/// [`CliError`] when the process cannot start.
pub(crate) async fn run(args: ModelCacheArgs) -> Result<Exit, CliError> {
    let (listener, _) = ports::bind("--port", SocketAddr::new(args.address, args.port))?;
    // Pods that find no cache fetch from the source, and so the process can stop at once.
    let process = Process::start(&args.process(), Duration::ZERO)?;
    let client = weir_cluster_kubernetes::client().await?;
    let (directory, limits) = (args.directory.clone(), CacheLimits::of_bytes(args.max_bytes));
    // A large cache takes some seconds to read.
    let opened =
        tokio::task::spawn_blocking(move || Agent::open(&directory, limits, Arc::new(ApiServer(client)))).await;
    let failed = |reason: String| CliError::Usage(format!("--directory {}: {reason}", args.directory.display()));
    let agent = opened.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
    let mut metrics = registry::with_process_metrics();
    agent.metrics().register(&mut metrics);
    process.serve(process.admin(metrics, process.until_drained())?);
    process.tasks.spawn(serve(agent, listener, process.stop.clone()));
    process.drain.begun().cancelled().await;
    Ok(process.end().await)
}
