//! A complete fetch: download, unpack, rename.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::access::authorities;
use crate::access::credentials::Access;
use crate::archive::packing::{Compression, Packing};
use crate::archive::unpack::{unpack, unpack_layers};
use crate::durable;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::node_cache::{EntryKey, NodeCache, Provided};
use crate::progress::attempt::{Attempt, Progress};
use crate::shown_uri::without_secrets;
use crate::source::{BucketStore, HttpStore, Hub, Registry, Source};
use crate::store::{Object, Store};
use crate::transfer::{FILES, Transfer, blocking, first_missing};
use crate::web::WebClient;

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
    Fetch { access, limits, cache: None }.run(uri, target, observe).await
}

/// The credentials, limits and cache of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Fetch<'a> {
    /// The places that credentials come from.
    pub access: &'a Access,
    /// Limits on the download.
    pub limits: &'a Limits,
    /// Cache of this node; `None` to fetch from the source.
    pub cache: Option<&'a NodeCache>,
}

impl Fetch<'_> {
    /// Fetches as [`fetch`] does.
    ///
    /// # Errors
    /// The same as [`fetch`]. A cache causes no error.
    pub async fn run(
        &self,
        uri: &str,
        target: &Path,
        observe: &mut (dyn FnMut(Attempt) + Send),
    ) -> Result<(), FetchError> {
        let (access, limits) = (self.access, self.limits);
        let uri = access.resolve(uri)?;
        let source = Source::parse(&uri)?;
        if durable::is_complete(target) {
            return Ok(());
        }
        let staging = Staging::beside(target);
        let _lock = staging.lock().await?;
        durable::remove_lost(target)?;
        if target.exists() {
            return Ok(());
        }
        let shown = without_secrets(&uri);
        let job = Job { staging: &staging, target, limits, uri: &uri, shown: &shown, cache: self.cache };
        let fetched = match &source {
            Source::Http(source) => {
                let web = web(access, limits, &shown)?;
                job.run(&HttpStore::new(source, web, first_missing(&staging.folder)), observe).await
            }
            Source::Bucket(source) => job.run(&BucketStore::new(source, access, limits)?, observe).await,
            Source::Hub(address) => job.run(&Hub::new(address.clone(), access, limits)?, observe).await,
            Source::Registry(reference) => job.run(&Registry::new(reference.clone(), access, limits)?, observe).await,
        };
        fetched?;
        durable::complete(target.to_owned());
        Ok(())
    }
}

/// A fetch whose target is locked.
struct Job<'a> {
    staging: &'a Staging,
    target: &'a Path,
    limits: &'a Limits,
    uri: &'a str,
    /// The URI without secrets, for messages.
    shown: &'a str,
    cache: Option<&'a NodeCache>,
}

impl Job<'_> {
    async fn run<S: Store>(&self, store: &S, observe: &mut (dyn FnMut(Attempt) + Send)) -> Result<(), FetchError> {
        let transfer = Transfer { store, folder: &self.staging.folder, limits: self.limits, uri: self.shown };
        match self.cache {
            Some(cache) => Box::pin(self.run_cached(cache, &transfer, observe)).await,
            None => self.download(&transfer, None, observe).await.map(drop),
        }
    }

    /// Takes the files from the cache, or downloads and stores them.
    async fn run_cached<S: Store>(
        &self,
        cache: &NodeCache,
        transfer: &Transfer<'_, S>,
        observe: &mut (dyn FnMut(Attempt) + Send),
    ) -> Result<(), FetchError> {
        let identity = transfer.identify(observe).await?;
        let key = EntryKey::of(self.uri, identity.objects());
        let bytes = identity.objects().iter().map(|object| object.size).sum();
        let content = self.staging.folder.join(CACHED);
        let lease = match cache.provide(key.as_ref(), bytes, &content, self.limits).await {
            Provided::Files(bytes) => {
                observe(Attempt::Progressed(Progress { done: bytes, total: Some(bytes), rate: 0 }));
                return self.rename(content).await;
            }
            Provided::Lease(lease) => Some(lease),
            Provided::Nothing => None,
        };
        let renewals = lease.as_ref().map(|lease| cache.keep(lease));
        let downloaded = self.download(transfer, identity.into_list(), observe).await;
        if let Some(lease) = lease {
            // Files of another version than the key's must not be stored under it.
            match downloaded.as_deref().map(|objects| EntryKey::of(self.uri, objects)) {
                Ok(key) if key.as_ref() == Some(&lease.key) => cache.store(&lease, self.target).await,
                Ok(_) | Err(_) => cache.release(&lease).await,
            }
        }
        drop(renewals);
        downloaded.map(drop)
    }

    /// Downloads the files into the target, and returns the objects that they were made from.
    async fn download<S: Store>(
        &self,
        transfer: &Transfer<'_, S>,
        listed: Option<Vec<Object>>,
        observe: &mut (dyn FnMut(Attempt) + Send),
    ) -> Result<Vec<Object>, FetchError> {
        let objects = transfer.run(listed, observe).await?;
        let (staging, target, limits) = (self.staging.clone(), self.target.to_owned(), *self.limits);
        blocking(move || staging.finish(&objects, &target, &limits).map(|()| objects)).await
    }

    /// Moves complete files into the target.
    async fn rename(&self, content: PathBuf) -> Result<(), FetchError> {
        let (staging, target) = (self.staging.clone(), self.target.to_owned());
        blocking(move || staging.rename(&content, &target)).await
    }
}

/// Directory of files from a cache, in the working directory.
const CACHED: &str = "cached";

/// Returns a client of web servers for this URI.
pub(crate) fn web(access: &Access, limits: &Limits, shown: &str) -> Result<WebClient, FetchError> {
    let client = authorities::trust(access).and_then(|trust| WebClient::new(limits, &trust));
    client.map_err(|reason| FetchError::Unavailable { uri: shown.to_owned(), reason })
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
            let unpacked = if layers.is_empty() {
                objects.iter().try_for_each(|object| place(object, &files, &content, limits))
            } else {
                unpack_layers(&layers, &content, limits)
            };
            unpacked.map_err(|error| error.or_full(&self.folder))?;
            content
        } else {
            files
        };
        self.rename(&content, target)
    }

    fn rename(&self, content: &Path, target: &Path) -> Result<(), FetchError> {
        durable::begin(target)?;
        fs::rename(content, target).map_err(FetchError::file(target))?;
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
            let unpacked = unpack(packing, &file, folder, limits).map_err(|error| error.or_full(folder));
            let is_full = |error: &FetchError| matches!(error, FetchError::DiskFull { .. });
            unpacked.inspect_err(|error| {
                if !is_full(error) {
                    drop(fs::remove_file(&file));
                }
            })
        }
    }
}
