//! Load comes and goes, and replicas with it.

use std::time::Duration;

use serde_json::Value;

use crate::load::OpenLoad;
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::until;

/// An inference takes a fifth of a second of a replica that does one at a time: five in a second.
const SERVICE_MS: u32 = 200;

/// Twelve in a second are work for two replicas and a half.
const INTERVAL: Duration = Duration::from_millis(83);

/// How long requests may wait.
const TARGET_MS: f64 = 500.0;

/// Requests by which the wait is judged, once replicas are up: the last four seconds of them.
const JUDGED: usize = 48;

/// What went well once goes well again.
const WAVES: u32 = 2;

#[test]
fn a_square_wave_is_followed_from_zero_and_back() {
    let stage = Stage::new(|field| {
        let service = Service::new("one").field(field).service_ms(SERVICE_MS);
        service
            .replicas(0, 6)
            .concurrency(1)
            .annotation("weir.dev/queue-delay-target", "500ms")
            .annotation("autoscaling.knative.dev/window", "6s")
    });
    stage.see("asleep", 1, is_asleep);
    for _ in 0..WAVES {
        wave(&stage);
        stage.see("asleep again", 1, is_asleep);
    }
}

fn is_asleep(revision: &Value) -> bool {
    revision["ready"] == 0 && revision["wanted"] == 0
}

fn wave(stage: &Stage) {
    let load = OpenLoad::start(stage.weir.serving, INTERVAL);
    let up = stage.see("as many as the load needs", 1, |revision| {
        revision["ready"].as_u64() >= Some(3) && revision["queued"] == 0
    });
    let before = load.waits().len();
    // The rate is no more than these replicas take, so a moment in which this machine stood still passes; with
    // too few of them the queue would only grow.
    let kept = || {
        let waits = load.waits().split_off(before);
        let judged = waits.rchunks_exact(JUDGED).next();
        judged.is_some_and(|waits| median(waits) <= TARGET_MS)
    };
    until("waits within the target", kept, || {
        format!("{up:#}: {:?}", load.waits().split_off(before))
    });
    assert_eq!(load.end(), [""; 0]);
}

fn median(waits: &[f64]) -> f64 {
    let mut sorted = waits.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
