use super::*;
use crate::fixtures::{change_pods, model, validated};
use crate::manifest::validate::Validated;
use crate::rollout::{PreviousRevision, Stage};

fn after(history: &History, validated: &Validated) -> History {
    revise(validated, history, RuntimeChange::Follow, 0).unwrap()
}

fn loaded(mut history: History) -> History {
    for record in &mut history.records {
        record.load = LoadState::Now;
        record.desired_replicas = 2;
    }
    history
}

fn numbers(history: &History) -> Vec<u32> {
    history.records.iter().map(|record| record.revision.number()).collect()
}

fn number(revision: Option<&RevisionName>) -> Option<u32> {
    revision.map(RevisionName::number)
}

#[test]
fn a_changed_model_creates_a_revision_and_an_equal_one_is_reused() {
    let (a, b) = (validated(&[], &model("a", &[])), validated(&[], &model("b", &[])));
    let first = loaded(after(&History::default(), &a));
    assert_eq!((numbers(&first), number(first.rollout.stable.as_ref())), (vec![1], Some(1)));
    let second = after(&first, &b);
    assert_eq!(numbers(&second), [1, 2]);
    let candidate = second.rollout.candidate.clone().unwrap();
    assert_eq!((candidate.revision.number(), candidate.stage), (2, Stage::Waiting));
    let holds = second.rollout.holds(0).count();
    assert_eq!(holds, 0, "no share of the requests has moved");
    let back = after(&second, &a);
    assert_eq!((numbers(&back), back.rollout.candidate), (vec![1, 2], None));
}

#[test]
fn bounds_and_splits_create_no_revision() {
    let first = loaded(after(&History::default(), &validated(&[], &model("a", &[]))));
    let fields = [
        "minReplicas: 0",
        "maxReplicas: 7",
        "canaryTrafficPercent: 20",
        "timeout: 9",
        "containerConcurrency: 2",
        "batcher: {maxBatchSize: 4}",
        "scaleTarget: 3",
        "scaleMetric: rps",
        "logger: {url: 'http://x'}",
        "annotations: {autoscaling.knative.dev/window: 30s}",
    ];
    for field in fields {
        let next = after(&first, &validated(&[], &model("a", &[field])));
        assert_eq!(next.records, first.records, "{field}");
    }
    let annotated = validated(&[("weir.dev/max-queue", "3")], &model("a", &[]));
    assert_eq!(after(&first, &annotated).records, first.records);
    for field in ["labels: {a: b}", "nodeSelector: {gpu: a100}"] {
        let next = after(&first, &validated(&[], &model("a", &[field])));
        assert_eq!(numbers(&next), [1, 2], "{field}");
    }
}

#[test]
fn a_stable_revision_that_never_loaded_is_replaced_at_once() {
    let first = after(&History::default(), &validated(&[], &model("a", &[])));
    let second = after(&first, &validated(&[], &model("b", &[])));
    assert_eq!(number(second.rollout.stable.as_ref()), Some(2));
    assert_eq!(second.rollout.candidate, None);
}

#[test]
fn a_revision_out_of_use_has_to_load_again() {
    let (a, b, c) =
        (validated(&[], &model("a", &[])), validated(&[], &model("b", &[])), validated(&[], &model("c", &[])));
    let first = loaded(after(&History::default(), &a));
    let superseded = after(&loaded(after(&first, &b)), &c).observed(&Snapshot::default());
    assert!(!superseded.is_in_use(&a.service.revision(2).unwrap()));
    let again = after(&superseded, &b);
    let candidate = again.rollout.candidate.clone().unwrap();
    assert_eq!(candidate.revision.number(), 2);
    assert!(!again.has_loaded(&candidate.revision));
}

#[test]
fn old_revisions_are_dropped_and_their_numbers_not_reused() {
    let mut history = loaded(after(&History::default(), &validated(&[], &model("m", &[]))));
    for i in 0..30 {
        history = loaded(after(&history, &validated(&[], &model(&format!("m{i}"), &[]))));
    }
    assert_eq!(number(history.rollout.stable.as_ref()), Some(1));
    assert_eq!(numbers(&history).len(), 12);
    assert_eq!(numbers(&history).last(), Some(&31));
}

