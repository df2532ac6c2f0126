//! Replicas are killed under load, and nobody notices.

use std::time::Duration;

use crate::load::Load;
use crate::manifest::Service;
use crate::stage::Stage;

/// Seconds of killing, where nobody wants more.
const SECONDS: u64 = 12;

/// Set to kill for longer: so many seconds.
const MORE: &str = "WEIR_TEST_KILL_SECONDS";

const REPLICAS: u32 = 4;

#[test]
fn killed_replicas_fail_no_request() {
    let stage = Stage::ready(REPLICAS.into(), |field| {
        let service = Service::new("one").field(field).service_ms(20);
        service.replicas(REPLICAS, REPLICAS).concurrency(4)
    });
    let load = Load::start(stage.weir.serving, 8, 4);
    let more = std::env::var_os(MORE).map(|text| text.into_string().unwrap());
    let seconds = more.map_or(SECONDS, |text| text.parse().unwrap());
    for _ in 0..seconds {
        // The oldest: each gets its turn.
        let oldest = stage.field.until_some().into_iter().min().unwrap();
        stage.field.kill(oldest);
        // The pace that was promised, not a wait for anything.
        std::thread::sleep(Duration::from_secs(1));
    }
    let tally = load.end();
    let replays = stage.metric("weir_gateway_replays_total");
    println!(
        "{seconds} s: {} answered, {replays} sent again",
        tally.total()
    );
    assert_eq!(tally.failed, [""; 0], "{}", stage.weir.output());
    // Kills met requests; otherwise nothing was tested.
    assert!(replays > 0.0 && tally.total() > 100, "{tally:?}");
    stage.see("all of them back", 1, |revision| {
        revision["ready"] == REPLICAS && revision["in_flight"] == 0
    });
}
