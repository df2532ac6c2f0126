//! Certificates between gateways, read at the start and again when their files change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_gateway::{PeerFiles, PeerTls, PeerTrust};

use crate::args::{PeerArgs, PeerTrustFlag};
use crate::error::CliError;

/// Interval at which the files are checked for changes. Certificates are renewed hours before they expire.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The files of a gateway's certificate, and the TLS that follows them.
#[derive(Debug)]
pub(crate) struct PeerCertificates {
    pub(crate) tls: Arc<PeerTls>,
    files: PeerPaths,
    /// Fingerprint of the files before they were first read.
    at_start: Fingerprint,
}

/// Paths of certificate, key and authorities.
#[derive(Clone, Debug)]
struct PeerPaths([PathBuf; 3]);

/// Modification time, size and inode of each file; `None` for a file that does not exist.
type Fingerprint = [Option<(i64, i64, u64, u64)>; 3];

impl PeerCertificates {
    /// Reads the files of `--peer-cert`, `--peer-key` and `--peer-ca`; `None` without these flags.
    ///
    /// # Errors
    /// [`CliError::Usage`] for files that cannot be read, or that other gateways would refuse.
    pub(crate) fn read(args: &PeerArgs) -> Result<Option<Self>, CliError> {
        let (Some(certificate), Some(key), Some(ca)) = (&args.peer_cert, &args.peer_key, &args.peer_ca) else {
            return Ok(None);
        };
        let files = PeerPaths([certificate.clone(), key.clone(), ca.clone()]);
        // The fingerprint is taken before the content is read, so that a change in between is noticed.
        let at_start = files.fingerprint();
        let trust = match args.peer_trust {
            PeerTrustFlag::Certificate => PeerTrust::Certificate,
            PeerTrustFlag::CertificateOrAddress => PeerTrust::CertificateOrAddress,
        };
        let usage = |reason: String| CliError::Usage(format!("--peer-cert, --peer-key, --peer-ca: {reason}"));
        let [certificate, key, ca] = files.content().map_err(usage)?;
        let content = PeerFiles { certificate: &certificate, key: &key, authorities: &ca };
        let tls = PeerTls::new(&args.peer_name, trust, content, seconds_since_1970());
        let tls = tls.map_err(|error| usage(error.to_string()))?;
        Ok(Some(Self { tls, files, at_start }))
    }

    /// Reads the files again whenever one changes. While they are not valid together, as during a replacement, the last
    /// valid ones stay in use.
    pub(crate) async fn follow(self) {
        let mut seen = self.at_start;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let now = self.files.fingerprint();
            if now == seen {
                continue;
            }
            seen = now;
            match self.replace() {
                Ok(()) => tracing::info!("the new certificate for other gateways is in use"),
                Err(reason) => tracing::error!("the last valid certificate for other gateways stays in use: {reason}"),
            }
        }
    }

    fn replace(&self) -> Result<(), String> {
        let [certificate, key, ca] = self.files.content()?;
        let content = PeerFiles { certificate: &certificate, key: &key, authorities: &ca };
        self.tls.replace(content, seconds_since_1970()).map_err(|error| error.to_string())
    }
}

impl PeerPaths {
    fn fingerprint(&self) -> Fingerprint {
        self.0.each_ref().map(|file| {
            // `metadata` follows symbolic links: Kubernetes replaces a link to update a mounted Secret.
            let found = std::fs::metadata(file).ok()?;
            Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
        })
    }

    fn content(&self) -> Result<[Vec<u8>; 3], String> {
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
mod tests {
    use std::fs;

    use super::*;

    /// Writes the files of a new authority, and of a certificate with this name.
    fn args(folder: &Path, name: &str) -> PeerArgs {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut authority = rcgen::CertificateParams::new([]).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let write = |file: &str, text: String| {
            fs::write(folder.join(file), text).unwrap();
            Some(folder.join(file))
        };
        PeerArgs {
            peer_cert: write("tls.crt", certificate.pem()),
            peer_key: write("tls.key", key.serialize_pem()),
            peer_ca: write("ca.crt", ca),
            peer_name: "weir-gateway".to_owned(),
            peer_trust: PeerTrustFlag::Certificate,
        }
    }

    #[test]
    fn files_are_read_and_replaced_only_by_valid_ones() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = PeerCertificates::read(&args(folder.path(), "webhook")).unwrap_err().to_string();
        assert!(wrong.contains("with the only DNS name weir-gateway"), "{wrong}");
        let none = PeerArgs { peer_cert: None, ..args(folder.path(), "weir-gateway") };
        assert!(PeerCertificates::read(&none).unwrap().is_none());
        let certificates = PeerCertificates::read(&args(folder.path(), "weir-gateway")).unwrap().unwrap();
        assert_eq!(certificates.replace(), Ok(()));
        args(folder.path(), "webhook");
        assert_ne!(certificates.files.fingerprint(), certificates.at_start);
        assert!(certificates.replace().is_err());
        fs::remove_file(folder.path().join("ca.crt")).unwrap();
        let missing = certificates.replace().unwrap_err();
        assert!(missing.contains("ca.crt: No such file"), "{missing}");
    }
}
