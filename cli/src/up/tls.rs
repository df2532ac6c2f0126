//! The certificate that the port shows: read at the start, and again when its files change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, version};

use crate::args::UpArgs;
use crate::error::CliError;
use crate::pem::{certificates, private_key};

/// Certificates are renewed days before they end, and whoever replaces one by hand waits no longer than
/// this to see it.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What clients may choose from, the server's preference first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// A certificate and its key, of two files.
#[derive(Debug)]
pub(super) struct Pair {
    certificate: PathBuf,
    key: PathBuf,
    /// The files as they were when they were first read.
    at_start: Stamp,
    current: ArcSwap<CertifiedKey>,
}

/// What changes with the files: their times, lengths and numbers, where there are such files.
type Stamp = [Option<(i64, i64, u64, u64)>; 2];

/// How the port encrypts.
pub(super) struct Tls {
    pub(super) pair: Arc<Pair>,
    pub(super) config: Arc<ServerConfig>,
}

impl Tls {
    /// As the flags say; both of them are there, or none.
    ///
    /// # Errors
    /// As [`Pair::read`].
    pub(super) fn read(args: &UpArgs) -> Result<Option<Self>, CliError> {
        let (Some(certificate), Some(key)) = (&args.tls_cert, &args.tls_key) else {
            return Ok(None);
        };
        let pair = Pair::read(certificate, key)?;
        let config = pair
            .config()
            .map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(Some(Self { pair, config }))
    }
}

impl Pair {
    /// Reads both.
    ///
    /// # Errors
    /// [`CliError::Usage`] for files that cannot be read, hold no PEM, or do not belong together.
    fn read(certificate: &Path, key: &Path) -> Result<Arc<Self>, CliError> {
        // Before their content, so that a change meanwhile is noticed.
        let at_start = stamp(certificate, key);
        let current = load(certificate, key).map_err(CliError::Usage)?;
        Ok(Arc::new(Self {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            at_start,
            current: ArcSwap::from_pointee(current),
        }))
    }

    /// For a port: TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1.
    ///
    /// # Errors
    /// Should the cryptography lack a version.
    fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])?;
        let resolver = Arc::clone(self);
        let mut config = builder.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(Arc::new(config))
    }

    /// Where the certificate is.
    pub(super) fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Reads the files again whenever they change. New connections see what is new; while that is broken,
    /// they see what was before.
    pub(super) async fn follow(self: Arc<Self>) {
        let mut seen = self.at_start;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = stamp(&self.certificate, &self.key);
            if now != seen {
                seen = now;
                self.renew();
            }
        }
    }

    fn renew(&self) {
        match load(&self.certificate, &self.key) {
            Ok(pair) => {
                self.current.store(Arc::new(pair));
                tracing::info!(
                    "a new certificate is in use: {}",
                    self.certificate.display()
                );
            }
            Err(because) => tracing::warn!("the certificate before stays in use: {because}"),
        }
    }
}

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

/// The pair, or a sentence that says why there is none.
fn load(certificate: &Path, key: &Path) -> Result<CertifiedKey, String> {
    let chain =
        certificates(certificate).map_err(|because| fault("--tls-cert", certificate, &because))?;
    let private = private_key(key).map_err(|because| fault("--tls-key", key, &because))?;
    let provider = ring::default_provider();
    CertifiedKey::from_der(chain, private, &provider).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "the key in {} (--tls-key) is not that of the certificate in {} (--tls-cert)",
            key.display(),
            certificate.display()
        ),
        other => fault("--tls-key", key, &other.to_string()),
    })
}

fn fault(flag: &str, file: &Path, because: &str) -> String {
    format!("{} ({flag}): {because}", file.display())
}

fn stamp(certificate: &Path, key: &Path) -> Stamp {
    [certificate, key].map(|file| {
        // Through links: Kubernetes replaces a link to change a mounted secret.
        let found = std::fs::metadata(file).ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Files of a new self-signed certificate.
    fn made(folder: &Path) -> (PathBuf, PathBuf) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&files.0, made.cert.pem()).unwrap();
        fs::write(&files.1, made.signing_key.serialize_pem()).unwrap();
        files
    }

    fn refused(certificate: &Path, key: &Path) -> String {
        Pair::read(certificate, key).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_told_with_flag_and_file() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (certificate, key) = made(one.path());
        let (_, others_key) = made(other.path());
        let none = one.path().join("none.pem");
        assert!(Pair::read(&certificate, &key).is_ok());
        let told = refused(&none, &key);
        assert!(
            told.contains("none.pem (--tls-cert): No such file"),
            "{told}"
        );
        let told = refused(&key, &key);
        assert!(
            told.ends_with("(--tls-cert): it holds no certificate in PEM"),
            "{told}"
        );
        let told = refused(&certificate, &certificate);
        assert!(
            told.ends_with("(--tls-key): it holds no private key in PEM"),
            "{told}"
        );
        let told = refused(&certificate, &others_key);
        assert!(told.contains("is not that of the certificate in"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_are_shown_and_broken_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = made(folder.path());
        let pair = Pair::read(&certificate, &key).unwrap();
        let follow = tokio::spawn(Arc::clone(&pair).follow());
        let shown = || pair.current.load().cert.clone();
        let first = shown();
        fs::write(&key, "broken").unwrap();
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_eq!(shown(), first);
        made(folder.path());
        tokio::time::sleep(LOOK_EVERY * 2).await;
        assert_ne!(shown(), first);
        assert_eq!(shown(), certificates(&certificate).unwrap());
        follow.abort();
    }
}
