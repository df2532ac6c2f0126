//! A complete fetch: download, unpack, rename.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::attempt::Attempt;
use crate::credentials::Access;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::packing::{Compression, Packing};
use crate::shown_uri::without_secrets;
use crate::source::{BucketStore, HttpStore, Hub, Registry, Source};
use crate::store::{Object, Store};
use crate::transfer::{FILES, Transfer, blocking, first_missing};
use crate::unpack::{unpack, unpack_layers};
use crate::web::{Trust, WebClient};

/// Working directory of a fetch, next to its target, so that the last step is a rename within one file system.
#[derive(Clone, Debug)]
struct Staging {
    folder: PathBuf,
}

/// Fetches `uri` into the new directory `target`. An archive is unpacked into the directory; any other file keeps its
/// name there. An existing target counts as fetched. `observe` is called for each attempt to download. Credentials come
/// from the environment.
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
    fetch_as(&Access::from_environment(), uri, target, limits, observe).await
}

/// Fetches as [`fetch`] does, with credentials of `access`.
///
/// # Errors
/// The same as [`fetch`].
pub async fn fetch_as(
    access: &Access,
    uri: &str,
    target: &Path,
    limits: &Limits,
    observe: &mut (dyn FnMut(Attempt) + Send),
) -> Result<(), FetchError> {
    let uri = access.resolve(uri)?;
    let source = Source::parse(&uri)?;
    if target.exists() {
        return Ok(());
    }
    let staging = Staging::beside(target);
    let _lock = staging.lock().await?;
    if target.exists() {
        return Ok(());
    }
    let shown = without_secrets(&uri);
    let objects = match &source {
        Source::Http(source) => {
            let store = HttpStore::new(source, web(limits, &Trust::System, &shown)?, first_missing(&staging.folder));
            staging.download(&store, limits, &shown, observe).await?
        }
        Source::Bucket(source) => {
            let store = BucketStore::new(source, access, limits)?;
            staging.download(&store, limits, &shown, observe).await?
        }
        Source::Hub(address) => {
            let store = Hub::new(address.clone(), access, limits)?;
            staging.download(&store, limits, &shown, observe).await?
        }
        Source::Registry(reference) => {
            let store = Registry::new(reference.clone(), access, limits)?;
            staging.download(&store, limits, &shown, observe).await?
        }
    };
    let (target, limits) = (target.to_owned(), *limits);
    blocking(move || staging.finish(&objects, &target, &limits)).await
}

/// Returns a client of web servers for this URI.
pub(crate) fn web(limits: &Limits, trust: &Trust, shown: &str) -> Result<WebClient, FetchError> {
    WebClient::new(limits, trust).map_err(|reason| FetchError::Unavailable { uri: shown.to_owned(), reason })
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

    async fn download<S: Store>(
        &self,
        store: &S,
        limits: &Limits,
        uri: &str,
        observe: &mut (dyn FnMut(Attempt) + Send),
    ) -> Result<Vec<Object>, FetchError> {
        Transfer { store, folder: &self.folder, limits, uri }.run(observe).await
    }

    /// Moves the files into the target, and unpacks archives there.
    fn finish(&self, objects: &[Object], target: &Path, limits: &Limits) -> Result<(), FetchError> {
        let files = self.folder.join(FILES);
        let content = if objects.iter().any(|object| object.packing != Packing::None) {
            let content = self.folder.join("content");
            if content.exists() {
                fs::remove_dir_all(&content).map_err(FetchError::file(&content))?;
            }
            fs::create_dir(&content).map_err(FetchError::file(&content))?;
            let layers = layers(objects, &files);
            if layers.is_empty() {
                objects.iter().try_for_each(|object| place(object, &files, &content, limits))?;
            } else {
                unpack_layers(&layers, &content, limits)?;
            }
            content
        } else {
            files
        };
        fs::rename(&content, target).map_err(FetchError::file(target))?;
        fs::remove_dir_all(&self.folder).map_err(FetchError::file(&self.folder))
    }
}

/// Returns the files that are layers of an image, lowest first. A source has either layers or other objects.
fn layers(objects: &[Object], files: &Path) -> Vec<(PathBuf, Compression)> {
    let layer = |object: &Object| match object.packing {
        Packing::Layer(compression) => Some((files.join(object.path.as_path()), compression)),
        Packing::Zip | Packing::Tar | Packing::TarGz | Packing::None => None,
    };
    objects.iter().filter_map(layer).collect()
}

/// Moves a file into the content, or unpacks it there.
fn place(object: &Object, files: &Path, content: &Path, limits: &Limits) -> Result<(), FetchError> {
    let (file, to) = (files.join(object.path.as_path()), content.join(object.path.as_path()));
    let folder = to.parent().unwrap_or(content);
    fs::create_dir_all(folder).map_err(FetchError::file(folder))?;
    match object.packing {
        Packing::None => fs::rename(&file, &to).map_err(FetchError::file(&to)),
        packing @ (Packing::Zip | Packing::Tar | Packing::TarGz | Packing::Layer(_)) => {
            // Resuming the download would not repair a broken archive.
            unpack(packing, &file, folder, limits).inspect_err(|_| drop(fs::remove_file(&file)))
        }
    }
}
