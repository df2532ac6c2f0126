//! Plans of services from their first revision to their last.

use std::time::Duration;

use weir_cluster::Destination;

use super::world::{World, policy, split, tags};
use crate::fixtures::{CANARY, model, validated};
use crate::manifest::validate::Validated;
use crate::rollout::{Rollout, Transition};

#[test]
fn a_canary_percentage_from_first_revision_to_promotion() {
    let fields = |percent: &str| model("b", &[percent]);
    let mut world = World::default();
    let (first, _) = world.reconcile(&validated(&[], &model("a", &[])));
    assert_eq!(split(&first), [(1, 100)]);
    world.start(|_| true);
    let canary = validated(&[], &fields("canaryTrafficPercent: 20"));
    let (waiting, _) = world.reconcile(&canary);
    assert_eq!((split(&waiting), waiting.desired.workloads().len()), (vec![(1, 100)], 2));
    world.start(|_| true);
    let (shifted, moved) = world.reconcile(&canary);
    assert!(matches!(moved, Some(Transition::Shifted(_, 20))));
    assert_eq!(split(&shifted), [(1, 80), (2, 20)]);
    assert_eq!(tags(&shifted), [("prev".to_owned(), 1), ("latest".to_owned(), 2)]);
    let hosts: Vec<_> = shifted.desired.route().unwrap().tags[1].hosts.clone();
    assert_eq!(hosts[0].as_str(), "latest-digits-default.example.com");
    let (back, _) = world.reconcile(&validated(&[], &fields("canaryTrafficPercent: 0")));
    assert_eq!(split(&back), [(1, 100)]);
    let (promoted, moved) = world.reconcile(&validated(&[], &model("b", &[])));
    assert!(matches!(moved, Some(Transition::Promoted(_))));
    assert_eq!(split(&promoted), [(2, 100)]);
    assert_eq!(tags(&promoted), [("latest".to_owned(), 2), ("prev".to_owned(), 1)]);
}

/// A share of 100 % counts as rolled out when the next revision arrives, as in KServe.
#[test]
fn the_revision_after_a_canary_with_all_requests_is_compared_with_the_canary() {
    let mut world = World::default();
    let share = |path: &str, percent: &str| {
        let field = format!("canaryTrafficPercent: {percent}");
        validated(&[], &model(path, &[&*field]))
    };
    world.reconcile(&validated(&[], &model("a", &[])));
    world.start(|_| true);
    world.reconcile(&share("b", "100"));
    world.start(|_| true);
    let (whole, _) = world.reconcile(&share("b", "100"));
    assert_eq!(split(&whole), [(2, 100)]);
    // A lower share of the same revision leads back.
    let (lower, _) = world.reconcile(&share("b", "50"));
    assert_eq!(split(&lower), [(1, 50), (2, 50)]);
    world.reconcile(&share("b", "100"));
    let (waiting, _) = world.reconcile(&share("c", "10"));
    assert_eq!(split(&waiting), [(2, 100)]);
    world.start(|_| true);
    let (next, _) = world.reconcile(&share("c", "10"));
    assert_eq!(split(&next), [(2, 90), (3, 10)]);
}

#[test]
fn the_previous_revision_keeps_its_replicas_then_scales_to_zero() {
    let mut world = World::default();
    let (a, b) = (validated(&[], &model("a", &["minReplicas: 0"])), validated(&[], &model("b", &["minReplicas: 0"])));
    world.reconcile(&a);
    let one = a.service.revision(1).unwrap();
    world.ledger.scale(&one, 3).unwrap();
    world.ledger.refresh(&mut world.revisions);
    world.start(|_| true);
    let (rolling, _) = world.reconcile(&b);
    assert_eq!(policy(&rolling, &one).min, 0, "it scales on its own traffic");
    world.start(|_| true);
    let (third, _) = world.reconcile(&b);
    let two = b.service.revision(2).unwrap();
    assert_eq!(split(&third), [(1, 67), (2, 33)]);
    assert_eq!((policy(&third, &one).min, policy(&third, &two).min), (3, 3));
    world.scale_up(&third);
    let (promoted, _) = world.reconcile(&b);
    assert_eq!(split(&promoted), [(2, 100)]);
    assert_eq!(policy(&promoted, &two).min, 3);
    world.now += 60;
    let (seen, _) = world.reconcile(&b);
    assert_eq!(policy(&seen, &two).min, 0, "it scales on its own traffic");
    let kept = policy(&promoted, &one);
    assert_eq!((kept.min, kept.retention), (3, None));
    world.now += Rollout::ROLLBACK_WINDOW.as_secs();
    let (later, _) = world.reconcile(&b);
    assert_eq!((policy(&later, &one).min, later.desired.workloads().len()), (0, 2));
}

