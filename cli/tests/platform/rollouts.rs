//! One revision takes over from another.

use crate::client::Grpc;
use crate::field::Field;
use crate::load::{Load, runtime};
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::until;

/// Clients over gRPC, by which a split is judged.
const CLIENTS: usize = 8;

/// The first revision, and the second.
const ONE: &str = "echo-predictor-00001";
const TWO: &str = "echo-predictor-00002";

#[test]
fn a_canary_is_split_rolled_back_and_promoted_over_grpc() {
    let stage = Stage::ready(1, |_| Service::new("one").replicas(1, 1));
    let address = stage.weir.serving;
    let two = Service::new("two").replicas(1, 1);
    stage.edit(&two.clone().canary(20));
    stage.see_traffic(2, 20);
    Load::start(address, 0, CLIENTS).splits_to(TWO);
    // Back to the old file: that is how people roll back.
    stage.edit(&Service::new("one").replicas(1, 1));
    stage.see_traffic(1, 100);
    Load::start(address, 0, CLIENTS).go_all_to(ONE);
    stage.edit(&two.clone().canary(20));
    stage.see_traffic(2, 20);
    stage.edit(&two);
    stage.see_traffic(2, 100);
    Load::start(address, 0, CLIENTS).go_all_to(TWO);
}

#[test]
fn a_canary_beside_the_predictor_has_its_share_and_its_tag() {
    let stage = Stage::ready(1, |_| Service::new("one").replicas(1, 1));
    let address = stage.weir.serving;
    let one = Service::new("one").replicas(1, 1);
    stage.edit(&one.clone().canary_beside("blue", 20));
    stage.see_traffic(2, 20);
    Load::start(address, 0, CLIENTS).splits_to(TWO);
    let mut grpc = Grpc::new(address);
    let tagged = runtime().block_on(grpc.infer(&[("weir-tag", "blue")]));
    assert_eq!(tagged.unwrap().revision(), TWO);
    stage.edit(&one);
    stage.see_traffic(1, 100);
    Load::start(address, 0, CLIENTS).go_all_to(ONE);
}

#[test]
fn a_new_revision_takes_over_under_load_without_a_failure() {
    let service = |label, field: &Field| {
        let service = Service::new(label).field(field).service_ms(20);
        service.replicas(2, 2).concurrency(4)
    };
    let stage = Stage::ready(2, |field| service("one", field));
    let load = Load::start(stage.weir.serving, 6, 3);
    for (label, number) in [("two", 2), ("three", 3)] {
        stage.edit(&service(label, &stage.field));
        stage.see_traffic(number, 100);
        let before = load.answered();
        let goes_on = || load.answered() > before + 100;
        until("answers of the new one", goes_on, || stage.weir.output());
    }
    let tally = load.end();
    assert_eq!(tally.failed, [""; 0], "{}", stage.weir.output());
    assert_eq!(tally.answered.len(), 3, "{:?}", tally.answered);
}
