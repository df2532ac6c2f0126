//! The rules of the definitions, in CEL, which the API server enforces, and the same rules in the controller: on random
//! services both find the same errors.

use std::collections::{BTreeMap, BTreeSet};

use kube::api::{Api, DynamicObject, PostParams};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};
use weir_cluster::ServiceName;
use weir_controller::{KeptObject, Platform, Runtimes, Service, validate};
use weir_crds::{InferenceService, Object};

use crate::world::World;

/// Number of random services. Each rule is broken by at least one in twenty, so a hundred would do.
const SERVICES: usize = 400;

/// Returns the messages of all rules of InferenceServices.
fn messages() -> BTreeSet<String> {
    fn collect(schema: &Value, into: &mut BTreeSet<String>) {
        let rules = schema["x-kubernetes-validations"].as_array();
        into.extend(rules.into_iter().flatten().filter_map(|rule| rule["message"].as_str()).map(str::to_owned));
        match schema {
            Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut found = BTreeSet::new();
    collect(&serde_json::to_value(<InferenceService as kube::CustomResourceExt>::crd()).unwrap(), &mut found);
    found
}

/// An object with these fields; fields without a value are left out.
fn object(fields: impl IntoIterator<Item = (&'static str, Option<Value>)>) -> Value {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect::<Map<_, _>>().into()
}

/// Leaves a field out in half of the cases.
fn maybe(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    proptest::option::of(value)
}

/// Leaves a field out in nine cases of ten.
fn seldom(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    proptest::option::weighted(0.1, value)
}

fn one_of(values: &[Value]) -> impl Strategy<Value = Value> + use<> {
    select(values.to_vec())
}

fn storage_uris() -> impl Strategy<Value = Value> {
    let path = one_of(&[json!("/mnt/models"), json!("/mnt/other"), json!("relative"), json!("/mnt/../etc")]);
    let entry = maybe(path).prop_map(|path| object([("uri", Some(json!("s3://models/a"))), ("mountPath", path)]));
    proptest::collection::vec(entry, 1..3).prop_map(Value::from)
}

/// The fields by which a predictor names its model.
fn forms() -> impl Strategy<Value = Vec<(&'static str, Option<Value>)>> {
    let uri = json!("s3://models/digits");
    let model = one_of(&[
        json!({"modelFormat": {"name": "pytorch"}, "storageUri": uri}),
        json!({"modelFormat": {"name": "pytorch"}}),
    ]);
    let short = one_of(&[json!({"storageUri": uri}), json!({})]);
    let containers = one_of(&[json!([]), json!([{"name": "kserve-container", "image": "example/server:1"}])]);
    (proptest::option::weighted(0.8, model), seldom(short), seldom(containers), seldom(storage_uris())).prop_map(
        |(model, onnx, containers, uris)| {
            vec![("model", model), ("onnx", onnx), ("containers", containers), ("storageUris", uris)]
        },
    )
}

/// The fields that predictors and canaries share.
fn component() -> impl Strategy<Value = Vec<(&'static str, Option<Value>)>> {
    let counts = || one_of(&[json!(-1), json!(0), json!(1), json!(2), json!(3)]);
    let percents = one_of(&[json!(-1), json!(0), json!(50), json!(100), json!(101)]);
    (maybe(counts()), maybe(counts()), seldom(counts()), seldom(counts()), seldom(percents)).prop_map(
        |(least, most, concurrency, timeout, percent)| {
            vec![
                ("minReplicas", least),
                ("maxReplicas", most),
                ("containerConcurrency", concurrency),
                ("timeout", timeout),
                ("canaryTrafficPercent", percent),
            ]
        },
    )
}

fn predictor() -> impl Strategy<Value = Value> {
    let name = maybe(one_of(&[json!("stable"), json!("next")]));
    (component(), forms(), name)
        .prop_map(|(shared, forms, name)| object(shared.into_iter().chain(forms).chain([("name", name)])))
}

fn canary() -> impl Strategy<Value = Value> {
    let name = proptest::option::weighted(0.9, one_of(&[json!("stable"), json!("next"), json!("third")]));
    let least = maybe(one_of(&[json!(-1), json!(0), json!(1), json!(4)]));
    let unset = (
        seldom(Just(json!(2))),
        seldom(Just(json!(5))),
        seldom(Just(json!("concurrency"))),
        seldom(Just(json!({"metrics": []}))),
        seldom(Just(json!({}))),
    );
    let percent = one_of(&[json!(5), json!(40), json!(60)]);
    (name, least, unset, forms(), percent).prop_map(|(name, least, unset, forms, percent)| {
        let (most, target, metric, scaling, workers) = unset;
        let own = [
            ("name", name),
            ("minReplicas", least),
            ("maxReplicas", most),
            ("scaleTarget", target),
            ("scaleMetric", metric),
            ("autoScaling", scaling),
            ("workerSpec", workers),
        ];
        json!({"trafficPercent": percent, "predictor": object(own.into_iter().chain(forms))})
    })
}

/// The spec of a service that fits the schema and may break any rule of predictors and canaries.
fn spec() -> impl Strategy<Value = Value> {
    let canaries = proptest::option::of(proptest::collection::vec(canary(), 0..3));
    (predictor(), canaries).prop_map(|(predictor, canaries)| {
        object([("predictor", Some(predictor)), ("canary", canaries.map(Value::from))])
    })
}

fn manifest(name: &str, spec: &Value) -> Value {
    let (version, kind) = ("serving.kserve.io/v1beta1", "InferenceService");
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Returns the messages among `all` that appear in the text of a refusal.
fn of_rules(all: &BTreeSet<String>, refusal: &str) -> BTreeSet<String> {
    all.iter().filter(|message| refusal.contains(*message)).cloned().collect()
}

/// Returns the error with which the API server refuses to create an object, in a dry run; empty if it would create the
/// object.
async fn server_says(api: &Api<DynamicObject>, manifest: &Value) -> String {
    let options = PostParams { dry_run: true, ..PostParams::default() };
    let object = serde_json::from_value(manifest.clone()).unwrap();
    api.create(&options, &object).await.err().map(|error| format!("{error:?}")).unwrap_or_default()
}

fn controller_says(namespace: &str, manifest: &Value) -> String {
    let read = weir_crds::read("service.yaml", &manifest.to_string()).unwrap().remove(0);
    let Object::InferenceService(object) = read.object else { panic!("{manifest}") };
    let service = Service {
        name: ServiceName::new(namespace, "digits").unwrap(),
        object: KeptObject::Value(object),
        spans: None,
        claims: None,
        model_stamps: Default::default(),
    };
    let platform = Platform::new("example.com");
    validate(&service, &Runtimes::default(), &platform).err().map(|errors| errors.to_string()).unwrap_or_default()
}

#[tokio::test]
async fn the_server_and_the_controller_find_the_same_errors() {
    let world = World::new("rules").await;
    let api = world.services();
    let (all, mut runner, mut broken) = (messages(), TestRunner::deterministic(), BTreeSet::new());
    let mut differences = BTreeMap::new();
    for _ in 0..SERVICES {
        let manifest = manifest("digits", &spec().new_tree(&mut runner).unwrap().current());
        let (server, controller) = (server_says(&api, &manifest).await, controller_says(&world.namespace, &manifest));
        let (by_server, by_controller) = (of_rules(&all, &server), of_rules(&all, &controller));
        if by_server != by_controller {
            let only = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<Vec<_>>();
            let pair = (only(&by_server, &by_controller), only(&by_controller, &by_server));
            differences.insert(pair, format!("{manifest}\nserver: {server}\ncontroller: {controller}"));
        }
        broken.extend(by_server);
    }
    assert!(differences.is_empty(), "found only by the server, only by the controller, and where: {differences:#?}");
    let elsewhere = ["transformer", "explainer", "logger storage", "InferenceService name"];
    let unbroken: Vec<_> = all.difference(&broken).filter(|rule| !elsewhere.iter().any(|w| rule.contains(w))).collect();
    assert!(unbroken.is_empty(), "no service broke these rules: {unbroken:#?}");
}

#[tokio::test]
async fn the_server_and_the_controller_accept_the_same_names() {
    let world = World::new("rules-of-names").await;
    let (api, mut runner) = (world.services(), TestRunner::deterministic());
    let spec = json!({"predictor": {"model": {"modelFormat": {"name": "pytorch"}}}});
    let names = prop_oneof!["[a-z0-9.-]{1,4}", "[a-z][a-z0-9-]{0,45}[a-z0-9]", "[a-z]{46,50}"];
    for _ in 0..100 {
        let name = names.new_tree(&mut runner).unwrap().current();
        let server = server_says(&api, &manifest(&name, &spec)).await;
        let controller = ServiceName::new(&world.namespace, &name);
        assert_eq!(server.is_empty(), controller.is_ok(), "{name}\nserver: {server}\ncontroller: {controller:?}");
    }
}
