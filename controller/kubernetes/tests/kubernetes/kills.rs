//! A controller that is killed between any two of its writes: the next makes what it would have made.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;

use crate::world::{ANY, World};

/// Writes of a service's first revision and of a rollout, and some more: beyond them the controller lives.
const WRITES: i64 = 16;

/// Longest life of a controller that never makes so many writes.
const LIFE: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_controller_makes_what_a_killed_one_would_have() {
    let expected = story("kill-none", ANY, ANY).await;
    let rounds = (0..WRITES).map(|writes| {
        tokio::spawn(async move {
            let (first, rollout) = (
                format!("kill-first-{writes}"),
                format!("kill-rollout-{writes}"),
            );
            let first = story(&first, writes, ANY);
            let rollout = story(&rollout, ANY, writes);
            let (first, rollout) = tokio::join!(first, rollout);
            (writes, first, rollout)
        })
    });
    for round in rounds.collect::<Vec<_>>() {
        let (writes, first, rollout) = round.await.unwrap();
        check(&first, &expected, &format!("killed after {writes} writes"));
        check(
            &rollout,
            &expected,
            &format!("killed after {writes} writes in a rollout"),
        );
    }
}

/// Makes a service and rolls out a second revision; each time the first controller dies after so many writes. Returns
/// what is there at the end.
async fn story(namespace: &str, first: i64, rollout: i64) -> BTreeMap<String, String> {
    let world = World::new(namespace).await;
    for (revision, writes, more) in [
        (1, first, json!({})),
        (2, rollout, json!({"labels": {"team": "a"}})),
    ] {
        world.serve("digits", "", more).await;
        if writes != ANY {
            let mortal = world.controller(writes).await;
            mortal.dies(LIFE).await;
            mortal.kill().await;
        }
        let _next = world.controller(ANY).await;
        world.until_rolled_out("digits", revision).await;
    }
    // The last write of a rollout is its history's.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let made = world.made().await;
    world.delete("digits").await;
    made
}

fn check(made: &BTreeMap<String, String>, expected: &BTreeMap<String, String>, story: &str) {
    let names = |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(made), names(expected), "{story}");
    for (name, object) in expected {
        assert_eq!(made[name], *object, "{name}: {story}");
    }
}
