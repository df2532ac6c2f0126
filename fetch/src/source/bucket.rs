//! `s3://`, `gs://` and Azure's `https://ACCOUNT.blob.core.windows.net/`: objects of a bucket, by a key or a prefix.

mod connect;
mod refusal;
mod service;

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::StreamExt;
use object_store::path::Path as Key;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};

use self::connect::Connection;
use self::refusal::{Cause, FailedRequest};
use crate::access::credentials::Access;
use crate::archive::packing::Packing;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::shown_uri::without_secrets;
use crate::store::{Body, Object, RelativePath, Store, StoreError};

/// A key or a prefix in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketSource {
    provider: Provider,
    /// Name of the bucket or container.
    bucket: String,
    key: Key,
    uri: String,
}

/// A service that has buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Provider {
    S3,
    Gcs,
    Azure { account: String },
}

/// Suffix of the hosts of Azure Blob Storage.
pub(crate) const AZURE_BLOB: &str = ".blob.core.windows.net";

/// Suffix of the hosts of Azure Files.
const AZURE_FILES: &str = ".file.core.windows.net";

impl BucketSource {
    /// Parses `s3://BUCKET/KEY` and `gs://BUCKET/KEY`. The error is the rule that the URI breaks.
    pub(super) fn parse(uri: &str) -> Result<Self, String> {
        let (scheme, rest) = uri.split_once("://").unwrap_or_default();
        let provider = if scheme == "gs" { Provider::Gcs } else { Provider::S3 };
        Self::of(provider, rest, uri)
    }

    /// Parses `https://ACCOUNT.blob.core.windows.net/CONTAINER/KEY`; `None` for URLs of other hosts, and for those with a
    /// query, which is a signature for one file.
    pub(super) fn parse_azure(uri: &str) -> Option<Result<Self, String>> {
        let rest = uri.strip_prefix("https://").filter(|rest| !rest.contains('?'))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = host.strip_suffix(":443").unwrap_or(host);
        if host.ends_with(AZURE_FILES) {
            let reason = "Azure file shares are not supported; mount the share as a volume, or copy the files to a \
                          container of blobs";
            return Some(Err(reason.to_owned()));
        }
        let account = host.strip_suffix(AZURE_BLOB).filter(|account| !account.is_empty())?;
        if account.contains('@') {
            return Some(Err("a user name or password in the host is not supported".to_owned()));
        }
        Some(Self::of(Provider::Azure { account: account.to_owned() }, path, uri))
    }

    fn of(provider: Provider, rest: &str, uri: &str) -> Result<Self, String> {
        if rest.contains(['?', '#']) {
            return Err("a key with ? or # is not supported".to_owned());
        }
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '$');
        if bucket.is_empty() || !bucket.chars().all(is_name) {
            return Err("the URI must name a bucket, as in s3://BUCKET/PATH".to_owned());
        }
        let key = Key::parse(key).map_err(|_| "the path has an empty part, `.` or `..`".to_owned())?;
        Ok(Self { provider, bucket: bucket.to_owned(), key, uri: without_secrets(uri) })
    }
}

/// A bucket that is read with the first credentials that it accepts.
pub(crate) struct BucketStore<'a> {
    source: &'a BucketSource,
    connection: Connection,
    /// Ways to prove identity, the first of which is tried first.
    logins: Vec<Login>,
    /// The client that has listed the objects.
    client: RwLock<Option<Client>>,
}

/// A way to prove identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    /// The credentials that the user or the cluster gave.
    Given,
    /// The bucket is read without credentials.
    Anonymous,
    /// The identity of the machine, which its metadata service proves.
    Machine,
}

/// A client of one region with one login.
#[derive(Clone)]
struct Client {
    store: Arc<dyn ObjectStore>,
    login: Login,
}

impl<'a> BucketStore<'a> {
    /// Returns the store of a source. No request is sent.
    ///
    /// # Errors
    /// [`FetchError::Unavailable`] if the credentials or settings are not valid.
    pub(crate) fn new(source: &'a BucketSource, access: &Access, limits: &Limits) -> Result<Self, FetchError> {
        let invalid = |reason: String| FetchError::Unavailable { uri: source.uri.clone(), reason };
        let connection = Connection::new(source, access, limits).map_err(invalid)?;
        Ok(Self { source, logins: connection.logins(), connection, client: RwLock::new(None) })
    }

