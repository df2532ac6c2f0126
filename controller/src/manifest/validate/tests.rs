use std::num::NonZeroU32;
use std::time::Duration;

use proptest::prelude::*;
use weir_cluster::{
    ChangeLimit, Economy, Host, OpenAiApi, PolicySelect, RatePolicy, ReadyCall, ScaleTarget, ScalingBehavior,
    ScalingPolicy, ScalingRules,
};
use weir_crds::inference_service::FailureReason;

use super::*;
use crate::fixtures::{errors, model, platform, service, validated};
use crate::manifest::scaling::ScaledBy;
use crate::rollout::{Limits, Step, Strategy};
use crate::runtimes::Runtimes;

#[track_caller]
fn finds(annotations: &[(&str, &str)], spec: &str, expected: &str) {
    let found = errors(annotations, spec);
    assert_eq!(found, expected, "\n{found}");
}

/// Checks that this value of an annotation is an error.
#[track_caller]
fn refuses(annotation: &str, value: &str, error: &str) {
    finds(&[(annotation, value)], &model("digits", &[]), &format!("metadata.annotations[{annotation}]: {error}"));
}

#[test]
fn rules_of_the_schema_are_checked_without_an_api_server() {
    finds(
        &[],
        &model("digits", &["minReplicas: 3", "maxReplicas: 2"]),
        "spec.predictor.minReplicas: 'MinReplicas' cannot be greater than MaxReplicas",
    );
    finds(
        &[],
        &model("digits", &["minReplicas: -1", "containerConcurrency: -1", "timeout: -1"]),
        "spec.predictor.minReplicas: 'MinReplicas' cannot be less than 0\n\
         spec.predictor.containerConcurrency: parallelism cannot be less than 0\n\
         spec.predictor.timeout: timeout cannot be less than 0",
    );
    let both = model("digits", &["pytorch: {storageUri: pvc://models/x}"]);
    assert!(errors(&[], &both).contains("Exactly one of [sklearn, "));
    assert!(errors(&[], "  predictor: {minReplicas: 1}\n").contains("Exactly one of"));
}

#[test]
fn rules_beyond_the_schema_are_checked_too() {
    assert_eq!(errors(&[], &model("digits", &["name: stable"])), "");
    let named = errors(&[], &model("digits", &["name: Stable_1"]));
    assert!(named.starts_with("spec.predictor.name: ") && named.contains("Stable_1"));
    let storage = model("digits", &[]).replace("pvc://", "ftp://");
    assert!(errors(&[], &storage).ends_with("StorageUri [ftp://models/digits] is not supported"));
    let secret = storage.replace("ftp://models/digits", "ftp://me:pw@models/digits?key=pw");
    assert!(errors(&[], &secret).ends_with("StorageUri [ftp://models/digits] is not supported"));
    let block = model("digits", &[]).replace("pvc://models/digits", "|\n        pvc://models/digits");
    assert!(errors(&[], &block).starts_with("spec.predictor.model.storageUri: has a line break"));
    let path = model("digits", &[]).replace("pvc://", "./");
    assert!(errors(&[], &path).ends_with(
        "StorageUri [./models/digits] is not supported: write a path as file:///abs/path, or as pvc://CLAIM/path"
    ));
    finds(
        &[],
        &format!("{}      env: [{{name: PYTHONPATH, value: /x}}]\n", model("digits", &[])),
        "spec.predictor.model.env[0]: the variable PYTHONPATH may not be set",
    );
    finds(
        &[],
        &format!(
            "{}      env: [{{name: A.b-C, value: x}}, {{name: A=B, value: x}}, {{name: '', value: x}}]\n",
            model("digits", &[])
        ),
        "spec.predictor.model.env[1].name: \"A=B\" is no name of a variable: it must have printable ASCII characters, and no `=`\n\
         spec.predictor.model.env[2].name: \"\" is no name of a variable: it must have printable ASCII characters, and no `=`",
    );
    refuses(
        "serving.kserve.io/autoscalerClass",
        "vpa",
        "`vpa` is not a supported autoscaler class: hpa, keda, external or none",
    );
    finds(
        &[("weir.dev/max-queue", "0"), ("weir.dev/activation-timeout", "5")],
        &model("digits", &[]),
        "metadata.annotations[weir.dev/activation-timeout]: `5` is not a duration such as 500ms, 55s or 1m30s\n\
         metadata.annotations[weir.dev/max-queue]: `0` is not a whole number from 1",
    );
    assert!(
        errors(&[("weir.dev/rollouts", "automatic")], &model("digits", &[]))
            .starts_with("metadata.annotations[weir.dev/rollouts]: unknown annotation; did you mean weir.dev/rollout?")
    );
}

/// Returns the paths of the fields without effect.
fn ignored_fields(validated: &Validated) -> Vec<&str> {
    let ignored = validated.ignored_fields.iter();
    ignored.map(|ignored| &*ignored.field).collect()
}

