//! Objects survive a round trip through YAML, and defaults are stable.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, ResourceRequirements, Toleration, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use weir_crds::inference_service::{
    Batcher, Canary, Component, Framework, LogMode, Logger, Model, ModelFormat, Predictor, Protocol, ScaleMetric,
    StorageUri,
};
use weir_crds::serving_runtime::{RuntimePod, SupportedModelFormat};
use weir_crds::{
    InferenceService, InferenceServiceSpec, Object, ServingRuntime, ServingRuntimeSpec, read, with_defaults,
};

/// Generates words, many of which YAML could misread as another type. Strategies here and below are boxed, because
/// unboxed they are too large for a test's stack.
fn word() -> BoxedStrategy<String> {
    prop_oneof![
        select(vec![
            "",
            "on",
            "no",
            "y",
            "null",
            "~",
            "true",
            "0644",
            "1e3",
            "12",
            "0x1f",
            ".5",
            "- a",
            "a: b",
            "# c",
            "'",
            "\"",
            "*a",
            "&a",
            "!a",
            "<<",
            "two\nlines",
            " spaced ",
            "{{.Name}}",
            "%d",
            "@x",
            "`x`",
            "ä",
            "1_000",
            "2024-01-01",
            ".inf",
            "=",
        ])
        .prop_map(str::to_owned),
        "[a-z]([-a-z0-9]{0,8}[a-z0-9])?",
    ]
    .boxed()
}

fn words() -> BoxedStrategy<BTreeMap<String, String>> {
    btree_map("[a-z]{1,5}(\\.dev/[a-z]{1,5})?", word(), 0..3).boxed()
}

fn amounts() -> impl Strategy<Value = BTreeMap<String, Quantity>> {
    let quantity = select(vec!["1", "500m", "0.5", "4Gi", "1e3"]);
    let resource = select(vec!["cpu", "memory", "nvidia.com/gpu"]).prop_map(str::to_owned);
    btree_map(resource, quantity.prop_map(|text| Quantity(text.to_owned())), 1..3)
}

prop_compose! {
    fn container(name: impl Strategy<Value = String>)(
        name in name,
        image in option::of(word()),
        args in option::of(vec(word(), 1..3)),
        env in option::of(vec((word(), option::of(word())), 1..3)),
        limits in option::of(amounts()),
        requests in option::of(amounts()),
    ) -> Container {
        Container {
            name,
            image,
            args,
            env: env.map(|env| {
                let variable = |(name, value)| EnvVar { name, value, value_from: None };
                env.into_iter().map(variable).collect()
            }),
            resources: (limits.is_some() || requests.is_some()).then_some(ResourceRequirements {
                limits,
                requests,
                claims: None,
            }),
            ..Container::default()
        }
    }
}

prop_compose! {
    fn pod()(
        containers in vec(container(word()).boxed(), 0..3),
        labels in option::of(words()),
        key in option::of(word()),
        host_ipc in option::of(any::<bool>()),
        volume in option::of(word()),
    ) -> PodSpec {
        PodSpec {
            containers,
            node_selector: labels,
            tolerations: key.map(|key| vec![Toleration { key: Some(key), ..Toleration::default() }]),
            host_ipc,
            volumes: volume.map(|name| vec![Volume { name, ..Volume::default() }]),
            ..PodSpec::default()
        }
    }
}

prop_compose! {
    fn component()(
        min_replicas in option::of(0..5),
        max_replicas in option::of(0..5),
        scale_metric in option::of(select(vec![
            ScaleMetric::Cpu, ScaleMetric::Memory, ScaleMetric::Concurrency, ScaleMetric::Rps,
        ])),
        container_concurrency in option::of(any::<i64>()),
        canary_traffic_percent in option::of(0..=100),
        logger in option::of((option::of(word()), option::of(select(vec![
            LogMode::All, LogMode::Request, LogMode::Response,
        ])))),
        batcher in option::of((option::of(1..9), option::of(0..9))),
        annotations in option::of(words()),
    ) -> Component {
        Component {
            min_replicas,
            max_replicas,
            scale_metric,
            container_concurrency,
            canary_traffic_percent,
            logger: logger.map(|(url, mode)| Box::new(Logger { url, mode, ..Logger::default() })),
            batcher: batcher.map(|(max_batch_size, max_latency)| Batcher {
                max_batch_size,
                max_latency,
                timeout: None,
            }),
            annotations,
            ..Component::default()
        }
    }
}