    fn client(&self) -> Option<Client> {
        self.client.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn subject(&self, login: Login) -> FailedRequest<'_> {
        FailedRequest { uri: &self.source.uri, bucket: &self.source.bucket, login }
    }

    /// Lists the objects with one login, in the region that the service names if it is another one.
    async fn list_as(&self, login: Login, limits: &Limits) -> Result<Vec<ObjectMeta>, Cause> {
        let mut region = None;
        loop {
            let store = self.connection.connect(login, region.as_deref())?;
            let cause = match self.objects(&*store, limits).await {
                Ok(objects) => {
                    *self.client.write().unwrap_or_else(PoisonError::into_inner) = Some(Client { store, login });
                    return Ok(objects);
                }
                Err(cause) => cause,
            };
            match cause.other_region() {
                Some(other) if region.is_none() && self.connection.has_regions() => region = Some(other.to_owned()),
                Some(_) | None => return Err(cause),
            }
        }
    }

    /// Returns the object with exactly the key, otherwise all below the prefix. If there are more than the limit,
    /// the list is cut after one more.
    async fn objects(&self, store: &dyn ObjectStore, limits: &Limits) -> Result<Vec<ObjectMeta>, Cause> {
        let key = &self.source.key;
        if !key.as_ref().is_empty() {
            match store.head(key).await.map_err(Cause::of) {
                Ok(object) if object.size > 0 || !self.source.uri.ends_with('/') => return Ok(vec![object]),
                Ok(_) => {}
                // Without the right to list, a service answers 403 for a missing key, too.
                Err(cause) if cause.may_be_prefix() => {}
                Err(cause) => return Err(cause),
            }
        }
        let prefix = (!key.as_ref().is_empty()).then_some(key);
        let most = usize::try_from(limits.entries).unwrap_or(usize::MAX).saturating_add(1);
        let mut listed = store.list(prefix).take(most);
        let mut objects = Vec::new();
        while let Some(object) = listed.next().await {
            objects.push(object.map_err(Cause::of)?);
        }
        Ok(objects)
    }
}

impl Store for BucketStore<'_> {
    async fn list(&self, limits: &Limits) -> Result<Vec<Object>, StoreError> {
        let mut denied = None;
        for login in &self.logins {
            match self.list_as(*login, limits).await {
                Ok(objects) => return listing(self.source, objects, limits).map_err(StoreError::Fatal),
                // A bucket that is not public may be open to the machine's own identity.
                Err(cause) if *login == Login::Anonymous && cause.is_denied() => denied = Some(cause),
                Err(cause) => match denied {
                    // The machine has no identity.
                    Some(denied) if cause.is_without_identity() => {
                        return Err(denied.judge(&self.subject(Login::Anonymous)));
                    }
                    Some(_) | None => return Err(cause.judge(&self.subject(*login))),
                },
            }
        }
        let login = Login::Anonymous;
        Err(denied.unwrap_or_else(Cause::nothing).judge(&self.subject(login)))
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        let Some(Client { store, login }) = self.client() else {
            return Err(StoreError::Changed);
        };
        let is_whole = range.start == 0 && range.end >= object.size.unwrap_or(u64::MAX);
        let options = GetOptions {
            range: (!is_whole).then_some(GetRange::Bounded(range)),
            if_match: object.version.as_ref().map(|tag| format!("\"{tag}\"")),
            ..GetOptions::default()
        };
        let key = Key::parse(&object.key).map_err(|_| StoreError::Changed)?;
        let got = match store.get_opts(&key, options.clone()).await.map_err(Cause::of) {
            Err(Cause::IgnoredRange) => {
                let whole = GetOptions { range: None, ..options };
                store.get_opts(&key, whole).await.map_err(Cause::of)
            }
            got => got,
        };
        let got = got.map_err(|cause| cause.judge_read(&self.subject(login)))?;
        let (range, total) = (got.range.clone(), got.meta.size);
        let version = got.meta.e_tag.as_deref().and_then(validator);
        let chunks = got.into_stream().map(|chunk| chunk.map_err(|error| Cause::of(error).interrupted())).boxed();
        Ok(Body { start: range.start, end: Some(range.end), total: Some(total), version, chunks })
    }
}

