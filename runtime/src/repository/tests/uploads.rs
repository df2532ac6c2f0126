//! Tests of models that are uploaded in the load call.

use bytes::Bytes;
use weir_protocol::{Code, Coded};

use super::fake::{Behaviour, explicit, until_fake};
use super::folder::Folder;
use crate::repository::LoadOptions;

const CONFIG: &str = r#"{"backend": "pytorch"}"#;

fn upload(config: Option<&str>, files: &[(&str, &'static str)]) -> LoadOptions {
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), Bytes::from_static(content.as_bytes())));
    LoadOptions { config: config.map(str::to_owned), files: files.collect() }
}

#[tokio::test]
async fn files_replace_the_repository_until_a_plain_load() {
    let folder = Folder::with(&[("m", &[1, 3])]);
    let (repository, fake) = explicit(&folder, &["m"]).await;
    let sent = upload(Some(CONFIG), &[("file:2/model.pt", "sent")]);
    repository.load("m", sent).await.unwrap();
    let live = repository.find("m", "").unwrap();
    assert_eq!((live.source.version, live.content.as_str()), (2, "sent"));
    assert!(live.source.path.exists());
    assert!(!live.source.path.starts_with(folder.path()));
    until_fake(&fake, "retire m 3").await;

    repository.load("m", LoadOptions::default()).await.unwrap();
    assert_eq!(repository.find("m", "").unwrap().source.path, folder.at("m/3/model.pt"));
    assert!(!live.source.path.exists(), "uploaded files go with what was loaded from them");
}

#[tokio::test]
async fn a_new_model_can_be_uploaded() {
    let folder = Folder::new();
    let (repository, _) = explicit(&folder, &[]).await;
    let sent = upload(Some(CONFIG), &[("file:1/model.pt", "sent"), ("file:labels.txt", "cat")]);
    repository.load("fresh", sent).await.unwrap();
    let path = repository.find("fresh", "1").unwrap().source.model_dir.clone();
    assert!(path.join("labels.txt").exists());
    repository.unload("fresh").await.unwrap();
    assert!(!path.exists());
    let error = repository.load("fresh", LoadOptions::default()).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn an_earlier_upload_outlives_a_failed_one() {
    let folder = Folder::new();
    let (repository, fake) = explicit(&folder, &[]).await;
    let sent = |content| upload(Some(CONFIG), &[("file:1/model.pt", content)]);
    repository.load("m", sent("good")).await.unwrap();
    fake.on("m", 1, Behaviour::Fail("bad"));
    repository.load("m", sent("bad")).await.unwrap_err();
    let live = repository.find("m", "").unwrap();
    assert_eq!(live.content, "good");
    assert!(live.source.path.exists());
}

#[tokio::test]
async fn unusable_uploads_are_refused() {
    let folder = Folder::with(&[("m", &[1])]);
    let (repository, fake) = explicit(&folder, &["m"]).await;
    let long = format!("file:1/{}", "x".repeat(256));
    let cases = [
        (None, "file:1/model.pt", "failed to load 'm', failed to poll from model repository"),
        (Some(CONFIG), "file:../model.pt", "must not contain path traversal characters"),
        (Some(CONFIG), "file:1/../../../etc/cron.d/x", "path traversal characters"),
        (Some(CONFIG), "file:/tmp/x", "path traversal characters"),
        (Some(CONFIG), long.as_str(), "256 bytes"),
        (Some(CONFIG), "file:x/model.pt", "at least one version must be available"),
        (Some("{"), "file:1/model.pt", "load failed for model 'm'"),
    ];
    for (config, path, words) in cases {
        let error = repository.load("m", upload(config, &[(path, "x")])).await.unwrap_err();
        assert!(error.to_string().contains(words), "{path}: {error}");
        assert_eq!(error.code(), Code::InvalidArgument);
    }
    assert_eq!(fake.launches(), 1);
    assert!(repository.find("m", "").is_ok());
}

#[tokio::test]
async fn uploads_are_bounded() {
    let folder = Folder::new();
    let (repository, _) = explicit(&folder, &[]).await;
    let file = ("file:1/model.pt".to_owned(), Bytes::from(vec![0; (1 << 20) + 1]));
    let options = LoadOptions { config: Some(CONFIG.to_owned()), files: vec![file] };
    let error = repository.load("m", options).await.unwrap_err();
    assert_eq!(error.code(), Code::TooLarge);
}
