//! Local copy of a model repository in a bucket or on a hub: one directory for each model, replaced as a whole.
//!
//! ```text
//!   list ──group by directory──► models ──other listing than last time──► FOLDER/fetching/NAME ──exchange──► FOLDER/models/NAME
//! ```

#[cfg(test)]
mod tests;
mod triton_uri;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use tokio::sync::Mutex;

use self::triton_uri::TritonUri;
use crate::access::credentials::Access;
use crate::archive::packing::Packing;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::inventory::repeated;
use crate::limits::Limits;
use crate::shown_uri::without_secrets;
use crate::source::{BucketStore, Hub, Source};
use crate::store::{Body, Object, RelativePath, Store, StoreError};
use crate::transfer::{FILES, Transfer, blocking};

/// A local copy of a model repository.
#[derive(Debug)]
pub struct Mirror {
    access: Access,
    source: Source,
    /// The URI without secrets, for messages.
    uri: String,
    folder: PathBuf,
    limits: Limits,
    /// Held during a refresh, so that refreshes run one after the other.
    refreshing: Mutex<()>,
    /// Locks the folder against other processes.
    _lock: File,
}

/// Models of a repository to refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedModels {
    /// Every model; those that are gone are removed.
    All,
    /// The models with these names, as far as the repository has them.
    Named(BTreeSet<String>),
}

/// Objects of a model, with paths below its directory.
type Models = BTreeMap<String, Vec<Object>>;

/// Directories below the folder: the copies, the listings they were made from, and unfinished downloads.
const MODELS: &str = "models";
const LISTINGS: &str = "listings";
const FETCHING: &str = "fetching";

/// Number of hexadecimal digits of the URI's digest in the name of its directory.
const NAME: usize = 16;

impl Mirror {
    /// Opens the copy of the repository `uri`, in one of Triton's forms or of this crate's, in a directory of its own below
    /// `folder`. Nothing is fetched yet.
    ///
    /// # Errors
    /// [`FetchError::Address`] if the URI is no bucket or hub, [`FetchError::File`] if the folder cannot be written or
    /// another process uses it.
    pub fn open(access: &Access, uri: &str, folder: &Path) -> Result<Self, FetchError> {
        let folder = folder.join(&Digest::of(uri.as_bytes()).hex()[..NAME]);
        let TritonUri { uri, endpoint } = TritonUri::parse(uri)?;
        let access = match endpoint {
            Some(endpoint) => access.clone().with_variable("AWS_ENDPOINT_URL_S3", &endpoint),
            None => access.clone(),
        };
        let source = Source::parse(&uri)?;
        let uri = without_secrets(&uri);
        match source {
            Source::Bucket(_) | Source::Hub(_) => {}
            Source::Http(_) | Source::Registry(_) => {
                let reason =
                    "a model repository must be a bucket or a hub; use s3://, gs://, as:// or hf://".to_owned();
                return Err(FetchError::Address { uri, reason });
            }
        }
        for part in [MODELS, LISTINGS, FETCHING] {
            let path = folder.join(part);
            fs::create_dir_all(&path).map_err(FetchError::file(&path))?;
        }
        let lock = lock(&folder)?;
        let limits = Limits::default();
        Ok(Self { access, source, uri, folder, limits, refreshing: Mutex::new(()), _lock: lock })
    }

