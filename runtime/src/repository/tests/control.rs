//! Tests of the control modes and their errors.

use std::time::Duration;

use weir_protocol::{Code, Coded};

use super::fake::{FakeRepository, explicit, explicit_m, explicit_mode, fresh, index, options, started};
use super::folder::Folder;
use crate::error::ServeError;
use crate::repository::{ControlMode, LoadOptions};

async fn load_error(repository: &FakeRepository, name: &str) -> ServeError {
    repository.load(name, LoadOptions::default()).await.unwrap_err()
}

#[tokio::test]
async fn only_mode_explicit_accepts_loads_and_unloads() {
    let folder = Folder::with(&[("m", &[1])]);
    for control in [ControlMode::None, ControlMode::Poll(Duration::from_secs(15))] {
        let (repository, _) = started(&folder, control).await;
        let unloaded = repository.unload("m").await.unwrap_err();
        for error in [load_error(&repository, "m").await, unloaded] {
            assert_eq!(error.to_string(), "explicit model load / unload is not allowed if polling is enabled");
            assert_eq!(error.code(), Code::Unavailable);
        }
        assert!(repository.find("m", "").is_ok());
    }
}

#[tokio::test]
async fn only_named_models_load_at_start() {
    let folder = Folder::with(&[("a", &[1]), ("b", &[1])]);
    let (repository, _) = explicit(&folder, &["b"]).await;
    assert_eq!(index(&repository), ["a - -", "b 1 READY"]);
    let (repository, _) = explicit(&folder, &["*"]).await;
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
}

#[tokio::test]
async fn an_absent_model_to_load_at_start_is_a_failure() {
    let folder = Folder::with(&[("a", &[1])]);
    let mode = explicit_mode(&["a", "x"]);
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options(mode));
    let failures = repository.start().await.unwrap_err();
    let expected = "failed to load 'x', failed to poll from model repository: it holds a";
    assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    assert!(repository.find("a", "").is_ok());
}

#[tokio::test]
async fn models_are_loaded_and_unloaded() {
    let (_folder, repository, fake) = explicit_m(&[]).await;
    repository.load("m", LoadOptions::default()).await.unwrap();
    assert!(repository.find("m", "").is_ok());
    repository.unload("m").await.unwrap();
    assert!(repository.find("m", "").is_err());
    repository.unload("m").await.unwrap();
    repository.load("m", LoadOptions::default()).await.unwrap();
    assert_eq!(fake.launches(), 2);
}

#[tokio::test]
async fn a_model_that_appeared_later_can_be_loaded() {
    let folder = Folder::new();
    let (repository, _) = explicit(&folder, &[]).await;
    folder.write("late/1/model.pt", "w").write("later/1/model.pt", "w");
    let load = || repository.load("late", LoadOptions::default());
    load().await.unwrap();
    folder.write("last/1/model.pt", "w").remove("later");
    load().await.unwrap();
    assert_eq!(index(&repository), ["last - -", "late 1 READY"]);
}

#[tokio::test]
async fn models_can_be_controlled_by_their_alias() {
    let folder = Folder::with(&[("digits", &[1])]);
    let paths = [folder.path().to_owned()];
    let (repository, _) = fresh(&paths, Some("service"), options(explicit_mode(&["service"])));
    repository.start().await.unwrap();
    repository.unload("service").await.unwrap();
    assert!(repository.find("digits", "").is_err());
    repository.load("service", LoadOptions::default()).await.unwrap();
    assert_eq!(repository.find("digits", "").unwrap().source.name, "digits");
}

#[tokio::test]
async fn absent_models_are_not_found() {
    let folder = Folder::new();
    folder.directory("empty");
    let (repository, _) = explicit(&folder, &[]).await;
    for name in ["x", "empty"] {
        let error = load_error(&repository, name).await;
        let text = format!("failed to load '{name}', failed to poll from model repository");
        assert_eq!((error.to_string(), error.code()), (text, Code::NotFound));
    }
    repository.unload("x").await.unwrap();
    assert!(!repository.is_known("x"));
}

#[tokio::test]
async fn invalid_model_names_are_refused() {
    let (_folder, repository, _) = explicit_m(&[]).await;
    let long = "x".repeat(1000);
    for name in ["", " ", "..", "a/../b", "../m", "m\0", long.as_str()] {
        let error = load_error(&repository, name).await;
        assert_eq!(error.code(), Code::InvalidArgument, "{name:?}");
        assert_eq!(repository.unload(name).await.unwrap_err(), error);
    }
}
