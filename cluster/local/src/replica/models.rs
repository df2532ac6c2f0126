//! The model files that a replica needs before it starts.

use std::path::{Path, PathBuf};

use weir_fetch::{Attempt, FetchError, fetch};

use crate::launch_spec::LaunchSpec;
use crate::storage::cache::{ModelLock, evict};
use crate::storage::{ModelFiles, Origin};

/// Downloads remote models and checks that local ones exist. Returns locks that keep the downloaded models. The error
/// is a sentence. If several replicas need one model, one of them downloads it and the others wait. `observe` is called
/// for each attempt.
pub(super) async fn ensure(
    spec: &LaunchSpec,
    mut observe: impl FnMut(Attempt) + Send,
) -> Result<Vec<ModelLock>, String> {
    let mut locks = Vec::new();
    for model in &spec.models {
        if let Some(missing) = model.missing() {
            return Err(missing);
        }
        if model.origin == Origin::Remote {
            locks.push(download(model, spec, &mut observe).await?);
        }
    }
    Ok(locks)
}

/// Downloads a model, unless it is complete already, and makes room for it by removing models that were used least
/// recently.
async fn download(
    model: &ModelFiles,
    spec: &LaunchSpec,
    observe: &mut (impl FnMut(Attempt) + Send),
) -> Result<ModelLock, String> {
    let path = model.path.clone();
    let locked = blocking(move || ModelLock::acquire(&path)).await;
    let lock = locked.map_err(|error| format!("{} cannot be locked: {error}", model.path.display()))?;
    let is_new = !model.path.exists();
    let fetched = fetch(&model.uri, &model.path, &spec.fetch, observe).await;
    fetched.map_err(|error| explain(&error))?;
    if is_new && let Some(models) = model.path.parent() {
        make_room(models.to_owned(), spec.max_models_bytes).await;
    }
    Ok(lock)
}

/// Removes the models that were used least recently. A failure is only logged, because this model is complete.
async fn make_room(models: PathBuf, limit: u64) {
    let directory = models.clone();
    match blocking(move || evict(&directory, limit)).await {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, limit, "removed the least recently used downloaded models"),
        Err(error) => log_kept(&models, &error),
    }
}

fn log_kept(models: &Path, error: &std::io::Error) {
    tracing::warn!(models = %models.display(), %error, "downloaded models cannot be removed");
}

/// Runs a blocking function on a thread for blocking work.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> std::io::Result<T> + Send + 'static) -> std::io::Result<T> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|lost| Err(std::io::Error::other(lost)))
}

/// Returns the text of the error with all of its causes.
fn explain(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
