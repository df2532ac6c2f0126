//! Polling of the repository. Time is paused: periods pass when nothing else does.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::fake::{Behaviour, FakeLauncher, FakeRepository, index, started, until};
use super::folder::Folder;
use crate::repository::ControlMode;

const PERIOD: Duration = Duration::from_secs(15);

struct Polled {
    repository: Arc<FakeRepository>,
    fake: FakeLauncher,
    shutdown: CancellationToken,
    polling: JoinHandle<()>,
}

async fn polled(folder: &Folder) -> Polled {
    let (repository, fake) = started(folder, ControlMode::Poll(PERIOD)).await;
    let shutdown = CancellationToken::new();
    let polling = tokio::spawn(Arc::clone(&repository).poll(shutdown.clone()));
    Polled {
        repository,
        fake,
        shutdown,
        polling,
    }
}

/// Lets three periods of the paused clock pass. It stands still during a poll.
async fn three_polls() {
    let nothing = std::future::pending::<()>();
    tokio::time::timeout(3 * PERIOD, nothing).await.unwrap_err();
}

impl Polled {
    async fn until(&self, expected: &[&str]) {
        until(&self.repository, || index(&self.repository) == expected).await;
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.polling.await.unwrap();
        self.repository.retire_all().await;
        assert!(self.repository.serving().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn models_appear_change_and_vanish() {
    let folder = Folder::with(&[("a", &[1])]);
    let polled = polled(&folder).await;
    folder.write("b/1/model.pt", "weights");
    polled.until(&["a 1 READY", "b 1 READY"]).await;

    folder.write("b/2/model.pt", "weights");
    polled
        .until(&["a 1 READY", "b 1 UNAVAILABLE unloaded", "b 2 READY"])
        .await;

    folder.write("a/1/model.pt", "new weights");
    let content = || polled.repository.find("a", "").unwrap().content.clone();
    until(&polled.repository, || content() == "new weights").await;

    folder.remove("a");
    polled
        .until(&[
            "a 1 UNAVAILABLE unloaded",
            "b 1 UNAVAILABLE unloaded",
            "b 2 READY",
        ])
        .await;
    assert!(polled.repository.is_ready());
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_version_is_not_tried_again_until_it_changes() {
    let folder = Folder::with(&[("m", &[1])]);
    let polled = polled(&folder).await;
    polled.fake.on("m", 2, Behaviour::Fail("half copied"));
    folder.write("m/2/model.pt", "wei");
    polled
        .until(&["m 1 READY", "m 2 UNAVAILABLE half copied"])
        .await;
    three_polls().await;
    assert_eq!(polled.fake.count("load m 2"), 1);

    polled.fake.release("m", 2);
    folder.write("m/2/model.pt", "weights");
    polled
        .until(&["m 1 UNAVAILABLE unloaded", "m 2 READY"])
        .await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_repository_keeps_its_models_serving() {
    let folder = Folder::with(&[("repo/m", &[1])]);
    let inner = Folder::new();
    std::fs::rename(folder.at("repo"), inner.at("repo")).unwrap();
    let (repository, fake) = {
        let paths = [inner.at("repo")];
        let options = super::fake::options(ControlMode::Poll(PERIOD));
        super::fake::fresh(&paths, None, options)
    };
    repository.start().await.unwrap();
    let shutdown = CancellationToken::new();
    let polling = tokio::spawn(Arc::clone(&repository).poll(shutdown.clone()));
    std::fs::rename(inner.at("repo"), inner.at("away")).unwrap();
    three_polls().await;
    assert!(repository.find("m", "").is_ok());
    std::fs::rename(inner.at("away"), inner.at("repo")).unwrap();
    inner.write("repo/n/1/model.pt", "weights");
    until(&repository, || {
        index(&repository) == ["m 1 READY", "n 1 READY"]
    })
    .await;
    assert_eq!(fake.count("load m 1"), 1);
    shutdown.cancel();
    polling.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_goes_bad_and_good_again() {
    let folder = Folder::with(&[("m", &[1])]);
    let polled = polled(&folder).await;
    folder
        .write("n/1/model.pt", "weights")
        .write("n/config.pbtxt", "nonsense");
    until(&polled.repository, || !polled.repository.is_ready()).await;
    folder.write("n/config.pbtxt", "backend: \"pytorch\"");
    polled.until(&["m 1 READY", "n 1 READY"]).await;
    assert!(polled.repository.is_ready());
    polled.end().await;
}
