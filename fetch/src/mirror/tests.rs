use std::sync::Mutex as StdMutex;

use bytes::Bytes;
use futures_util::{StreamExt, stream};

use super::*;
use crate::error::UriQuery;

/// A store in memory, which records the reads.
#[derive(Default)]
struct Bucket {
    files: StdMutex<BTreeMap<String, (u32, Vec<u8>)>>,
    read: StdMutex<Vec<String>>,
    /// Path whose reads are refused.
    refused: StdMutex<Option<&'static str>>,
}

impl Bucket {
    fn put(&self, path: &str, version: u32, content: &str) {
        self.files.lock().unwrap().insert(path.to_owned(), (version, content.into()));
    }

    /// Returns the paths read since the last call, sorted, each once.
    fn reads(&self) -> Vec<String> {
        let mut reads = std::mem::take(&mut *self.read.lock().unwrap());
        reads.sort();
        reads.dedup();
        reads
    }
}

impl Store for Bucket {
    async fn list(&self, _: &Limits) -> Result<Vec<Object>, StoreError> {
        let files = self.files.lock().unwrap();
        let object = |(path, (version, content)): (&String, &(u32, Vec<u8>))| Object {
            path: RelativePath::parse(path).unwrap(),
            key: path.clone(),
            size: Some(content.len() as u64),
            version: Some(version.to_string()),
            digest: None,
            packing: Packing::None,
        };
        Ok(files.iter().map(object).collect())
    }

    async fn read(&self, object: &Object, range: Range<u64>) -> Result<Body, StoreError> {
        self.read.lock().unwrap().push(object.key.clone());
        if *self.refused.lock().unwrap() == Some(&*object.key) {
            let uri = format!("s3://b/{}", object.key);
            return Err(StoreError::Fatal(FetchError::Refused { uri, status: 403, query: UriQuery::Absent }));
        }
        let (version, content) = self.files.lock().unwrap()[&object.key].clone();
        let total = content.len() as u64;
        let bytes = Bytes::from(content).slice(range.start as usize..range.end.min(total) as usize);
        Ok(Body {
            start: range.start,
            end: Some(range.end.min(total)),
            total: Some(total),
            version: Some(version.to_string()),
            chunks: stream::iter([Ok(bytes)]).boxed(),
        })
    }
}

fn mirror(folder: &Path) -> Mirror {
    Mirror::open(&Access::default(), "s3://b", folder).unwrap()
}

/// Returns the files of all copies with their contents.
fn copies(mirror: &Mirror) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![mirror.models()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(mirror.models()).unwrap().display().to_string();
                found.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect()
}

fn two_models() -> Bucket {
    let bucket = Bucket::default();
    bucket.put("README.md", 1, "none");
    bucket.put("a/config.pbtxt", 1, "a");
    bucket.put("a/1/model.pt", 1, "weights of a");
    bucket.put("b/1/model.pt", 1, "weights of b");
    bucket
}

#[tokio::test]
async fn only_changed_models_are_fetched_again() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), two_models());
    let mirror = mirror(folder.path());
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    let first = pairs(&[("a/1/model.pt", "weights of a"), ("a/config.pbtxt", "a"), ("b/1/model.pt", "weights of b")]);
    assert_eq!(copies(&mirror), first);
    bucket.reads();
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    assert_eq!(bucket.reads(), [""; 0]);
    bucket.put("b/2/model.pt", 1, "new");
    bucket.put("b/1/model.pt", 2, "weights of B");
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    assert_eq!(bucket.reads(), ["b/1/model.pt", "b/2/model.pt"]);
    assert_eq!(copies(&mirror)[2..], pairs(&[("b/1/model.pt", "weights of B"), ("b/2/model.pt", "new")]));
    // A later process finds the copies.
    drop(mirror);
    let later = self::mirror(folder.path());
    later.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    assert_eq!(bucket.reads(), [""; 0]);
}

#[tokio::test]
async fn removed_models_and_files_go() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), two_models());
    let mirror = mirror(folder.path());
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    bucket.files.lock().unwrap().retain(|path, _| !path.starts_with("b/") && path != "a/config.pbtxt");
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    assert_eq!(copies(&mirror), pairs(&[("a/1/model.pt", "weights of a")]));
    // An empty listing does not remove what serves.
    bucket.files.lock().unwrap().clear();
    assert!(mirror.refresh_from(&bucket, &WantedModels::All).await.is_err());
    assert_eq!(copies(&mirror).len(), 1);
}

#[tokio::test]
async fn only_wanted_models_are_fetched_and_removed() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), two_models());
    let mirror = mirror(folder.path());
    let only = |name: &str| WantedModels::Named([name.to_owned()].into());
    mirror.refresh_from(&bucket, &only("b")).await.unwrap();
    assert_eq!(copies(&mirror), pairs(&[("b/1/model.pt", "weights of b")]));
    mirror.refresh_from(&bucket, &only("missing")).await.unwrap();
    bucket.files.lock().unwrap().remove("b/1/model.pt");
    mirror.refresh_from(&bucket, &only("a")).await.unwrap();
    assert_eq!(copies(&mirror).len(), 3);
    mirror.refresh_from(&bucket, &only("b")).await.unwrap();
    assert_eq!(copies(&mirror).len(), 2);
}

#[tokio::test]
async fn a_model_that_cannot_be_fetched_keeps_its_files_and_stops_no_other() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), two_models());
    let mirror = mirror(folder.path());
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    bucket.put("a/1/model.pt", 2, "new a");
    bucket.put("b/1/model.pt", 2, "new b");
    *bucket.refused.lock().unwrap() = Some("a/1/model.pt");
    let error = mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap_err();
    assert!(error.to_string().starts_with("s3://b/a/1/model.pt answered 403: "), "{error}");
    let expected = pairs(&[("a/1/model.pt", "weights of a"), ("a/config.pbtxt", "a"), ("b/1/model.pt", "new b")]);
    assert_eq!(copies(&mirror), expected);
    *bucket.refused.lock().unwrap() = None;
    mirror.refresh_from(&bucket, &WantedModels::All).await.unwrap();
    assert_eq!(copies(&mirror)[0].1, "new a");
}

#[tokio::test]
async fn a_model_itself_is_no_repository() {
    let (folder, bucket) = (tempfile::tempdir().unwrap(), Bucket::default());
    bucket.put("config.pbtxt", 1, "a");
    bucket.put("1/model.pt", 1, "weights");
    let error = mirror(folder.path()).refresh_from(&bucket, &WantedModels::All).await.unwrap_err().to_string();
    assert!(error.contains("name the directory above it"), "{error}");
}

#[test]
fn a_folder_belongs_to_one_process_and_a_repository_is_a_bucket_or_a_hub() {
    let folder = tempfile::tempdir().unwrap();
    let first = mirror(folder.path());
    let error = Mirror::open(&Access::default(), "s3://b", folder.path()).unwrap_err();
    assert!(matches!(error, FetchError::File { .. }), "{error}");
    drop(first);
    drop(mirror(folder.path()));
    for uri in ["https://host/models.zip", "oci://registry/models:1", "as://account", "ftp://a/b"] {
        assert!(
            matches!(Mirror::open(&Access::default(), uri, folder.path()), Err(FetchError::Address { .. })),
            "{uri}"
        );
    }
}
