//! Tests of reloads: only changed versions are loaded, while the old ones serve, and a failure changes nothing.

use std::sync::Arc;

use weir_protocol::{Code, Coded};

use super::fake::{Behaviour, explicit, explicit_m, index, until_fake};
use super::folder::Folder;
use crate::repository::LoadOptions;

const ALL: &str = "backend: \"pytorch\" version_policy { all { } }";

fn plain() -> LoadOptions {
    LoadOptions::default()
}

fn with_config(config: &str) -> LoadOptions {
    LoadOptions { config: Some(config.to_owned()), files: Vec::new() }
}

#[tokio::test]
async fn an_unchanged_model_does_not_reload() {
    let folder = Folder::with(&[("m", &[1])]);
    folder.write("m/config.pbtxt", "backend: \"pytorch\"");
    let (repository, fake) = explicit(&folder, &["m"]).await;
    folder.write("m/config.pbtxt", "backend:  \"pytorch\" # the same in other words");
    repository.load("m", plain()).await.unwrap();
    assert_eq!(fake.log(), ["load m 1"]);
}

#[tokio::test]
async fn only_the_version_that_changed_reloads() {
    let folder = Folder::with(&[("m", &[1, 2])]);
    folder.write("m/config.pbtxt", ALL);
    let (repository, fake) = explicit(&folder, &["m"]).await;
    let (first, second) = (repository.find("m", "1").unwrap(), repository.find("m", "2").unwrap());
    folder.write("m/2/model.pt", "new weights");
    repository.load("m", plain()).await.unwrap();
    assert!(Arc::ptr_eq(&first, &repository.find("m", "1").unwrap()));
    assert_eq!(repository.find("m", "2").unwrap().content, "new weights");
    drop(second);
    until_fake(&fake, "retire m 2").await;
    assert_eq!(fake.count("load m 2"), 2);
    assert_eq!(fake.count("load m 1"), 1);
}

#[tokio::test]
async fn a_changed_time_alone_is_a_change() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    folder.touch("m/1/model.pt", 1_000_000_000);
    repository.load("m", plain()).await.unwrap();
    assert_eq!(fake.count("load m 1"), 2);
}

#[tokio::test]
async fn shared_files_reload_all_versions() {
    let folder = Folder::with(&[("m", &[1, 2])]);
    folder.write("m/config.pbtxt", ALL).write("m/warmup/x", "1");
    let (repository, fake) = explicit(&folder, &["m"]).await;
    folder.write("m/warmup/x", "22");
    repository.load("m", plain()).await.unwrap();
    assert_eq!(fake.launches(), 4);
}

#[tokio::test]
async fn a_new_version_takes_over() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    let request = repository.find("m", "").unwrap().request();
    folder.write("m/2/model.pt", "two");
    repository.load("m", plain()).await.unwrap();
    assert_eq!(repository.find("m", "").unwrap().source.version, 2);
    assert_eq!(index(&repository), ["m 1 UNLOADING", "m 2 READY"]);
    drop(request);
    until_fake(&fake, "retire m 1").await;
}

#[tokio::test]
async fn a_changed_policy_alone_reloads_nothing() {
    let folder = Folder::with(&[("m", &[1, 2])]);
    folder.write("m/config.pbtxt", ALL);
    let (repository, fake) = explicit(&folder, &["m"]).await;
    folder.write("m/config.pbtxt", "backend: \"pytorch\"");
    repository.load("m", plain()).await.unwrap();
    until_fake(&fake, "retire m 1").await;
    assert_eq!(fake.launches(), 2);
}

#[tokio::test]
async fn the_old_version_serves_until_the_new_one_is_ready() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    let request = repository.find("m", "").unwrap().request();
    fake.on("m", 1, Behaviour::Wait);
    folder.write("m/1/model.pt", "new weights");
    let loading = tokio::spawn({
        let repository = Arc::clone(&repository);
        async move { repository.load("m", plain()).await }
    });
    while fake.count("load m 1") < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(index(&repository), ["m 1 READY"]);
    assert!(repository.is_ready());
    assert_eq!(repository.find("m", "").unwrap().content, "weights");
    fake.release("m", 1);
    loading.await.unwrap().unwrap();
    assert_eq!(repository.find("m", "").unwrap().content, "new weights");
    assert_eq!(fake.count("retire m 1"), 0, "a request still runs on it");
    drop(request);
    until_fake(&fake, "retire m 1").await;
}

