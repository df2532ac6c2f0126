//! Models on the Hugging Face Hub, and on mirrors that speak its protocol.
//!
//! The revision is resolved to a commit before the first byte is read, so all files belong together. A file is read from
//! `/ORG/NAME/resolve/COMMIT/FILE`, which redirects large files to storage on another host.

mod address;
mod refusal;
#[cfg(test)]
mod tests;
mod token;
mod tree;

use std::ops::Range;
use std::sync::OnceLock;

use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Response, Url};

pub(crate) use self::address::Address;
use self::address::SCHEME;
use self::refusal::{HubLogin, HubRefusal};
use self::tree::{Entry, Revision};
use super::located::{Locations, body, small};
use crate::access::authorities;
use crate::access::patterns::Patterns;
use crate::access::settings::Settings;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::store::{Body, Object, Store, StoreError};
use crate::web::{WebClient, failure};

/// Maximum size of an answer about a model, in bytes. A page of the Hub has a thousand files, about 400 bytes each.
const MAX_ANSWER: usize = 16 << 20;

/// A model on the Hub.
pub(crate) struct Hub {
    address: Address,
    /// The URI with its revision, for messages.
    uri: String,
    endpoint: Url,
    token: Option<String>,
    patterns: Patterns,
    client: WebClient,
    locations: Locations,
    /// Commit that the revision means; empty until the files were listed.
    commit: OnceLock<String>,
}

impl Hub {
    /// Returns the model at an address.
    ///
    /// # Errors
    /// [`FetchError::Address`] if a setting cannot be used.
    pub(crate) fn new(address: Address, settings: &dyn Settings, limits: &Limits) -> Result<Self, FetchError> {
        let uri = format!("{SCHEME}{}:{}", address.id, address.revision);
        let invalid = |reason: &str| FetchError::Address { uri: uri.clone(), reason: reason.to_owned() };
        Ok(Self {
            endpoint: token::endpoint(settings).map_err(invalid)?,
            token: token::token(settings).map_err(invalid)?,
            patterns: Patterns::of(settings),
            client: authorities::trust(settings)
                .and_then(|trust| WebClient::new(limits, &trust))
                .map_err(|reason| invalid(&reason))?,
            locations: Locations::default(),
            commit: OnceLock::new(),
            address,
            uri,
        })
    }

    /// Resolves the revision to a commit.
    async fn resolve(&self) -> Result<&str, StoreError> {
        if let Some(commit) = self.commit.get() {
            return Ok(commit);
        }
        let url = self.url(&["api", "models"], &["revision", &self.address.revision]);
        let answer = self.get(url).await?;
        let revision: Revision = self.parse(&small(answer, MAX_ANSWER).await?)?;
        if !revision.is_valid() {
            return Err(
                self.unavailable("the Hub answered with a commit that is no hash: check HF_ENDPOINT".to_owned())
            );
        }
        Ok(self.commit.get_or_init(|| revision.sha))
    }

    /// Adds the files on the page at `url`, and returns the URL of the next page.
    async fn list_page(&self, url: Url, files: &mut Vec<Object>) -> Result<Option<Url>, StoreError> {
        let answer = self.get(url.clone()).await?;
        let link = answer.headers().get(header::LINK).and_then(|link| link.to_str().ok());
        let next = link.and_then(tree::next_page).map(|query| {
            let mut next = url;
            next.set_query(Some(query));
            next
        });
        let entries: Vec<Entry> = self.parse(&small(answer, MAX_ANSWER).await?)?;
        for entry in entries.into_iter().filter(|entry| self.patterns.choose(entry.path())) {
            let object = entry.object();
            files.extend(object.map_err(|(entry, reason)| {
                StoreError::Fatal(FetchError::Unavailable {
                    uri: self.uri.clone(),
                    reason: format!("the model contains the file {entry:?}, {reason}"),
                })
            })?);
        }
        Ok(next)
    }

    async fn get(&self, url: Url) -> Result<Response, StoreError> {
        let response = self.client.get(&url, &self.headers()).await?;
        self.check(response)
    }

    fn headers(&self) -> HeaderMap {
        let bearer = self.token.as_ref().and_then(|token| HeaderValue::try_from(format!("Bearer {token}")).ok());
        let authorization = bearer.map(|mut value| {
            value.set_sensitive(true);
            (header::AUTHORIZATION, value)
        });
        authorization.into_iter().collect()
    }

    fn check(&self, response: Response) -> Result<Response, StoreError> {
        if let Some(error) = failure(&response) {
            return Err(refusal::with_rate_limit(error, response.headers()));
        }
        if matches!(response.status().as_u16(), 200 | 206) {
            return Ok(response);
        }
        let access = if self.token.is_some() { HubLogin::Token } else { HubLogin::Anonymous };
        let refusal = HubRefusal::of(&response);
        let page = self.url(&[], &[]);
        Err(self.unavailable(refusal::sentence(&refusal, &self.address, page.as_str(), access)))
    }

    fn parse<'a, T: serde::Deserialize<'a>>(&self, json: &'a [u8]) -> Result<T, StoreError> {
        serde_json::from_slice(json)
            .map_err(|_| self.unavailable("the answer is not that of a Hub: check HF_ENDPOINT".to_owned()))
    }

    fn unavailable(&self, reason: String) -> StoreError {
        StoreError::Fatal(FetchError::Unavailable { uri: self.uri.clone(), reason })
    }

    /// Returns the URL of something about the model: parts of the path before and after its ID.
    fn url(&self, before: &[&str], after: &[&str]) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(before).extend(self.address.id.split('/')).extend(after);
        }
        url
    }
}

impl Store for Hub {
    async fn list(&self, limits: &Limits) -> Result<Vec<Object>, StoreError> {
        let commit = self.resolve().await?;
        let mut first = self.url(&["api", "models"], &["tree", commit]);
        first.set_query(Some("recursive=true&expand=false"));
        let (mut files, mut next) = (Vec::new(), Some(first));
        // A page may have no files, so the number of pages needs a limit of its own.
        for _ in 0..=limits.entries {
            let Some(url) = next else { break };
            next = self.list_page(url, &mut files).await?;
            if files.len() as u64 > limits.entries {
                let what = format!("the number of files of {}", self.uri);
                return Err(StoreError::Fatal(FetchError::TooLarge { what, limit: limits.entries }));
            }
        }
        if files.is_empty() {
            return Err(self.unavailable("the model has no file that the patterns choose".to_owned()));
        }
        Ok(files)
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        let commit = self.resolve().await?;
        let mut after = vec!["resolve", commit];
        after.extend(object.key.split('/'));
        let url = self.url(&[], &after);
        let response = self.locations.get(&self.client, &url, &self.headers(), &range).await?;
        body(self.check(response)?, object.version.clone())
    }
}
