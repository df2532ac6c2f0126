//! Images and artifacts in OCI registries.
//!
//! The layers of an image (a modelcar of KServe) are fetched, and the directory `/models` of their union is unpacked. An
//! artifact (ORAS) gives the files with a title. Manifest and blobs have the digests by which they are named.

mod authentication;
mod challenge;
mod docker_config;
mod insecure;
mod manifest;
mod reference;
mod refusal;
#[cfg(test)]
mod tests;

use std::ops::Range;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use reqwest::{Response, Url};

use self::authentication::{AuthError, Authentication};
use self::manifest::{Manifest, Next};
use self::reference::Pin;
pub(crate) use self::reference::Reference;
use super::located::{Locations, body, small};
use crate::access::authorities;
use crate::access::settings::Settings;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::store::{Body, Object, Store, StoreError};
use crate::web::{WebClient, failure};

/// Maximum size of a manifest in bytes, which registries are advised to accept.
const MAX_MANIFEST: usize = 4 << 20;

/// Maximum number of manifests from a tag to an image: an index of indexes has three.
const MAX_DEPTH: usize = 4;

/// An image or artifact in a registry.
pub(crate) struct Registry {
    reference: Reference,
    /// The URI with its tag or digest, for messages.
    uri: String,
    /// URL of the registry.
    base: Url,
    client: WebClient,
    authentication: Authentication,
    locations: Locations,
}

impl Registry {
    /// Returns the image or artifact with this reference.
    ///
    /// # Errors
    /// [`FetchError::Address`] if a setting cannot be used.
    pub(crate) fn new(reference: Reference, settings: &dyn Settings, limits: &Limits) -> Result<Self, FetchError> {
        let uri = reference.shown();
        let invalid = |reason: String| FetchError::Address { uri: uri.clone(), reason };
        let login = docker_config::login(settings, &reference).map_err(invalid)?;
        Ok(Self {
            base: insecure::base(reference.host(), settings).map_err(invalid)?,
            client: authorities::trust(settings).and_then(|trust| WebClient::new(limits, &trust)).map_err(invalid)?,
            authentication: Authentication::new(login, &reference.repository),
            locations: Locations::default(),
            reference,
            uri,
        })
    }

    async fn manifest(&self, pin: &Pin) -> Result<Manifest, StoreError> {
        let version = match pin {
            Pin::Tag(tag) => tag.clone(),
            Pin::Digest(digest) => format!("sha256:{}", digest.hex()),
        };
        let url = self.url("manifests", &version);
        let response = self.authorized(|headers| self.request_manifest(&url, headers)).await?;
        let response = self.check(response, &refusal::Subject::Manifest(&version)).await?;
        let bytes = small(response, MAX_MANIFEST).await?;
        if let Pin::Digest(expected) = pin {
            let found = Digest::of(&bytes);
            if found != *expected {
                let (expected, found) = (expected.hex().to_owned(), found.hex().to_owned());
                return Err(StoreError::Fatal(FetchError::Digest { uri: self.uri.clone(), expected, found }));
            }
        }
        let parsed = serde_json::from_slice(&bytes);
        parsed.map_err(|_| self.unavailable("the manifest is not one of OCI or Docker's version 2".to_owned()))
    }

    async fn request_manifest(&self, url: &Url, mut headers: HeaderMap) -> Result<Response, StoreError> {
        headers.insert(ACCEPT, HeaderValue::from_static(manifest::ACCEPT));
        self.client.get(url, &headers).await
    }

    /// Sends a request, and sends it again with another token if the registry asks for one.
    async fn authorized<F>(&self, send: impl Fn(HeaderMap) -> F) -> Result<Response, StoreError>
    where
        F: Future<Output = Result<Response, StoreError>>,
    {
        let headers = self.authentication.headers().await;
        let response = send(headers.clone()).await?;
        if response.status().as_u16() != 401 {
            return Ok(response);
        }
        match self.authentication.renew(&self.client, &headers, &response).await {
            Ok(()) => send(self.authentication.headers().await).await,
            Err(AuthError::Store(error)) => Err(error),
            Err(AuthError::Refused(reason)) => {
                let access = refusal::access(self.authentication.is_anonymous());
                Err(self.unavailable(refusal::login(&self.reference, reason, access)))
            }
        }
    }

    async fn check(&self, response: Response, subject: &refusal::Subject<'_>) -> Result<Response, StoreError> {
        if let Some(error) = failure(&response) {
            return Err(error);
        }
        let status = response.status().as_u16();
        if matches!(status, 200 | 206) {
            return Ok(response);
        }
        let code = refusal::code(&small(response, MAX_MANIFEST).await.unwrap_or_default());
        let access = refusal::access(self.authentication.is_anonymous());
        Err(self.unavailable(refusal::sentence(status, &code, &self.reference, subject, access)))
    }

    fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Fatal(FetchError::Unavailable { uri: self.uri.clone(), reason })
    }

    fn url(&self, kind: &str, version: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("/v2/{}/{kind}/{version}", self.reference.repository));
        url
    }
}

impl Store for Registry {
    async fn list(&self, limits: &Limits) -> Result<Vec<Object>, StoreError> {
        let mut pin = self.reference.pin.clone();
        for _ in 0..MAX_DEPTH {
            let next = self.manifest(&pin).await?.next(manifest::architecture());
            match next.map_err(|reason| self.unavailable(reason))? {
                Next::Manifest(digest) => pin = Pin::Digest(digest),
                Next::Objects(objects) if objects.len() as u64 > limits.entries => {
                    let what = format!("the number of files of {}", self.uri);
                    return Err(StoreError::Fatal(FetchError::TooLarge { what, limit: limits.entries }));
                }
                Next::Objects(objects) => return Ok(objects),
            }
        }
        Err(self.unavailable("its index leads to ever more indexes".to_owned()))
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        let url = &self.url("blobs", &object.key);
        let asked = &range;
        let send = |headers: HeaderMap| async move { self.locations.get(&self.client, url, &headers, asked).await };
        let response = self.authorized(send).await?;
        let response = self.check(response, &refusal::Subject::Blob(&object.key)).await?;
        body(response, object.version.clone())
    }
}