#[test]
fn unsupported_kserve_fields_are_refused_or_listed_as_ignored() {
    let validated = validated(&[], &model("digits", &["scaleMetric: cpu", "scaleTarget: 80"]));
    let fields = ignored_fields(&validated);
    assert_eq!(fields, ["spec.predictor.scaleMetric"]);
    let bare = crate::fixtures::validated(&[], &model("digits", &["scaleTarget: 80"]));
    assert_eq!(bare.ignored_fields[0].field, "spec.predictor.scaleTarget");
    assert_eq!(bare.predictor.scaling.policy.target, None);
}

#[test]
fn no_annotation_about_scaling_is_ignored_silently() {
    let known = "autoscaling.knative.dev/window";
    let validated = validated(
        &[
            (known, "30s"),
            ("autoscaling.knative.dev/class", "kpa"),
            ("serving.kserve.io/targetUtilizationPercentage", "80"),
        ],
        &model("digits", &["annotations: {autoscaling.knative.dev/tick: 1s}"]),
    );
    let fields = ignored_fields(&validated);
    assert_eq!(
        fields,
        [
            "metadata.annotations[autoscaling.knative.dev/class]",
            "metadata.annotations[serving.kserve.io/targetUtilizationPercentage]",
            "spec.predictor.annotations[autoscaling.knative.dev/tick]",
        ]
    );
    finds(
        &[("serving.kserve.io/deploymentMode", "Mesh")],
        &model("digits", &["annotations: {weir.dev/max-queue: '3'}"]),
        "spec.predictor.annotations[weir.dev/max-queue]: move it to metadata.annotations\n\
         metadata.annotations[serving.kserve.io/deploymentMode]: `Mesh` is not a deployment mode: Standard, RawDeployment, Knative or Serverless",
    );
}

#[test]
fn a_mistyped_annotation_gets_a_suggestion() {
    let validated = validated(
        &[
            ("autoscaling.knative.dev/max-scal", "2"),
            ("autoscaling.knative.dev/tick", "1s"),
            ("serving.kserve.io/sto", "true"),
        ],
        &model("digits", &[]),
    );
    let ignored_fields = &validated.ignored_fields;
    let reasons: Vec<_> = ignored_fields.iter().map(|ignored| &*ignored.reason).collect();
    assert_eq!(
        reasons,
        [
            "Weir does not know it; did you mean autoscaling.knative.dev/max-scale?",
            "Weir does not know it",
            "Weir does not know it; did you mean serving.kserve.io/stop?",
        ]
    );
    refuses("weir.dev/slo-percentil", "99", "unknown annotation; did you mean weir.dev/slo-percentile?");
}

#[test]
fn names_of_gpus_must_be_a_json_list() {
    refuses(
        "serving.kserve.io/gpu-resource-types",
        "example.com/npu",
        "`example.com/npu` is not a JSON list of names, such as \
         [\"example.com/npu\"]",
    );
}

#[test]
fn a_gpu_that_weirs_images_cannot_use_is_refused() {
    let asking = |resource: &str, args: &str| {
        format!("{}      resources: {{limits: {{{resource}: 1}}}}\n{args}", model("digits", &[]))
    };
    finds(
        &[],
        &asking("amd.com/gpu", ""),
        "spec.predictor.model.resources: the container kserve-container asks for amd.com/gpu, and the images of Weir's \
         runtime run models on NVIDIA GPUs and on CPUs: request nvidia.com/gpu, use another runtime, or name an image \
         that supports this device and set --device in args",
    );
    assert_eq!(errors(&[], &asking("amd.com/gpu", "      args: [--device=cuda]\n")), "");
    assert_eq!(errors(&[], &asking("nvidia.com/gpu", "")), "");
    assert_eq!(errors(&[], &asking("nvidia.com/mig-1g.10gb", "")), "");
}

#[test]
fn kserves_finalizer_is_reported_before_it_blocks_a_deletion() {
    let mut of_kserve = service(&[], &model("digits", &[]));
    let finalizers = ["example.com/mine", "inferenceservice.finalizers"];
    of_kserve.object.metadata_mut().finalizers = Some(finalizers.map(str::to_owned).into());
    let validated = validate(&of_kserve, &Runtimes::default(), &platform()).unwrap();
    let reported = ignored_fields(&validated);
    assert_eq!(reported, ["metadata.finalizers[inferenceservice.finalizers]"]);
}

#[test]
fn an_unknown_annotation_of_kserve_gets_a_suggestion() {
    let validated = validated(
        &[
            ("serving.kserve.io/deploymentMode", "Standard"),
            ("serving.kserve.io/gpu-resource-types", "[\"example.com/npu\"]"),
            ("serving.kserve.io/nodegroup", "a"),
            ("serving.kserve.io/stopp", "true"),
            ("example.com/stopp", "true"),
        ],
        &model("digits", &["annotations: {serving.kserve.io/of-the-pod: a}"]),
    );
    let ignored: Vec<_> =
        validated.ignored_fields.iter().map(|ignored| format!("{}: {}", ignored.field, ignored.reason)).collect();
    assert_eq!(
        ignored,
        [
            "metadata.annotations[serving.kserve.io/nodegroup]: models are not cached by node groups",
            "metadata.annotations[serving.kserve.io/stopp]: Weir does not know it; did you mean serving.kserve.io/stop?",
        ]
    );
}

