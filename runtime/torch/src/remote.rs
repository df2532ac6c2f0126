//! Model repositories in buckets and on hubs, fetched by `weir-fetch`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_fetch::{Access, Mirror, WantedModels};
use weir_runtime::app::{Refresh, RefreshedModels, RemoteRepository};

/// A repository with its local copy.
#[derive(Debug)]
struct Mirrored(Mirror);

impl RemoteRepository for Mirrored {
    fn directory(&self) -> PathBuf {
        self.0.models()
    }

    fn refresh<'a>(&'a self, models: &'a RefreshedModels) -> Refresh<'a> {
        let wanted = match models {
            RefreshedModels::All => WantedModels::All,
            RefreshedModels::Named(names) => WantedModels::Named(names.clone()),
        };
        Box::pin(async move { self.0.refresh(&wanted).await.map_err(|error| sentence(&error)) })
    }
}

/// Opens a repository with the credentials of the environment.
///
/// # Errors
/// A sentence if the URI is not supported or the folder cannot be written.
pub fn open_remote(uri: &str, folder: &Path) -> Result<Arc<dyn RemoteRepository>, String> {
    let mirror = Mirror::open(&Access::from_environment(), uri, folder);
    mirror.map(|mirror| Arc::new(Mirrored(mirror)) as Arc<dyn RemoteRepository>).map_err(|error| sentence(&error))
}

/// Returns the error's message followed by those of its sources.
fn sentence(error: &dyn std::error::Error) -> String {
    let sources = std::iter::successors(error.source(), |error| error.source());
    sources.fold(error.to_string(), |text, source| format!("{text}: {source}"))
}
