//! `http://` and `https://`: one file of a web server.

use std::ops::Range;

use futures_util::StreamExt;
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::sync::Mutex;

use crate::archive::packing::Packing;
use crate::digest::Digest;
use crate::error::{FetchError, UriQuery};
use crate::limits::Limits;
use crate::shown_uri::without_secrets;
use crate::store::{Body, Object, RelativePath, Store, StoreError};
use crate::transfer::PIECE;
use crate::web::{Head, WebClient, failure, interrupted, is_empty_file};

/// A file to download, with its packing and digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpSource {
    url: Url,
    /// File name, the last segment of the path.
    path: RelativePath,
    /// Digest that the file must have, if the URI's fragment contains one.
    digest: Option<Digest>,
}

impl HttpSource {
    /// Parses a URL. The error is the rule that it breaks.
    pub(super) fn parse(uri: &str) -> Result<Self, String> {
        let url = Url::parse(uri).map_err(|error| error.to_string())?;
        let segments = url.path_segments().into_iter().flatten();
        let file_name = segments.last().unwrap_or_default();
        let is_plain = !file_name.is_empty() && !file_name.contains('%');
        let path = RelativePath::parse(file_name).ok().filter(|_| is_plain);
        let digest = url.fragment().map(Digest::of_fragment).transpose();
        Ok(Self {
            path: path.ok_or("the path must end with a plain file name")?,
            digest: digest.map_err(|()| "the digest must be sha256: and 64 hexadecimal digits")?.flatten(),
            url,
        })
    }

    /// Returns the name of the file in the target.
    pub(super) fn file_name(&self) -> &str {
        self.path.as_str()
    }

    pub(super) fn packing(&self) -> Packing {
        Packing::of(self.path.as_str())
    }
}

/// A web server that has one file.
pub(crate) struct HttpStore<'a> {
    source: &'a HttpSource,
    web: WebClient,
    /// Offset of the first byte that is missing on disk.
    first: u64,
    /// The answer to the first request, which the first read takes.
    opened: Mutex<Option<Body>>,
}

impl<'a> HttpStore<'a> {
    /// Returns a store whose first request asks for the bytes from `first`.
    pub(crate) fn new(source: &'a HttpSource, web: WebClient, first: u64) -> Self {
        Self { source, web, first, opened: Mutex::new(None) }
    }

    async fn request(&self, range: Option<Range<u64>>, version: Option<&str>) -> Result<Response, StoreError> {
        let mut headers = HeaderMap::new();
        if let Some(Range { start, end }) = range {
            let range = format!("bytes={start}-{}", end - 1);
            headers.insert(header::RANGE, HeaderValue::from_str(&range).map_err(|_| StoreError::Changed)?);
            if let Some(version) = version {
                headers.insert(header::IF_RANGE, HeaderValue::from_str(version).map_err(|_| StoreError::Changed)?);
            }
        }
        let response = self.web.get(&self.source.url, &headers).await?;
        failure(&response).map_or(Ok(response), Err)
    }

    /// Sends the first request. The response says the size, the validator, and if the server supports ranges.
    async fn open(&self) -> Result<Body, StoreError> {
        // The answer belongs to the piece that has the first missing byte, and must not go beyond it.
        let range = self.first..(self.first / PIECE + 1).saturating_mul(PIECE);
        let response = self.request(Some(range), None).await?;
        let (status, head) = (response.status(), Head::of(response.status(), response.headers()));
        if is_empty_file(status, response.headers()) {
            let chunks = futures_util::stream::empty().boxed();
            return Ok(Body { start: 0, end: Some(0), total: Some(0), version: head.validator, chunks });
        }
        // Without a validator, ranges could belong to different contents.
        let is_partial = head.validator.is_none() && head.total.is_none_or(|total| total > PIECE);
        match status {
            StatusCode::RANGE_NOT_SATISFIABLE => self.whole().await,
            StatusCode::PARTIAL_CONTENT if is_partial => self.whole().await,
            _ => self.body(response),
        }
    }

    async fn whole(&self) -> Result<Body, StoreError> {
        self.body(self.request(None, None).await?)
    }

    fn body(&self, response: Response) -> Result<Body, StoreError> {
        let head = Head::of(response.status(), response.headers());
        let start = match head.status {
            200 => 0,
            206 => head.start.ok_or_else(|| StoreError::retry("a partial response without Content-Range"))?,
            status => {
                let uri = without_secrets(self.source.url.as_str());
                let query = if self.source.url.query().is_some() { UriQuery::Present } else { UriQuery::Absent };
                return Err(StoreError::Fatal(FetchError::Refused { uri, status, query }));
            }
        };
        let chunks = response.bytes_stream().map(|chunk| chunk.map_err(|error| interrupted(&error))).boxed();
        Ok(Body { start, end: head.end, total: head.total, version: head.validator, chunks })
    }
}

impl HttpStore<'_> {
    fn object(&self, size: Option<u64>, version: Option<String>) -> Object {
        Object {
            path: self.source.path.clone(),
            key: without_secrets(self.source.url.as_str()),
            size,
            version,
            digest: self.source.digest.clone(),
            packing: self.source.packing(),
        }
    }
}

/// Returns true for the body of a response without a range.
fn is_whole(body: &Body) -> bool {
    body.start == 0 && body.end == body.total
}

impl Store for HttpStore<'_> {
    async fn list(&self, _: &Limits) -> Result<Vec<Object>, StoreError> {
        let body = self.open().await?;
        let object = self.object(body.total, body.version.clone());
        *self.opened.lock().await = Some(body);
        Ok(vec![object])
    }

    async fn head(&self) -> Option<Vec<Object>> {
        let response = self.web.send(Method::HEAD, &self.source.url, &HeaderMap::new()).await;
        let Some(response) = response.ok().filter(|response| response.status() == StatusCode::OK) else {
            return Some(Vec::new());
        };
        let head = Head::of(response.status(), response.headers());
        Some(vec![self.object(head.total, head.validator)])
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        if let Some(body) = self.opened.lock().await.take()
            && (body.start == range.start || is_whole(&body))
        {
            return Ok(body);
        }
        let is_whole = range.start == 0 && (range.end == u64::MAX || Some(range.end) == object.size);
        // A size that is unknown leaves the end open.
        let range = (!is_whole).then(|| range.start..range.end.min(object.size.unwrap_or(u64::MAX)));
        let response = self.request(range, object.version.as_deref()).await?;
        match response.status() {
            StatusCode::RANGE_NOT_SATISFIABLE | StatusCode::PRECONDITION_FAILED => Err(StoreError::Changed),
            _ => self.body(response),
        }
    }
}