/// Returns an entity tag without quotes, which some lists omit; `None` for a weak one.
fn validator(tag: &str) -> Option<String> {
    (!tag.starts_with("W/") && !tag.is_empty()).then(|| tag.trim_matches('"').to_owned())
}

/// Converts what a bucket listed. The prefix is taken off the paths; a single object has its base name, and is unpacked
/// if it is an archive. A list that was cut is refused: a mirror would take the missing models for removed ones.
fn listing(source: &BucketSource, objects: Vec<ObjectMeta>, limits: &Limits) -> Result<Vec<Object>, FetchError> {
    if objects.len() as u64 > limits.entries {
        let what = format!("the number of files of {}", source.uri);
        return Err(FetchError::TooLarge { what, limit: limits.entries });
    }
    let unavailable = |reason: String| FetchError::Unavailable { uri: source.uri.clone(), reason };
    let is_single = objects.len() == 1 && objects.iter().all(|object| object.location == source.key);
    let mut found = Vec::with_capacity(objects.len());
    for object in objects.iter().filter(|object| is_single || !is_directory(object, source, &objects)) {
        let name = object.location.filename().unwrap_or_default();
        let below = object.location.as_ref().strip_prefix(source.key.as_ref()).unwrap_or_default();
        let path = if is_single { name } else { below.trim_start_matches('/') };
        let packing = if is_single { Packing::of(name) } else { Packing::None };
        found.push(Object {
            path: RelativePath::parse(path).map_err(|rule| unavailable(format!("has the object {path:?}, {rule}")))?,
            key: object.location.as_ref().to_owned(),
            size: Some(object.size),
            version: object.e_tag.as_deref().and_then(validator),
            digest: None,
            packing,
        });
    }
    if found.is_empty() {
        return Err(unavailable(format!(
            "no object has this key or is below it in the bucket {}; check the path, which is whole names between slashes",
            source.bucket
        )));
    }
    Ok(found)
}

