//! Tests of the meaning of parsed configurations.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_batcher::TimeoutAction;
use weir_protocol::DataType;

use super::{ORIGIN, read, refusal, signature, usual};
use crate::backend::Device;
use crate::model::config::instances::DeviceKind;
use crate::model::config::{ModelConfig, Origin, VersionPolicy, WarmupData, to_json};

#[test]
fn the_reported_configuration_has_defaults_and_can_be_parsed_again() {
    let config = read(&usual("dynamic_batching { } version_policy { specific { versions: 3 } }"));
    let json = to_json(&config.proto).unwrap();
    let shown: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(shown["input"][0]["dims"], serde_json::json!([-1]));
    assert_eq!(shown["input"][0]["allow_ragged_batch"], serde_json::json!(false));
    assert_eq!(shown["input"][0]["data_type"], "TYPE_FP32");
    assert_eq!(shown["dynamic_batching"]["preferred_batch_size"], serde_json::json!([8]));
    assert_eq!(shown["dynamic_batching"]["max_queue_delay_microseconds"], 0);
    assert_eq!(shown["version_policy"]["specific"]["versions"], serde_json::json!([3]));
    assert_eq!(shown["instance_group"][0]["name"], "m");
    assert_eq!(shown["instance_group"][0]["count"], 1);
    assert_eq!(shown["optimization"]["input_pinned_memory"]["enable"], true);
    assert_eq!(shown["sequence_batching"], serde_json::Value::Null);
    assert_eq!(shown["parameters"], serde_json::json!({}));
    let again = ModelConfig::from_json(str::from_utf8(&json).unwrap(), ORIGIN).unwrap();
    assert_eq!(again, config);
}

#[test]
fn the_backend_is_read_from_backend_or_platform() {
    let pytorch = read("platform: 'pytorch_libtorch'");
    assert_eq!(pytorch.backend, "pytorch");
    assert_eq!(pytorch.default_model_filename.as_deref(), Some("model.pt"));
    assert_eq!(read("backend: 'pytorch'"), pytorch);
    let guessed = Origin { backend: Some("pytorch"), ..ORIGIN };
    assert_eq!(ModelConfig::from_text("", guessed).unwrap(), pytorch);
    let onnx = read("platform: 'onnxruntime_onnx'");
    assert_eq!((onnx.backend.as_str(), onnx.proto.platform.as_str()), ("onnxruntime", "onnxruntime_onnx"));
    assert_eq!(onnx.default_model_filename.as_deref(), Some("model.onnx"));
    assert_eq!(read("backend: 'onnxruntime'"), onnx);
    assert_eq!(refusal("name: 'n'"), "must specify 'platform' or 'backend' for 'n'");
    let named = read("name: 'n' backend: 'echo'");
    assert!(named.check_directory("n").is_ok());
    assert_eq!(
        named.check_directory("m").unwrap_err().to_string(),
        "unexpected directory name 'm' for model 'n', directory name must equal model name"
    );
}

#[test]
fn open_fields_are_filled_from_the_signature() {
    let open = read("backend: 'echo'");
    assert_eq!((open.max_batch_size, open.inputs.len()), (None, 0));
    let whole = open.complete(&signature()).unwrap();
    assert_eq!(whole.max_batch_size, Some(16));
    assert_eq!((&whole.inputs, &whole.outputs), (&signature().inputs, &signature().outputs));
    assert_eq!(whole.proto.max_batch_size, 16);
    assert_eq!(whole.proto.input[0].dims, [-1]);
    let said = read(&usual("")).complete(&signature()).unwrap();
    assert_eq!(said, read(&usual("")));
    let unbatched = read("backend: 'echo' input { name: 'x' data_type: TYPE_BF16 dims: 1 }");
    assert_eq!(unbatched.complete(&signature()).unwrap().max_batch_size, Some(0));
}

