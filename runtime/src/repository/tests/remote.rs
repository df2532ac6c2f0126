//! Tests of repositories on other machines, with a fake that copies from another directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeRepository, explicit_mode, fresh, index, options, until};
use super::folder::Folder;
use crate::repository::{ControlMode, LoadOptions, Refresh, RefreshedModels, RemoteRepository};

/// A remote repository whose models are written at each refresh.
#[derive(Debug)]
struct FakeRemote {
    copy: PathBuf,
    /// Files of the remote models, by model, path and content.
    remote: Mutex<Vec<(&'static str, &'static str, &'static str)>>,
    /// Reason for which the next refreshes fail, after the other models are copied.
    failure: Mutex<Option<&'static str>>,
    refreshed: Mutex<Vec<RefreshedModels>>,
}

impl RemoteRepository for FakeRemote {
    fn directory(&self) -> PathBuf {
        self.copy.clone()
    }

    fn refresh<'a>(&'a self, models: &'a RefreshedModels) -> Refresh<'a> {
        Box::pin(async {
            self.refreshed.lock().push(models.clone());
            for (model, path, content) in &*self.remote.lock() {
                let is_wanted = match models {
                    RefreshedModels::All => true,
                    RefreshedModels::Named(names) => names.contains(*model),
                };
                let file = self.copy.join(model).join(path);
                if is_wanted && std::fs::read_to_string(&file).ok().as_deref() != Some(content) {
                    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                    std::fs::write(file, content).unwrap();
                }
            }
            self.failure.lock().map_or(Ok(()), |reason| Err(reason.to_owned()))
        })
    }
}

fn remote(control: ControlMode) -> (Arc<FakeRepository>, Arc<FakeRemote>, Folder) {
    let folder = Folder::new();
    let fake = Arc::new(FakeRemote {
        copy: folder.path().to_owned(),
        remote: Mutex::new(vec![("a", "1/model.pt", "weights"), ("b", "1/model.pt", "weights")]),
        failure: Mutex::default(),
        refreshed: Mutex::default(),
    });
    let options = crate::repository::RepositoryOptions { remotes: vec![fake.clone()], ..options(control) };
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options);
    (repository, fake, folder)
}

fn named(names: &[&str]) -> RefreshedModels {
    RefreshedModels::Named(names.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test]
async fn the_initial_loads_fetch_every_model() {
    let (repository, fake, _folder) = remote(ControlMode::None);
    repository.start().await.unwrap();
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
    assert_eq!(*fake.refreshed.lock(), [RefreshedModels::All]);
}

#[tokio::test]
async fn a_repository_that_cannot_be_fetched_is_a_failure_at_start() {
    let (repository, fake, _folder) = remote(ControlMode::None);
    *fake.failure.lock() = Some("s3://b/a/1/model.pt answered 403");
    let failures = repository.start().await.unwrap_err();
    let expected = "failed to poll from model repository: s3://b/a/1/model.pt answered 403";
    assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    // The models that could be fetched are loaded, for a server that continues.
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
}

#[tokio::test]
async fn a_load_call_fetches_its_model_alone() {
    let (repository, fake, _folder) = remote(explicit_mode(&["a"]));
    repository.start().await.unwrap();
    assert_eq!(index(&repository), ["a 1 READY"]);
    repository.load("b", LoadOptions::default()).await.unwrap();
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
    fake.remote.lock()[0].2 = "new weights";
    repository.load("a", LoadOptions::default()).await.unwrap();
    assert_eq!(repository.find("a", "").unwrap().content, "new weights");
    assert_eq!(*fake.refreshed.lock(), [named(&["a"]), named(&["b"]), named(&["a"])]);
    *fake.failure.lock() = Some("s3://b/a/1/model.pt answered 403");
    let error = repository.load("a", LoadOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("s3://b/a/1/model.pt answered 403"), "{error}");
    assert!(repository.find("a", "").is_ok());
}

#[tokio::test(start_paused = true)]
async fn polls_load_what_could_be_fetched() {
    let (repository, fake, _folder) = remote(ControlMode::Poll(Duration::from_secs(15)));
    repository.start().await.unwrap();
    let shutdown = CancellationToken::new();
    let polling = tokio::spawn(Arc::clone(&repository).poll(shutdown.clone()));
    *fake.failure.lock() = Some("s3://b/c/1/model.pt answered 403");
    fake.remote.lock().push(("b", "2/model.pt", "weights"));
    until(&repository, || index(&repository).contains(&"b 2 READY".to_owned())).await;
    shutdown.cancel();
    polling.await.unwrap();
}
