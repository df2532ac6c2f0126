//! Rollouts from one revision to another.

use serde_json::Value;

use crate::client::GrpcClient;
use crate::fixture::Fixture;
use crate::load::{Load, runtime};
use crate::manifest::Service;
use crate::shared_dir::SharedDir;
use crate::weir::wait_until;

/// Number of gRPC clients with which a split is measured.
const CLIENTS: usize = 8;

/// Names of the first and the second revision.
const ONE: &str = "echo-predictor-00001";
const TWO: &str = "echo-predictor-00002";

#[test]
fn a_canary_is_split_rolled_back_and_promoted_over_grpc() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let address = fixture.weir.serving;
    let two = Service::new("two").replicas(1, 1);
    fixture.edit(&two.clone().canary(20));
    fixture.wait_for_traffic(2, 20);
    Load::start(address, 0, CLIENTS).splits_to(TWO);
    // Restoring the old file is how people roll back.
    fixture.edit(&Service::new("one").replicas(1, 1));
    fixture.wait_for_traffic(1, 100);
    Load::start(address, 0, CLIENTS).go_all_to(ONE);
    fixture.edit(&two.clone().canary(20));
    fixture.wait_for_traffic(2, 20);
    fixture.edit(&two);
    fixture.wait_for_traffic(2, 100);
    Load::start(address, 0, CLIENTS).go_all_to(TWO);
}

#[test]
fn a_canary_in_spec_canary_has_its_share_and_its_tag() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    let address = fixture.weir.serving;
    let one = Service::new("one").replicas(1, 1);
    fixture.edit(&one.clone().canary_beside("blue", 20));
    fixture.wait_for_traffic(2, 20);
    Load::start(address, 0, CLIENTS).splits_to(TWO);
    let mut grpc = GrpcClient::new(address);
    let tagged = runtime().block_on(grpc.infer(&[("weir-tag", "blue")]));
    assert_eq!(tagged.unwrap().revision(), TWO);
    fixture.edit(&one);
    fixture.wait_for_traffic(1, 100);
    Load::start(address, 0, CLIENTS).go_all_to(ONE);
}

#[test]
fn a_new_revision_takes_over_under_load_without_a_failure() {
    let service = |label, shared: &SharedDir| {
        let service = Service::new(label).shared_dir(shared).service_ms(20);
        service.replicas(2, 2).concurrency(4)
    };
    let fixture = Fixture::ready(2, |shared| service("one", shared));
    let load = Load::start(fixture.weir.serving, 6, 3);
    for (label, number) in [("two", 2), ("three", 3)] {
        fixture.edit(&service(label, &fixture.shared));
        fixture.wait_for_traffic(number, 100);
        let before = load.answered();
        let goes_on = || load.answered() > before + 100;
        wait_until("answers of the new one", goes_on, || fixture.weir.output());
    }
    let tally = load.end();
    assert_eq!(tally.failed, [""; 0], "{}", fixture.weir.output());
    assert_eq!(tally.answered.len(), 3, "{:?}", tally.answered);
}

/// Returns a service whose first replica starts at once, and the others once the file `go` exists.
fn one_then_the_rest(service: Service, shared: &SharedDir) -> Service {
    let folder = shared.path().to_str().unwrap();
    let program = crate::replica::command().join(" ");
    let script = format!(
        "mkdir -p {folder}; mkdir {folder}/first 2>/dev/null || while [ ! -e {folder}/go ]; do sleep 0.05; done; exec {program}"
    );
    service.shell(&script)
}

#[test]
fn a_promotion_balances_requests_over_replicas_as_they_become_ready() {
    let fixture = Fixture::ready(4, |_| Service::new("one").replicas(4, 4));
    let two = Service::new("two").replicas(4, 4);
    fixture.edit(&one_then_the_rest(two, &fixture.shared));
    fixture.wait_for_traffic(2, 25);
    let service = &fixture.weir.status()["services"][0];
    assert_eq!(ready_of_the_first(service), 4, "{service:#}");
    let notes = service["notes"].to_string();
    let waits =
        format!("{TWO} receives 25 % of the requests, rising to 100 % as its replicas become ready, at the latest at ");
    assert!(notes.contains(&waits), "{notes}");
    std::fs::write(fixture.shared.path().join("go"), "").unwrap();
    fixture.wait_for_traffic(2, 100);
    let service = &fixture.weir.status()["services"][0];
    assert_eq!(service["ready"], "True", "{service:#}");
}

#[test]
fn a_canary_beside_the_predictor_gets_a_share_for_each_replica_that_is_ready() {
    let four = || Service::new("one").replicas(4, 4);
    let fixture = Fixture::ready(4, |_| four());
    let blue = one_then_the_rest(Service::new("blue"), &fixture.shared);
    fixture.edit(&four().canary_of(&blue, "blue", 50));
    fixture.wait_for_traffic(2, 25);
    let service = &fixture.weir.status()["services"][0];
    let conditions = service["conditions"].to_string() + &service["notes"].to_string();
    let limited = "blue receives 25 of 50 % of the requests until more of its replicas are ready: 1 of 2 are now";
    assert!(conditions.contains(limited), "{service:#}");
    std::fs::write(fixture.shared.path().join("go"), "").unwrap();
    fixture.wait_for_traffic(2, 50);
}

/// Returns the number of ready replicas of the first revision; 0 once it is removed.
fn ready_of_the_first(service: &Value) -> u64 {
    let mut all = service["revisions"].as_array().unwrap().iter();
    let first = all.find(|revision| revision["name"] == ONE);
    first.map_or(0, |revision| revision["ready"].as_u64().unwrap())
}

#[test]
fn a_former_revision_reports_until_when_it_is_kept() {
    let fixture = Fixture::ready(1, |_| Service::new("one").replicas(1, 1));
    fixture.edit(&Service::new("two").replicas(1, 1));
    fixture.wait_for_traffic(2, 100);
    let table = || String::from_utf8(fixture.weir.run(&["status"]).stdout).unwrap();
    let kept = format!("note: {ONE} keeps 1 replica until ");
    wait_until("the note", || table().contains(&kept), table);
    assert!(table().contains("for an instant rollback"), "{}", table());
    let service = &fixture.weir.status()["services"][0];
    assert_eq!(ready_of_the_first(service), 1, "{service:#}");
}

/// Without the annotation the former revision would keep its replica for ten minutes, longer than the test waits.
#[test]
fn a_zero_rollback_window_frees_the_former_replica_at_once() {
    let service = |label| {
        let service = Service::new(label).replicas(1, 1);
        service.annotation("weir.dev/rollback-window", "0s")
    };
    let fixture = Fixture::ready(1, |_| service("one"));
    fixture.edit(&service("two"));
    fixture.wait_for_traffic(2, 100);
    let freed = |service: &Value| ready_of_the_first(service) == 0;
    let after = fixture.weir.wait_for("its end", freed);
    assert_eq!(after["ready"], "True", "{after:#}");
    let table = String::from_utf8(fixture.weir.run(&["status"]).stdout).unwrap();
    assert!(!table.contains("for an instant rollback"), "{table}");
}