#[test]
fn a_window_of_nothing_frees_the_replicas_at_once() {
    let at_once = [("weir.dev/rollback-window", "0s")];
    let mut world = World::default();
    let a = validated(&at_once, &model("a", &["minReplicas: 0"]));
    world.reconcile(&a);
    let one = a.service.revision(1).unwrap();
    world.ledger.scale(&one, 3).unwrap();
    world.ledger.refresh(&mut world.revisions);
    world.start(|_| true);
    let b = validated(&at_once, &model("b", &["minReplicas: 0"]));
    world.reconcile(&b);
    world.start(|_| true);
    let (third, _) = world.reconcile(&b);
    assert_eq!(policy(&third, &one).min, 0);
    world.scale_up(&third);
    let (promoted, moved) = world.reconcile(&b);
    assert!(matches!(moved, Some(Transition::Promoted(_))));
    // Without a retention the autoscaler would keep one idle replica for a minute, or for three times the cold-start
    // time.
    let (freed, two) = (policy(&promoted, &one), b.service.revision(2).unwrap());
    assert_eq!(freed.min, 0);
    assert_eq!(freed.retention, Some(Duration::from_secs(10)));
    assert_eq!(policy(&promoted, &two).retention, None);
}

/// Returns a world in which three of three replicas serve, and a candidate has this share.
fn three_and_a_canary(percent: u8) -> (World, Validated) {
    let mut world = World::default();
    let a = validated(&[], &model("a", &["minReplicas: 0"]));
    world.reconcile(&a);
    let one = a.service.revision(1).unwrap();
    world.ledger.scale(&one, 3).unwrap();
    world.ledger.refresh(&mut world.revisions);
    world.start(|_| true);
    let share = format!("canaryTrafficPercent: {percent}");
    let b = validated(&[], &model("b", &["minReplicas: 0", &share]));
    world.reconcile(&b);
    world.start(|_| true);
    (world, b)
}

#[test]
fn a_manual_share_frees_the_stable_replicas_after_the_rollback_window() {
    for percent in [0, 20] {
        let (mut world, b) = three_and_a_canary(percent);
        let (one, two) = (b.service.revision(1).unwrap(), b.service.revision(2).unwrap());
        let (shifted, _) = world.reconcile(&b);
        let kept_for = if percent == 0 { 60 } else { 600 };
        assert_eq!(policy(&shifted, &one).min, 3, "{percent}");
        world.now += kept_for;
        let (later, _) = world.reconcile(&b);
        let least = [&one, &two].map(|revision| policy(&later, revision).min);
        assert_eq!(least, [0, 0], "{percent}");
    }
}

#[test]
fn replicas_without_room_take_the_place_of_those_whose_requests_they_get() {
    let mut world = World::default();
    let bounds = ["minReplicas: 4", "maxReplicas: 4"];
    let (a, b) = (validated(&[], &model("a", &bounds)), validated(&[], &model("b", &bounds)));
    world.reconcile(&a);
    world.start(|_| true);
    world.reconcile(&a);
    world.reconcile(&b);
    let (one, two) = (b.service.revision(1).unwrap(), b.service.revision(2).unwrap());
    let mut counts = Vec::new();
    // The cluster has room for five replicas.
    world.place(&two, 5);
    world.reconcile(&b);
    world.now += 60;
    for _ in 0..5 {
        world.place(&two, 5);
        let (planned, _) = world.reconcile(&b);
        let most = policy(&planned, &one).most().min(world.ledger.replicas(&one));
        world.ledger.scale(&one, most).unwrap();
        world.ledger.refresh(&mut world.revisions);
        world.start(|number| number == 1);
        counts.push((split(&planned), most));
    }
    let expected = [(25, 3), (50, 2), (75, 1)].map(|(percent, left)| (vec![(1, 100 - percent), (2, percent)], left));
    assert_eq!(counts[..3], expected);
    assert_eq!(counts[3].0, [(2, 100)]);
}

