use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use proptest::prelude::*;
use serde_json::{Value, json};
use weir_cluster::{ComponentKind, ScalingPolicy, ServiceName, Storage};

use super::command::Invocation;
use super::*;
use crate::ports::{MetricsPlan, Ports};

fn workload(pod: Value) -> Workload {
    let service = ServiceName::new("default", "digits").unwrap();
    let template: PodTemplateSpec = serde_json::from_value(json!({ "spec": pod })).unwrap();
    Workload {
        ready_call: None,
        revision: service.revision(1).unwrap(),
        template: template.into(),
        storage: vec![Storage {
            uri: "pvc://weir-examples/digits".into(),
            mount_path: Storage::MOUNT_PATH.into(),
            claims: Some("/home/me".into()),
        }],
        replicas: 1,
        concurrency: None,
        scaling: None,
    }
}

fn container(container: Value) -> Value {
    let mut container = container;
    container["name"] = "kserve-container".into();
    json!({ "containers": [container] })
}

fn options() -> Options {
    Options {
        runtime: Some("/opt/weir-runtime".into()),
        state_dir: "/state".into(),
        fetch: weir_fetch::Limits::default(),
        max_models_bytes: 1 << 30,
        gpu: crate::options::Gpu::Absent,
        predictors: crate::PredictorAddresses::default(),
        environment: BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]).into(),
    }
}

fn invocation(pod: Value) -> Invocation {
    let spec = LaunchSpec::of(&workload(pod), &options()).unwrap();
    spec.invocation(Ports { http: Some(1111), grpc: Some(2222), metrics: Some(3333) })
}

#[track_caller]
fn refused(pod: Value, text: &str) {
    let error = LaunchSpec::of(&workload(pod), &options()).unwrap_err().to_string();
    assert!(error.contains("default/digits-predictor-00001"), "{error}");
    assert!(error.contains(text), "{error}");
}

#[test]
fn our_runtime_gets_model_and_listen_flags() {
    let image = "registry.example.com:5000/weir-runtime:1@sha256:00";
    let command = invocation(container(json!({ "image": image })));
    assert_eq!(command.program, "/opt/weir-runtime");
    assert_eq!(
        command.args,
        [
            "--model-repository=/home/me/weir-examples/digits",
            "--model-name=digits",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            "--http-port=1111",
            "--grpc-port=2222",
            "--metrics-port=0",
        ]
    );
}

#[test]
fn our_runtime_serves_the_model_at_the_default_path_of_several() {
    let stored = |name: &str, mount_path: &str| Storage {
        uri: format!("pvc://weir-examples/{name}").into(),
        mount_path: mount_path.into(),
        claims: Some("/home/me".into()),
    };
    let storage = vec![stored("base", "/mnt/base"), stored("digits", "/mnt/models/")];
    let several = Workload { storage, ..workload(container(json!({ "image": "weir-runtime" }))) };
    let spec = LaunchSpec::of(&several, &options()).unwrap();
    let command = spec.invocation(Ports { http: Some(1111), grpc: Some(2222), metrics: None });
    assert_eq!(command.args[..2], ["--model-repository=/home/me/weir-examples/digits", "--model-name=digits"]);
    let repositories = command.args.iter().filter(|arg| arg.starts_with("--model-repository"));
    assert_eq!(repositories.count(), 1);
}

#[test]
fn given_arguments_of_our_runtime_are_kept_except_its_ports() {
    let command = invocation(container(json!({
        "image": "x",
        "command": ["/usr/bin/weir-runtime", "--http-port", "8080"],
        "args": ["--model-store=/mnt/models", "--model-name=other", "--grpc-port=9000", "--device", "cpu"],
    })));
    assert_eq!(
        command.args[..4],
        ["--model-store=/home/me/weir-examples/digits", "--model-name=other", "--device", "cpu"]
    );
    assert_eq!(command.args.len(), 9);
}

