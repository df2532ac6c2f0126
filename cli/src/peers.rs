//! Certificates between gateways, from files or a Secret, read at the start and again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_cluster_kubernetes::{Client, DataKind, DataObject, watch_entries};
use weir_gateway::{CertificateFiles, PeerTls, PeerTrust};

use crate::args::{PeerArgs, PeerTrustFlag};
use crate::certificate_secret::{self, Content};
use crate::error::CliError;

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
        /// Fingerprint of the files before they were first read.
        at_start: Fingerprint,
    },
    Secret(DataObject),
}

/// Paths of certificate, key and authorities.
#[derive(Clone, Debug)]
struct PeerPaths([PathBuf; 3]);

/// Modification time, size and inode of each file; `None` for a file that does not exist.
type Fingerprint = [Option<(i64, i64, u64, u64)>; 3];

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
        // The fingerprint is taken before the content is read, so that a change in between is noticed.
        let at_start = paths.fingerprint();
        let usage = |reason: String| CliError::Usage(format!("--peer-cert, --peer-key, --peer-ca: {reason}"));
        let content = paths.content().map_err(usage)?;
        let tls = PeerTls::new(&args.peer_name, trust(args), files(&content), seconds_since_1970());
        let tls = tls.map_err(|error| usage(error.to_string()))?;
        Ok(Some(Self { tls, source: Source::Files { paths, at_start }, is_read: Arc::new(AtomicBool::new(true)) }))
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
            Source::Files { paths, at_start } => paths.follow(&self.tls, at_start).await,
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
    async fn follow(&self, tls: &PeerTls, at_start: Fingerprint) {
        let mut seen = at_start;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let now = self.fingerprint();
            if now != seen {
                seen = now;
                log(replace(tls, self.content()));
            }
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.0.each_ref().map(|file| {
            // `metadata` follows symbolic links: Kubernetes replaces a link to update a mounted Secret.
            let found = std::fs::metadata(file).ok()?;
            Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
        })
    }

    fn content(&self) -> Content {
        let [certificate, key, ca] = &self.0;
        Ok([read(certificate)?, read(key)?, read(ca)?])
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    let failed = |reason: String| format!("{}: {reason}", file.display());
    let size = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(failed(format!("{size} bytes, more than {MAX_BYTES}")));
    }
    std::fs::read(file).map_err(|error| failed(error.to_string()))
}

#[expect(clippy::disallowed_methods, reason = "the validity of certificates is checked when they are read")]
fn seconds_since_1970() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests;
