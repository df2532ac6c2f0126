//! The load rises and falls, and the replicas follow.

use std::time::Duration;

use serde_json::Value;

use crate::fixture::Fixture;
use crate::load::OpenLoopLoad;
use crate::manifest::Service;
use crate::weir::wait_until;

/// Time of an inference in milliseconds. A replica serves one at a time: five per second.
const SERVICE_MS: u32 = 200;

/// Interval of the requests: twelve per second keep two and a half replicas busy.
const INTERVAL: Duration = Duration::from_millis(83);

/// Target for the time in the queue, in milliseconds.
const TARGET_MS: f64 = 500.0;

/// Number of requests over which the wait is measured, once the replicas are ready: those of the last four seconds.
const MEASURED: usize = 48;

/// Number of waves; the second one must go as well as the first.
const WAVES: u32 = 2;

#[test]
fn a_square_wave_is_followed_from_zero_and_back() {
    let fixture = Fixture::new(|shared| {
        let service = Service::new("one").shared_dir(shared).service_ms(SERVICE_MS);
        service
            .replicas(0, 6)
            .concurrency(1)
            .annotation("weir.dev/queue-delay-target", "500ms")
            .annotation("autoscaling.knative.dev/window", "6s")
    });
    fixture.wait_for_revision("asleep", 1, is_asleep);
    for _ in 0..WAVES {
        wave(&fixture);
        fixture.wait_for_revision("asleep again", 1, is_asleep);
    }
    let wake = |what: &str| fixture.metric(&format!("weir_autoscaler_wake_seconds_{what}"));
    // There is one wake-up for each wave; on a machine that stalls there may be one more. A decision takes a few
    // milliseconds. The bound only ensures that it does not wait for the next regular decision.
    assert!(wake("count") >= f64::from(WAVES));
    let mean = wake("sum") / wake("count");
    assert!(mean < 0.5, "{mean} s to a decision");
}

fn is_asleep(revision: &Value) -> bool {
    revision["ready"] == 0 && revision["wanted"] == 0
}

fn wave(fixture: &Fixture) {
    let load = OpenLoopLoad::start(fixture.weir.serving, INTERVAL);
    let up = fixture.wait_for_revision("as many as the load needs", 1, |revision| {
        revision["ready"].as_u64() >= Some(3) && revision["queued"] == 0
    });
    let before = load.waits().len();
    // The rate is no more than these replicas can serve, so a stall of the machine is recovered from. With too few
    // replicas the queue would only grow.
    let is_within_target = || {
        let waits = load.waits().split_off(before);
        let measured = waits.rchunks_exact(MEASURED).next();
        measured.is_some_and(|waits| median(waits) <= TARGET_MS)
    };
    wait_until("waits within the target", is_within_target, || format!("{up:#}: {:?}", load.waits().split_off(before)));
    assert_eq!(load.end(), [""; 0]);
}

fn median(waits: &[f64]) -> f64 {
    let mut sorted = waits.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}
