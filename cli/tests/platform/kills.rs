//! Replicas are killed under load, and no request fails.

use crate::fixture::Fixture;
use crate::load::Load;
use crate::manifest::Service;

/// Number of kills, unless the environment sets another one.
const KILLS: u64 = 12;

/// Environment variable with another number of kills.
const MORE: &str = "WEIR_TEST_KILLS";

/// Number of answers between two kills; the clients get them in about a second.
const ANSWERS: u64 = 400;

const REPLICAS: u32 = 4;

#[test]
fn killed_replicas_fail_no_request() {
    let fixture = Fixture::ready(REPLICAS.into(), |shared| {
        let service = Service::new("one").shared_dir(shared).service_ms(20);
        service.replicas(REPLICAS, REPLICAS).concurrency(4)
    });
    let load = Load::start(fixture.weir.serving, 8, 4);
    let more = std::env::var_os(MORE).map(|text| text.into_string().unwrap());
    let kills = more.map_or(KILLS, |text| text.parse().unwrap());
    for _ in 0..kills {
        // The oldest replica is killed, so that each is killed in turn.
        let oldest = fixture.shared.wait_for_any().into_iter().min().unwrap();
        fixture.shared.kill(oldest);
        load.wait_for_answers(ANSWERS, || fixture.weir.output());
    }
    let tally = load.end();
    let replays = fixture.metric("weir_gateway_replays_total");
    println!("{kills} kills: {} answered, {replays} sent again", tally.total());
    assert_eq!(tally.failed, [""; 0], "{}", fixture.weir.output());
    // Some kills must have hit requests; otherwise nothing was tested.
    assert!(replays > 0.0 && tally.total() > 100, "{tally:?}");
    fixture.wait_for_revision("all of them back", 1, |revision| {
        revision["ready"] == REPLICAS && revision["in_flight"] == 0
    });
}
