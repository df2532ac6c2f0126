//! Certificates and keys in files.

use std::path::Path;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The certificates of a PEM file, of which there must be one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let told = |error: PemError| fault(&error, "certificate");
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(told)?.collect();
    let found = read.map_err(told)?;
    match found.is_empty() {
        true => Err(told(PemError::NoItemsFound)),
        false => Ok(found),
    }
}

/// The first private key of a PEM file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| fault(&error, "private key"))
}

fn fault(error: &PemError, what: &str) -> String {
    match error {
        PemError::NoItemsFound => format!("it holds no {what} in PEM"),
        PemError::Io(error) => error.to_string(),
        other => format!("it cannot be read as PEM: {other}"),
    }
}