    /// Returns the directory with one directory for each model. It is empty until the first refresh.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.folder.join(MODELS)
    }

    /// Lists the repository, and fetches the wanted models whose listing differs from that of the copy. All of a
    /// model's files are replaced at once.
    ///
    /// # Errors
    /// The error of the listing, or else that of the first model that could not be fetched. The other models are
    /// fetched nevertheless, and a model that could not be fetched keeps its former files.
    pub async fn refresh(&self, wanted: &WantedModels) -> Result<(), FetchError> {
        let _refreshing = self.refreshing.lock().await;
        match &self.source {
            Source::Bucket(source) => {
                self.refresh_from(&BucketStore::new(source, &self.access, &self.limits)?, wanted).await
            }
            Source::Hub(address) => {
                self.refresh_from(&Hub::new(address.clone(), &self.access, &self.limits)?, wanted).await
            }
            Source::Http(_) | Source::Registry(_) => Ok(()),
        }
    }

    async fn refresh_from<S: Store>(&self, store: &S, wanted: &WantedModels) -> Result<(), FetchError> {
        let objects = repeated(&self.uri, || store.list(&self.limits)).await?;
        let models = by_model(objects).map_err(|reason| self.unavailable(reason.to_owned()))?;
        self.remove_others(&models, wanted).await?;
        let mut failed = None;
        for (name, objects) in models.into_iter().filter(|(name, _)| wanted.contains(name)) {
            if let Err(error) = self.refresh_model(store, &name, objects).await {
                tracing::warn!(model = name, %error, "cannot fetch a model");
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn refresh_model<S: Store>(&self, store: &S, name: &str, objects: Vec<Object>) -> Result<(), FetchError> {
        let (listing, target) = (self.folder.join(LISTINGS).join(name), self.models().join(name));
        let is_same = fs::read_to_string(&listing).is_ok_and(|known| known == listed(&objects)) && target.exists();
        if is_same {
            return Ok(());
        }
        let folder = self.folder.join(FETCHING).join(name);
        fs::create_dir_all(&folder).map_err(FetchError::file(&folder))?;
        let uri = format!("{}/{name}", self.uri.trim_end_matches('/'));
        let part = ModelStore { store, name, first: Mutex::new(Some(objects)) };
        let transfer = Transfer { store: &part, folder: &folder, limits: &self.limits, uri: &uri };
        let objects = transfer.run(None, &mut |_| {}).await?;
        blocking(move || {
            // A copy without its listing is fetched again, so a crash in between does no harm.
            remove(&listing)?;
            exchange(&folder.join(FILES), &target).map_err(FetchError::file(&target))?;
            remove(&folder)?;
            fs::write(&listing, listed(&objects)).map_err(FetchError::file(&listing))
        })
        .await
    }

    /// Removes the copies of models that the repository no longer has.
    async fn remove_others(&self, models: &Models, wanted: &WantedModels) -> Result<(), FetchError> {
        let (folder, names) = (self.folder.clone(), models.keys().cloned().collect::<BTreeSet<_>>());
        let wanted = wanted.clone();
        blocking(move || {
            let copies = folder.join(MODELS);
            for copy in fs::read_dir(&copies).map_err(FetchError::file(&copies))? {
                let name = copy.map_err(FetchError::file(&copies))?.file_name().to_string_lossy().into_owned();
                if wanted.contains(&name) && !names.contains(&name) {
                    [LISTINGS, MODELS, FETCHING].iter().try_for_each(|part| remove(&folder.join(part).join(&name)))?;
                }
            }
            Ok(())
        })
        .await
    }

    fn unavailable(&self, reason: String) -> FetchError {
        FetchError::Unavailable { uri: self.uri.clone(), reason }
    }
}

impl WantedModels {
    fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.contains(name),
        }
    }
}

/// The part of a store that is one model.
struct ModelStore<'a, S> {
    store: &'a S,
    name: &'a str,
    /// The model's objects in the listing of the repository; `None` once they are used.
    first: Mutex<Option<Vec<Object>>>,
}

impl<S: Store> Store for ModelStore<'_, S> {
    async fn list(&self, limits: &Limits) -> Result<Vec<Object>, StoreError> {
        if let Some(first) = self.first.lock().await.take() {
            return Ok(first);
        }
        let models = by_model(self.store.list(limits).await?).map_err(StoreError::retry)?;
        let mut models = models.into_iter().filter(|(name, _)| name == self.name);
        models.next().map(|(_, objects)| objects).ok_or_else(|| StoreError::retry("the model was removed"))
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        self.store.read(object, range).await
    }
}

/// Groups objects by their first directory. Files outside of a directory, such as a README, belong to no model. The error
/// is a sentence that says why the objects are no repository.
fn by_model(objects: Vec<Object>) -> Result<Models, &'static str> {
    let mut models = Models::new();
    let mut is_model_itself = false;
    for object in objects {
        if object.packing != Packing::None {
            return Err("a model repository may not be an archive: name a directory with a directory for each model");
        }
        match object.path.as_str().split_once('/') {
            Some((model, path)) => {
                let path = RelativePath::parse(path).map_err(|_| "an object has an invalid path")?;
                models.entry(model.to_owned()).or_default().push(Object { path, ..object });
            }
            None => is_model_itself |= object.path.as_str() == "config.pbtxt",
        }
    }
    if is_model_itself || models.is_empty() {
        return Err("this is no model repository, which has a directory for each model: name the directory above it");
    }
    Ok(models)
}

/// Returns a text that changes whenever an object of the model does.
fn listed(objects: &[Object]) -> String {
    let mut all: Vec<_> = objects.iter().collect();
    all.sort_by_key(|object| object.path.as_str());
    let mut text = String::new();
    for object in all {
        // A digest depends on the content alone, and so precedes the version.
        let version = object.digest.as_ref().map(Digest::hex).or(object.version.as_deref());
        let _ = writeln!(text, "{:?} {:?} {version:?}", object.path.as_str(), object.size);
    }
    text
}

fn lock(folder: &Path) -> Result<File, FetchError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(FetchError::file(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let source = io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it: give each its own");
            Err(FetchError::File { path: folder.to_owned(), source })
        }
        Err(TryLockError::Error(source)) => Err(FetchError::File { path, source }),
    }
}

/// Puts the directory `new` at `target` in one step. A directory that was at `target` is then at `new`.
fn exchange(new: &Path, target: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if !target.exists() {
        return fs::rename(new, target);
    }
    match renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(()),
        // Some file systems, such as NFS, cannot exchange. Then the model is absent for a moment, which a poll
        // tolerates, and its former files are beside `new`.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
            let old = new.with_extension("old");
            fs::rename(target, &old)?;
            fs::rename(new, target)
        }
        Err(error) => Err(error.into()),
    }
}

/// Removes a file or a directory, if it exists.
fn remove(path: &Path) -> Result<(), FetchError> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FetchError::file(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