/// Returns true for empty objects by which some tools mark directories: others are below them, or they are the prefix
/// itself. `objects` is sorted by key as services list them.
fn is_directory(object: &ObjectMeta, source: &BucketSource, objects: &[ObjectMeta]) -> bool {
    let key = object.location.as_ref();
    let is_above =
        |other: &ObjectMeta| other.location.as_ref().strip_prefix(key).is_some_and(|rest| rest.starts_with('/'));
    let next = objects.partition_point(|other| other.location.as_ref() <= key);
    let has_objects_below =
        || objects[next..].iter().take_while(|other| other.location.as_ref().starts_with(key)).any(is_above);
    object.size == 0 && (object.location == source.key || has_objects_below())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(uri: &str) -> BucketSource {
        BucketSource::parse(uri).unwrap()
    }

    fn objects(keys: &[(&str, u64)]) -> Vec<ObjectMeta> {
        let object = |(key, size): &(&str, u64)| ObjectMeta {
            location: Key::parse(key).unwrap(),
            last_modified: std::time::SystemTime::UNIX_EPOCH.into(),
            size: *size,
            e_tag: Some("\"1\"".to_owned()),
            version: None,
        };
        keys.iter().map(object).collect()
    }

    fn paths(uri: &str, keys: &[(&str, u64)]) -> Result<Vec<(String, Packing)>, String> {
        let limits = Limits { entries: 4, ..Limits::default() };
        let found = listing(&source(uri), objects(keys), &limits).map_err(|error| error.to_string())?;
        Ok(found.into_iter().map(|object| (object.path.as_str().to_owned(), object.packing)).collect())
    }

    #[test]
    fn uris_are_parsed() {
        let found = source("s3://bucket/models/x/");
        assert_eq!((found.bucket.as_str(), found.key.as_ref()), ("bucket", "models/x"));
        assert_eq!(source("gs://b").key.as_ref(), "");
        for refused in ["s3://", "s3:///x", "s3://b/a//b", "s3://b/../x", "s3://user:key@b/x", "s3://b/x?y"] {
            assert!(BucketSource::parse(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn azure_is_known_by_its_host() {
        let parse = |uri: &str| BucketSource::parse_azure(uri);
        let found = parse("https://kserve.blob.core.windows.net/triton/a/b").unwrap().unwrap();
        assert_eq!(found.provider, Provider::Azure { account: "kserve".to_owned() });
        assert_eq!((found.bucket.as_str(), found.key.as_ref()), ("triton", "a/b"));
        let at = parse("https://kserve.blob.core.windows.net/triton/a@1").unwrap().unwrap();
        assert_eq!(at.key.as_ref(), "a@1");
        assert_eq!(parse("https://kserve.blob.core.windows.net/triton/a?sig=x"), None);
        assert!(parse("https://me:secret@kserve.blob.core.windows.net/triton/a").unwrap().is_err());
        assert_eq!(parse("https://example.com/a"), None);
        assert!(parse("https://kserve.file.core.windows.net/share/a").unwrap().unwrap_err().contains("file shares"));
        assert!(parse("https://kserve.blob.core.windows.net").unwrap().is_err());
    }

    #[test]
    fn one_object_has_its_base_name() {
        let one = paths("s3://b/m/model.tar.gz", &[("m/model.tar.gz", 5)]).unwrap();
        assert_eq!(one, [("model.tar.gz".to_owned(), Packing::TarGz)]);
        let empty = paths("s3://b/m/empty", &[("m/empty", 0)]).unwrap();
        assert_eq!(empty, [("empty".to_owned(), Packing::None)]);
    }

    #[test]
    fn the_prefix_is_taken_off_and_archives_below_it_stay() {
        let found = paths("s3://b/m", &[("m", 0), ("m/1", 0), ("m/1/a.zip", 3), ("m/empty", 0)]).unwrap();
        assert_eq!(found, [("1/a.zip".to_owned(), Packing::None), ("empty".to_owned(), Packing::None)]);
        let found = paths("s3://b", &[("a", 1), ("b/c", 1)]).unwrap();
        assert_eq!(found.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["a", "b/c"]);
    }

    #[test]
    fn a_prefix_without_objects_is_named() {
        let error = paths("s3://b/m/x", &[]).unwrap_err();
        assert!(error.starts_with("s3://b/m/x: no object has this key or is below it in the bucket b"), "{error}");
        assert!(paths("s3://b/m", &[("m", 0), ("m/x", 0)]).is_ok());
    }

    #[test]
    fn a_list_that_was_cut_is_refused() {
        let all = [("m/1", 0), ("m/1/a", 1), ("m/1/b", 1), ("m/1/c", 1), ("m/2/a", 1)];
        assert_eq!(paths("s3://b/m", &all[..4]).unwrap().len(), 3);
        // Without the mark of a directory the number of files is within the limit.
        assert_eq!(paths("s3://b/m", &all).unwrap_err(), "the number of files of s3://b/m exceeds 4");
    }

    #[tokio::test]
    async fn a_list_has_a_limit_in_bytes() {
        use crate::source::test_server::{Reply, TestServer};
        let server = TestServer::start(|_| Reply::ok(vec![b' '; (32 << 20) + 1]));
        let access = Access::default().with_variable("AWS_ENDPOINT_URL_S3", &format!("http://{}", server.address));
        let (source, limits) = (source("s3://b"), Limits::default());
        let listed = BucketStore::new(&source, &access, &limits).unwrap().list(&limits).await;
        let Err(StoreError::Fatal(error)) = listed else { panic!("{listed:?}") };
        assert_eq!(error.to_string(), "s3://b: the service answered with a list of more than 33554432 bytes");
    }

    #[test]
    fn entity_tags_lose_their_quotes() {
        assert_eq!(validator("\"a-2\"").as_deref(), Some("a-2"));
        assert_eq!(validator("0x8D").as_deref(), Some("0x8D"));
        assert_eq!(validator("W/\"a\""), None);
    }
}
