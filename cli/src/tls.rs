//! TLS certificate of a serving port, read at the start and reloaded when its files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use weir_gateway::ServerTls;

use crate::error::CliError;
use crate::pem::{certificates, private_key};
use crate::watched_files::WatchedFiles;

/// Interval at which the files are checked for changes. Certificates are renewed days before they expire, so minutes
/// would do; five seconds let a manual replacement take effect soon.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// A certificate and its private key, from two files.
#[derive(Debug)]
pub(crate) struct KeyPair {
    certificate: PathBuf,
    key: PathBuf,
    /// Both files when they were first read.
    at_start: WatchedFiles,
    current: ArcSwap<CertifiedKey>,
}

/// TLS configuration of a serving port.
pub(crate) struct Tls {
    pub(crate) pair: Arc<KeyPair>,
    pub(crate) server: ServerTls,
}

impl Tls {
    /// Reads the files of `--tls-cert` and `--tls-key`; `None` without these flags, which require each other.
    ///
    /// # Errors
    /// The errors of [`KeyPair::read`], and [`CliError::Usage`] if the TLS configuration is not possible.
    pub(crate) fn read(certificate: Option<&Path>, key: Option<&Path>) -> Result<Option<Self>, CliError> {
        let (Some(certificate), Some(key)) = (certificate, key) else {
            return Ok(None);
        };
        let pair = KeyPair::read(certificate, key)?;
        let server = ServerTls::new(pair.clone()).map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(Some(Self { pair, server }))
    }
}

impl KeyPair {
    /// Reads both files.
    ///
    /// # Errors
    /// [`CliError::Usage`] for files that cannot be read, hold no PEM, or do not belong together.
    fn read(certificate: &Path, key: &Path) -> Result<Arc<Self>, CliError> {
        let at_start = WatchedFiles::of([certificate, key]);
        let current = load(certificate, key).map_err(CliError::Usage)?;
        Ok(Arc::new(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            at_start,
            current: ArcSwap::from_pointee(current),
        }))
    }

    /// Returns the path of the certificate file.
    pub(crate) fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Reloads the files whenever they change. New connections use the new certificate; if it is not valid, they use
    /// the last valid one.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mut watched = self.at_start.clone();
        loop {
            watched.changed(CHECK_INTERVAL).await;
            self.renew();
        }
    }

    fn renew(&self) {
        match load(&self.certificate, &self.key) {
            Ok(pair) => {
                self.current.store(Arc::new(pair));
                let file = self.certificate.display();
                tracing::info!("the new certificate is in use: {file}");
            }
            Err(reason) => tracing::warn!("the last valid certificate stays in use: {reason}"),
        }
    }
}

impl ResolvesServerCert for KeyPair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// Loads the certificate and its key. The error is a sentence.
fn load(certificate: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let chain = certificates(certificate).map_err(|reason| message("--tls-cert", certificate, &reason))?;
    let private = private_key(key).map_err(|reason| message("--tls-key", key, &reason))?;
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain, private, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "the private key {} (--tls-key) does not match the certificate {} (--tls-cert)",
            key.display(),
            certificate.display()
        ),
        other => message("--tls-key", key, &other.to_string()),
    })
}

fn message(flag: &str, file: &Path, reason: &str) -> String {
    format!("{} ({flag}): {reason}", file.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates the files of a new self-signed certificate.
    fn made(folder: &Path) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&files.0, made.cert.pem()).unwrap();
        fs::write(&files.1, made.signing_key.serialize_pem()).unwrap();
        files
    }

    fn refused(certificate: &Path, key: &Path) -> String {
        KeyPair::read(certificate, key).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_flag_and_file() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (certificate, key) = made(one.path());
        let (_, others_key) = made(other.path());
        let none = one.path().join("none.pem");
        assert!(KeyPair::read(&certificate, &key).is_ok());
        let message = refused(&none, &key);
        assert!(message.contains("none.pem (--tls-cert): No such file"), "{message}");
        let message = refused(&key, &key);
        assert!(message.ends_with("(--tls-cert): it holds no certificate in PEM"), "{message}");
        let message = refused(&certificate, &certificate);
        assert!(message.ends_with("(--tls-key): it holds no private key in PEM"), "{message}");
        let message = refused(&certificate, &others_key);
        assert!(message.contains("does not match the certificate"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_are_used_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = made(folder.path());
        let pair = KeyPair::read(&certificate, &key).unwrap();
        let follow = tokio::spawn(Arc::clone(&pair).follow());
        let shown = || pair.current.load().cert.clone();
        let first = shown();
        fs::write(&key, "broken").unwrap();
        tokio::time::sleep(CHECK_INTERVAL * 2).await;
        assert_eq!(shown(), first);
        made(folder.path());
        tokio::time::sleep(CHECK_INTERVAL * 2).await;
        assert_ne!(shown(), first);
        assert_eq!(shown(), certificates(&certificate).unwrap());
        follow.abort();
    }
}