#[test]
fn a_canary_that_becomes_the_predictor_keeps_its_revision() {
    let canary = "  canary:\n  - trafficPercent: 20\n    predictor: {name: blue, model: {modelFormat: {name: pytorch}, storageUri: pvc://models/blue}}\n";
    let with = validated(&[], &format!("{}{canary}", model("a", &[])));
    let first = loaded(after(&History::default(), &with));
    let of: Vec<_> = first.canaries.iter().map(|c| (c.tag.as_str(), c.revision.number())).collect();
    assert_eq!(of, [("blue", 2)]);
    let promoted = after(&first, &validated(&[], &model("blue", &["name: blue"])));
    let candidate = promoted.rollout.candidate.clone().unwrap();
    assert_eq!(candidate.revision.number(), 2);
    assert!(promoted.has_loaded(&candidate.revision));
}

#[test]
fn a_serving_candidate_replaces_a_stable_revision_that_is_down() {
    let canary = |path: &str| validated(&[], &model(path, &["canaryTrafficPercent: 20"]));
    let first = loaded(after(&History::default(), &canary("a")));
    let mut second = loaded(after(&first, &canary("b")));
    let candidate = second.rollout.candidate.as_mut().unwrap();
    (candidate.stage, candidate.share.percent) = (Stage::Shifting(0), 20);
    let third = after(&second, &canary("c"));
    assert_eq!(number(third.rollout.stable.as_ref()), Some(1));
    second.records[0].load = LoadState::Once;
    let third = after(&second, &canary("c"));
    assert_eq!(number(third.rollout.stable.as_ref()), Some(2));
    assert_eq!(number(third.rollout.newest()), Some(3));
}

/// Returns the same manifest with another runtime.
fn with_runtime(validated: &Validated, identity: &str) -> Validated {
    let mut changed = validated.clone();
    change_pods(&mut changed, identity);
    changed
}

#[test]
fn a_held_runtime_makes_no_revision_until_the_manifest_changes() {
    let a = validated(&[], &model("a", &[]));
    let first = loaded(after(&History::default(), &a));
    let changed = with_runtime(&a, "later");
    let held = revise(&changed, &first, RuntimeChange::Hold, 7).unwrap();
    assert_eq!((numbers(&held), held.is_behind(&changed)), (vec![1], true));
    assert!(!held.is_behind(&a));
    let b = with_runtime(&validated(&[], &model("b", &[])), "other");
    let edited = revise(&b, &held, RuntimeChange::Hold, 8).unwrap();
    assert_eq!(number(edited.rollout.newest()), Some(2));
    assert_eq!(edited.runtime_roll, None);
    let scaled = with_runtime(&validated(&[], &model("a", &["minReplicas: 3"])), "later");
    let scaled = revise(&scaled, &held, RuntimeChange::Hold, 8).unwrap();
    assert_eq!(numbers(&scaled), [1], "bounds shape no pod");
}

#[test]
fn a_followed_runtime_makes_a_revision_that_is_distinguished_from_edits() {
    let a = validated(&[], &model("a", &[]));
    let first = loaded(after(&History::default(), &a));
    let changed = with_runtime(&a, "later");
    let second = revise(&changed, &first, RuntimeChange::Follow, 7).unwrap();
    let roll = second.runtime_roll.clone().unwrap();
    assert_eq!((roll.revision.number(), roll.since), (2, 7));
    let back = revise(&a, &second, RuntimeChange::Hold, 9).unwrap();
    assert_eq!((number(back.rollout.newest()), back.runtime_roll), (Some(1), None));
}

#[test]
fn only_annotations_that_affect_pods_are_part_of_the_manifest() {
    let plain = validated(&[], &model("a", &[])).predictor.manifest;
    for (annotation, value, is_part) in [
        ("weir.dev/control-routes", "true", true),
        ("weir.dev/max-batch-time", "9s", true),
        ("weir.dev/max-queue", "9", false),
        ("autoscaling.knative.dev/window", "30s", false),
        ("serving.kserve.io/disable-auto-update", "true", false),
    ] {
        let with = validated(&[(annotation, value)], &model("a", &[]));
        assert_eq!(with.predictor.manifest != plain, is_part, "{annotation}");
    }
}