#[test]
fn a_format_without_a_runtime_sets_the_failure_reason() {
    let spec = model("digits", &[]).replace("name: pytorch", "name: pmml, version: '4'");
    let service = service(&[], &spec);
    let errors = validate(&service, &Runtimes::default(), &platform()).unwrap_err();
    assert_eq!(errors.reason, FailureReason::NoSupportingRuntime);
    assert_eq!(
        errors.list[0].to_string(),
        "spec.predictor.model.modelFormat: no runtime serves the format pmml version 4; formats that work here: echo, onnx, pytorch, torchscript, triton. Save \
         a PyTorch model with torch.export.save and declare it as pytorch, or convert another to ONNX and declare it as \
         onnx. On Kubernetes the ClusterServingRuntime kserve-pmmlserver takes pmml: kubectl apply --server-side -f \
         kserve-cluster-resources.yaml of a KServe release installs it"
    );
    assert_eq!(service.located(&errors.list[0].field, "x"), "service.yaml:8:7: spec.predictor.model.modelFormat: x");
}

#[test]
fn annotations_become_values() {
    let validated = validated(
        &[
            ("weir.dev/queue-delay-target", "200ms"),
            ("weir.dev/activation-timeout", "2m"),
            ("weir.dev/max-queue", "7"),
            ("weir.dev/mirror", "10%"),
            ("weir.dev/rollout", "automatic"),
            ("weir.dev/rollout-steps", "10@5s, 50"),
            ("weir.dev/rollout-max-error-rate", "2%"),
            ("autoscaling.knative.dev/scale-to-zero-pod-retention-period", "90s"),
            ("autoscaling.knative.dev/initialScale", "3"),
            ("autoscaling.knative.dev/max-scale", "4"),
        ],
        &model("digits", &["minReplicas: 0", "timeout: 30", "containerConcurrency: 2"]),
    );
    assert_eq!(validated.exposure.activation_timeout, Duration::from_secs(120));
    assert_eq!((validated.exposure.max_queue, validated.exposure.timeout), (7, Some(Duration::from_secs(30))));
    assert_eq!(
        validated.exposure.mirror.map(|(tag, percent)| (tag.to_string(), percent)),
        Some(("latest".to_owned(), 10))
    );
    assert_eq!(validated.concurrency.map(NonZeroU32::get), Some(2));
    let scaling = &validated.predictor.scaling;
    let policy = ScalingPolicy {
        min: 0,
        max: Some(4),
        queue_delay: Duration::from_millis(200),
        retention: Some(Duration::from_secs(90)),
        ..ScalingPolicy::default()
    };
    assert_eq!((&scaling.policy, scaling.initial), (&policy, 3));
    assert_eq!((scaling.by, scaling.at_creation()), (ScaledBy::Weir, 3));
    let steps =
        [(10, 5), (50, 60)].map(|(percent, seconds)| Step { percent, min_duration: Duration::from_secs(seconds) });
    let limits = Limits { steps: steps.into(), max_error_rate: 0.02, ..Limits::default() };
    assert_eq!(validated.strategy, Strategy::Automatic(limits.into()));
}

#[test]
fn openais_api_is_declared_by_the_annotation_or_known_from_the_runtime() {
    let of = |annotations: &[(&str, &str)], spec: &str| validated(annotations, spec).exposure.openai;
    let of_container = "  predictor: {containers: [{name: server, image: x, command: [serve]}]}\n";
    assert_eq!(of(&[], &model("digits", &[])), OpenAiApi::Absent);
    assert_eq!(of(&[], of_container), OpenAiApi::Undeclared);
    assert_eq!(of(&[("weir.dev/openai-api", "true")], &model("digits", &[])), OpenAiApi::Supported);
    assert_eq!(of(&[("weir.dev/openai-api", "false")], of_container), OpenAiApi::Absent);
}

#[test]
fn rules_for_clients_are_read_from_the_annotation() {
    let text = "- clients: [team-b]\n- roles: [ops]\n  operations: [infer, control]\n";
    let access = validated(&[("weir.dev/access", text)], &model("digits", &[])).exposure.access;
    assert_eq!(access.as_slice().len(), 2);
    assert_eq!(access.as_slice()[0].clients, ["team-b"]);
    for (text, error) in [
        ("[{client: [a]}]", "its text:1:3: [0].client: unknown field; did you mean `clients`?"),
        (
            "[{clients: [a], services: [\"*\"]}]",
            "[0].services: a rule of an annotation is for its own service: leave out `services`",
        ),
        ("[{}]", "[0]: the rule allows no caller: set `clients`, `roles` or `anyone: true`"),
        ("team-b", "its text:1:1: expected a list, found the text `team-b`"),
    ] {
        refuses("weir.dev/access", text, error);
    }
}

