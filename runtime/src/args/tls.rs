//! Flags of TLS on the ports for requests.

use std::path::PathBuf;
use std::sync::Arc;

use super::config::{CertificateSource, TlsConfig};
use crate::tls::{CertificateIssuer, RequestTls, TlsFiles};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
pub(super) struct TlsArgs {
    /// Certificate chain of this server for HTTP and gRPC, in PEM. With it, both ports serve TLS 1.3 alone, to clients
    /// with a certificate, such as gateways; the metrics port stays plain, and its /ready answers probes. The three
    /// files are read again when they change. Default: no TLS
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "client_ca"])]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Authorities that sign the certificates of clients, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,
    /// URL at which the controllers of a cluster give this server a certificate in place of the three files. Until it
    /// has one, and once it has expired, the ports refuse every connection, and the server is not ready
    #[arg(long, env = "WEIR_CERTIFICATE_URL", value_name = "URL", requires = "certificate_ca")]
    certificate_url: Option<String>,
    /// Authority of --certificate-url and of clients, as text in PEM
    #[arg(long, env = "WEIR_CERTIFICATE_CA", value_name = "PEM")]
    certificate_ca: Option<String>,
    /// File with the token of this pod for the audience weir-certificates
    #[arg(long, default_value = "/var/run/weir/certificates/token", value_name = "FILE")]
    certificate_token_file: PathBuf,
    /// DNS name in the certificates of the clients that may connect
    #[arg(long, default_value = "weir-gateway", value_name = "NAME")]
    client_name: String,
}

/// Reads the files; `None` without the flags.
///
/// # Errors
/// A sentence about a name or file that cannot be used.
pub(super) fn config(args: TlsArgs) -> Result<Option<TlsConfig>, String> {
    let requests = RequestTls::without_certificate(&args.client_name);
    let requests = requests.map_err(|error| format!("--client-name: {error}"))?;
    let source = match (args.tls_cert, args.tls_key, args.client_ca) {
        (Some(certificate), Some(key), Some(ca)) => {
            let files = TlsFiles::new(certificate, key, ca);
            files.read_into(&requests).map_err(|reason| format!("--tls-cert, --tls-key, --client-ca: {reason}"))?;
            CertificateSource::Files(files)
        }
        _ => match (args.certificate_url, args.certificate_ca) {
            (Some(url), Some(ca)) => {
                let issuer = CertificateIssuer::new(&url, &ca, args.certificate_token_file);
                CertificateSource::Issuer(
                    issuer.map_err(|reason| format!("--certificate-url, --certificate-ca: {reason}"))?,
                )
            }
            _ => return Ok(None),
        },
    };
    Ok(Some(TlsConfig { requests: Arc::new(requests), source }))
}