#[test]
fn completion_validates_what_depends_on_the_signature() {
    let preferred = read("backend: 'echo' dynamic_batching { preferred_batch_size: 32 }");
    assert_eq!(
        preferred.complete(&signature()).unwrap_err().to_string(),
        "dynamic batching preferred size must be <= max batch size for m"
    );
    let open = read("backend: 'echo' dynamic_batching { }");
    assert!(open.batching.as_ref().unwrap().preferred.is_empty());
    assert_eq!(open.complete(&signature()).unwrap().batching.unwrap().preferred, [16]);
}

#[test]
fn version_policies_select_versions() {
    let there = BTreeSet::from([1, 3, 7]);
    let cases = [
        ("", VersionPolicy::Latest(1), vec![7]),
        ("version_policy { }", VersionPolicy::All, vec![1, 3, 7]),
        ("version_policy { latest { } }", VersionPolicy::Latest(1), vec![7]),
        ("version_policy { latest { num_versions: 2 } }", VersionPolicy::Latest(2), vec![3, 7]),
        ("version_policy: { all { } }", VersionPolicy::All, vec![1, 3, 7]),
        (
            "version_policy { specific { versions: [ 1, 9 ] } }",
            VersionPolicy::Specific(BTreeSet::from([1, 9])),
            vec![1],
        ),
    ];
    for (text, policy, chosen) in cases {
        let config = read(&usual(text));
        assert_eq!(config.version_policy, policy, "{text}");
        assert_eq!(config.version_policy.choose(&there), BTreeSet::from_iter(chosen));
    }
}

#[test]
fn batching_keeps_every_field() {
    let config = read(&usual(
        "dynamic_batching {
           preferred_batch_size: [ 8, 4, 8 ]
           max_queue_delay_microseconds: 500
           priority_levels: 3 default_priority_level: 2
           default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 7 max_queue_size: 9 }
           priority_queue_policy { key: 3 value { allow_timeout_override: true } }
         }",
    ));
    let batching = config.batching.unwrap();
    assert_eq!(batching.preferred, [4, 8]);
    assert_eq!(batching.max_delay, Duration::from_micros(500));
    assert_eq!((batching.priority_levels, batching.default_priority_level), (3, 2));
    assert!(!batching.preserve_ordering);
    assert_eq!(batching.queue.timeout_action, TimeoutAction::Delay);
    assert_eq!(batching.queue.default_timeout, Some(Duration::from_micros(7)));
    assert_eq!(batching.queue.max_queue_size, 9);
    let own = &batching.level_queues[&3];
    assert!(own.allow_timeout_override && own.default_timeout.is_none());
    assert_eq!(own.timeout_action, TimeoutAction::Reject);
    assert!(read(&usual("")).batching.is_none());
}

#[test]
fn tensors_keep_reshape_optional_and_labels() {
    let config = read(
        "backend: 'echo' max_batch_size: 1
         input { name: 'x' data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } optional: true }
         output { name: 'y' data_type: TYPE_INT8 dims: [ 2, -1, 6 ] reshape { shape: [ 2, -1, 2, 3 ] } label_filename: 'labels.txt' }",
    );
    assert_eq!(config.inputs[0].datatype, DataType::Bytes);
    assert_eq!(config.inputs[0].reshape, Some(vec![]));
    assert!(config.inputs[0].optional);
    assert_eq!(config.outputs[0].reshape, Some(vec![2, -1, 2, 3]));
    assert_eq!(config.label_filenames["y"], "labels.txt");
}

