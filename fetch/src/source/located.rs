//! Reads of large files behind redirects.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use reqwest::{Response, Url};

use crate::store::{Body, StoreError};
use crate::web::{Head, WebClient, interrupted};

/// Locations that redirects named, by the URL that they redirect. A large file is read in many pieces, and asking for
/// the location of each piece would take time and exhaust a hub's limit on requests.
#[derive(Default)]
pub(super) struct Locations(Mutex<HashMap<Url, Url>>);

impl Locations {
    /// Sends a GET request for a range, first to the location to which `url` redirected before. Locations expire, so any
    /// failure there leads back to `url` itself.
    ///
    /// # Errors
    /// The same as [`WebClient::get`].
    pub(super) async fn get(
        &self,
        client: &WebClient,
        url: &Url,
        headers: &HeaderMap,
        range: &Range<u64>,
    ) -> Result<Response, StoreError> {
        let mut headers = headers.clone();
        headers.insert(RANGE, bytes(range)?);
        if let Some(location) = self.known(url) {
            let mut without = headers.clone();
            without.remove(reqwest::header::AUTHORIZATION);
            match client.get(&location, &without).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(_) | Err(_) => self.forget(url),
            }
        }
        let response = client.get(url, &headers).await?;
        if response.status().is_success() && response.url().origin() != url.origin() {
            self.remember(url, response.url());
        }
        Ok(response)
    }

    fn known(&self, url: &Url) -> Option<Url> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(url).cloned()
    }

    fn remember(&self, url: &Url, location: &Url) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(url.clone(), location.clone());
    }

    fn forget(&self, url: &Url) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(url);
    }
}

fn bytes(range: &Range<u64>) -> Result<HeaderValue, StoreError> {
    let value = HeaderValue::try_from(format!("bytes={}-{}", range.start, range.end.saturating_sub(1)));
    value.map_err(|_| StoreError::retry("the range cannot be sent"))
}

/// Returns the body of a response with status 200 or 206.
///
/// # Errors
/// [`StoreError::Retry`] if a part does not say where it begins.
pub(super) fn body(response: Response, version: Option<String>) -> Result<Body, StoreError> {
    let head = Head::of(response.status(), response.headers());
    let start = match head.status {
        206 => head.start.ok_or_else(|| StoreError::retry("a partial response without Content-Range"))?,
        _ => 0,
    };
    let chunks = response.bytes_stream().map_err(|error| interrupted(&error)).boxed();
    Ok(Body { start, end: head.end, total: head.total, version, chunks })
}

/// Reads the whole of a small body.
///
/// # Errors
/// [`StoreError::Retry`] if the connection fails or the body has more than `limit` bytes.
pub(super) async fn small(mut response: Response, limit: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| interrupted(&error))? {
        if bytes.len() + chunk.len() > limit {
            return Err(StoreError::retry(format!("the server answered with more than {limit} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