#[test]
fn a_candidate_that_fails_for_ten_minutes_has_one_replica() {
    let mut world = World::default();
    let bounds = ["minReplicas: 4"];
    let (a, b) = (validated(&[], &model("a", &bounds)), validated(&[], &model("b", &bounds)));
    world.reconcile(&a);
    world.start(|_| true);
    world.reconcile(&b);
    world.fail(2);
    let two = b.service.revision(2).unwrap();
    assert_eq!(policy(&world.reconcile(&b).0, &two).min, 4);
    world.now += 600;
    assert_eq!(policy(&world.reconcile(&b).0, &two).min, 1);
    world.start(|_| true);
    assert_eq!(policy(&world.reconcile(&b).0, &two).min, 4);
}

#[test]
fn a_new_revision_starts_with_a_replica_and_may_scale_to_zero_later() {
    let mut world = World::default();
    let sleepy = validated(&[], &model("a", &["minReplicas: 0", "maxReplicas: 4"]));
    let (first, _) = world.reconcile(&sleepy);
    let one = sleepy.service.revision(1).unwrap();
    assert_eq!((first.desired.workloads()[0].replicas, policy(&first, &one).min), (1, 1));
    world.start(|_| true);
    let (second, _) = world.reconcile(&sleepy);
    assert_eq!((policy(&second, &one).min, policy(&second, &one).max), (0, Some(4)));
}

#[test]
fn a_named_canary_receives_its_share_once_loaded() {
    let mut world = World::default();
    let spec = format!("{}{CANARY}", model("a", &["canaryTrafficPercent: 50"]));
    let (first, _) = world.reconcile(&validated(&[], &spec));
    assert_eq!(split(&first), [(1, 100)]);
    world.start(|number| number == 1);
    assert_eq!(split(&world.reconcile(&validated(&[], &spec)).0), [(1, 100)]);
    world.start(|_| true);
    let (both, _) = world.reconcile(&validated(&[], &spec));
    assert_eq!(split(&both), [(1, 70), (2, 30)]);
    assert!(tags(&both).contains(&("blue".to_owned(), 2)));
    let third = validated(&[], &spec.replace("models/a", "models/c"));
    world.reconcile(&third);
    world.start(|_| true);
    assert_eq!(split(&world.reconcile(&third).0), [(1, 20), (2, 30), (3, 50)]);
}

/// A canary that is not ready gets no requests, as in KServe.
#[test]
fn a_named_canary_whose_replicas_fail_gives_its_share_to_the_stable_revision() {
    let mut world = World::default();
    let spec = validated(&[], &format!("{}{CANARY}", model("a", &[])));
    world.reconcile(&spec);
    world.start(|_| true);
    let (both, _) = world.reconcile(&spec);
    assert_eq!(split(&both), [(1, 70), (2, 30)]);
    world.fail(2);
    let (without, _) = world.reconcile(&spec);
    assert_eq!(split(&without), [(1, 100)]);
    assert!(tags(&without).contains(&("blue".to_owned(), 2)));
    world.start(|_| true);
    let (again, _) = world.reconcile(&spec);
    assert_eq!(split(&again), [(1, 70), (2, 30)]);
}

