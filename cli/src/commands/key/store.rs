//! The file, or the entry of a Secret, that holds keys.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use weir_access::{AccessDocument, ClientLimits};
use weir_cluster_kubernetes::{Client, SecretEntry};
use weir_crds::ReadDocument;

use crate::access::{self, key_lines};
use crate::args::{KeyStoreArgs, SecretName};
use crate::error::CliError;

/// Entry of a Secret that holds keys.
const ENTRY: &str = "keys.yaml";

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

    /// Returns the keys, and the limits of their clients; none if the entry does not exist.
    ///
    /// # Errors
    /// [`CliError`] if the keys cannot be read, as from a file that does not exist.
    pub(super) async fn read(&self) -> Result<AccessDocument, CliError> {
        match self {
            Self::File(file) => keys_alone(&file.display().to_string(), access::document(file)),
            Self::Secret(client, entry) => in_entry(entry, &entry.read(client).await?),
        }
    }

    /// Changes the keys and limits, without losing the changes of other writers. `change` is called again if another
    /// writer of a Secret was faster.
    ///
    /// # Errors
    /// The error of `change`, or [`CliError`] if the keys cannot be read or written.
    pub(super) async fn change(
        &self,
        mut change: impl FnMut(&mut AccessDocument) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        match self {
            Self::File(file) => change_file(file, change),
            Self::Secret(client, entry) => {
                let changed = entry.change(client, |before| {
                    let mut keys = in_entry(entry, before)?;
                    change(&mut keys)?;
                    Ok::<_, CliError>(key_lines::text(&keys))
                });
                changed.await
            }
        }
    }
}

/// Changes the keys of a file. A lock on its folder keeps other commands from writing at the same time.
fn change_file(
    file: &Path,
    mut change: impl FnMut(&mut AccessDocument) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let failed = |error| CliError::io(format!("cannot write {}", file.display()), error);
    // A link would be replaced by a file that the gateways do not read.
    let real = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let file = &*real;
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let folder_lock = File::open(folder).map_err(failed)?;
    folder_lock.lock().map_err(failed)?;
    let mut keys = in_file(file)?;
    change(&mut keys)?;
    replace(file, &key_lines::text(&keys)).map_err(failed)
}

/// Returns the keys and limits of a file; none if it does not exist.
fn in_file(file: &Path) -> Result<AccessDocument, CliError> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(AccessDocument::default()),
        Ok(_) | Err(_) => keys_alone(&file.display().to_string(), access::document(file)),
    }
}

/// Returns the keys and limits in the text of an entry; none if it is empty.
fn in_entry(entry: &SecretEntry, text: &str) -> Result<AccessDocument, CliError> {
    if text.is_empty() {
        return Ok(AccessDocument::default());
    }
    let name = entry.to_string();
    keys_alone(&name, access::read_text(&name, text.to_owned()))
}

/// Returns the keys of an access document, and the limits of their clients, if it has nothing else.
fn keys_alone(name: &str, read: Result<ReadDocument<AccessDocument>, Vec<String>>) -> Result<AccessDocument, CliError> {
    let document = read.map_err(CliError::Invalid)?.value;
    let AccessDocument { keys: _, rules, issuers, client_certificates, limits } = &document;
    let is_own = rules.is_empty() && issuers.is_empty() && client_certificates.is_empty();
    if is_own && limits.iter().all(is_of_one_client) {
        return Ok(document);
    }
    let message = format!(
        "{name} has more than keys and limits of single clients, and `weir key` would lose their comments: use a file for \
         keys alone"
    );
    Err(CliError::Usage(message))
}

/// Returns true for limits as `weir key create` writes them.
fn is_of_one_client(limits: &ClientLimits) -> bool {
    limits.services.is_empty() && matches!(&limits.clients[..], [client] if !client.ends_with('*'))
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
