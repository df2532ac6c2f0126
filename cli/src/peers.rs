//! Certificates between gateways, from files or a Secret, read at the start and again when they change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_cluster_kubernetes::{Client, DataKind, DataObject, watch_entries};
use weir_gateway::{CertificateFiles, PeerTls, PeerTrust};

use crate::args::{PeerArgs, PeerTrustFlag};
use crate::certificate_secret::{self, Content};
use crate::error::CliError;
use crate::watched_files::{WatchedFiles, read_file};

/// Interval at which the files are checked for changes. Certificates are renewed hours before they expire.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// A gateway's certificate, and the TLS that follows it.
#[derive(Debug)]
pub(crate) struct PeerCertificates {
    pub(crate) tls: Arc<PeerTls>,
    source: Source,
    /// True once the source was read.
    is_read: Arc<AtomicBool>,
}

/// Source of certificate, key and authorities.
#[derive(Debug)]
enum Source {
    Files {
        paths: PeerPaths,
        /// The files before they were first read.
        watched: WatchedFiles,
    },
    Secret(DataObject),
}

/// Paths of certificate, key and authorities.
#[derive(Clone, Debug)]
struct PeerPaths([PathBuf; 3]);

impl PeerCertificates {
    /// Reads the files of `--peer-cert`, `--peer-key` and `--peer-ca`, or prepares to watch the Secret `--peer-secret`
    /// of this namespace; `None` without these flags.
    ///
    /// # Errors
    /// [`CliError::Usage`] for files that cannot be read, or that other gateways would refuse.
    pub(crate) fn read(args: &PeerArgs, namespace: &str) -> Result<Option<Self>, CliError> {
        if let Some(name) = &args.peer_secret {
            let (namespace, name) = (namespace.to_owned(), name.clone());
            let source = Source::Secret(DataObject { kind: DataKind::Secret, namespace, name });
            let tls = PeerTls::without_files(&args.peer_name, trust(args));
            let tls = tls.map_err(|error| CliError::Usage(format!("--peer-name: {error}")))?;
            return Ok(Some(Self { tls, source, is_read: Arc::default() }));
        }
        let (Some(certificate), Some(key), Some(ca)) = (&args.peer_cert, &args.peer_key, &args.peer_ca) else {
            return Ok(None);
        };
        let paths = PeerPaths([certificate.clone(), key.clone(), ca.clone()]);
        let watched = WatchedFiles::of(&paths.0);
        let usage = |reason: String| CliError::Usage(format!("--peer-cert, --peer-key, --peer-ca: {reason}"));
        let content = paths.content().map_err(usage)?;
        let tls = PeerTls::new(&args.peer_name, trust(args), files(&content), seconds_since_1970());
        let tls = tls.map_err(|error| usage(error.to_string()))?;
        Ok(Some(Self { tls, source: Source::Files { paths, watched }, is_read: Arc::new(AtomicBool::new(true)) }))
    }

    /// Returns a flag that becomes true once the certificates were read, or it is known that there are none yet. A
    /// gateway that served before would hand requests over without them.
    pub(crate) fn completeness(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_read)
    }

    /// Reads the certificates again whenever they change. While they are not valid together, as during a replacement of
    /// files, the last valid ones stay in use.
    pub(crate) async fn follow(self, client: Client) {
        match self.source {
            Source::Files { paths, watched } => paths.follow(&self.tls, watched).await,
            Source::Secret(object) => {
                let entries = watch_entries(&client, &object, || ());
                let replace = |content| log(replace(&self.tls, content));
                certificate_secret::follow(entries, &object.to_string(), &self.is_read, replace).await;
            }
        }
    }
}

fn trust(args: &PeerArgs) -> PeerTrust {
    match args.peer_trust {
        PeerTrustFlag::Certificate => PeerTrust::Certificate,
        PeerTrustFlag::CertificateOrAddress => PeerTrust::CertificateOrAddress,
    }
}

fn files([certificate, key, authorities]: &[Vec<u8>; 3]) -> CertificateFiles<'_> {
    CertificateFiles { certificate, key, authorities }
}

fn replace(tls: &PeerTls, content: Content) -> Result<(), String> {
    let content = content?;
    tls.replace(files(&content), seconds_since_1970()).map_err(|error| error.to_string())
}

fn log(replaced: Result<(), String>) {
    match replaced {
        Ok(()) => tracing::info!("the new certificate for other gateways is in use"),
        Err(reason) => tracing::error!("the last valid certificate for other gateways stays in use: {reason}"),
    }
}

impl PeerPaths {
    async fn follow(&self, tls: &PeerTls, mut watched: WatchedFiles) {
        loop {
            watched.changed(CHECK_INTERVAL).await;
            log(replace(tls, self.content()));
        }
    }

    fn content(&self) -> Content {
        let [certificate, key, ca] = &self.0;
        Ok([read(certificate)?, read(key)?, read(ca)?])
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    read_file(file, MAX_BYTES).map_err(|reason| format!("{}: {reason}", file.display()))
}

#[expect(clippy::disallowed_methods, reason = "the validity of certificates is checked when they are read")]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests;