#[test]
fn instances_are_placed() {
    let devices = |text: &str, gpus: &[usize]| {
        let placed = read(&usual(text)).place(gpus);
        placed.map(|config| {
            let groups = config.instance_groups.iter();
            groups.flat_map(|group| group.devices().collect::<Vec<_>>()).collect::<Vec<_>>()
        })
    };
    let (cpu, cuda) = (Device::Cpu, Device::Cuda);
    assert_eq!(read(&usual("")).instance_groups[0].kind, DeviceKind::Auto);
    let unnamed = read(&usual("instance_group { } instance_group { name: 'g' }"));
    let names = unnamed.proto.instance_group.iter().map(|group| &*group.name);
    assert_eq!(names.collect::<Vec<_>>(), ["m_0", "g"]);
    assert_eq!(devices("", &[]).unwrap(), [cpu]);
    assert_eq!(devices("", &[0, 1]).unwrap(), [cuda(0), cuda(1)]);
    let two_each = "instance_group [ { kind: KIND_GPU count: 2 } ]";
    assert_eq!(devices(two_each, &[0, 3]).unwrap(), [cuda(0), cuda(0), cuda(3), cuda(3)]);
    let mixed = "instance_group { kind: KIND_CPU count: 2 } instance_group { gpus: 1 }";
    assert_eq!(devices(mixed, &[0, 1]).unwrap(), [cpu, cpu, cuda(1)]);
    assert_eq!(
        devices(two_each, &[]).unwrap_err().to_string(),
        "instance group m_0 of model m has kind KIND_GPU but no GPUs are available"
    );
    assert_eq!(
        devices("instance_group { name: 'g' gpus: 5 }", &[0, 1]).unwrap_err().to_string(),
        "instance group g of model m specifies invalid or unsupported gpu id 5. GPUs that can be \
         used are: 0, 1"
    );
}

#[test]
fn warmups_are_read() {
    let config = read(&usual(
        "model_warmup [ { name: 'w' batch_size: 4 count: 3
           inputs { key: 'x' value: { data_type: TYPE_FP32 dims: 16 zero_data: true } } },
         { name: 'f' batch_size: 1
           inputs { key: 'x' value: { data_type: TYPE_FP32 dims: 4 input_data_file: 'a/b' } } } ]",
    ));
    let [zero, file] = config.warmups.as_slice() else { panic!("two") };
    assert_eq!((zero.batch_size, zero.count, file.count), (4, 3, 1));
    assert_eq!(zero.inputs["x"].data, WarmupData::Zero);
    assert_eq!(zero.inputs["x"].shape.dims(), [16]);
    assert_eq!(file.inputs["x"].data, WarmupData::File("a/b".to_owned()));
}

#[test]
fn a_warmup_of_one_request_fits_a_model_without_batch_dimension() {
    let sample = |rows: usize| {
        format!(
            "model_warmup {{ name: 'w' batch_size: {rows}
               inputs {{ key: 'x' value: {{ data_type: TYPE_FP32 dims: 4 zero_data: true }} }} }}"
        )
    };
    let rows = |text: &str| -> Vec<usize> {
        let warmups = read(text).warmups;
        warmups.iter().map(|warmup| warmup.batch_size).collect()
    };
    let unbatched = |rows| usual(&sample(rows)).replace("max_batch_size: 8", "max_batch_size: 0");
    assert_eq!(rows(&unbatched(1)), [0]);
    assert_eq!(rows(&unbatched(0)), [0]);
    assert_eq!(rows(&usual(&sample(1))), [1]);
    assert_eq!(rows(&usual(&sample(0))), [0; 0], "skipped");
}

#[test]
fn parameters_are_passed_to_the_backend_except_padding() {
    let config = read(&usual(
        "parameters { key: 'INFERENCE_MODE' value: { string_value: 'true' } }
         parameters { key: 'PADDING_BUCKETS' value: { string_value: '16, 32,64' } }
         parameters { key: 'PADDING_VALUES' value: { string_value: 'x=-1.5' } }
         metric_tags { key: 'team' value: 'a' }",
    ));
    assert_eq!(config.parameters.len(), 1);
    assert_eq!(config.parameters["INFERENCE_MODE"], "true");
    assert_eq!(config.metric_tags["_team"], "a");
    assert_eq!(config.proto.parameters.len(), 3);
    let padding = config.padding.unwrap();
    assert_eq!(padding.buckets, [16, 32, 64]);
    assert!((padding.value("x") - -1.5).abs() < f64::EPSILON);
}
