//! Tests of start, look-ups, readiness and retirement.

use std::time::Duration;

use weir_protocol::{Code, Coded};

use super::fake::{Behaviour, explicit, explicit_m, explicit_mode, fresh, index, options, started, until, until_fake};
use super::folder::Folder;
use crate::error::ServeError;
use crate::repository::{ControlMode, IndexFilter, LoadOptions, ReadinessPolicy};

fn two_versions() -> Folder {
    let folder = Folder::with(&[("m", &[1, 2])]);
    folder.write("m/config.pbtxt", "backend: \"pytorch\" version_policy { all { } }");
    folder
}

#[tokio::test]
async fn models_and_versions_are_found() {
    let (repository, fake) = {
        let folder = two_versions();
        let (repository, fake) = fresh(&[folder.path().to_owned()], None, options(ControlMode::None));
        fake.on("m", 2, Behaviour::Fail("no good"));
        repository.start().await.unwrap_err();
        (repository, fake)
    };
    assert_eq!(repository.find("m", "").unwrap().source.version, 1);
    assert_eq!(repository.find("m", "1").unwrap().source.version, 1);
    let error = |name, version| repository.find(name, version).unwrap_err();
    let shown = |error: &ServeError| (error.to_string(), error.code());
    assert_eq!(shown(&error("x", "")), ("Request for unknown model: 'x' is not found".to_owned(), Code::NotFound));
    assert_eq!(
        shown(&error("m", "2")),
        ("Request for unknown model: 'm' version 2 is not at ready state".to_owned(), Code::Unavailable)
    );
    for version in ["9", "abc", "01", "+1", "-1", "99999999999999999999", " 1"] {
        let text = format!("Request for unknown model: 'm' version {version} is not found");
        assert_eq!(shown(&error("m", version)), (text, Code::NotFound));
    }
    assert_eq!(fake.launches(), 1);
    let ready: Vec<u64> = repository.model("m").unwrap().into_iter().map(|(version, _)| version).collect();
    assert_eq!(ready, [1]);
    assert_eq!(repository.serving().len(), 1);
}

#[tokio::test]
async fn a_model_that_was_never_loaded_counts_as_unknown() {
    let (_folder, repository, _) = explicit_m(&[]).await;
    assert!(repository.is_known("m"));
    assert_eq!(index(&repository), ["m - -"]);
    let error = repository.find("m", "").unwrap_err();
    assert_eq!(error.to_string(), "Request for unknown model: 'm' is not found");
    assert_eq!(repository.model("m").unwrap_err(), error);
    assert!(repository.is_ready(), "a model that was never loaded does not block readiness");
}

#[tokio::test]
async fn readiness_waits_for_the_initial_loads() {
    let folder = Folder::with(&[("m", &[1])]);
    for readiness in [ReadinessPolicy::Strict, ReadinessPolicy::Lenient] {
        let mut options = options(ControlMode::None);
        options.readiness = readiness;
        let (repository, fake) = fresh(&[folder.path().to_owned()], None, options);
        fake.on("m", 1, Behaviour::Wait);
        assert!(!repository.is_ready());
        let starting = tokio::spawn({
            let repository = repository.clone();
            async move { repository.start().await }
        });
        until(&repository, || index(&repository) == ["m 1 LOADING"]).await;
        assert!(!repository.is_ready());
        assert_eq!(repository.find("m", "1").unwrap_err().code(), Code::Unavailable);
        fake.release("m", 1);
        starting.await.unwrap().unwrap();
        assert!(repository.is_ready());
    }
}

#[tokio::test]
async fn one_failed_model_makes_the_strict_server_unready() {
    let folder = Folder::with(&[("good", &[1]), ("bad", &[1])]);
    for (readiness, ready) in [(ReadinessPolicy::Strict, false), (ReadinessPolicy::Lenient, true)] {
        let mut options = options(ControlMode::None);
        options.readiness = readiness;
        let (repository, fake) = fresh(&[folder.path().to_owned()], None, options);
        fake.on("bad", 1, Behaviour::Fail("corrupt archive"));
        let failures = repository.start().await.unwrap_err();
        assert_eq!(
            failures[0].to_string(),
            "load failed for model 'bad': version 1 is at UNAVAILABLE state: corrupt archive;"
        );
        assert_eq!(repository.is_ready(), ready);
        assert_eq!(index(&repository), ["bad 1 UNAVAILABLE corrupt archive", "good 1 READY"]);
        assert_eq!(repository.index(IndexFilter::Ready).len(), 1);
    }
}

