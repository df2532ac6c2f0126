//! The files of a certificate, read at the start and again when they change.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{RequestTls, TlsContent};
use crate::small_file;

/// Interval at which the files are read again. Certificates are renewed hours before they expire.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Largest file, in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Files of a certificate, its key and the authorities of clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFiles([PathBuf; 3]);

/// Content of the three files; the error is a sentence.
type Content = Result<[Vec<u8>; 3], String>;

impl TlsFiles {
    pub(crate) fn new(certificate: PathBuf, key: PathBuf, client_authorities: PathBuf) -> Self {
        Self([certificate, key, client_authorities])
    }

    /// Reads the files and uses them.
    ///
    /// # Errors
    /// A sentence about a file that cannot be read or used.
    pub(crate) fn read_into(&self, tls: &RequestTls) -> Result<(), String> {
        used(tls, &self.content())
    }

    /// Uses the files whenever they have changed. While they are not valid together, as during a replacement, the last
    /// valid ones stay in use. Never returns.
    pub(crate) async fn follow(&self, tls: &RequestTls) {
        let mut last = None;
        loop {
            let content = self.content();
            if last.as_ref() != Some(&content) {
                log(used(tls, &content));
                last = Some(content);
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn content(&self) -> Content {
        let [certificate, key, authorities] = &self.0;
        Ok([read(certificate)?, read(key)?, read(authorities)?])
    }
}

fn used(tls: &RequestTls, content: &Content) -> Result<(), String> {
    let [certificate, key, client_authorities] = content.as_ref().map_err(Clone::clone)?;
    tls.replace(TlsContent { certificate, key, client_authorities }).map_err(|error| error.to_string())
}

fn log(used: Result<(), String>) {
    match used {
        Ok(()) => tracing::info!("the certificate for requests is in use"),
        Err(reason) => tracing::error!("the last valid certificate for requests stays in use: {reason}"),
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    small_file::read(file, MAX_BYTES).map_err(|error| format!("{}: {error}", file.display()))
}