#[test]
fn our_runtime_may_be_named_tritonserver_in_its_own_image() {
    let command = |image: &str| {
        container(json!({
            "image": image, "command": ["/opt/tritonserver/bin/tritonserver"], "args": ["--id=a"],
        }))
    };
    let ours = invocation(command("example.com/weir-runtime:1"));
    assert_eq!(ours.program, "/opt/weir-runtime");
    assert_eq!(ours.args[0], "--id=a");
    let others = invocation(command("nvcr.io/nvidia/tritonserver:1"));
    assert_eq!(others.program, "/opt/tritonserver/bin/tritonserver");
}

#[test]
fn a_flag_that_our_runtime_does_not_have_is_refused() {
    let workload = workload(container(json!({ "image": "weir-runtime", "args": ["--colour"] })));
    let error = LaunchSpec::of(&workload, &options()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("weir-runtime has no flag --colour"), "{error}");
}

#[test]
fn our_runtime_without_a_model_is_refused_with_advice() {
    let without = |more: Value| {
        let mut more = more;
        more["image"] = "weir-runtime".into();
        let workload = Workload { storage: Vec::new(), ..workload(container(more)) };
        LaunchSpec::of(&workload, &options())
    };
    let explicit = json!({ "args": ["--model-control-mode=explicit", "--model-name=a"] });
    for nothing in [json!({}), explicit] {
        let error = without(nothing).unwrap_err().to_string();
        let says_what_is_missing = error.contains("nothing says where the model is: write its storageUri");
        assert!(says_what_is_missing && error.contains("--model-repository=PATH"), "{error}");
    }
    for args in [
        json!(["--model-repository=/models"]),
        json!(["--model-repository", "/models"]),
        json!(["--model-store=/models"]),
    ] {
        assert!(without(json!({ "args": args })).is_ok(), "{args}");
    }
    let own = json!({ "command": ["serve"] });
    assert!(without(own).is_ok());
}

#[test]
fn a_command_is_expanded_and_finds_its_models() {
    let command = invocation(container(json!({
        "command": ["python3", "$(SCRIPT)"],
        "args": ["--port=$(PORT)", "--grpc=$(GRPC_PORT)", "--metrics=$(METRICS_PORT)", "$(UNKNOWN)", "$$(PORT)"],
        "env": [
            { "name": "BASE", "value": "/mnt/models/v1" },
            { "name": "SCRIPT", "value": "$(BASE)/serve.py" },
            { "name": "EARLY", "value": "$(LATE)" },
            { "name": "LATE", "value": "x" },
        ],
    })));
    assert_eq!(command.program, "python3");
    assert_eq!(
        command.args,
        [
            "/home/me/weir-examples/digits/v1/serve.py",
            "--port=1111",
            "--grpc=2222",
            "--metrics=3333",
            "$(UNKNOWN)",
            "$(PORT)"
        ]
    );
    assert_eq!(command.env["EARLY"], "$(LATE)");
    assert_eq!(command.env["PORT"], "1111");
    assert_eq!(command.env["PATH"], "/bin");
}

#[test]
fn a_program_that_is_not_there_is_missing_unless_it_is_downloaded() {
    let missing = |fields: Value, storage: Vec<Storage>| {
        let workload = Workload { storage, ..workload(container(fields)) };
        inspect(&workload, &options()).unwrap().missing
    };
    let shell = json!({ "command": ["sh", "-c", "serve $(PORT)"] });
    assert_eq!(missing(shell, Vec::new()), [""; 0]);
    assert_eq!(missing(json!({ "command": ["no-such"] }), Vec::new()), ["program no-such not found in PATH"]);
    let elsewhere = json!({ "command": ["sh"], "workingDir": "/no/such" });
    assert_eq!(missing(elsewhere, Vec::new()), ["no such directory: /no/such"]);
    let download = Storage {
        uri: "https://models.example/server.zip".into(),
        mount_path: Storage::MOUNT_PATH.into(),
        claims: None,
    };
    let own = json!({ "command": ["/mnt/models/serve"], "workingDir": "/mnt/models" });
    assert_eq!(missing(own, vec![download]), [""; 0]);
}

