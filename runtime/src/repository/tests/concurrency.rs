//! Tests of concurrent loads, unloads and requests.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;

use super::fake::{Behaviour, explicit, explicit_m, fresh, index, options, until, until_fake};
use super::folder::Folder;
use crate::repository::{ControlMode, LoadOptions};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_models_load_in_parallel_up_to_the_limit() {
    let names: Vec<String> = (0..8).map(|i| format!("m{i}")).collect();
    let folder = Folder::new();
    for name in &names {
        folder.write(&format!("{name}/1/model.pt"), "weights");
    }
    let mut options = options(ControlMode::None);
    options.load_threads = NonZeroUsize::new(3).unwrap();
    let (repository, fake) = fresh(&[folder.path().to_owned()], None, options);
    for name in &names {
        fake.on(name, 1, Behaviour::Wait);
    }
    let starting = tokio::spawn({
        let repository = Arc::clone(&repository);
        async move { repository.start().await }
    });
    until(&repository, || index(&repository).iter().all(|line| line.ends_with("LOADING"))).await;
    while fake.log().len() < 3 {
        tokio::task::yield_now().await;
    }
    for name in &names {
        fake.release(name, 1);
    }
    starting.await.unwrap().unwrap();
    assert_eq!(fake.most_running(), 3);
    assert_eq!(repository.serving().len(), 8);
}

#[tokio::test]
async fn loads_of_one_model_wait_for_each_other() {
    let (_folder, repository, fake) = explicit_m(&[]).await;
    fake.on("m", 1, Behaviour::Wait);
    let mut loads = JoinSet::new();
    for _ in 0..5 {
        let repository = Arc::clone(&repository);
        loads.spawn(async move { repository.load("m", LoadOptions::default()).await });
    }
    until_fake(&fake, "load m 1").await;
    fake.release("m", 1);
    for outcome in loads.join_all().await {
        outcome.unwrap();
    }
    assert_eq!(fake.launches(), 1, "the others found nothing changed");
}

#[tokio::test]
async fn a_load_continues_without_its_caller() {
    let (_folder, repository, fake) = explicit_m(&[]).await;
    fake.on("m", 1, Behaviour::Wait);
    let caller = tokio::spawn({
        let repository = Arc::clone(&repository);
        async move { repository.load("m", LoadOptions::default()).await }
    });
    until_fake(&fake, "load m 1").await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    fake.release("m", 1);
    until(&repository, || index(&repository) == ["m 1 READY"]).await;
}

/// Every loaded version is retired exactly once, in any order of loads and unloads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_loads_and_unloads_retire_every_version_once() {
    let folder = Folder::with(&[("a", &[1]), ("b", &[1])]);
    let (repository, fake) = explicit(&folder, &[]).await;
    let mut storm = JoinSet::new();
    for i in 0..200_u64 {
        let repository = Arc::clone(&repository);
        let name = if i % 2 == 0 { "a" } else { "b" };
        if i % 7 == 0 {
            folder.touch(&format!("{name}/1/model.pt"), 1_000_000_000 + i);
        }
        storm.spawn(async move {
            match i % 3 {
                0 => repository.unload(name).await,
                _ => repository.load(name, LoadOptions::default()).await,
            }
        });
    }
    for outcome in storm.join_all().await {
        outcome.unwrap();
    }
    for name in ["a", "b"] {
        repository.load(name, LoadOptions::default()).await.unwrap();
        assert!(repository.find(name, "").is_ok());
    }
    repository.retire_all().await;
    let retired = fake.log().iter().filter(|line| line.starts_with("retire")).count();
    assert_eq!(retired, fake.launches());
    assert_eq!(index(&repository), ["a 1 UNAVAILABLE unloaded", "b 1 UNAVAILABLE unloaded"]);
}

/// A version answers every request while another model is reloaded, and while it is reloaded itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloads_never_interrupt_service() {
    let (folder, repository, fake) = explicit_m(&["m"]).await;
    let stop = Arc::new(AtomicBool::new(false));
    let asking = tokio::task::spawn_blocking({
        let (repository, stop) = (Arc::clone(&repository), Arc::clone(&stop));
        move || {
            let mut answers = 0_usize;
            while !stop.load(Ordering::SeqCst) {
                repository.find("m", "").unwrap();
                repository.find("m", "1").unwrap();
                answers += 1;
            }
            answers
        }
    });
    for i in 0..200 {
        folder.touch("m/1/model.pt", 1_000_000_000 + i);
        repository.load("m", LoadOptions::default()).await.unwrap();
    }
    stop.store(true, Ordering::SeqCst);
    assert!(asking.await.unwrap() > 0);
    assert_eq!(fake.launches(), 201);
    assert_eq!(repository.find("m", "").unwrap().serial, 200);
}