#[test]
fn targets_for_load_and_delay_can_be_combined() {
    let component = ["scaleMetric: concurrency", "scaleTarget: 4", "annotations: {weir.dev/economy: latency}"];
    let validated = validated(
        &[
            ("weir.dev/queue-delay-target", "200ms"),
            ("weir.dev/slo-percentile", "95"),
            ("weir.dev/economy", "economy"),
            ("autoscaling.knative.dev/window", "30s"),
        ],
        &model("digits", &component),
    );
    let policy = ScalingPolicy {
        target: Some(ScaleTarget::Concurrency(4.0)),
        queue_delay: Duration::from_millis(200),
        quantile: 0.95,
        economy: Economy::Latency,
        window: Duration::from_secs(30),
        ..ScalingPolicy::default()
    };
    assert_eq!(validated.predictor.scaling.policy, policy);
}

#[test]
fn knatives_annotations_become_a_policy() {
    let validated = validated(
        &[
            ("autoscaling.knative.dev/min-scale", "2"),
            ("autoscaling.knative.dev/maxScale", "9"),
            ("autoscaling.knative.dev/activation-scale", "3"),
            ("autoscaling.knative.dev/scale-to-zero-pod-retention-period", "1m5s"),
            ("autoscaling.knative.dev/scale-down-delay", "15m"),
            ("autoscaling.knative.dev/window", "40s"),
            ("autoscaling.knative.dev/metric", "concurrency"),
            ("autoscaling.knative.dev/target", "10"),
            ("autoscaling.knative.dev/target-utilization-percentage", "70"),
            ("weir.dev/queue-delay-target", "500ms"),
            ("weir.dev/slo-percentile", "95"),
            ("weir.dev/economy", "balanced"),
        ],
        &model("digits", &[]),
    );
    let expected = ScalingPolicy {
        min: 2,
        max: Some(9),
        queue_delay: Duration::from_millis(500),
        quantile: 0.95,
        economy: Economy::Balanced,
        target: Some(ScaleTarget::Concurrency(7.0)),
        retention: Some(Duration::from_secs(65)),
        scale_down_delay: Duration::from_secs(900),
        window: Duration::from_secs(40),
        activation: NonZeroU32::new(3).unwrap(),
        ..ScalingPolicy::default()
    };
    assert_eq!(validated.predictor.scaling.policy, expected);
}

#[test]
fn fields_become_a_policy_and_omitted_ones_keep_their_defaults() {
    let policy = |fields: &[&str]| validated(&[], &model("digits", fields)).predictor.scaling.policy;
    assert_eq!(policy(&[]), ScalingPolicy::default());
    let fields = ["minReplicas: 0", "maxReplicas: 4", "scaleMetric: rps", "scaleTarget: 50"];
    let expected =
        ScalingPolicy { min: 0, max: Some(4), target: Some(ScaleTarget::Rps(50.0)), ..ScalingPolicy::default() };
    assert_eq!(policy(&fields), expected);
}

#[test]
fn invalid_targets_are_named() {
    for annotation in [
        ("weir.dev/queue-delay-target", "0s"),
        ("weir.dev/slo-percentile", "100"),
        ("weir.dev/economy", "cheap"),
        ("weir.dev/queue-delay-target", "fast"),
        ("autoscaling.knative.dev/window", "5s"),
        ("autoscaling.knative.dev/window", "2h"),
        ("autoscaling.knative.dev/window", ""),
        ("autoscaling.knative.dev/min-scale", "-1"),
        ("autoscaling.knative.dev/activation-scale", "0"),
        ("autoscaling.knative.dev/target", "NaN"),
    ] {
        let errors = errors(&[annotation], &model("digits", &[]));
        assert!(errors.contains(annotation.0), "{errors}");
    }
}

#[test]
fn a_canary_percentage_wins_over_automatic_steps() {
    let spec = model("digits", &["canaryTrafficPercent: 20"]);
    let validated = validated(&[("weir.dev/rollout", "automatic")], &spec);
    assert_eq!(validated.strategy, Strategy::Manual(Some(20)));
}

#[test]
fn a_service_has_external_hosts_unless_it_is_cluster_local() {
    let open = validated(&[], &model("digits", &[]));
    assert_eq!(open.exposure.external_host.as_ref().map(Host::as_str), Some("digits-default.example.com"));
    assert_eq!(open.exposure.hosts.len(), 2 + 6);
    assert_eq!(open.exposure.model.as_deref(), Some("digits"));
    let mut service = service(&[], &model("digits", &[]));
    let label = ("networking.kserve.io/visibility".to_owned(), "cluster-local".to_owned());
    service.object.metadata_mut().labels = Some([label].into());
    let closed = validate(&service, &Runtimes::default(), &platform()).unwrap();
    assert_eq!((closed.exposure.external_host, closed.exposure.hosts.len()), (None, 6));
}

#[test]
fn a_host_that_is_too_long_is_refused_with_what_to_do() {
    let mut service = service(&[], &model("digits", &[]));
    service.name = ServiceName::new(&"n".repeat(60), "digits").unwrap();
    let errors = validate(&service, &Runtimes::default(), &platform()).unwrap_err();
    let message = errors.to_string();
    assert!(
        message.contains("at most 63 characters, has 67; shorten the name, or make the service cluster-local")
            && message.contains("networking.kserve.io/visibility: cluster-local"),
        "{message}"
    );
}

