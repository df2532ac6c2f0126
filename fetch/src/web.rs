//! Requests over HTTP for all schemes: proxies from the environment, redirects with guards, and errors without secrets.

mod redirect;
mod resolver;
mod response;

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::{self, HeaderMap};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, Response, Url};

pub(crate) use self::redirect::is_service_of_machine;
use self::resolver::GuardedResolver;
pub(crate) use self::response::{Head, is_empty_file, may_succeed_later};
use crate::error::FetchError;
use crate::limits::Limits;
use crate::shown_uri::without_secrets;
use crate::store::StoreError;

/// Maximum time to connect, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Trust in the certificates of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The system's authorities, or those that `SSL_CERT_FILE` names.
    #[default]
    System,
    /// The system's authorities and these, in PEM.
    Also(Vec<u8>),
    /// Any certificate, as `S3_VERIFY_SSL=0` asks for.
    Any,
}

/// An HTTP client for all schemes.
#[derive(Clone, Debug)]
pub(crate) struct WebClient {
    client: Client,
    resolver: GuardedResolver,
}

impl WebClient {
    /// Returns a client that connects to servers with trusted certificates.
    ///
    /// # Errors
    /// A clause that says why the authorities cannot be used.
    pub(crate) fn new(limits: &Limits, trust: &Trust) -> Result<Self, String> {
        // Fails if the process already has a crypto provider; any provider works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let resolver = GuardedResolver::default();
        // reqwest takes the proxies from the environment. HTTP/2 would send all ranges over one connection.
        let builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(limits.stall)
            .http1_only()
            .dns_resolver(resolver.clone())
            .redirect(Policy::none());
        let builder = match trust {
            Trust::System => builder,
            Trust::Also(pem) => builder.tls_certs_merge(authorities(pem)?),
            Trust::Any => builder.tls_danger_accept_invalid_certs(true),
        };
        Ok(Self { client: builder.build().map_err(|error| causes(&error))?, resolver })
    }

    /// Returns the client below, which follows no redirects.
    pub(crate) fn plain(&self) -> &Client {
        &self.client
    }

    /// Sends a GET request and follows redirects that are safe. The header `Authorization` goes to the host of `url`
    /// only.
    ///
    /// # Errors
    /// [`StoreError::Retry`] if no response arrives, [`StoreError::Fatal`] for a redirect that is refused.
    pub(crate) async fn get(&self, url: &Url, headers: &HeaderMap) -> Result<Response, StoreError> {
        self.send(Method::GET, url, headers).await
    }

    /// Sends a request without a body, as [`WebClient::get`] does.
    ///
    /// # Errors
    /// The errors are those of [`WebClient::get`].
    pub(crate) async fn send(&self, method: Method, url: &Url, headers: &HeaderMap) -> Result<Response, StoreError> {
        let (mut at, mut headers) = (url.clone(), headers.clone());
        // A content encoding would change the sizes and make resuming impossible.
        headers.insert(header::ACCEPT_ENCODING, header::HeaderValue::from_static("identity"));
        for _ in 0..=redirect::MAX_REDIRECTS {
            let sent = self.client.request(method.clone(), at.clone()).headers(headers.clone()).send().await;
            let response = sent.map_err(|error| without_response(url, &at, &error))?;
            let Some(next) = self.redirect(url, &at, &response).await? else {
                return Ok(response);
            };
            if next.origin() != at.origin() {
                headers.remove(header::AUTHORIZATION);
            }
            at = next;
        }
        Err(refused_redirect(url, &at, "which exceeds the limit of 10 redirects"))
    }

    /// Returns the URL that a response redirects to; `None` if it is not a redirect.
    async fn redirect(&self, asked: &Url, from: &Url, response: &Response) -> Result<Option<Url>, StoreError> {
        let location = response.headers().get(header::LOCATION);
        let Some(location) = location.filter(|_| response.status().is_redirection()) else {
            return Ok(None);
        };
        let location = location.to_str().unwrap_or_default();
        let Ok(to) = from.join(location) else {
            return Err(refused_redirect(asked, from, "which sent an invalid Location header"));
        };
        self.check_host(asked, from, &to).await?;
        Ok(Some(to))
    }

    /// Checks a host that a server named, by a redirect of `from` or in another way.
    ///
    /// # Errors
    /// [`StoreError::Fatal`] if a redirect from `from` to `to` is refused.
    pub(crate) async fn check_host(&self, asked: &Url, from: &Url, to: &Url) -> Result<(), StoreError> {
        if let Some(reason) = redirect::refusal(from, to) {
            return Err(refused_redirect(asked, to, reason));
        }
        // A redirect to the host of the original URI is allowed even if that is this machine.
        if to.host_str() == asked.host_str() {
            return Ok(());
        }
        if let Some(reason) = inner_host(to).await {
            return Err(refused_redirect(asked, to, reason));
        }
        self.resolver.guard(to.host_str().unwrap_or_default());
        Ok(())
    }
}