/// Returns a manifest whose container has these fields.
fn container(fields: &str) -> Validated {
    let container = format!("{{name: server, image: x, command: [serve], {fields}}}");
    validated(&[], &format!("  predictor: {{containers: [{container}]}}\n"))
}

#[test]
fn a_text_of_the_same_meaning_makes_no_revision() {
    let first = loaded(after(&History::default(), &container("resources: {limits: {cpu: '1', memory: 1Gi}}")));
    for same in [
        "resources: {limits: {cpu: 1000m, memory: 1Gi}}",
        "resources: {limits: {cpu: 1, memory: 1024Mi}}",
        "resources: {limits: {cpu: '1', memory: 1Gi}}, envFrom: []",
        "resources: {limits: {cpu: '1', memory: 1Gi}}, imagePullPolicy: Always",
    ] {
        let written = container(same);
        assert!(!first.is_behind(&written), "{same}");
        let next = after(&first, &written);
        assert_eq!(numbers(&next), [1], "{same}");
        assert_eq!(next.rollout.candidate, None, "{same}");
        let record = &next.records[0];
        assert_eq!(record.template, first.records[0].template, "{same}");
        assert_eq!(record.identity, first.records[0].identity, "{same}");
    }
    for other in [
        "resources: {limits: {cpu: '2', memory: 1Gi}}",
        "resources: {limits: {cpu: '1', memory: 1G}}",
        "resources: {limits: {cpu: '1', memory: 1Gi}}, imagePullPolicy: Never",
    ] {
        assert_eq!(numbers(&after(&first, &container(other))), [1, 2], "{other}");
    }
}

#[test]
fn a_version_with_another_hash_makes_no_revision() {
    let written = container("resources: {limits: {cpu: '1'}}");
    let mut first = loaded(after(&History::default(), &written));
    first.records[0].identity = Identity::from_label("of another version");
    first.records[0].manifest = Some(written.predictor.manifest.text.clone());
    assert!(!first.is_behind(&written));
    let next = after(&first, &written);
    assert_eq!(next, first);
    // A changed runtime is not taken for an edit either.
    let mut changed = container("resources: {limits: {cpu: '1'}}, args: [more]");
    changed.predictor.manifest = written.predictor.manifest.clone();
    let held = revise(&changed, &first, RuntimeChange::Hold, 0).unwrap();
    assert_eq!(numbers(&held), [1]);
}

fn is_shared(one: &PodTemplate, other: &PodTemplate) -> bool {
    std::ptr::eq(one.as_str(), other.as_str())
}

#[test]
fn equal_templates_are_shared_after_they_were_read() {
    let (a, b) = (validated(&[], &model("a", &[])), validated(&[], &model("b", &[])));
    let mut read = after(&after(&History::default(), &a), &b);
    for record in &mut read.records {
        record.template = record.template.read().into();
    }
    let before = read.clone();
    read.share_templates(&b);
    assert_eq!(read, before);
    let shared = read.records.iter().map(|record| is_shared(&record.template, &b.predictor.template));
    let newest = read.records.iter().map(|record| record.template == b.predictor.template);
    assert!(shared.eq(newest));
    assert!(is_shared(&read.records[1].template, &b.predictor.template));
}

#[test]
fn start_times_in_the_future_become_now() {
    let (a, b) = (validated(&[], &model("a", &[])), validated(&[], &model("b", &[])));
    let first = loaded(after(&History::default(), &a));
    let ahead = revise(&b, &first, RuntimeChange::Follow, 9000).unwrap();
    let since = |history: History| history.rollout.candidate.unwrap().since;
    assert_eq!(since(ahead.clone().begun_by(9001)), 9000);
    assert_eq!(since(ahead.begun_by(8400)), 8400);
    let changed = with_runtime(&a, "later");
    let mut rolled = revise(&changed, &first, RuntimeChange::Follow, 9000).unwrap();
    rolled.rollout.previous =
        Some(PreviousRevision { revision: a.service.revision(1).unwrap(), since: 9000, kept_replicas: 1 });
    let rolled = rolled.begun_by(8400);
    assert_eq!(rolled.runtime_roll.unwrap().since, 8400);
    assert_eq!(rolled.rollout.previous.unwrap().since, 8400);
}
