//! Tests of polling the repository. Time is paused: it advances only when no task can run.

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
    Polled { repository, fake, shutdown, polling }
}

/// Polls a folder with these versions of models.
async fn polled_with(models: &[(&str, &[u64])]) -> (Folder, Polled) {
    let folder = Folder::with(models);
    let polled = polled(&folder).await;
    (folder, polled)
}

/// Lets three periods of the paused clock pass; the clock does not advance during a poll.
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
async fn models_appear_change_and_disappear() {
    let (folder, polled) = polled_with(&[("a", &[1])]).await;
    folder.write("b/1/model.pt", "weights");
    polled.until(&["a 1 READY", "b 1 READY"]).await;

    folder.write("b/2/model.pt", "weights");
    polled.until(&["a 1 READY", "b 1 UNAVAILABLE unloaded", "b 2 READY"]).await;

    folder.write("a/1/model.pt", "new weights");
    let content = || polled.repository.find("a", "").unwrap().content.clone();
    until(&polled.repository, || content() == "new weights").await;

    folder.remove("a");
    polled.until(&["a 1 UNAVAILABLE unloaded", "b 1 UNAVAILABLE unloaded", "b 2 READY"]).await;
    assert!(polled.repository.is_ready());
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_version_is_not_tried_again_until_it_changes() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    polled.fake.on("m", 2, Behaviour::Fail("half copied"));
    folder.write("m/2/model.pt", "wei");
    polled.until(&["m 1 READY", "m 2 UNAVAILABLE half copied"]).await;
    three_polls().await;
    assert_eq!(polled.fake.count("load m 2"), 1);

    polled.fake.release("m", 2);
    folder.write("m/2/model.pt", "weights");
    polled.until(&["m 1 UNAVAILABLE unloaded", "m 2 READY"]).await;
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
    until(&repository, || index(&repository) == ["m 1 READY", "n 1 READY"]).await;
    assert_eq!(fake.count("load m 1"), 1);
    shutdown.cancel();
    polling.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_model_with_an_invalid_configuration_loads_once_it_is_valid() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    folder.write("n/1/model.pt", "weights").write("n/config.pbtxt", "nonsense");
    until(&polled.repository, || !polled.repository.is_ready()).await;
    folder.write("n/config.pbtxt", "backend: \"pytorch\"");
    polled.until(&["m 1 READY", "n 1 READY"]).await;
    assert!(polled.repository.is_ready());
    polled.end().await;
}

/// A polled repository in which version 1 serves, and version 2 fails to load.
async fn with_a_broken_version(folder: &Folder) -> Polled {
    let polled = polled(folder).await;
    polled.fake.on("m", 2, Behaviour::Fail("truncated"));
    folder.write("m/2/model.pt", "wei");
    until(&polled.repository, || index(&polled.repository).contains(&"m 2 UNAVAILABLE truncated".to_owned())).await;
    three_polls().await;
    polled
}

impl Polled {
    fn index(&self) -> Vec<String> {
        index(&self.repository)
    }