#[tokio::test]
async fn a_failed_reload_changes_nothing() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    let old = repository.find("m", "").unwrap();
    folder.write("m/1/model.pt", "corrupt").write("m/2/model.pt", "corrupt");
    fake.on("m", 2, Behaviour::Fail("not a model"));
    let error = repository.load("m", plain()).await.unwrap_err();
    assert_eq!(error.to_string(), "load failed for model 'm': version 2 is at UNAVAILABLE state: not a model;");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(Arc::ptr_eq(&old, &repository.find("m", "").unwrap()), "the old one stays at work");
    assert_eq!(index(&repository), ["m 1 READY", "m 2 UNAVAILABLE not a model"]);

    fake.on("m", 1, Behaviour::Fail("nor this"));
    folder.remove("m/2");
    let error = repository.load("m", plain()).await.unwrap_err();
    assert!(error.to_string().contains("version 1 is at UNAVAILABLE state: nor this;"), "{error}");
    assert!(Arc::ptr_eq(&old, &repository.find("m", "").unwrap()));

    fake.release("m", 1);
    repository.load("m", plain()).await.unwrap();
    assert_eq!(repository.find("m", "").unwrap().content, "corrupt");
    assert_eq!(index(&repository), ["m 1 READY", "m 2 UNAVAILABLE unloaded"]);
}

#[tokio::test]
async fn the_error_names_every_failed_version() {
    let folder = Folder::with(&[("m", &[1, 2])]);
    folder.write("m/config.pbtxt", ALL);
    let (repository, fake) = explicit(&folder, &[]).await;
    fake.on("m", 1, Behaviour::Fail("one"));
    fake.on("m", 2, Behaviour::Fail("two"));
    let error = repository.load("m", plain()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "load failed for model 'm': version 1 is at UNAVAILABLE state: one;\
         version 2 is at UNAVAILABLE state: two;"
    );
}

#[tokio::test]
async fn a_model_whose_configuration_became_invalid_serves_on() {
    let (folder, repository, _) = explicit_m(&["m"]).await;
    folder.write("m/config.pbtxt", "this is no configuration");
    let error = repository.load("m", plain()).await.unwrap_err();
    assert!(error.to_string().starts_with("load failed for model 'm': "), "{error}");
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(repository.find("m", "").is_ok());
    assert!(repository.is_ready());

    repository.unload("m").await.unwrap();
    repository.load("m", plain()).await.unwrap_err();
    assert!(!repository.is_ready());
    repository.unload("m").await.unwrap();
    assert!(repository.is_ready(), "an unloaded model does not block readiness");
}

#[tokio::test]
async fn a_load_call_can_contain_the_configuration() {
    let folder = Folder::with(&[("m", &[1])]);
    folder.write("m/config.pbtxt", "backend: \"pytorch\" max_batch_size: 2");
    let (repository, fake) = explicit(&folder, &["m"]).await;
    let largest = || repository.find("m", "").unwrap().source.config.max_batch_size;
    let given = r#"{"backend": "pytorch", "max_batch_size": 16}"#;
    repository.load("m", with_config(given)).await.unwrap();
    assert_eq!(largest(), Some(16));
    repository.load("m", with_config(given)).await.unwrap();
    assert_eq!(fake.launches(), 2, "the same again is no change");
    repository.load("m", plain()).await.unwrap();
    assert_eq!(largest(), Some(2));
}

#[tokio::test]
async fn an_unusable_configuration_from_a_client_is_refused() {
    let (_folder, repository, _) = explicit_m(&["m"]).await;
    let configs = ["", "{", "[]", r#"{"max_batch": 1}"#, r#"{"name": "other", "backend": "pytorch"}"#];
    for config in configs {
        let error = repository.load("m", with_config(config)).await.unwrap_err();
        assert!(error.to_string().starts_with("load failed for model 'm': "), "{error}");
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    let error = repository.load("x", with_config("{}")).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert!(repository.is_ready());
}

#[tokio::test]
async fn a_load_reads_files_whatever_their_size_and_time() {
    let (folder, repository, _) = explicit_m(&["m"]).await;
    folder.overwrite("m/1/model.pt", "WEIGHTS");
    repository.load("m", plain()).await.unwrap();
    assert_eq!(repository.find("m", "").unwrap().content, "WEIGHTS");
}

#[tokio::test]
async fn a_broken_new_version_never_serves_however_often_it_is_requested() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    fake.on("m", 2, Behaviour::Fail("not a model"));
    folder.write("m/2/model.pt", "corrupt");
    for attempts in 1..4 {
        repository.load("m", plain()).await.unwrap_err();
        assert_eq!(fake.count("load m 2"), attempts);
        assert!(repository.find("m", "").is_ok());
        assert!(repository.is_ready());
    }
}
