//! Restarts of a controller, and of an API server.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api_server::kubeconfig;
use crate::world::{ANY, World};

const SERVICES: usize = 12;

fn names() -> impl Iterator<Item = String> {
    (0..SERVICES).map(|number| format!("s{number}"))
}

#[tokio::test]
async fn a_new_controller_lists_what_is_stored_and_loads_no_service_by_itself() {
    let (world, first) = World::controlled("restart-lists").await;
    for name in names() {
        world.serve(&name, "", json!({})).await;
    }
    for name in names() {
        world.until_rolled_out(&name, 1).await;
    }
    let before = world.settled().await;
    first.kill().await;
    let next = world.controller(ANY).await;
    next.until_idle().await;
    let calls = next.calls();
    let lists =
        calls.iter().filter(|call| call.starts_with("GET ") && call.ends_with("/restart-lists/controllerrevisions"));
    assert_eq!(lists.count(), 1, "{calls:#?}");
    let of_one = calls.iter().filter(|call| call.ends_with("-rollout"));
    assert_eq!(of_one.count(), 0, "{calls:#?}");
    assert_eq!(world.made().await, before);
}

/// Kills the API server with SIGKILL; the test bed starts it again.
fn kill_api_server() {
    let pid = Path::new(&kubeconfig()).with_file_name("kube-apiserver.pid");
    let pid = std::fs::read_to_string(pid).unwrap();
    let killed = Command::new("kill").args(["-KILL", pid.trim()]).status();
    assert!(killed.unwrap().success());
}

/// Applies a service as soon as the API server accepts it.
async fn serve(world: &World, name: &str, round: usize) {
    let more = json!({"labels": {"round": format!("r{round}")}});
    for _ in 0..600 {
        if world.try_serve(name, more.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{name} was never taken");
}

/// Runs alone on its API server, which it kills: `make test-kube` runs it separately.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_restarts_under_load_loses_no_step_and_doubles_none() {
    if std::env::var_os("WEIR_TEST_RESTARTS").is_none() {
        return;
    }
    let mut world = World::new("restarted").await;
    // Scheduler, controllers and nodes reconnect to a restarted API server in up to a minute each.
    world.limit = Duration::from_secs(240);
    let _controller = world.controller(ANY).await;
    let rounds = 4;
    for round in 1..=rounds {
        for (number, name) in names().enumerate() {
            // The kill comes in the middle of the round's writes and of their consequences.
            if round > 1 && number == 3 * (round - 1) {
                kill_api_server();
            }
            serve(&world, &name, round).await;
        }
        for name in names() {
            world.until_rolled_out(&name, u32::try_from(round).unwrap()).await;
        }
    }
    let made: BTreeSet<_> = world.settled().await.into_keys().collect();
    let expected: BTreeSet<_> = names().flat_map(|name| objects(&name, rounds)).collect();
    assert_eq!(made, expected);
}

/// Returns the objects of a service after this many rollouts: the last two revisions run, and all are stored.
fn objects(name: &str, rounds: usize) -> Vec<String> {
    let revision = |number: usize| format!("{name}-predictor-{number:05}");
    let kept = (1..=rounds).map(|number| format!("ControllerRevision {}", revision(number)));
    let run = (rounds - 1..=rounds)
        .flat_map(|number| [format!("Deployment {}", revision(number)), format!("Service {}", revision(number))]);
    let others =
        [format!("ControllerRevision {name}-rollout"), format!("Service {name}"), format!("Service {name}-predictor")];
    kept.chain(run).chain(others).collect()
}

/// Returns the fields of a predictor whose container requests this amount of CPU.
fn with_cpu(amount: &str) -> Value {
    json!({
        "model": {
            "modelFormat": {"name": "pytorch"},
            "resources": {"limits": {"cpu": amount, "memory": "1Gi"}},
        },
        "tolerations": [],
    })
}

#[tokio::test]
async fn a_text_of_the_same_meaning_changes_no_stored_object() {
    let (world, controller) = World::controlled("same-meaning").await;
    world.serve("digits", "", with_cpu("1")).await;
    world.until_rolled_out("digits", 1).await;
    let before = world.made().await;
    world.serve("digits", "", with_cpu("1000m")).await;
    world.until_rolled_out("digits", 1).await;
    assert_eq!(world.made().await, before);
    controller.kill().await;
    world.serve("digits", "", with_cpu("1.0")).await;
    // The next controller recognises the revision by its stored form alone.
    let _next = world.controller(ANY).await;
    world.until_rolled_out("digits", 1).await;
    assert_eq!(world.made().await, before);
    world.serve("digits", "", with_cpu("2")).await;
    world.until_rolled_out("digits", 2).await;
}