#[test]
fn inside_hosts_use_the_clusters_own_domain() {
    let platform = Platform { cluster_domain: "k8s.example".to_owned(), ..platform() };
    let service = service(&[], &model("digits", &[]));
    let validated = validate(&service, &Runtimes::default(), &platform).unwrap();
    let hosts = validated.exposure.hosts.iter().map(Host::as_str);
    let whole: Vec<_> = hosts.filter(|host| host.contains(".svc.")).collect();
    let expected = ["digits.default.svc.k8s.example", "digits-predictor.default.svc.k8s.example"];
    assert_eq!(whole, expected);
}

const CANARIES: &str = "  canary:
  - trafficPercent: 20
    predictor: {name: blue, model: {modelFormat: {name: pytorch}, storageUri: pvc://models/blue}}
";

#[test]
fn nothing_of_a_canary_is_ignored_silently() {
    let own = CANARIES.replace(
        "{name: blue,",
        "{name: blue, timeout: 5, containerConcurrency: 2, annotations: {weir.dev/economy: latency, \
         weir.dev/max-batch-time: 90s, autoscaling.knative.dev/target: '7', example.com/mine: '1'},",
    );
    assert_ne!(own, CANARIES);
    let validated = validated(&[], &(model("digits", &[]) + &own));
    let fields = ignored_fields(&validated);
    assert_eq!(
        fields,
        [
            "spec.canary[0].predictor.timeout",
            "spec.canary[0].predictor.containerConcurrency",
            "spec.canary[0].predictor.annotations[autoscaling.knative.dev/target]",
            "spec.canary[0].predictor.annotations[weir.dev/economy]",
        ]
    );
    let misspelt = own.replace("weir.dev/economy", "weir.dev/economyy");
    let errors = errors(&[], &(model("digits", &[]) + &misspelt));
    let field = "spec.canary[0].predictor.annotations[weir.dev/economyy]: unknown annotation";
    assert!(errors.contains(field), "{errors}");
}

#[test]
fn a_canary_may_name_its_models_in_the_other_way() {
    let single = "model: {modelFormat: {name: pytorch}, storageUri: pvc://models/digits}";
    let listed =
        "model: {modelFormat: {name: pytorch}}, storageUris: [{uri: pvc://models/next, mountPath: /mnt/models}]";
    for (stable, canary, uri) in [(single, listed, "pvc://models/next"), (listed, single, "pvc://models/digits")] {
        let spec = format!(
            "  predictor: {{{stable}}}\n  canary: [{{trafficPercent: 5, predictor: {{name: next, {canary}}}}}]\n"
        );
        let validated = validated(&[], &spec);
        let storage = &validated.canaries[0].variant.storage;
        assert_eq!(storage.iter().map(|one| &*one.uri).collect::<Vec<_>>(), [uri]);
    }
}

#[test]
fn a_canary_is_merged_over_the_predictor() {
    let spec = model("digits", &["minReplicas: 4", "maxReplicas: 9", "labels: {team: a}"]);
    let validated = validated(&[], &format!("{spec}{CANARIES}"));
    let canary = &validated.canaries[0];
    assert_eq!((canary.tag.as_str(), canary.percent), ("blue", 20));
    assert_eq!(&*canary.variant.storage[0].uri, "pvc://models/blue");
    let policy = &canary.variant.scaling.policy;
    assert_eq!((policy.min, policy.max), (1, Some(9)));
    let labels = |variant: &Variant| variant.template.read().metadata.and_then(|m| m.labels);
    assert_eq!(labels(&canary.variant), labels(&validated.predictor));
    assert_eq!(canary.variant.runtime, validated.predictor.runtime);
}

#[test]
fn rules_of_canaries_are_checked() {
    let spec = format!(
        "{}{CANARIES}{}",
        model("digits", &[]),
        CANARIES
            .trim_start_matches("  canary:\n")
            .replace("20", "90")
            .replace("{name: blue", "{maxReplicas: 2, name: blue")
    );
    finds(
        &[],
        &spec,
        "spec.canary: sum of canary trafficPercent values must be <= 100\n\
         spec.canary[1].predictor.maxReplicas: canary must not set maxReplicas\n\
         spec.canary[1].predictor.name: canary predictor.name is duplicated",
    );
    let taken = format!("{}{}", model("digits", &[]), CANARIES.replace("blue,", "prev,"));
    assert!(errors(&[], &taken).starts_with("spec.canary[0].predictor.name: `latest` and `prev`"));
    let names = (0..30).map(|i| format!("  - {{trafficPercent: 1, predictor: {{name: c{i}}}}}\n"));
    let many: String = names.collect();
    let many = format!("{}  canary:\n{many}", model("digits", &[]));
    assert_eq!(errors(&[], &many), "spec.canary: 30 canaries: write at most 20");
}

#[test]
fn a_custom_container_names_its_model_in_a_variable() {
    let spec = "  predictor:
    containers:
    - name: server
      command: [serve]
      env: [{name: STORAGE_URI, value: pvc://models/x}]
";
    let validated = validated(&[], spec);
    assert_eq!(&*validated.predictor.storage[0].uri, "pvc://models/x");
    assert_eq!(validated.predictor.storage[0].claims.as_deref(), Some(std::path::Path::new("/here")));
    assert_eq!(validated.predictor.runtime, None);
}

proptest! {
    /// The numbers of a component are valid exactly when the schema's rules say so.
    #[test]
    fn numbers_are_checked_as_the_schema_does(
        min in -2..5_i32, max in -2..5_i32, concurrency in -2..3_i64, percent in -5..106_i32,
    ) {
        let spec = model("digits", &[
            &format!("minReplicas: {min}"),
            &format!("maxReplicas: {max}"),
            &format!("containerConcurrency: {concurrency}"),
            &format!("canaryTrafficPercent: {percent}"),
        ]);
        let bounds = min >= 0 && max >= 0 && (max == 0 || min <= max);
        let right = bounds && concurrency >= 0 && (0..=100).contains(&percent);
        prop_assert_eq!(errors(&[], &spec).is_empty(), right);
    }

    /// Any annotation is read, or refused by an error that names it.
    #[test]
    fn every_annotation_is_read_or_refused(name in prop::sample::select(&crate::manifest::annotations::WEIR_ANNOTATIONS[..]), value in "[ -~]{0,12}") {
        let mut service = service(&[], &model("digits", &[]));
        service.object.metadata_mut().annotations = Some([(name.to_owned(), value)].into());
        if let Err(errors) = validate(&service, &Runtimes::default(), &platform()) {
            prop_assert!(errors.list.iter().all(|error| error.field.contains(name)));
        }
    }
}

#[test]
fn the_longest_time_of_a_batch_reaches_the_runtime() {
    let variable = |service: &[(&str, &str)], fields: &[&str]| {
        let validated = validated(service, &model("digits", fields));
        let pod = validated.predictor.template.read().spec.unwrap();
        let env = pod.containers[0].env.clone().unwrap_or_default();
        let mut env = env.into_iter();
        let set = env.find(|variable| variable.name == "WEIR_MAX_BATCH_SECONDS");
        set.and_then(|variable| variable.value)
    };
    let service = [("weir.dev/max-batch-time", "5m")];
    assert_eq!(variable(&[], &[]), None);
    assert_eq!(variable(&service, &[]).as_deref(), Some("300"));
    let own = ["annotations: {weir.dev/max-batch-time: 90s}"];
    assert_eq!(variable(&service, &own).as_deref(), Some("90"));
    for wrong in ["5", "0s", "1500ms"] {
        let error = format!("`{wrong}` is not a duration in whole seconds, such as 90s or 5m");
        refuses("weir.dev/max-batch-time", wrong, &error);
    }
}

#[test]
fn fields_left_out_of_a_behavior_have_kubernetes_defaults() {
    let read = |behavior: &str| {
        let spec = model("digits", &[&format!("autoScaling: {{behavior: {behavior}}}")]);
        let validated = validated(&[], &spec);
        assert_eq!(validated.ignored_fields, []);
        validated.predictor.scaling.policy.behavior
    };
    assert_eq!(read("{}"), ScalingBehavior::default());
    let down = Some(ScalingRules { window: Duration::from_secs(60), ..ScalingRules::default_down() });
    let up = None;
    assert_eq!(read("{scaleDown: {stabilizationWindowSeconds: 60}}"), ScalingBehavior { up, down });
    let up = Some(ScalingRules {
        policies: vec![RatePolicy { most: ChangeLimit::Percent(50), period: Duration::from_secs(1800) }],
        select: PolicySelect::Min,
        tolerance: 0.05,
        ..ScalingRules::default_up()
    });
    let down = None;
    assert_eq!(
        read(
            "{scaleUp: {tolerance: 50m, selectPolicy: Min, policies: [{type: Percent, value: 50, periodSeconds: 1800}]}}"
        ),
        ScalingBehavior { up, down }
    );
}

#[test]
fn a_behavior_that_kubernetes_would_refuse_is_refused_with_what_to_write() {
    let refused = |behavior: &str, expected: &str| {
        let spec = model("digits", &[&format!("autoScaling: {{behavior: {behavior}}}")]);
        finds(&[], &spec, &format!("spec.predictor.autoScaling.behavior.{expected}"));
    };
    refused(
        "{scaleUp: {stabilizationWindowSeconds: 3601}}",
        "scaleUp.stabilizationWindowSeconds: 3601 is not from 0 to 3600: write seconds, such as 300",
    );
    refused(
        "{scaleDown: {stabilizationWindowSeconds: -1}}",
        "scaleDown.stabilizationWindowSeconds: -1 is not from 0 to 3600: write seconds, such as 300",
    );
    refused(
        "{scaleDown: {selectPolicy: Most}}",
        "scaleDown.selectPolicy: `Most` is not known: write Max, Min or Disabled",
    );
    refused(
        "{scaleDown: {policies: []}}",
        "scaleDown.policies: there must be a policy: write one, or leave the field out for the default",
    );
    refused(
        "{scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 15}, {type: Pod, value: 0, periodSeconds: 1801}]}}",
        "scaleUp.policies[1].periodSeconds: 1801 is not from 1 to 1800: write seconds, such as 60\n\
         spec.predictor.autoScaling.behavior.scaleUp.policies[1].value: 0 is not above 0: write a number such as 4\n\
         spec.predictor.autoScaling.behavior.scaleUp.policies[1].type: `Pod` is not known: write Pods or Percent",
    );
    refused(
        "{scaleUp: {tolerance: -0.1}}",
        "scaleUp.tolerance: `-0.1` is not a share of 0 or more: write a number such as \"0.05\" for 5 %",
    );
}

#[test]
fn a_behavior_without_effect_is_listed_as_ignored() {
    let down = "autoScaling: {behavior: {scaleDown: {stabilizationWindowSeconds: 60}}}";
    let validated = validated(&[("serving.kserve.io/autoscalerClass", "none")], &model("digits", &[down]));
    assert_eq!(validated.ignored_fields[0].field, "spec.predictor.autoScaling.behavior");
}

#[test]
fn a_variable_declares_the_protocol_of_a_services_own_container() {
    let of = |variable: &str| {
        let container = format!("{{name: kserve-container, image: x, env: [{variable}]}}");
        let spec = format!("  predictor: {{containers: [{container}]}}\n");
        validated(&[], &spec).predictor.ready_call
    };
    assert_eq!(of(""), None);
    assert_eq!(of("{name: PROTOCOL, value: v1}"), None);
    assert_eq!(of("{name: PROTOCOL, value: v2}"), Some(ReadyCall::V2));
    assert_eq!(of("{name: PROTOCOL, value: grpc-v2}"), Some(ReadyCall::V2));
}

#[test]
fn booleans_have_any_case_and_other_words_are_errors() {
    let valid = validated(
        &[
            ("serving.kserve.io/stop", "True"),
            ("serving.kserve.io/disable-auto-update", "TRUE"),
            ("storage.kserve.io/readonly", "False"),
        ],
        &model("digits", &[]),
    );
    assert!(valid.is_stopped);
    assert_eq!(valid.auto_update, AutoUpdate::Disabled);
    refuses("storage.kserve.io/readonly", "no", "`no` is not `true` or `false`");
}

#[test]
fn a_single_listed_uri_means_the_same_as_storage_uri() {
    let listed = "  predictor:
    model: {modelFormat: {name: pytorch}}
    storageUris: [{uri: pvc://models/digits, mountPath: /mnt/models}]
";
    let of_model = validated(&[], listed).predictor;
    assert_eq!(of_model.identity, validated(&[], &model("digits", &[])).predictor.identity);
    let container = |more: &str, env: &str| {
        format!("  predictor:\n    containers: [{{name: kserve-container, image: x{env}}}]\n{more}")
    };
    let listed = "    storageUris: [{uri: pvc://models/digits}]\n";
    let own = validated(&[], &container(listed, "")).predictor;
    assert_eq!(&*own.storage[0].uri, "pvc://models/digits");
    let both = container(listed, ", env: [{name: STORAGE_URI, value: pvc://a}]");
    finds(&[], &both, "spec.predictor.storageUris: storageUris and the variable STORAGE_URI exclude each other");
    let elsewhere = "    storageUris: [{uri: pvc://models/digits, mountPath: /models}]\n";
    let own = validated(&[], &container(elsewhere, "")).predictor;
    assert_eq!(&*own.storage[0].mount_path, "/models");
}

/// Returns a predictor with a model and these fields of the model and of the predictor.
fn stored(model: &str, predictor: &str) -> String {
    format!("  predictor:\n    model: {{modelFormat: {{name: pytorch}}{model}}}\n{predictor}")
}

#[test]
fn every_scheme_that_is_fetched_is_accepted() {
    for uri in [
        "s3://bucket/model",
        "gs://bucket/model",
        "hf://org/name:main",
        "oci://registry.example/model:1",
        "oci+fetch://registry.example/model:1",
        "oci+native://registry.example/model:1",
        "https://account.blob.core.windows.net/container/model",
    ] {
        let of = validated(&[], &stored(&format!(", storageUri: {uri:?}"), "")).predictor;
        assert_eq!(&*of.storage[0].uri, uri);
    }
}

#[test]
fn a_scheme_without_a_reader_is_refused_by_its_name() {
    for uri in ["hdfs://name/m", "webhdfs://name/m", "git://host/m", "ms://org/m", "modelscope://org/m"] {
        let spec = stored(&format!(", storageUri: {uri:?}"), "");
        finds(
            &[],
            &spec,
            &format!(
                "spec.predictor.model.storageUri: storage {uri:?} is not fetched by Weir: copy the files to a bucket or a \
                 volume and write s3://BUCKET/PREFIX or pvc://CLAIM/PATH, or install a ClusterStorageContainer for this \
                 scheme"
            ),
        );
    }
}

#[test]
fn a_storage_container_of_the_cluster_takes_its_schemes() {
    let object = serde_json::json!({"spec": {
        "container": {"name": "storage-initializer", "image": "x"}, "supportedUriFormats": [{"prefix": "hdfs://"}],
    }});
    let container = weir_crds::StorageContainer::read("hadoop", &object).unwrap();
    let runtimes = Runtimes::default().with_storage_containers(vec![container]);
    let of = |uri: &str, more: &str| {
        let service = service(&[], &stored(&format!(", storageUri: {uri:?}"), more));
        validate(&service, &runtimes, &platform())
    };
    assert_eq!(&*of("hdfs://name/m", "").unwrap().predictor.storage[0].uri, "hdfs://name/m");
    assert!(of("webhdfs://name/m", "").is_err());
    let named = of("invented://m", "    storageContainerName: mine\n").unwrap();
    let annotations = named.predictor.template.read().metadata.unwrap().annotations.unwrap();
    assert_eq!(annotations["internal.serving.kserve.io/storage-container-name"], "mine");
}

#[test]
fn several_uris_have_their_own_directories() {
    let listed = |second: &str| stored("", &format!("    storageUris: [{{uri: s3://b/base}}, {second}]\n"));
    let both = validated(&[], &listed("{uri: hf://org/adapter, mountPath: /mnt/adapters}")).predictor;
    let places: Vec<_> = both.storage.iter().map(|at| (&*at.uri, &*at.mount_path)).collect();
    assert_eq!(places, [("s3://b/base", "/mnt/models"), ("hf://org/adapter", "/mnt/adapters")]);
    let field = "spec.predictor.storageUris[1].mountPath";
    let same = listed("{uri: gs://b/other, mountPath: /mnt/models/}");
    finds(&[], &same, &format!("{field}: storageUris[0] is mounted at /mnt/models, too: write another mountPath"));
    let root = listed("{uri: gs://b/other, mountPath: /}");
    finds(
        &[],
        &root,
        &format!("{field}: files cannot replace the root directory: write a directory such as /mnt/adapters"),
    );
    let digest = format!("sha256:{}", "0".repeat(64));
    let digest = [("weir.dev/storage-digest", &*digest)];
    let pinned = errors(&digest, &listed("{uri: https://host/a.pt, mountPath: /mnt/a}"));
    assert!(pinned.contains("is for one storage URI: write #sha256:DIGEST"), "{pinned}");
}

#[test]
fn a_store_by_its_key_is_the_models_uri() {
    let store = |fields: &str| stored(&format!(", storage: {{{fields}}}"), "");
    let of = |fields: &str| validated(&[], &store(fields)).predictor;
    let keyed = of("key: minio, path: /models/digits, parameters: {bucket: models}");
    assert_eq!(&*keyed.storage[0].uri, "<scheme-placeholder>://models/digits");
    let annotations = keyed.template.read().metadata.unwrap().annotations.unwrap();
    assert_eq!(annotations["internal.serving.kserve.io/storage-spec"], "true");
    assert_eq!(annotations["internal.serving.kserve.io/storage-spec-key"], "minio");
    assert_eq!(annotations["internal.serving.kserve.io/storage-spec-param"], r#"{"bucket":"models"}"#);
    let whole = of("path: digits, parameters: {type: s3, bucket: models}");
    assert_eq!(&*whole.storage[0].uri, "s3://models/digits");
    let both = validated(&[], &stored(", storageUri: s3://b/m, storage: {key: minio}", "")).predictor;
    assert_eq!(&*both.storage[0].uri, "s3://b/m");
    let message = "spec.predictor.model.storage: names no model: write its path in the store, or a storageUri";
    finds(&[], &store("key: minio"), message);
    let unread = errors(&[], &store("path: digits, parameters: {type: hdfs, bucket: models}"));
    assert!(unread.contains("\"hdfs://models/digits\" is not fetched by Weir"), "{unread}");
}

#[test]
fn the_resources_of_a_fetch_are_quantities() {
    let spec = model("digits", &[]);
    assert_eq!(errors(&[("weir.dev/storage-initializer-memory", "4Gi")], &spec), "");
    finds(
        &[("weir.dev/storage-initializer-memory", "lots")],
        &spec,
        "metadata.annotations[weir.dev/storage-initializer-memory]: `lots` is not a quantity above 0, such as 500m or 4Gi",
    );
}

#[test]
fn annotations_that_affect_pods_make_another_revision() {
    let spec = model("digits", &[]);
    let of = |annotations: &[(&str, &str)]| validated(annotations, &spec).predictor;
    let plain = of(&[]);
    for annotation in [
        ("storage.kserve.io/readonly", "false"),
        ("serving.kserve.io/gpu-resource-types", r#"["example.com/npu"]"#),
        ("serving.kserve.io/storageSecretName", "reader"),
        ("serving.kserve.io/s3-endpoint", "minio:9000"),
        ("weir.dev/storage-initializer-memory", "4Gi"),
    ] {
        let shaped = of(&[annotation]);
        assert_ne!(shaped.identity, plain.identity, "{annotation:?}");
        assert_ne!(shaped.manifest, plain.manifest, "{annotation:?}");
        let metadata = shaped.template.read().metadata.unwrap();
        assert_eq!(metadata.annotations.unwrap()[annotation.0], annotation.1);
    }
    let other = of(&[("serving.kserve.io/nodegroup", "a")]);
    assert_eq!(other.identity, plain.identity);
}
