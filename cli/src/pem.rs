//! Certificates and private keys in PEM files.

use std::path::Path;

use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Reads all certificates of a PEM file, at least one.
///
/// # Errors
/// A clause that says what is wrong with the file.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let invalid = |error: PemError| message(&error, "certificate");
    let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(invalid)?.collect();
    let found = read.map_err(invalid)?;
    if found.is_empty() {
        return Err(invalid(PemError::NoItemsFound));
    }
    Ok(found)
}

/// Reads the first private key of a PEM file.
///
/// # Errors
/// A clause that says what is wrong with the file.
pub(crate) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|error| message(&error, "private key"))
}

fn message(error: &PemError, what: &str) -> String {
    match error {
        PemError::NoItemsFound => format!("it holds no {what} in PEM"),
        PemError::Io(error) => error.to_string(),
        other => format!("it cannot be read as PEM: {other}"),
    }
}