#[tokio::test]
async fn a_panic_is_a_failed_load() {
    let folder = Folder::with(&[("m", &[1])]);
    let (repository, fake) = fresh(&[folder.path().to_owned()], None, options(explicit_mode(&[])));
    repository.start().await.unwrap();
    fake.on("m", 1, Behaviour::Panic);
    let error = repository.load("m", LoadOptions::default()).await.unwrap_err();
    assert!(error.to_string().contains("panicked: the library is broken"), "{error}");
    fake.release("m", 1);
    repository.load("m", LoadOptions::default()).await.unwrap();
    assert!(repository.find("m", "").is_ok());
}

#[tokio::test]
async fn failed_loads_are_retried() {
    let folder = Folder::with(&[("m", &[1])]);
    let mut options = options(ControlMode::None);
    options.retries = 2;
    let (repository, fake) = fresh(&[folder.path().to_owned()], None, options);
    fake.on("m", 1, Behaviour::FailTimes(2));
    repository.start().await.unwrap();
    assert_eq!(fake.count("load m 1"), 3);
}

#[tokio::test]
async fn a_missing_model_file_is_named() {
    let folder = Folder::with(&[("m", &[1])]);
    folder.remove("m/1").directory("m/1");
    folder.write("m/config.pbtxt", "backend: \"pytorch\"");
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options(ControlMode::None));
    let failures = repository.start().await.unwrap_err();
    let path = folder.at("m/1/model.pt");
    assert!(failures[0].to_string().contains(path.to_str().unwrap()), "{failures:?}");
}

#[tokio::test]
async fn retirement_waits_for_requests_in_flight() {
    let (_folder, repository, fake) = explicit_m(&["m"]).await;
    let request = repository.find("m", "").unwrap().request();
    repository.unload("m").await.unwrap();
    assert_eq!(index(&repository), ["m 1 UNLOADING"]);
    assert_eq!(
        repository.find("m", "").unwrap_err().to_string(),
        "Request for unknown model: 'm' has no available versions"
    );
    assert_eq!(repository.find("m", "1").unwrap_err().code(), Code::Unavailable);
    drop(request);
    until(&repository, || index(&repository) == ["m 1 UNAVAILABLE unloaded"]).await;
    assert_eq!(fake.log(), ["load m 1", "retire m 1"]);
    assert!(repository.is_ready());
}

#[tokio::test(start_paused = true)]
async fn retirement_has_a_time_limit() {
    let folder = Folder::with(&[("m", &[1])]);
    let mut options = options(explicit_mode(&["*"]));
    options.retire_limit = Duration::from_secs(5);
    let (repository, fake) = fresh(&[folder.path().to_owned()], None, options);
    repository.start().await.unwrap();
    let _request = repository.find("m", "").unwrap().request();
    repository.unload("m").await.unwrap();
    until(&repository, || index(&repository) == ["m 1 UNAVAILABLE unloaded"]).await;
    assert_eq!(fake.count("retire m 1"), 0);
}

#[tokio::test]
async fn exit_answers_accepted_requests_and_refuses_new_ones() {
    let folder = Folder::with(&[("a", &[1]), ("b", &[1])]);
    let (repository, fake) = explicit(&folder, &["a", "b"]).await;
    let request = repository.find("a", "").unwrap().request();
    let ending = tokio::spawn({
        let repository = repository.clone();
        async move { repository.retire_all().await }
    });
    until_fake(&fake, "retire b 1").await;
    assert!(!repository.is_ready());
    assert_eq!(repository.find("a", "").unwrap_err(), ServeError::Exiting);
    let late = repository.load("a", LoadOptions::default()).await;
    assert_eq!(late.unwrap_err(), ServeError::Exiting);
    assert!(!ending.is_finished());
    drop(request);
    ending.await.unwrap();
    assert_eq!(fake.count("retire a 1"), 1);
}

#[tokio::test]
async fn exit_waits_for_a_load_in_progress() {
    let (_folder, repository, fake) = explicit_m(&[]).await;
    fake.on("m", 1, Behaviour::Wait);
    let loading = tokio::spawn({
        let repository = repository.clone();
        async move { repository.load("m", LoadOptions::default()).await }
    });
    until_fake(&fake, "load m 1").await;
    let ending = tokio::spawn({
        let repository = repository.clone();
        async move { repository.retire_all().await }
    });
    until(&repository, || index(&repository) == ["m 1 UNAVAILABLE unloaded"]).await;
    fake.release("m", 1);
    loading.await.unwrap().unwrap();
    ending.await.unwrap();
    assert_eq!(fake.log(), ["load m 1", "retire m 1"]);
    assert!(repository.serving().is_empty());
}

#[tokio::test]
async fn all_models_load_in_mode_none() {
    let folder = Folder::with(&[("a", &[1]), ("b", &[3])]);
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["a 1 READY", "b 3 READY"]);
}
