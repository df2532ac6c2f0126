//! Fetches the key set of an issuer: bounded in size and time, without redirects.

use std::io;
use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Response, Url, header};
use serde::Deserialize;
use tokio::io::AsyncReadExt;

use crate::key_set::KeySet;
use crate::settings::IssuerPlan;
use crate::source::{Proxies, Source, SourceUrl, named_key_set};

/// Maximum time of each request, from the name's resolution to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time to connect, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Media types of key sets (RFC 7517, 8.5.2) and OpenID configurations. A Kubernetes API server answers 406 to a client
/// that does not accept the first for its key set.
const ACCEPTED: &str = "application/jwk-set+json, application/json";

/// Maximum size of a response in bytes. Key sets with chains of certificates have some tens of KiB.
const MAX_RESPONSE: usize = 256 * 1024;

/// Maximum size of a file of certificates or of a token in bytes.
const MAX_FILE: u64 = 1024 * 1024;

/// Keys of an issuer, as its server returned them.
#[derive(Debug)]
pub(crate) struct FetchedKeys {
    /// The issuer's URL, as in the claim `iss`.
    pub(crate) issuer: String,
    pub(crate) keys: KeySet,
}

/// The fields of an OpenID configuration that matter.
#[derive(Deserialize)]
struct OpenIdConfiguration {
    issuer: String,
    jwks_uri: String,
}

/// Fetches the keys of an issuer.
///
/// # Errors
/// A clause that describes the failure. It contains no token and no response.
pub(crate) async fn fetch(plan: &IssuerPlan) -> Result<FetchedKeys, String> {
    let server = Server::new(&plan.source).await?;
    let (issuer, url) = match &plan.source.url {
        SourceUrl::KeySet(url) => (plan.issuer.clone().unwrap_or_default(), url.clone()),
        SourceUrl::Discovery(url) => {
            let found = server.configuration(url, plan.issuer.as_deref()).await?;
            (found.issuer, named_key_set(url, &found.jwks_uri)?)
        }
        SourceUrl::ApiServer { discovery, key_set } => {
            let found = server.configuration(discovery, plan.issuer.as_deref()).await?;
            (found.issuer, key_set.clone())
        }
    };
    let keys = KeySet::parse(&server.get(&url).await?).map_err(|error| error.to_string())?;
    Ok(FetchedKeys { issuer, keys })
}

/// Client for one fetch. Files of certificates and tokens are read for each, because they are replaced.
struct Server {
    client: Client,
    authorization: Option<header::HeaderValue>,
}

impl Server {
    async fn new(source: &Source) -> Result<Self, String> {
        // Fails if the process already has a crypto provider; any provider works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder().timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT).redirect(Policy::none());
        let builder = match source.proxies {
            Proxies::Environment => builder,
            Proxies::Never => builder.no_proxy(),
        };
        let builder = match &source.ca_file {
            Some(path) => builder.tls_certs_only(authorities(&file(path).await?)?),
            None => builder,
        };
        let authorization = match &source.token_file {
            Some(path) => Some(bearer(&file(path).await?)?),
            None => None,
        };
        Ok(Self { client: builder.build().map_err(|error| causes(&error))?, authorization })
    }

    /// Fetches an OpenID configuration. The issuer in it must be the expected one, if any (OpenID Connect Discovery
    /// 1.0, 4.3).
    async fn configuration(&self, url: &Url, expected: Option<&str>) -> Result<OpenIdConfiguration, String> {
        let body = self.get(url).await?;
        let found: OpenIdConfiguration =
            serde_json::from_slice(&body).map_err(|_| format!("{url} is no OpenID configuration"))?;
        if expected.is_some_and(|expected| expected != found.issuer) {
            return Err(format!("{url} names another issuer"));
        }
        Ok(found)
    }

    async fn get(&self, url: &Url) -> Result<Vec<u8>, String> {
        let request = self.client.get(url.clone()).header(header::ACCEPT, ACCEPTED);
        let request = match &self.authorization {
            Some(value) => request.header(header::AUTHORIZATION, value.clone()),
            None => request,
        };
        let response = request.send().await.map_err(|error| format!("{url}: {}", causes(&error)))?;
        if response.status().is_redirection() {
            return Err(format!("{url} redirects elsewhere, which is not followed"));
        }
        if !response.status().is_success() {
            return Err(format!("{url} answered with status {}", response.status().as_u16()));
        }
        body(response).await.map_err(|reason| format!("{url} {reason}"))
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| causes(&error))? {
        if body.len() + chunk.len() > MAX_RESPONSE {
            return Err(format!("sent more than {MAX_RESPONSE} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

async fn file(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| format!("{} cannot be read: {error}", path.display());
    let mut content = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    file.take(MAX_FILE).read_to_end(&mut content).await.map_err(failed)?;
    Ok(content)
}

fn authorities(pem: &[u8]) -> Result<Vec<Certificate>, String> {
    match Certificate::from_pem_bundle(pem) {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) | Err(_) => Err("the file of certificate authorities has no certificate".to_owned()),
    }
}

fn bearer(token: &[u8]) -> Result<header::HeaderValue, String> {
    let text = std::str::from_utf8(token).map(|text| format!("Bearer {}", text.trim()));
    let value = text.ok().and_then(|text| header::HeaderValue::from_str(&text).ok());
    let mut value = value.ok_or("the file of the token has no token")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Formats the chain of causes of a failed request.
fn causes(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "did not answer in time".to_owned();
    }
    let chain = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    let chain: Vec<String> = chain.map(ToString::to_string).collect();
    if chain.is_empty() { "the request failed".to_owned() } else { chain.join(": ") }
}