/// All requests need four replicas, so each ready replica adds a quarter, as for a candidate.
#[test]
fn a_named_canary_gets_a_share_for_each_replica_that_is_ready() {
    let mut world = World::default();
    let bounds = ["minReplicas: 4"];
    let spec = validated(&[], &format!("{}{}", model("a", &bounds), CANARY.replace("30", "60")));
    world.reconcile(&spec);
    world.start(|number| number == 1);
    world.reconcile(&spec);
    let two = spec.service.revision(2).unwrap();
    let mut seen = Vec::new();
    for nodes in [4, 5, 6, 7, 5, 4, 7] {
        world.place(&two, nodes);
        let (planned, _) = world.reconcile(&spec);
        world.ledger.scale(&two, policy(&planned, &two).min).unwrap();
        world.ledger.refresh(&mut world.revisions);
        let weights = split(&planned);
        let weight = weights.iter().find(|(number, _)| *number == 2).map_or(0, |(_, weight)| *weight);
        seen.push((weight, policy(&planned, &two).min));
    }
    assert_eq!(seen, [0, 25, 50, 60, 25, 0, 60].map(|percent| (percent, 3)));
}

#[test]
fn a_stopped_service_has_no_workloads_and_says_so() {
    let mut world = World::default();
    let stop = validated(&[("serving.kserve.io/stop", "true")], &model("a", &[]));
    let (stopped, _) = world.reconcile(&stop);
    assert!(stopped.desired.workloads().is_empty());
    match &stopped.desired.route().unwrap().destination {
        Destination::Nowhere(sentence) => {
            assert_eq!(&**sentence, "the service default/digits is stopped");
        }
        Destination::Split(split) => panic!("{split:?}"),
    }
}

#[test]
fn requests_are_mirrored_to_the_revision_without_all_traffic() {
    let mut world = World::default();
    let mirrored = |path: &str| validated(&[("weir.dev/mirror", "10")], &model(path, &["canaryTrafficPercent: 0"]));
    let (first, _) = world.reconcile(&mirrored("a"));
    assert_eq!(first.desired.route().unwrap().mirror, None);
    world.start(|_| true);
    let (second, _) = world.reconcile(&mirrored("b"));
    let mirror = second.desired.route().unwrap().mirror.clone().unwrap();
    assert_eq!((mirror.revision.number(), mirror.percent), (2, 10));
}

#[test]
fn a_batcher_reaches_the_gateways_with_its_defaults() {
    let batching = |fields: &[&str]| {
        let (first, _) = World::default().reconcile(&validated(&[], &model("a", fields)));
        let batching = first.desired.route().unwrap().batching;
        batching.map(|batching| (batching.max_size, batching.max_latency.as_millis()))
    };
    assert_eq!(batching(&[]), None);
    assert_eq!(batching(&["batcher: {}"]), Some((32, 5000)));
    let both = ["batcher: {maxBatchSize: 4, maxLatency: 20}"];
    assert_eq!(batching(&both), Some((4, 20)));
}

#[test]
fn the_autoscaler_gets_no_policy_where_others_set_the_replicas() {
    let has_policies = |annotations: &[(&str, &str)]| {
        let (plan, _) = World::default().reconcile(&validated(annotations, &model("a", &[])));
        let workloads = plan.desired.workloads().iter();
        workloads.map(|w| w.scaling.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(has_policies(&[]), [true]);
    let by_others = [("serving.kserve.io/autoscalerClass", "external")];
    assert_eq!(has_policies(&by_others), [false]);
}

#[test]
fn the_minimum_is_the_number_where_no_autoscaler_is_wanted() {
    let by_none = [("serving.kserve.io/autoscalerClass", "none")];
    let bounds = |fields: &[&str]| {
        let (plan, _) = World::default().reconcile(&validated(&by_none, &model("a", fields)));
        let policy = plan.desired.workloads()[0].scaling.clone().unwrap();
        (policy.bound(0), policy.bound(9))
    };
    assert_eq!(bounds(&["minReplicas: 3", "maxReplicas: 8"]), (3, 3));
    // A revision that has not loaded has one replica, which shows whether it loads.
    assert_eq!(bounds(&["minReplicas: 0"]), (1, 1));
}
