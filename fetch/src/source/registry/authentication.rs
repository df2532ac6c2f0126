//! Tokens for a registry's repository.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Response, Url};
use serde::Deserialize;
use tokio::sync::Mutex;

use super::challenge::{Challenge, parse};
use super::docker_config::RegistryCredential;
use crate::source::located::small;
use crate::store::StoreError;
use crate::web::{WebClient, failure, unreachable};

/// Maximum size of a token server's answer, in bytes. Tokens with many permissions have some kilobytes.
const MAX_ANSWER: usize = 1 << 20;

/// Name by which token servers know this client.
const CLIENT_ID: &str = "weir";

/// Authentication of one repository's requests.
pub(super) struct Authentication {
    login: Option<RegistryCredential>,
    repository: String,
    /// The last header that the registry accepted; `None` before the registry asked for one.
    current: Mutex<Option<HeaderValue>>,
}

/// Error of an authentication.
pub(super) enum AuthError {
    /// A request for a token failed.
    Store(StoreError),
    /// A clause that says why there is no token.
    Refused(&'static str),
}

/// Answer of a token server.
#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
}

/// Parameters of a request to a token server.
struct Permission<'a> {
    service: &'a str,
    scope: &'a str,
}

impl Authentication {
    pub(super) fn new(login: Option<RegistryCredential>, repository: &str) -> Self {
        Self { login, repository: repository.to_owned(), current: Mutex::default() }
    }

    /// Returns true if requests have no credential of the user.
    pub(super) fn is_anonymous(&self) -> bool {
        self.login.is_none()
    }

    /// Returns the headers of a request.
    pub(super) async fn headers(&self) -> HeaderMap {
        let current = self.current.lock().await.clone();
        current.map(|value| (header::AUTHORIZATION, value)).into_iter().collect()
    }

    /// Obtains another header after the registry refused a request with `used`, by the ways that it offered. If several
    /// requests are refused at the same time, only one obtains a token.
    ///
    /// # Errors
    /// [`AuthError`] if there is no other header.
    pub(super) async fn renew(
        &self,
        client: &WebClient,
        used: &HeaderMap,
        refused: &Response,
    ) -> Result<(), AuthError> {
        let mut current = self.current.lock().await;
        if current.as_ref() != used.get(header::AUTHORIZATION) {
            return Ok(());
        }
        let challenges = refused.headers().get_all(header::WWW_AUTHENTICATE).iter();
        let challenge = parse(challenges.filter_map(|value| value.to_str().ok()));
        let value = match (challenge, &self.login) {
            (_, Some(RegistryCredential::Bearer(token))) => bearer(token),
            (Some(Challenge::Bearer { realm, service, scope }), login) => {
                let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.repository));
                let permission = Permission { service: service.as_deref().unwrap_or_default(), scope: &scope };
                bearer(&token(client, refused.url(), &realm, login.as_ref(), &permission).await?)
            }
            (Some(Challenge::Basic), Some(RegistryCredential::Password { user, password })) => basic(user, password),
            (Some(Challenge::Basic), None | Some(RegistryCredential::Identity(_))) => {
                return Err(AuthError::Refused("asks for a user name and password"));
            }
            (None, _) => return Err(AuthError::Refused("offers no supported way to authenticate")),
        };
        let value = value.ok_or(AuthError::Refused("needs a credential without control characters"))?;
        if current.as_ref() == Some(&value) {
            return Err(AuthError::Refused("does not accept the credentials"));
        }
        *current = Some(value);
        Ok(())
    }
}

/// Requests a token from the token server.
async fn token(
    client: &WebClient,
    registry: &Url,
    realm: &str,
    login: Option<&RegistryCredential>,
    permission: &Permission<'_>,
) -> Result<String, AuthError> {
    let Ok(url) = registry.join(realm) else {
        return Err(AuthError::Refused("names a token server without a valid URL"));
    };
    client.check_host(registry, registry, &url).await.map_err(AuthError::Store)?;
    let response = match login {
        Some(RegistryCredential::Identity(identity)) => exchange(client, &url, identity, permission).await,
        Some(RegistryCredential::Password { user, password }) => {
            ask(client, url, basic(user, password), permission).await
        }
        Some(RegistryCredential::Bearer(_)) | None => ask(client, url, None, permission).await,
    };
    let response = response.map_err(AuthError::Store)?;
    if let Some(error) = failure(&response) {
        return Err(AuthError::Store(error));
    }
    if !response.status().is_success() {
        return Err(AuthError::Refused("does not accept the credentials"));
    }
    let json = small(response, MAX_ANSWER).await.map_err(AuthError::Store)?;
    let answer: Option<Answer> = serde_json::from_slice(&json).ok();
    let token = answer.and_then(|answer| answer.token.or(answer.access_token));
    token.ok_or(AuthError::Refused("has a token server that sent no token"))
}

/// Requests a token with the user's name and password, or anonymously.
async fn ask(
    client: &WebClient,
    mut url: Url,
    authorization: Option<HeaderValue>,
    permission: &Permission<'_>,
) -> Result<Response, StoreError> {
    url.query_pairs_mut().append_pair("service", permission.service).append_pair("scope", permission.scope);
    let headers = authorization.map(|value| (header::AUTHORIZATION, value)).into_iter().collect();
    client.get(&url, &headers).await
}

/// Exchanges an identity token for a token of the repository (OAuth 2).
async fn exchange(
    client: &WebClient,
    url: &Url,
    identity: &str,
    permission: &Permission<'_>,
) -> Result<Response, StoreError> {
    let mut form = url.clone();
    form.query_pairs_mut().clear().extend_pairs([
        ("grant_type", "refresh_token"),
        ("service", permission.service),
        ("scope", permission.scope),
        ("client_id", CLIENT_ID),
        ("refresh_token", identity),
    ]);
    let form = form.query().unwrap_or_default().to_owned();
    let request = client.plain().post(url.clone()).body(form);
    let request = request.header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    request.send().await.map_err(|error| StoreError::retry(unreachable(url, &error)))
}

fn bearer(token: &str) -> Option<HeaderValue> {
    secret(format!("Bearer {token}"))
}

fn basic(user: &str, password: &str) -> Option<HeaderValue> {
    secret(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

fn secret(text: String) -> Option<HeaderValue> {
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
