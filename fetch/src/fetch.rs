//! The whole way, and what stands where in between.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::download::Download;
use crate::source::{Packing, Source};
use crate::unpack::unpack;
use crate::{FetchError, Limits};

/// Where a fetch works: beside its target, so that the last step is a rename on one file system.
#[derive(Clone, Debug)]
struct Staging {
    folder: PathBuf,
}

/// Brings what `uri` names to `target`, a directory that is made. An archive is unpacked into it, another
/// file lies in it under its own name. A target that is there is taken to be it.
///
/// # Errors
/// [`FetchError`]; what was downloaded until then is kept for the next attempt.
///
/// # Cancellation
/// Dropping the future keeps what was downloaded; an unpacking under way runs on and is not used.
pub async fn fetch(uri: &str, target: &Path, limits: &Limits) -> Result<(), FetchError> {
    let source = Source::parse(uri)?;
    if target.exists() {
        return Ok(());
    }
    let staging = Staging::beside(target);
    let _turn = staging.take_turn().await?;
    if target.exists() {
        return Ok(());
    }
    let part = staging.folder.join("part");
    Download::new(&source, &part, limits)?.run().await?;
    let (target, limits) = (target.to_owned(), *limits);
    blocking(move || staging.finish(&source, &part, &target, &limits)).await
}

impl Staging {
    fn beside(target: &Path) -> Self {
        let mut folder = target.as_os_str().to_owned();
        folder.push(".fetching");
        Self {
            folder: folder.into(),
        }
    }

    /// Waits until nobody else fetches to the same target; the turn ends with the file.
    async fn take_turn(&self) -> Result<File, FetchError> {
        let folder = self.folder.clone();
        blocking(move || {
            fs::create_dir_all(&folder).map_err(FetchError::file(&folder))?;
            // Beside the folder, which is removed in the end.
            let path = folder.with_added_extension("lock");
            let file = File::create(&path).map_err(FetchError::file(&path))?;
            file.lock().map_err(FetchError::file(&path))?;
            fs::create_dir_all(&folder).map_err(FetchError::file(&folder))?;
            Ok(file)
        })
        .await
    }

    fn finish(
        &self,
        source: &Source,
        part: &Path,
        target: &Path,
        limits: &Limits,
    ) -> Result<(), FetchError> {
        let content = self.folder.join("content");
        if content.exists() {
            fs::remove_dir_all(&content).map_err(FetchError::file(&content))?;
        }
        fs::create_dir(&content).map_err(FetchError::file(&content))?;
        match source.packing {
            Packing::None => {
                let file = content.join(&source.file_name);
                fs::rename(part, &file).map_err(FetchError::file(&file))?;
            }
            packing @ (Packing::Zip | Packing::Tar | Packing::TarGz) => {
                // A broken archive would be as broken when it is resumed.
                unpack(packing, part, &content, limits)
                    .inspect_err(|_| drop(fs::remove_file(part)))?;
            }
        }
        fs::rename(&content, target).map_err(FetchError::file(target))?;
        fs::remove_dir_all(&self.folder).map_err(FetchError::file(&self.folder))
    }
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|lost| Err(FetchError::Archive(std::io::Error::other(lost))))
}
