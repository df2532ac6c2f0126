//! A complete fetch: download, unpack, rename.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::attempt::Attempt;
use crate::download::Download;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::source::{Packing, Source};
use crate::unpack::unpack;

/// Working directory of a fetch, next to its target, so that the last step is a rename within one file system.
#[derive(Clone, Debug)]
struct Staging {
    folder: PathBuf,
}

/// Fetches `uri` into the new directory `target`. An archive is unpacked into the directory; any other file keeps its
/// name there. An existing target counts as fetched. `observe` is called for each attempt to download.
///
/// # Errors
/// [`FetchError`] if the fetch failed. A partial download is kept for the next attempt; a downloaded file with a wrong
/// digest or a broken archive is deleted.
///
/// # Cancellation
/// Dropping the future keeps the partial download. Unpacking that has begun continues, but its result is not used.
pub async fn fetch(
    uri: &str,
    target: &Path,
    limits: &Limits,
    observe: &mut (dyn FnMut(Attempt) + Send),
) -> Result<(), FetchError> {
    let source = Source::parse(uri)?;
    if target.exists() {
        return Ok(());
    }
    let staging = Staging::beside(target);
    let _lock = staging.lock().await?;
    if target.exists() {
        return Ok(());
    }
    let part = staging.folder.join("part");
    Download::new(&source, &part, limits)?.run(observe).await?;
    let (target, limits) = (target.to_owned(), *limits);
    blocking(move || staging.finish(&source, &part, &target, &limits)).await
}

impl Staging {
    fn beside(target: &Path) -> Self {
        let mut folder = target.as_os_str().to_owned();
        folder.push(".fetching");
        Self { folder: folder.into() }
    }

    /// Locks the target against other fetches, also in other processes, until the file is dropped.
    async fn lock(&self) -> Result<File, FetchError> {
        let folder = self.folder.clone();
        blocking(move || {
            fs::create_dir_all(&folder).map_err(FetchError::file(&folder))?;
            // The lock file is next to the working directory, which is removed at the end.
            let path = folder.with_added_extension("lock");
            let file = File::create(&path).map_err(FetchError::file(&path))?;
            file.lock().map_err(FetchError::file(&path))?;
            fs::create_dir_all(&folder).map_err(FetchError::file(&folder))?;
            Ok(file)
        })
        .await
    }

    fn finish(&self, source: &Source, part: &Path, target: &Path, limits: &Limits) -> Result<(), FetchError> {
        if let Some(digest) = &source.digest {
            // Resuming the download would not repair a wrong file.
            digest.check(part, &source.shown()).inspect_err(|_| drop(fs::remove_file(part)))?;
        }
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
                // Resuming the download would not repair a broken archive.
                unpack(packing, part, &content, limits).inspect_err(|_| drop(fs::remove_file(part)))?;
            }
        }
        fs::rename(&content, target).map_err(FetchError::file(target))?;
        fs::remove_dir_all(&self.folder).map_err(FetchError::file(&self.folder))
    }
}

/// Runs a blocking function on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|lost| Err(FetchError::Archive(std::io::Error::other(lost))))
}