prop_compose! {
    fn framework()(
        storage_uri in option::of(word()),
        protocol_version in option::of(select(vec![
            Protocol::V1, Protocol::V2, Protocol::GrpcV1, Protocol::GrpcV2,
        ])),
        container in container(Just(String::new())).boxed(),
    ) -> Framework {
        Framework { storage_uri, protocol_version, container: Box::new(container), ..Framework::default() }
    }
}

prop_compose! {
    fn predictor()(
        name in option::of(word()),
        model in option::of((word(), option::of(word()), framework().boxed())),
        triton in option::of(framework().boxed()),
        uri in option::of((word(), option::of(word()))),
        pod in pod().boxed(),
        component in component().boxed(),
    ) -> Predictor {
        Predictor {
            name,
            model: model.map(|(name, version, framework)| Box::new(Model {
                model_format: ModelFormat { name, version },
                runtime: None,
                framework,
            })),
            triton: triton.map(Box::new),
            storage_uris: uri.map(|(uri, mount_path)| StorageUri { uri, mount_path }).into_iter().collect(),
            pod: Box::new(pod),
            component,
            ..Predictor::default()
        }
    }
}

prop_compose! {
    fn service()(
        name in "[a-z]{1,9}",
        annotations in option::of(words()),
        predictor in predictor().boxed(),
        canary in vec((predictor().boxed(), 0..=100), 0..2),
    ) -> InferenceService {
        let canary = canary.into_iter().map(|(predictor, traffic_percent)| Canary {
            predictor,
            traffic_percent,
        });
        let mut service = InferenceService::new(&name, InferenceServiceSpec {
            predictor,
            canary: canary.collect(),
            ..InferenceServiceSpec::default()
        });
        service.metadata.annotations = annotations;
        service
    }
}

prop_compose! {
    fn runtime()(
        name in "[a-z]{1,9}",
        formats in vec((word(), option::of(word()), option::of(1..9)), 0..3),
        disabled in option::of(any::<bool>()),
        containers in vec(container(word()).boxed(), 1..3),
        labels in option::of(words()),
    ) -> ServingRuntime {
        let format = |(name, version, priority)| SupportedModelFormat {
            name,
            version,
            auto_select: Some(true),
            priority,
        };
        ServingRuntime::new(&name, ServingRuntimeSpec {
            supported_model_formats: formats.into_iter().map(format).collect(),
            disabled,
            pod: RuntimePod { containers, labels, ..RuntimePod::default() },
            ..ServingRuntimeSpec::default()
        })
    }
}

/// Reads the only object of a text.
fn only_object(text: &str) -> Object {
    let manifests = read("written.yaml", text).unwrap_or_else(|diagnostics| {
        panic!("{}\n{text}", diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    });
    let [manifest] = <[_; 1]>::try_from(manifests).unwrap();
    manifest.object
}

fn written(object: &impl Serialize) -> String {
    serde_saphyr::to_string(object).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_service_is_read_as_it_is_written(service in service()) {
        prop_assert_eq!(only_object(&written(&service)), Object::InferenceService(Arc::new(service)));
    }

    #[test]
    fn json_is_read_like_yaml(service in service()) {
        let json = serde_json::to_string_pretty(&service).unwrap();
        prop_assert_eq!(only_object(&json), Object::InferenceService(Arc::new(service)));
    }

    #[test]
    fn a_runtime_is_read_as_it_is_written(runtime in runtime()) {
        prop_assert_eq!(only_object(&written(&runtime)), Object::ServingRuntime(Box::new(runtime)));
    }

    #[test]
    fn defaults_are_idempotent(service in service()) {
        let once = with_defaults(service);
        prop_assert_eq!(with_defaults(once.clone()), once);
    }

    /// Inserts a few typing errors anywhere in a valid manifest.
    #[test]
    fn diagnostics_have_positions_in_the_text(
        slips in vec((any::<prop::sample::Index>(), 0..4_usize, "[-:{}\\[\\]&*!#'\"| \n\ta0]"), 1..4),
    ) {
        let mut text: Vec<char> = include_str!("samples/unsupported.yaml").chars().collect();
        for (at, removed, inserted) in slips {
            let at = at.index(text.len());
            let end = (at + removed).min(text.len());
            text.splice(at..end, inserted.chars());
        }
        let text: String = text.into_iter().collect();
        let lines = text.lines().count();
        for diagnostic in read("any.yaml", &text).err().unwrap_or_default() {
            let weir_crds::Position { line, column } = diagnostic.position;
            prop_assert!((1..=lines + 1).contains(&line), "{diagnostic}");
            let width = text.lines().nth(line - 1).map_or(0, |line| line.chars().count());
            prop_assert!((1..=width + 1).contains(&column), "{diagnostic}");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s).{0,200}") {
        let _ = read("any.yaml", &text);
    }
}
