//! The HTTP client of `weir status` and `weir infer`.

mod trust;

use std::error::Error;
use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body_util::{BodyExt, Limited};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Url};

use crate::error::CliError;

/// Largest response body in bytes. It is far more than a terminal can show.
const MAX_RESPONSE: usize = 256 << 20;

/// Header of an API key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// HTTP/1.1 client for one server.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    /// Timeout of a request, including its whole response.
    timeout: Duration,
    /// Header of each request with the API key of a gateway with access control, or the token of an admin port.
    credential: Option<(HeaderName, HeaderValue)>,
}

impl Client {
    /// Creates a client for the server of `url`. For an `https://` URL it trusts the certificates in the PEM file
    /// `trusted`.
    ///
    /// # Errors
    /// [`CliError::Usage`] for an invalid URL, or an `https://` URL without `trusted`; [`CliError::Input`] for a file
    /// without certificates.
    pub(crate) fn new(url: &str, trusted: Option<&Path>, timeout: Duration) -> Result<Self, CliError> {
        let usage = |problem: &str| CliError::Usage(format!("the URL {url:?} {problem}"));
        let tls = match (url.split_once("://"), trusted) {
            (Some(("http", _)), _) => trust::none(),
            (Some(("https", _)), Some(file)) => trust::certificates_of(file),
            (Some(("https", _)), None) => return Err(usage("needs --cacert FILE")),
            (_, _) => return Err(usage("needs a scheme: write http://… or https://…")),
        };
        Url::parse(url).map_err(|error| usage(&format!("is not valid: {error}")))?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls?)
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            .build();
        let http = http.map_err(|error| usage(&format!("cannot be requested: {error}")))?;
        Ok(Self { http, timeout, credential: None })
    }

    /// Sends this API key with each request.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a key that is no text of a header.
    pub(crate) fn with_key(mut self, key: &str) -> Result<Self, CliError> {
        let no_key = |_| CliError::Usage("--api-key has characters that no key has".to_owned());
        let mut key = HeaderValue::try_from(key).map_err(no_key)?;
        key.set_sensitive(true);
        self.credential = Some((API_KEY, key));
        Ok(self)
    }

    /// Sends this bearer token with each request.
    ///
    /// # Errors
    /// [`CliError::Usage`] for a token that is no text of a header.
    pub(crate) fn with_bearer(mut self, token: &str) -> Result<Self, CliError> {
        let no_token = |_| CliError::Usage("--admin-token-file has characters that no token has".to_owned());
        let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(no_token)?;
        value.set_sensitive(true);
        self.credential = Some((AUTHORIZATION, value));
        Ok(self)
    }

    /// Sends a GET request.
    ///
    /// # Errors
    /// [`CliError::Server`] when the request fails, [`CliError::NoAnswer`] when it times out.
    pub(crate) async fn get(&self, url: &str) -> Result<Response<Bytes>, CliError> {
        self.send(url, self.http.get(url)).await
    }

    /// Sends a POST request.
    ///
    /// # Errors
    /// [`CliError::Server`] when the request fails, [`CliError::NoAnswer`] when it times out.
    pub(crate) async fn post(&self, url: &str, headers: HeaderMap, body: Bytes) -> Result<Response<Bytes>, CliError> {
        let request = self.http.post(url).headers(headers).body(body);
        self.send(url, request).await
    }

    async fn send(&self, url: &str, request: RequestBuilder) -> Result<Response<Bytes>, CliError> {
        let request = match &self.credential {
            Some((name, value)) => request.header(name, value),
            None => request,
        };
        let reason = match tokio::time::timeout(self.timeout, exchange(request)).await {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(error)) if is_refused(&*error) => return Err(nothing_listens(url)),
            Ok(Err(error)) => root_cause(&*error).to_string(),
            Err(_) => {
                return Err(CliError::NoAnswer { url: url.to_owned(), seconds: self.timeout.as_secs() });
            }
        };
        let url = url.to_owned();
        Err(CliError::Server { url, reason })
    }
}

/// Returns true if the connection was refused, so nothing listens on the port.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let error = root_cause(error).downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn nothing_listens(url: &str) -> CliError {
    let address = Url::parse(url).ok();
    let address = address.map_or_else(
        || url.to_owned(),
        |url| {
            let port = url.port_or_known_default().unwrap_or_default();
            format!("{}:{port}", url.host_str().unwrap_or_default())
        },
    );
    CliError::NothingListens { address }
}

/// Sends the request and reads the whole response.
async fn exchange(request: RequestBuilder) -> Result<Response<Bytes>, Box<dyn Error + Send + Sync>> {
    let response: Response<reqwest::Body> = request.send().await?.into();
    let (head, body) = response.into_parts();
    let body = Limited::new(body, MAX_RESPONSE).collect().await?;
    Ok(Response::from_parts(head, body.to_bytes()))
}

/// Returns the innermost error, which names the cause. The outer errors of the HTTP libraries say too little.
fn root_cause<'a>(mut error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}
