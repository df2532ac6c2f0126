//! Kills of a controller between any two of its calls: the next controller makes what the first would have made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::Semaphore;

use crate::world::{ANY, World};

/// Number of kills in a run, half of them in a rollout. `WEIR_TEST_KILLS` sets another number; 100 kills between any
/// two calls.
const KILLS: i64 = 32;

/// More calls than a controller makes for a service's first revision or for a rollout. A kill comes before one of them.
const CALLS: i64 = 50;

/// Time after which a controller is killed if it makes fewer calls than its limit.
const LIFE: Duration = Duration::from_secs(5);

/// Concurrent scenarios, each with its own controller and namespace.
const AT_ONCE: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_controller_makes_what_a_killed_one_would_have() {
    let expected = story("kill-none", ANY, ANY).await;
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let points = kills() / 2;
    let at = (0..points).map(|point| point * CALLS / points);
    let rounds = at.flat_map(|calls| [(calls, ANY), (ANY, calls)]);
    let rounds = rounds.map(|(first, rollout)| {
        let places = places.clone();
        tokio::spawn(async move {
            let _place = places.acquire_owned().await.unwrap();
            let namespace = match (first, rollout) {
                (calls, ANY) => format!("kill-first-{calls}"),
                (_, calls) => format!("kill-rollout-{calls}"),
            };
            let made = story(&namespace, first, rollout).await;
            (namespace, made)
        })
    });
    for round in rounds.collect::<Vec<_>>() {
        let (namespace, made) = round.await.unwrap();
        check(&made, &expected, &namespace);
    }
}

fn kills() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "the environment may request a longer run")]
    let asked = std::env::var("WEIR_TEST_KILLS");
    asked.map_or(KILLS, |asked| asked.parse().unwrap())
}

/// Makes a service and rolls out a second revision; each time the first controller is cut off after this many calls.
/// Returns the objects that exist at the end.
async fn story(namespace: &str, first: i64, rollout: i64) -> BTreeMap<String, String> {
    let world = World::new(namespace).await;
    for (revision, calls, more) in [(1, first, json!({})), (2, rollout, json!({"labels": {"team": "a"}}))] {
        world.serve("digits", "", more).await;
        if calls != ANY {
            let mortal = world.controller(calls).await;
            mortal.dies(LIFE).await;
            mortal.kill().await;
        }
        let _next = world.controller(ANY).await;
        world.until_rolled_out("digits", revision).await;
    }
    // The last write of a rollout stores its history.
    let made = world.settled().await;
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