#[test]
fn fields_that_need_a_cluster_are_refused_by_name() {
    refused(container(json!({ "image": "triton:24" })), "cannot run the image \"triton:24\" without Kubernetes");
    refused(json!({ "containers": [] }), "no container");
    let with = |key: &str, value: Value| {
        let mut container = container(json!({ "command": ["serve"] }));
        container["containers"][0][key] = value;
        container
    };
    refused(with("envFrom", json!([{ "secretRef": { "name": "s" } }])), "envFrom");
    let secret = json!({ "secretKeyRef": { "name": "s", "key": "k" } });
    refused(with("env", json!([{ "name": "TOKEN", "valueFrom": secret }])), "the variable TOKEN");
    refused(with("volumeMounts", json!([{ "name": "data", "mountPath": "/d" }])), "the volume data at /d");
    let exec = json!({ "exec": { "command": ["true"] } });
    refused(with("readinessProbe", exec.clone()), "readinessProbe must be");
    refused(with("lifecycle", json!({ "preStop": exec })), "preStop");
    let mut two = container(json!({ "command": ["serve"] }));
    two["initContainers"] = json!([{ "name": "fetch" }]);
    refused(two, "the init container fetch");
    let no_runtime = Options { runtime: None, ..options() };
    let ours = workload(container(json!({ "image": "weir-runtime" })));
    let error = LaunchSpec::of(&ours, &no_runtime).unwrap_err().to_string();
    assert!(error.contains("its path is not set"), "{error}");
}

#[test]
fn metrics_are_read_on_the_port_of_the_annotations() {
    let mut workload = workload(container(json!({ "command": ["server", "--http-port=$(PORT)"] })));
    assert_eq!(LaunchSpec::of(&workload, &options()).unwrap().metrics, MetricsPlan::WithHttp);
    let mut template = workload.template.read();
    let metadata = template.metadata.get_or_insert_default();
    metadata.annotations = Some([("prometheus.kserve.io/port".to_owned(), "8002".to_owned())].into());
    workload.template = template.into();
    let spec = LaunchSpec::of(&workload, &options()).unwrap();
    assert_eq!(spec.metrics, MetricsPlan::Fixed(8002));
}

#[test]
fn fields_without_effect_are_named() {
    let mut pod = container(json!({
        "image": "x",
        "command": ["serve"],
        "resources": { "limits": { "nvidia.com/gpu": "1" } },
        "livenessProbe": { "exec": { "command": ["true"] } },
        "startupProbe": { "exec": { "command": ["true"] } },
    }));
    pod["nodeSelector"] = json!({ "gpu": "a100" });
    let spec = LaunchSpec::of(&workload(pod), &options()).unwrap();
    let named = [
        "image",
        "resources, which are not enforced",
        "nvidia.com/gpu, of which this machine has none",
        "livenessProbe",
        "startupProbe",
        "nodeSelector",
    ];
    assert_eq!(spec.ignored_fields, named);
}

#[test]
fn a_version_of_the_image_is_named_where_the_runtime_of_this_machine_runs() {
    let ignored = |image: &str| {
        let pod = container(json!({ "image": image }));
        let workload = Workload {
            storage: vec![Storage {
                uri: "file:///models/digits".into(),
                mount_path: Storage::MOUNT_PATH.into(),
                claims: None,
            }],
            ..workload(pod)
        };
        LaunchSpec::of(&workload, &options()).unwrap().ignored_fields
    };
    let version = "the version of the image (runtimeVersion), as the weir-runtime of this machine runs";
    assert_eq!(ignored("registry:5000/weir-runtime:0.7"), [version]);
    assert_eq!(ignored("registry:5000/weir-runtime"), [""; 0]);
}

