//! Content of the files with a certificate of this gateway.

use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Content of the files with a certificate of this gateway, in PEM.
#[derive(Clone, Copy, Debug)]
pub struct CertificateFiles<'a> {
    /// The gateway's own certificate, followed by those between it and an authority.
    pub certificate: &'a [u8],
    /// Private key of the certificate.
    pub key: &'a [u8],
    /// Authorities that sign the certificates of the other side.
    pub authorities: &'a [u8],
}

/// Error of a file that is not PEM.
#[derive(Debug, thiserror::Error)]
#[error("the {file} cannot be read as PEM: {source}")]
pub struct CertificateFilesError {
    /// Content of the file: certificate or key.
    file: &'static str,
    source: PemError,
}

impl CertificateFiles<'_> {
    /// Returns the gateway's certificate chain and its key.
    pub(crate) fn pair(self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), CertificateFilesError> {
        let failed = |file| move |source| CertificateFilesError { file, source };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.certificate).collect();
        let key = PrivateKeyDer::from_pem_slice(self.key).map_err(failed("key"));
        Ok((chain.map_err(failed("certificate"))?, key?))
    }
}
