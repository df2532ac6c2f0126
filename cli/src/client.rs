//! One HTTP request, with a deadline.

mod trust;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::error::CliError;

/// The largest answer that is read: what a terminal can show is far less.
const LARGEST: usize = 256 << 20;

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    /// In full, beginning with `http://` or `https://`.
    pub(crate) url: String,
    /// The certificates that `https://` takes.
    pub(crate) trusted: Option<PathBuf>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// For all of it.
    pub(crate) timeout: Duration,
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Ask {
    /// GET of this URL.
    pub(crate) fn get(url: String, timeout: Duration) -> Self {
        Self {
            method: Method::GET,
            url,
            trusted: None,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout,
        }
    }

    /// Asks.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a URL that cannot be asked, [`CliError::Input`] for a file without
    /// certificates, [`CliError::Server`] when there is no answer.
    pub(crate) async fn send(self) -> Result<Answer, CliError> {
        let (url, timeout) = (self.url.clone(), self.timeout);
        let because = match tokio::time::timeout(timeout, self.exchange()).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Failure::Url(because))) => return Err(CliError::Usage(because)),
            Ok(Err(Failure::Trust(error))) => return Err(error),
            Ok(Err(Failure::Exchange(because))) => because,
            Err(_) => format!("no answer within {} s", timeout.as_secs()),
        };
        Err(CliError::Server { url, because })
    }

    async fn exchange(self) -> Result<Answer, Failure> {
        let (place, request) = self.request()?;
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await;
        let stream = stream.map_err(Failure::exchange)?;
        let Some(config) = place.encryption else {
            return converse(stream, request).await;
        };
        let name = ServerName::try_from(place.host).map_err(Failure::exchange)?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        converse(stream.map_err(Failure::exchange)?, request).await
    }

    fn request(self) -> Result<(Place, Request<Full<Bytes>>), Failure> {
        let fault = |because: &str| Failure::Url(format!("the URL {:?} {because}", self.url));
        let uri: Uri = self.url.parse().map_err(|_| fault("cannot be read"))?;
        let (encryption, default_port) = match (uri.scheme_str(), &self.trusted) {
            (Some("http"), _) => (None, 80),
            (Some("https"), Some(file)) => {
                let config = trust::config(file).map_err(Failure::Trust)?;
                (Some(config), 443)
            }
            (Some("https"), None) => return Err(fault("needs --cacert FILE")),
            (Some(_) | None, _) => return Err(fault("does not begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| fault("names no host"))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let mut request = Request::builder().method(&self.method).uri(path);
        if !self.headers.contains_key(header::HOST) {
            request = request.header(header::HOST, authority.as_str());
        }
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
        }
        let request = request.body(Full::new(self.body.clone()));
        let request = request.map_err(|_| fault("cannot be asked"))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let place = Place {
            host,
            port: authority.port_u16().unwrap_or(default_port),
            encryption,
        };
        Ok((place, request))
    }
}

/// Where a request goes.
struct Place {
    host: String,
    port: u16,
    encryption: Option<Arc<ClientConfig>>,
}

/// Sends the request on a connection of its own, and reads the answer.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Failure> {
    let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = connected.map_err(Failure::exchange)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request).await;
    let (parts, body) = response.map_err(Failure::exchange)?.into_parts();
    let body = Limited::new(body, LARGEST).collect().await;
    let body = body.map_err(|error| Failure::Exchange(error.to_string()))?;
    Ok(Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.to_bytes(),
    })
}

enum Failure {
    Url(String),
    Trust(CliError),
    Exchange(String),
}

impl Failure {
    /// With what is behind it: hyper's own words say too little.
    fn exchange(error: impl std::error::Error) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            text = format!("{text}: {error}");
            source = error.source();
        }
        Self::Exchange(text)
    }
}