#[test]
fn default_resources_are_not_named() {
    let ignored = |resources: Value| {
        let pod = container(json!({ "command": ["serve"], "resources": resources }));
        LaunchSpec::of(&workload(pod), &options()).unwrap().ignored_fields
    };
    let filled_in = json!({ "cpu": "1", "memory": "2Gi" });
    let both = json!({ "limits": filled_in, "requests": filled_in });
    assert_eq!(ignored(both), [""; 0]);
    assert_eq!(ignored(json!({})), [""; 0]);
    let own = json!({ "limits": { "cpu": "1", "memory": "1Gi" }, "requests": filled_in });
    assert_eq!(ignored(own), ["resources, which are not enforced"]);
}

#[test]
fn replicas_beyond_one_are_named_for_a_fixed_port() {
    let ignored = |command: &str, replicas: u32, max: Option<u32>| {
        let policy = ScalingPolicy { max, ..ScalingPolicy::default() };
        let workload = Workload {
            replicas,
            scaling: Some(policy.into()),
            ..workload(container(json!({ "command": ["serve", command] })))
        };
        let spec = LaunchSpec::of(&workload, &options()).unwrap();
        spec.ignored_fields.contains(&BEYOND_ONE)
    };
    assert!(ignored("--port=8080", 2, None));
    assert!(ignored("--port=8080", 1, Some(3)));
    assert!(!ignored("--port=8080", 1, Some(1)));
    assert!(!ignored("--port=8080", 1, None));
    assert!(!ignored("--port=$(PORT)", 2, Some(3)));
}

#[test]
fn times_come_from_the_pod() {
    let mut pod = container(json!({
        "command": ["serve"],
        "lifecycle": { "preStop": { "sleep": { "seconds": 3 } } },
    }));
    pod["terminationGracePeriodSeconds"] = json!(7);
    let spec = LaunchSpec::of(&workload(pod), &options()).unwrap();
    assert_eq!((spec.pre_stop_delay.as_secs(), spec.grace.as_secs()), (3, 7));
    let spec = LaunchSpec::of(&workload(container(json!({ "command": ["serve"] }))), &options());
    let spec = spec.unwrap();
    assert_eq!((spec.pre_stop_delay, spec.grace), (PRE_STOP_DELAY, GRACE));
}

proptest! {
    #[test]
    fn only_whole_paths_are_relocated(before in "[a-z=: ]{0,4}", after in "[-a-z./]{0,4}") {
        let storage = Storage { uri: "file:///x".into(), mount_path: Storage::MOUNT_PATH.into(), claims: None };
        let models = [ModelFiles::of(&storage, std::path::Path::new("")).unwrap()];
        let text = format!("{before}/mnt/models{after}");
        let begins = !before.ends_with(|c: char| c.is_alphanumeric());
        let whole = begins && (after.is_empty() || after.starts_with('/'));
        let expected = if whole { format!("{before}/x{after}") } else { text.clone() };
        prop_assert_eq!(command::relocate(&text, &models), expected);
    }
}

#[test]
fn a_transformer_gets_the_address_of_its_predictor() {
    let options = options();
    let digits = ServiceName::new("default", "digits").unwrap();
    let mut workload = workload(container(json!({
        "command": ["serve", "--port=$(PORT)", "--predictor_host", "$(PREDICTOR_HOST)"],
        "env": [{ "name": "PREDICTOR_HOST", "value": "$(PREDICTOR_HOST)" }],
    })));
    workload.revision = digits.of_component(ComponentKind::Transformer).unwrap().revision(1).unwrap();
    let spec = LaunchSpec::of(&workload, &options).unwrap();
    options.predictors.add(digits, ([127, 0, 0, 1], 7).into());
    let command = spec.invocation(Ports { http: Some(1111), grpc: None, metrics: None });
    assert_eq!(command.args, ["--port=1111", "--predictor_host", "127.0.0.1:7"]);
    assert_eq!(command.env["PREDICTOR_HOST"], "127.0.0.1:7");
}
