//! Certificates from Weir's controllers, for the replica of a revision in a cluster.
//!
//! ```text
//!   POST, with the token of the pod ── TLS ─► controllers: certificate and key, which stay in memory
//! ```
//!
//! The token identifies the pod, and the controllers determine the revision of the pod. Without a certificate the ports
//! for requests refuse every connection, so a replica whose certificate was not renewed in time is not ready.

mod schedule;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, version};
use tokio_util::task::AbortOnDropHandle;

use super::{RequestTls, TlsContent, TlsError, authorities};
use crate::clock::now;
use crate::small_file;
use schedule::Schedule;

/// Port of a URL that names none.
const HTTPS: u16 = 443;

/// Longest time of a request: the controllers send two requests to the API server.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Largest response and token, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// Client of the controllers that sign certificates.
#[derive(Clone, Debug)]
pub(crate) struct CertificateIssuer {
    host: String,
    port: u16,
    name: ServerName<'static>,
    path: String,
    /// The authorities of the time at which the revision was made.
    first: Trusted,
    token_file: PathBuf,
}

/// The authorities of controllers and clients, of which one replaces another once in years.
#[derive(Clone, Debug)]
struct Trusted {
    pem: String,
    /// TLS of connections to controllers.
    tls: Arc<ClientConfig>,
}

/// A certificate as controllers return it, in PEM.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Issued {
    certificate: String,
    key: String,
    /// The authorities to trust from now on; `None` from a controller of an earlier version.
    authorities: Option<String>,
    valid_seconds: u64,
    renew_seconds: u64,
}

impl CertificateIssuer {
    /// Creates the client of the controllers at a URL, which have a certificate of one of these authorities in PEM.
    ///
    /// # Errors
    /// A sentence about the value that cannot be used.
    pub(crate) fn new(url: &str, authorities: &str, token_file: PathBuf) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
        let host = host.ok_or_else(|| format!("{url}: it is no URL with https://HOST"))?.to_owned();
        let name = ServerName::try_from(host.clone()).map_err(|error| format!("{url}: {error}"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let first = Trusted::new(authorities).map_err(|error| error.to_string())?;
        Ok(Self { host, port: uri.port_u16().unwrap_or(HTTPS), name, path, first, token_file })
    }

    /// Gets a certificate and renews it. Never returns.
    pub(crate) async fn follow(&self, tls: &RequestTls) {
        let (mut schedule, mut trusted) = (Schedule::default(), self.first.clone());
        loop {
            let asked = now();
            match self.renew(tls, &mut trusted).await {
                Ok(issued) => {
                    tracing::info!("the certificate for requests is in use for {} s", issued.valid_seconds);
                    schedule.renewed(asked, issued.valid_seconds, issued.renew_seconds);
                }
                Err(reason) => {
                    tracing::warn!("no new certificate for requests; trying again: {reason}");
                    schedule.failed(now());
                }
            }
            while let Some(expiry) = schedule.expiry_before_next() {
                tokio::time::sleep_until(expiry).await;
                tracing::error!("the certificate for requests has expired");
                tls.clear();
                schedule.expired();
            }
            tokio::time::sleep_until(schedule.next()).await;
        }
    }

    async fn renew(&self, tls: &RequestTls, trusted: &mut Trusted) -> Result<Issued, String> {
        let issued = tokio::time::timeout(TIMEOUT, self.ask(trusted)).await;
        let issued = issued.map_err(|_| format!("no answer within {} s", TIMEOUT.as_secs()))??;
        let next = match &issued.authorities {
            Some(pem) if *pem != trusted.pem => Trusted::new(pem).map_err(|error| error.to_string())?,
            Some(_) | None => trusted.clone(),
        };
        let content = TlsContent {
            certificate: issued.certificate.as_bytes(),
            key: issued.key.as_bytes(),
            client_authorities: next.pem.as_bytes(),
        };
        tls.replace(content).map_err(|error| error.to_string())?;
        *trusted = next;
        Ok(issued)
    }

    async fn ask(&self, trusted: &Trusted) -> Result<Issued, String> {
        let token = small_file::read_text(&self.token_file, MAX_BYTES as u64);
        let token = token.map_err(|error| format!("{}: {error}", self.token_file.display()))?;
        let request = Request::post(&self.path)
            .header(header::HOST, &self.host)
            .header(header::AUTHORIZATION, format!("Bearer {}", token.trim()))
            .body(Empty::<Bytes>::new())
            .map_err(|_| format!("{}: it holds no token", self.token_file.display()))?;
        let sent = self.send(request, &trusted.tls).await;
        let (status, body) = sent.map_err(|error| format!("{}: {error}", self.host))?;
        if status != StatusCode::OK {
            return Err(format!("{} answered {status}: {}", self.host, String::from_utf8_lossy(&body).trim()));
        }
        serde_json::from_slice(&body).map_err(|error| format!("{} answered with no certificate: {error}", self.host))
    }

    /// Sends a request over a connection of its own.
    async fn send(
        &self,
        request: Request<Empty<Bytes>>,
        tls: &Arc<ClientConfig>,
    ) -> Result<(StatusCode, Bytes), Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect((&*self.host, self.port)).await?;
        let stream = TlsConnector::from(Arc::clone(tls)).connect(self.name.clone(), stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await?;
        Ok((status, body.to_bytes()))
    }
}

impl Trusted {
    fn new(pem: &str) -> Result<Self, TlsError> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_protocol_versions(&[&version::TLS13])?;
        let tls = config.with_root_certificates(authorities(pem.as_bytes())?).with_no_client_auth();
        Ok(Self { pem: pem.to_owned(), tls: Arc::new(tls) })
    }
}