/// Returns a client for the services of the machine, such as its metadata service. It uses no proxy, because a proxy has
/// another identity.
///
/// # Errors
/// A clause that says why there is no client.
pub(crate) fn direct_client(timeout: Duration) -> Result<Client, String> {
    let builder = Client::builder().timeout(timeout).no_proxy().http1_only().redirect(Policy::none());
    builder.build().map_err(|error| causes(&error))
}

/// Returns the error of a response that another attempt may avoid; `None` for other statuses.
pub(crate) fn failure(response: &Response) -> Option<StoreError> {
    let status = response.status().as_u16();
    may_succeed_later(status)
        .then(|| StoreError::Retry { reason: format!("status {status}"), after: retry_after(response.headers()) })
}

/// Returns the delay that a response asks for by `Retry-After`; `None` without one.
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    #[expect(clippy::disallowed_methods, reason = "a server may name the time of the next attempt as a date")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    response::retry_after(headers, now.as_secs())
}

/// Returns an error for bytes that did not arrive.
pub(crate) fn interrupted(error: &reqwest::Error) -> StoreError {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(inner) = cause {
        if let Some(reason) = inner.downcast_ref::<io::Error>().and_then(|error| closed(error.kind())) {
            return StoreError::retry(reason);
        }
        cause = inner.source();
    }
    let text = causes(error);
    // hyper's error for it has no type of its own.
    let is_cut = text.contains("end of file before message length reached");
    StoreError::retry(if is_cut { CLOSED.to_owned() } else { text })
}

/// Clause about a body that ended before its size.
const CLOSED: &str = "the server closed the connection before the end of the file";

/// Returns the clause about a connection that ended; `None` for other errors.
fn closed(kind: io::ErrorKind) -> Option<&'static str> {
    match kind {
        io::ErrorKind::ConnectionReset => Some("the connection was reset during the download"),
        io::ErrorKind::UnexpectedEof => Some(CLOSED),
        _ => None,
    }
}

fn authorities(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    let invalid =
        |error: reqwest::Error| format!("the file of certificate authorities cannot be used: {}", causes(&error));
    match Certificate::from_pem_bundle(pem).map_err(invalid)? {
        none if none.is_empty() => Err("the file of certificate authorities has no certificate".to_owned()),
        authorities => Ok(authorities),
    }
}

fn refused_redirect(asked: &Url, to: &Url, reason: &'static str) -> StoreError {
    let uri = without_secrets(asked.as_str());
    StoreError::Fatal(FetchError::Redirect { uri, to: redirect::shown(to), reason })
}

/// Resolves the host of a redirect, and returns why the redirect is refused; `None` if it may be followed. A host
/// without an address cannot be reached and needs no refusal.
async fn inner_host(url: &Url) -> Option<&'static str> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let host = host.trim_matches(['[', ']']);
    let mut addresses = tokio::net::lookup_host((host, port)).await.ok()?;
    addresses.find_map(|address| redirect::address_refusal(address.ip()))
}

/// Returns the error of a request for `asked` that got no response at `at`. Another attempt would not change a
/// certificate.
fn without_response(asked: &Url, at: &Url, error: &reqwest::Error) -> StoreError {
    let reason = unreachable(at, error);
    if is_untrusted(error) {
        let uri = without_secrets(asked.as_str());
        return StoreError::Fatal(FetchError::Unavailable { uri, reason });
    }
    StoreError::retry(reason)
}

/// Words of the TLS library before the reason why a certificate is refused.
const UNTRUSTED: &str = "invalid peer certificate: ";

/// Returns true if the certificate of the server is not trusted.
pub(crate) fn is_untrusted(error: &reqwest::Error) -> bool {
    causes(error).contains(UNTRUSTED)
}

/// Describes why a request got no response: the host, and the cause in the operating system's words.
pub(crate) fn unreachable(url: &Url, error: &reqwest::Error) -> String {
    let host = url.host_str().unwrap_or_default();
    let text = causes(error);
    if error.is_timeout() {
        return format!("the host {host} did not answer in time");
    }
    if let Some((_, cause)) = text.split_once(UNTRUSTED) {
        return format!(
            "the certificate of the host {host} is not trusted ({cause}); name the file of its authority in SSL_CERT_FILE"
        );
    }
    if error.is_connect() {
        let cause = text.rsplit(": ").next().unwrap_or(&text);
        return format!("the host {host} cannot be reached ({cause})");
    }
    text
}

/// Formats the chain of causes without the outermost error, whose URI may contain a secret.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}{}{inner}", if text.is_empty() { "" } else { ": " });
        cause = inner.source();
    }
    if text.is_empty() && error.is_timeout() {
        "timed out waiting for data from the server".clone_into(&mut text);
    }
    text
}
