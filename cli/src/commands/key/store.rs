//! The file, or the entry of a Secret, that holds keys.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use weir_access::{AccessDocument, WrittenKey};
use weir_cluster_kubernetes::{Client, SecretEntry};
use weir_crds::ReadDocument;

use crate::access;
use crate::args::{KeyStoreArgs, SecretName};
use crate::error::CliError;

/// Entry of a Secret that holds keys.
const ENTRY: &str = "keys.yaml";

/// First lines of a file of keys.
const HEADER: &str = "\
# Keys of the clients of Weir's gateways (--access-file, --access-secret), written by `weir key`, which removes other
# comments. The keys themselves are stored nowhere: a digest does not lead back to its key.
";

/// The file, or the entry of a Secret, that holds keys.
pub(super) enum KeyStore {
    File(PathBuf),
    Secret(Client, SecretEntry),
}

impl fmt::Display for KeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "{}", file.display()),
            Self::Secret(_, entry) => write!(f, "{entry}"),
        }
    }
}

impl KeyStore {
    /// Returns the store that the flags name.
    ///
    /// # Errors
    /// [`CliError::Cluster`] if a Secret is named and no cluster is configured.
    pub(super) async fn of(args: &KeyStoreArgs) -> Result<Self, CliError> {
        match (&args.file, &args.secret) {
            (_, Some(SecretName { namespace, name })) => {
                let (namespace, name, entry) = (namespace.clone(), name.clone(), ENTRY.to_owned());
                let client = weir_cluster_kubernetes::client().await?;
                Ok(Self::Secret(client, SecretEntry { namespace, name, entry }))
            }
            (Some(file), None) => Ok(Self::File(file.clone())),
            (None, None) => Err(CliError::Usage("set --file or --secret".to_owned())),
        }
    }

    /// Returns the keys; none if the file or the entry does not exist.
    ///
    /// # Errors
    /// [`CliError`] if the keys cannot be read.
    pub(super) async fn read(&self) -> Result<Vec<WrittenKey>, CliError> {
        match self {
            Self::File(file) => in_file(file),
            Self::Secret(client, entry) => in_entry(entry, &entry.read(client).await?),
        }
    }

    /// Changes the keys, without losing the changes of other writers. `change` is called again if another writer of a
    /// Secret was faster.
    ///
    /// # Errors
    /// The error of `change`, or [`CliError`] if the keys cannot be read or written.
    pub(super) async fn change(
        &self,
        mut change: impl FnMut(&mut Vec<WrittenKey>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self {
            Self::File(file) => change_file(file, change),
            Self::Secret(client, entry) => {
                let changed = entry.change(client, |before| {
                    let mut keys = in_entry(entry, before)?;
                    change(&mut keys)?;
                    Ok::<_, CliError>(text(&keys))
                });
                changed.await
            }
        }
    }
}

/// Changes the keys of a file. A lock on its folder keeps other commands from writing at the same time.
fn change_file(
    file: &Path,
    mut change: impl FnMut(&mut Vec<WrittenKey>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |error| CliError::io(format!("cannot write {}", file.display()), error);
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let folder_lock = File::open(folder).map_err(failed)?;
    folder_lock.lock().map_err(failed)?;
    let mut keys = in_file(file)?;
    change(&mut keys)?;
    replace(file, &text(&keys)).map_err(failed)
}

/// Returns the keys of a file; none if it does not exist.
fn in_file(file: &Path) -> Result<Vec<WrittenKey>, CliError> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Ok(_) | Err(_) => keys_alone(&file.display().to_string(), access::document(file)),
    }
}

/// Returns the keys of the text of an entry; none if it is empty.
fn in_entry(entry: &SecretEntry, text: &str) -> Result<Vec<WrittenKey>, CliError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let name = entry.to_string();
    keys_alone(&name, access::read_text(&name, text))
}

/// Returns the keys of an access document that has nothing else.
fn keys_alone(
    name: &str,
    read: Result<ReadDocument<AccessDocument>, Vec<String>>,
) -> Result<Vec<WrittenKey>, CliError> {
    let mut document = read.map_err(CliError::Invalid)?.value;
    let keys = std::mem::take(&mut document.keys);
    if document == AccessDocument::default() {
        return Ok(keys);
    }
    let message =
        format!("{name} has more than keys, and `weir key` would lose their comments: use a file for keys alone");
    Err(CliError::Usage(message))
}

/// Returns the content of a file. JSON is YAML, and quotes whatever needs it.
fn text(keys: &[WrittenKey]) -> String {
    let mut text = HEADER.to_owned();
    if keys.is_empty() {
        text.push_str("keys: []\n");
        return text;
    }
    text.push_str("keys:\n");
    for key in keys {
        // Strings and lists of words become JSON without errors.
        text.push_str(&format!("- {}\n", serde_json::to_string(key).unwrap_or_default()));
    }
    text
}

/// Replaces a file at once. Only its owner may read it.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = Path::new(&name);
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(new)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
    let replaced = written.and_then(|()| fs::rename(new, file));
    if replaced.is_err() {
        // The error of the write is the one to report.
        let _ = fs::remove_file(new);
    }
    replaced
}
