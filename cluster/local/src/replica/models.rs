//! The model files that a replica needs before it starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_fetch::{Attempt, FetchError, fetch, without_secrets};

use crate::launch_spec::LaunchSpec;
use crate::storage::cache::{ModelLock, evict, remove_unloaded};
use crate::storage::{ModelFiles, Origin};

/// Downloads remote models and checks that local ones exist. Returns locks that keep the downloaded models. The error
/// is a sentence. If several replicas need one model, one of them downloads it and the others wait. `observe` is called
/// for each attempt.
pub(super) async fn ensure(
    spec: &LaunchSpec,
    mut observe: impl FnMut(Attempt) + Send,
) -> Result<Vec<Arc<ModelLock>>, String> {
    let mut locks = Vec::new();
    for model in &spec.models {
        if let Some(missing) = model.missing() {
            return Err(missing);
        }
        if model.origin == Origin::Remote {
            locks.push(Arc::new(download(model, spec, &mut observe).await?));
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

/// Records that a replica is ready with the models. A failure is only logged: a model without its mark may be downloaded
/// again.
pub(super) async fn mark_loaded(locks: &[Arc<ModelLock>]) {
    for lock in locks {
        let marked = Arc::clone(lock);
        if let Err(error) = blocking(move || marked.mark_loaded()).await {
            tracing::warn!(%error, "cannot record that a downloaded model was loaded");
        }
    }
}

/// Removes the downloads that no replica has ever loaded, because their files may be the reason: an error page instead of
/// a model, or an empty file.
pub(super) async fn discard_unloaded(spec: &LaunchSpec) {
    for model in spec.models.iter().filter(|model| model.origin == Origin::Remote) {
        let path = model.path.clone();
        match blocking(move || remove_unloaded(&path)).await {
            Ok(true) => tracing::info!(
                uri = %without_secrets(&model.uri),
                "no replica has loaded the downloaded model: it will be downloaded again"
            ),
            Ok(false) => {}
            Err(error) => log_kept(&model.path, &error),
        }
    }
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
