//! Inspects a source without downloading it: its listing, and the beginning of one object.

use std::fmt;
use std::time::Duration;

use crate::access::credentials::Access;
use crate::error::FetchError;
use crate::fetch::web;
use crate::limits::Limits;
use crate::progress::size;
use crate::shown_uri::without_secrets;
use crate::source::{BucketStore, HttpStore, Hub, Registry, Source};
use crate::store::{Object, Store, StoreError};
use crate::transfer::check;

/// Number of attempts of each request.
const ATTEMPTS: u32 = 2;

/// Delay before the second attempt.
const DELAY: Duration = Duration::from_millis(500);

/// Number and size of the files of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// Number of objects, before archives are unpacked.
    pub objects: usize,
    /// Size of all objects in bytes; `None` if the server does not say it.
    pub bytes: Option<u64>,
}

impl fmt::Display for Inventory {
    /// Writes for example `3 files, 12.4 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = if self.objects == 1 { "file" } else { "files" };
        write!(f, "{} {unit}", self.objects)?;
        match self.bytes {
            Some(bytes) => write!(f, ", {}", size::shown(bytes)),
            None => f.write_str(", of unknown size"),
        }
    }
}

/// Lists the objects of `uri` and opens one of them, to see that a fetch could read them. No object is downloaded.
///
/// # Errors
/// The [`FetchError`] with which a fetch would end, except that a request is repeated only once.
pub async fn inspect(access: &Access, uri: &str, limits: &Limits) -> Result<Inventory, FetchError> {
    let uri = access.resolve(uri)?;
    let shown = without_secrets(&uri);
    match &Source::parse(&uri)? {
        Source::Http(source) => look(&HttpStore::new(source, web(access, limits, &shown)?, 0), limits, &shown).await,
        Source::Bucket(source) => look(&BucketStore::new(source, access, limits)?, limits, &shown).await,
        Source::Hub(address) => look(&Hub::new(address.clone(), access, limits)?, limits, &shown).await,
        Source::Registry(reference) => look(&Registry::new(reference.clone(), access, limits)?, limits, &shown).await,
    }
}

async fn look<S: Store>(store: &S, limits: &Limits, uri: &str) -> Result<Inventory, FetchError> {
    let objects = repeated(uri, || store.list(limits)).await?;
    check(&objects, limits, uri)?;
    // The right to list a bucket does not include the right to read its objects.
    if let Some(object) = objects.iter().find(|object| object.size != Some(0)) {
        repeated(uri, || store.read(object, 0..1)).await?;
    }
    Ok(of(&objects))
}

fn of(objects: &[Object]) -> Inventory {
    let add = |sum: u64, object: &Object| Some(sum.saturating_add(object.size?));
    Inventory { objects: objects.len(), bytes: objects.iter().try_fold(0, add) }
}

/// Sends a request again if it fails and another attempt may succeed.
pub(crate) async fn repeated<T, R>(uri: &str, mut request: impl FnMut() -> R) -> Result<T, FetchError>
where
    R: Future<Output = Result<T, StoreError>>,
{
    let mut attempt = 1;
    loop {
        let reason = match request().await {
            Ok(answer) => return Ok(answer),
            Err(StoreError::Fatal(error)) => return Err(error),
            Err(StoreError::Changed) => "it changes on the server at this moment".to_owned(),
            Err(StoreError::Retry { reason, .. }) => reason,
        };
        if attempt == ATTEMPTS {
            return Err(FetchError::Unavailable { uri: uri.to_owned(), reason });
        }
        attempt += 1;
        tokio::time::sleep(DELAY).await;
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Mutex;

    use futures_util::StreamExt;

    use super::*;
    use crate::archive::packing::Packing;
    use crate::error::UriQuery;
    use crate::store::{Body, RelativePath};

    /// A store with these answers to reads, the last one first.
    struct Scripted {
        objects: Vec<Object>,
        reads: Mutex<Vec<Result<(), StoreError>>>,
    }

    impl Store for Scripted {
        async fn list(&self, _: &Limits) -> Result<Vec<Object>, StoreError> {
            Ok(self.objects.clone())
        }

        async fn read(&self, _: &Object, range: Range<u64>) -> Result<Body, StoreError> {
            assert_eq!(range, 0..1);
            let body = || Body {
                start: 0,
                end: None,
                total: None,
                version: None,
                chunks: futures_util::stream::empty().boxed(),
            };
            self.reads.lock().unwrap().pop().unwrap().map(|()| body())
        }
    }

    fn object(path: &str, size: Option<u64>) -> Object {
        Object {
            path: RelativePath::parse(path).unwrap(),
            key: path.to_owned(),
            size,
            version: None,
            digest: None,
            packing: Packing::None,
        }
    }

    async fn looked(objects: Vec<Object>, reads: Vec<Result<(), StoreError>>) -> Result<String, String> {
        let store = Scripted { objects, reads: reads.into() };
        let looked = look(&store, &Limits::default(), "s3://b/m").await;
        assert!(store.reads.lock().unwrap().is_empty());
        looked.map(|inventory| inventory.to_string()).map_err(|error| error.to_string())
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_counted_and_one_is_opened() {
        let two = vec![object("a", Some(0)), object("b", Some(12_400_000_000))];
        assert_eq!(looked(two.clone(), vec![Ok(())]).await.unwrap(), "2 files, 12.4 GB");
        assert_eq!(
            looked(two, vec![Ok(()), Err(StoreError::retry("answered 503"))]).await.unwrap(),
            "2 files, 12.4 GB"
        );
        assert_eq!(looked(vec![object("a", None)], vec![Ok(())]).await.unwrap(), "1 file, of unknown size");
        assert_eq!(looked(vec![object("a", Some(0))], vec![]).await.unwrap(), "1 file, 0 B");
    }

    #[tokio::test]
    async fn files_that_a_fetch_would_refuse_are_an_error() {
        let large = vec![object("a", Some(40 << 30)), object("b", Some(40 << 30))];
        assert_eq!(looked(large, vec![]).await.unwrap_err(), "s3://b/m exceeds 68719476736");
        let many = (0..=100_000).map(|number| object(&number.to_string(), Some(0))).collect();
        assert_eq!(looked(many, vec![]).await.unwrap_err(), "the number of files of s3://b/m exceeds 100000");
        let twice = vec![object("a", Some(0)), object("a/b", Some(0))];
        assert!(looked(twice, vec![]).await.unwrap_err().contains("both a file and a directory"));
    }

    #[tokio::test(start_paused = true)]
    async fn files_that_can_be_listed_and_not_read_are_an_error() {
        let refused = || {
            StoreError::Fatal(FetchError::Refused { uri: "s3://b/m".to_owned(), status: 402, query: UriQuery::Absent })
        };
        let one = || vec![object("a", Some(1))];
        assert_eq!(looked(one(), vec![Err(refused())]).await.unwrap_err(), "s3://b/m answered 402");
        let twice = vec![Err(StoreError::retry("answered 503")), Err(StoreError::Changed)];
        assert_eq!(looked(one(), twice).await.unwrap_err(), "s3://b/m: answered 503");
    }
}