    fn content(&self) -> String {
        self.repository.find("m", "").unwrap().content.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_new_version_leaves_the_old_one_serving() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    folder.directory("m/2");
    three_polls().await;
    let reason = format!("no file '{}'", folder.at("m/2/model.pt").display());
    let expected = ["m 1 READY".to_owned(), format!("m 2 UNAVAILABLE {reason}")];
    assert_eq!(polled.index(), expected);
    assert!(polled.repository.is_ready(), "one that serves is ready");
    folder.write("m/2/model.pt", "two");
    polled.until(&["m 1 UNAVAILABLE unloaded", "m 2 READY"]).await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_good_version_serves_until_a_better_one_is_ready() {
    let folder = Folder::with(&[("m", &[1])]);
    let polled = with_a_broken_version(&folder).await;
    assert_eq!(polled.index(), ["m 1 READY", "m 2 UNAVAILABLE truncated"]);
    folder.remove("m/1");
    three_polls().await;
    assert_eq!(polled.content(), "weights");
    folder.write("m/3/model.pt", "three");
    let expected = ["m 1 UNAVAILABLE unloaded", "m 2 UNAVAILABLE unloaded", "m 3 READY"];
    polled.until(&expected).await;
    assert_eq!(polled.fake.count("load m 2"), 1, "the same files once");
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_stands_in_is_reloaded_with_its_files() {
    let folder = Folder::with(&[("m", &[1])]);
    let polled = with_a_broken_version(&folder).await;
    folder.overwrite("m/1/model.pt", "WEIGHTS");
    until(&polled.repository, || polled.content() == "WEIGHTS").await;
    folder.remove("m/2");
    polled.until(&["m 1 READY", "m 2 UNAVAILABLE unloaded"]).await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_version_never_unloads_a_good_one_under_any_policy() {
    for policy in [
        "version_policy { all { } }",
        "version_policy { latest { num_versions: 2 } }",
        "version_policy { specific { versions: [1, 2] } }",
    ] {
        let folder = Folder::with(&[("m", &[1])]);
        folder.write("m/config.pbtxt", &format!("backend: \"pytorch\" {policy}"));
        let polled = with_a_broken_version(&folder).await;
        assert_eq!(polled.index(), ["m 1 READY", "m 2 UNAVAILABLE truncated"]);
        assert!(polled.repository.is_ready(), "{policy}");
        polled.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_whose_files_become_invalid_serves_on_and_says_so() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    polled.fake.on("m", 1, Behaviour::Fail("not a model"));
    folder.overwrite("m/1/model.pt", "rubbish");
    let expected = "m 1 READY the files changed, but the previous load still serves: not a model";
    polled.until(&[expected]).await;
    three_polls().await;
    assert_eq!(polled.fake.count("load m 1"), 2);
    assert_eq!(polled.content(), "weights");
    assert!(polled.repository.is_ready());
    polled.fake.release("m", 1);
    folder.overwrite("m/1/model.pt", "WEIGHTS");
    polled.until(&["m 1 READY"]).await;
    assert_eq!(polled.content(), "WEIGHTS");
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_configuration_becomes_invalid_serves_on_and_says_so() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    folder.write("m/config.pbtxt", "nonsense");
    let said = || polled.index()[0].starts_with("m 1 READY the files changed");
    until(&polled.repository, said).await;
    assert!(polled.repository.is_ready());
    folder.write("m/config.pbtxt", "backend: \"pytorch\"");
    polled.until(&["m 1 READY"]).await;
    assert_eq!(polled.fake.count("load m 1"), 1, "nothing else changed");
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_model_that_is_briefly_absent_serves_on() {
    let (folder, polled) = polled_with(&[("m", &[1]), ("n", &[1])]).await;
    // From here on, there is one poll in the middle of each period.
    tokio::time::sleep(PERIOD / 2).await;
    for _ in 0..3 {
        folder.rename("m", ".away");
        tokio::time::sleep(PERIOD).await;
        assert_eq!(polled.content(), "weights");
        folder.rename(".away", "m");
        tokio::time::sleep(PERIOD).await;
    }
    assert_eq!(polled.index(), ["m 1 READY", "n 1 READY"]);
    folder.remove("m");
    polled.until(&["m 1 UNAVAILABLE unloaded", "n 1 READY"]).await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_model_whose_directory_is_emptied_serves_on() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    folder.rename("m/1", ".away");
    three_polls().await;
    assert!(polled.index()[0].contains("no longer holds config.pbtxt, a version or model.pt"));
    assert_eq!(polled.content(), "weights");
    folder.rename(".away", "m/1");
    polled.until(&["m 1 READY"]).await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn changes_with_equal_size_and_time_are_detected() {
    let (folder, polled) = polled_with(&[("m", &[1])]).await;
    folder.overwrite("m/1/model.pt", "WEIGHTS");
    until(&polled.repository, || polled.content() == "WEIGHTS").await;
    folder.write("other", "weIghts").touch("other", 1).touch("m/1/model.pt", 1);
    folder.rename("other", "m/1/model.pt");
    until(&polled.repository, || polled.content() == "weIghts").await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_whose_links_are_switched_is_reloaded() {
    let folder = Folder::new();
    folder
        .write("..1/model.pt", "weights")
        .write("..2/model.pt", "WEIGHTS")
        .directory("m")
        .link("..1", "..data")
        .link("../..data", "m/1");
    for volume in ["..1/model.pt", "..2/model.pt"] {
        folder.touch(volume, 1);
    }
    let polled = polled(&folder).await;
    folder.link("..2", "..data");
    until(&polled.repository, || polled.content() == "WEIGHTS").await;
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_is_lost_for_a_moment_changes_nothing() {
    let folder = Folder::with(&[("m", &[1, 2])]);
    let config = "backend: \"pytorch\" version_policy { all { } } max_batch_size: 16";
    folder.write("m/config.pbtxt", config);
    let polled = polled(&folder).await;
    // From here on, there is one poll in the middle of each period.
    tokio::time::sleep(PERIOD / 2).await;
    for cut_off in [Some(""), Some("backend: \"pytorch\""), None] {
        match cut_off {
            // The time is old, so that an empty file is not waited for.
            Some(text) => folder.write("m/config.pbtxt", text).touch("m/config.pbtxt", 1),
            None => folder.rename("m/config.pbtxt", "m/.away"),
        };
        tokio::time::sleep(PERIOD).await;
        folder.write("m/config.pbtxt", config);
        tokio::time::sleep(PERIOD).await;
        assert_eq!(polled.index(), ["m 1 READY", "m 2 READY"]);
        assert_eq!(polled.fake.launches(), 2, "{cut_off:?}");
    }
    polled.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_stays_shorter_is_used() {
    let folder = Folder::with(&[("m", &[1])]);
    folder.write("m/config.pbtxt", "backend: \"pytorch\" max_batch_size: 16");
    let polled = polled(&folder).await;
    folder.write("m/config.pbtxt", "backend: \"pytorch\"");
    until(&polled.repository, || polled.fake.count("load m 1") == 2).await;
    polled.end().await;
}
