//! Tests of the configurations that are refused, with their errors, and of the hints that are accepted.

use super::{read, refusal, usual};

#[test]
fn hints_are_accepted() {
    let config = read(&usual(
        "optimization { priority: PRIORITY_MAX graph { level: 1 } eager_batching: true
           cuda { graphs: true busy_wait_events: true graph_spec { batch_size: 1 } }
           execution_accelerators { gpu_execution_accelerator { name: 'tensorrt' } }
           input_pinned_memory { enable: false } gather_kernel_buffer_threshold: 1 }
         instance_group { kind: KIND_CPU profile: 'p' host_policy: 'h'
           rate_limiter { resources { name: 'r' count: 1 } priority: 2 } }
         model_metrics { metric_control { metric_identifier { family: 'f' } histogram_options { buckets: [ 1, 2.5 ] } } }
         model_transaction_policy { decoupled: false }
         response_cache { enable: true }
         runtime: 'libtriton_pytorch.so'",
    ));
    assert!(!config.proto.optimization.unwrap().input_pinned_memory.unwrap().enable);
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let decoupled = "model_transaction_policy { decoupled: true }";
    let cases = [
        (decoupled, "model_transaction_policy.decoupled"),
        ("sequence_batching { }", "sequence_batching"),
        ("ensemble_scheduling { }", "ensemble_scheduling"),
        ("platform: 'ensemble'", "platform 'ensemble'"),
        ("platform: 'torch_aoti'", "platform 'torch_aoti'"),
        ("runtime: 'model.py'", "runtime 'model.py'"),
        ("batch_input { }", "batch_input"),
        ("batch_output { }", "batch_output"),
        ("cc_model_filenames { key: '8.0' value: 'm' }", "cc_model_filenames"),
        ("model_repository_agents { agents { } }", "model_repository_agents"),
        (
            "model_operations { op_library_filename: 'a.so' }",
            "model_operations.op_library_filename of another backend than pytorch",
        ),
        ("input { name: 'i' allow_ragged_batch: true }", "allow_ragged_batch of input 'i'"),
        ("input { name: 'i' is_shape_tensor: true }", "is_shape_tensor of input 'i'"),
        ("input { name: 'i' is_non_linear_format_io: true }", "is_non_linear_format_io of input 'i'"),
        ("output { name: 'o' is_shape_tensor: true }", "is_shape_tensor of output 'o'"),
        ("output { name: 'o' is_non_linear_format_io: true }", "is_non_linear_format_io of output 'o'"),
        ("instance_group { name: 'g' kind: KIND_MODEL }", "kind KIND_MODEL of instance_group 'g'"),
        ("instance_group { name: 'g' passive: true }", "passive of instance_group 'g'"),
        ("instance_group { name: 'g' secondary_devices { } }", "secondary_devices of instance_group 'g'"),
    ];
    for (text, feature) in cases {
        let sentence = format!("model 'm': {feature} is not supported by weir");
        assert_eq!(refusal(&usual(text)), sentence);
    }
}

#[test]
fn tensors_are_refused_in_tritons_words() {
    let input = |fields: &str| format!("backend: 'echo' input {{ {fields} }}");
    let good = "name: 'x' data_type: TYPE_FP32";
    let cases = [
        (input("data_type: TYPE_FP32 dims: 1"), "must specify 'name' for ''"),
        (input("name: 'x' dims: 1"), "must specify 'data_type' for 'x'"),
        (input(good), "must specify 'dims' for 'x'"),
        (
            input(&format!("{good} dims: 0")),
            "dimension must be integer >= 1, or -1 to indicate a variable-size dimension for 'x'",
        ),
        (input(&format!("{good} dims: [ 4294967296, 4294967296 ]")), "'dims' are too large for 'x'"),
        (input(&format!("{good} dims: [ 2, 3 ] format: FORMAT_NHWC")), "NHWC/NCHW require 3 dims for 'x'"),
        (
            input(&format!("{good} dims: 4 reshape {{ shape: [ 2, 3 ] }}")),
            "has different size for dims and reshape for 'x'",
        ),
        (
            input(&format!("{good} dims: 4 reshape {{ shape: -1 }}")),
            "has different number of variable-size dimensions for dims and reshape for 'x'",
        ),
        (
            input(&format!("{good} dims: 4 reshape {{ shape: -2 }}")),
            "reshape dimensions must be integer >= 1, or -1 to indicate a variable-size dimension \
             for 'x'",
        ),
        (
            input(&format!("{good} dims: 1 reshape {{ }}")),
            "cannot have empty reshape for non-batching model as scalar tensors are not supported \
             for 'x'",
        ),
        (usual("input { name: 'x' data_type: TYPE_FP32 dims: 1 }"), "must have a unique 'name' for 'x'"),
    ];
    for (text, what) in cases {
        assert_eq!(refusal(&text), format!("model input {what} of model 'm'"));
    }
}

#[test]
fn batching_is_refused_in_tritons_words() {
    let cases = [
        ("preferred_batch_size: 0", "dynamic batching preferred size must be positive for m"),
        ("preferred_batch_size: 9", "dynamic batching preferred size must be <= max batch size for m"),
        ("priority_levels: 2", "default priority level must be in range [1, 2] for m"),
        ("priority_levels: 2 default_priority_level: 3", "default priority level must be in range [1, 2] for m"),
        (
            "priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 3 value { } }",
            "priority queue policy must have priority level in range [1, 2] for m",
        ),
        (
            "priority_levels: 2 default_priority_level: 1 preserve_ordering: true",
            "Only one priority level is allowed when 'preserve_ordering' is true for m",
        ),
        (
            "preserve_ordering: true
               default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 }",
            "Queue policy can not have DELAY as timeout action when 'preserve_ordering' is true \
             for m",
        ),
    ];
    for (fields, sentence) in cases {
        let text = usual(&format!("dynamic_batching {{ {fields} }}"));
        assert_eq!(refusal(&text), sentence);
    }
}

#[test]
fn policies_without_effect_are_accepted() {
    let batching = |fields: &str| {
        let config = read(&usual(&format!("dynamic_batching {{ {fields} }}")));
        config.batching.unwrap()
    };
    let delayed = "value { timeout_action: DELAY default_timeout_microseconds: 1 }";
    let of_no_level = batching(&format!("preserve_ordering: true priority_queue_policy {{ key: 1 {delayed} }}"));
    assert!(of_no_level.level_queues.is_empty());
    let of_no_timeout = batching("preserve_ordering: true default_queue_policy { timeout_action: DELAY }");
    assert!(of_no_timeout.preserve_ordering);
}

#[test]
fn instance_groups_and_files_are_refused_by_name() {
    let cases = [
        (
            "instance_group { kind: KIND_CPU gpus: 0 }",
            "instance group m_0 of model m has kind KIND_CPU but specifies one or more GPUs",
        ),
        ("instance_group { count: -1 }", "instance group m_0 of model m has count -1, which must be at least 1"),
        (
            "instance_group { count: 1025 }",
            "model m has 1025 instances in its groups, which is over 1024: lower their count",
        ),
        (
            "instance_group { count: 2147483647 } instance_group { count: 1 }",
            "model m has 2147483648 instances in its groups, which is over 1024: lower their count",
        ),
        (
            "instance_group { kind: KIND_GPU count: 600 gpus: [0, 1] }",
            "model m has 1200 instances in its groups, which is over 1024: lower their count",
        ),
        (
            "version_policy { specific { versions: -1 } }",
            "version_policy.specific must list versions that are not negative for m",
        ),
        (
            "default_model_filename: '../model.pt'",
            "model 'm': default_model_filename '../model.pt' must be a relative path without '..'",
        ),
        (
            "output { name: 'z' data_type: TYPE_FP32 dims: 1 label_filename: '/etc/x' }",
            "model 'm': label_filename '/etc/x' must be a relative path without '..'",
        ),
    ];
    for (text, sentence) in cases {
        assert_eq!(refusal(&usual(text)), sentence);
    }
    let negative = "'max_batch_size' must be non-negative value for m";
    assert_eq!(refusal("backend: 'echo' max_batch_size: -1"), negative);
}

#[test]
fn metric_tags_that_break_the_metrics_are_refused() {
    let tag = |name: &str| usual(&format!("metric_tags {{ key: '{name}' value: 'x' }}"));
    for name in ["", "a-b", "_x", "__name__", "größe", "a b"] {
        let error = format!(
            "model 'm': metric_tags '{name}' is not valid in a Prometheus label: use letters, digits and '_', and do \
             not begin with '_'"
        );
        assert_eq!(refusal(&tag(name)), error);
    }
    for name in ["team", "model", "le", "9A_"] {
        assert_eq!(read(&tag(name)).metric_tags[&format!("_{name}")], "x");
    }
}

#[test]
fn the_runs_of_all_warmups_together_are_limited() {
    let one = "inputs { key: 'x' value { data_type: TYPE_FP32 dims: 1 zero_data: true } }";
    let warmup = |count: u32| format!("model_warmup {{ name: 'w' count: {count} {one} }}");
    for (text, runs) in [(warmup(4_294_967_295), "4294967295"), (warmup(5_000) + &warmup(5_000) + &warmup(0), "10001")]
    {
        let error = format!("model m has {runs} runs in its warm-ups, which is over 10000: lower their count");
        assert_eq!(refusal(&usual(&text)), error);
    }
}

#[test]
fn a_platform_of_another_backend_is_refused() {
    let text = "backend: 'pytorch' platform: 'onnxruntime_onnx'";
    let sentence = "unexpected 'platform' and 'backend' pair, got: onnxruntime_onnx, pytorch for model 'm'";
    assert_eq!(refusal(text), sentence);
    assert_eq!(read("backend: 'pytorch' platform: 'pytorch_libtorch'").backend, "pytorch");
}

#[test]
fn warmups_are_refused_by_name() {
    let one = |fields: &str| format!("inputs {{ key: 'x' value {{ {fields} }} }}");
    let cases = [
        ("batch_size: 9".to_owned(), "has batch_size 9, which is over max_batch_size"),
        (
            one("data_type: TYPE_FP32 dims: 268435457 zero_data: true"),
            "has input 'x' of 1073741828 bytes, which is over 1073741824",
        ),
        (
            format!("batch_size: 4 {}", one("data_type: TYPE_INT64 dims: 134217728 random_data: true")),
            "has input 'x' of 4294967296 bytes, which is over 1073741824",
        ),
        (String::new(), "has no inputs"),
        ("inputs { key: 'z' value { } }".to_owned(), "has unknown input 'z'"),
        (one(""), "has input 'x' without data_type"),
        (one("data_type: TYPE_FP32 dims: -1"), "has input 'x' with bad dims: shape [-1] has the negative dimension -1"),
        (one("data_type: TYPE_FP32 dims: 1"), "has input 'x' without zero_data, random_data or input_data_file"),
        (
            one("data_type: TYPE_FP32 input_data_file: '..'"),
            "has input 'x' with bad data: model 'm': input_data_file '..' must be a relative path \
             without '..'",
        ),
    ];
    for (fields, what) in cases {
        let text = usual(&format!("model_warmup {{ name: 'w' {fields} }}"));
        assert_eq!(refusal(&text), format!("warm-up 'w' of model 'm' {what}"));
    }
}

#[test]
fn padding_is_refused_by_name() {
    let pad =
        |key: &str, value: &str| format!("parameters {{ key: 'PADDING_{key}' value {{ string_value: '{value}' }} }}");
    let both = |value: &str| pad("BUCKETS", "4") + &pad("VALUES", value);
    let cases = [
        (pad("VALUES", "x=1"), "VALUES", "needs 'PADDING_BUCKETS'"),
        (pad("BUCKETS", "4,2"), "BUCKETS", "must be ascending lengths, such as '16,32,64'"),
        (pad("BUCKETS", "0,4"), "BUCKETS", "must be ascending lengths, such as '16,32,64'"),
        (pad("BUCKETS", ""), "BUCKETS", "must be ascending lengths, such as '16,32,64'"),
        (
            pad("BUCKETS", "16,1000000000000"),
            "BUCKETS",
            "has the length 1000000000000, which makes a row larger than 1073741824 bytes",
        ),
        (both("x"), "VALUES", "has 'x', expected INPUT=NUMBER"),
        (both("x=inf"), "VALUES", "has 'x=inf', expected INPUT=NUMBER"),
        (both("z=1"), "VALUES", "names unknown input 'z'"),
        (both("x=1,x=2"), "VALUES", "names input 'x' twice"),
    ];
    for (text, key, what) in cases {
        let sentence = format!("parameter 'PADDING_{key}' of model 'm' {what}");
        assert_eq!(refusal(&usual(&text)), sentence);
    }
    let fixed = "backend: 'echo' input { name: 'x' data_type: TYPE_FP32 dims: 4 }";
    assert_eq!(
        refusal(&format!("{fixed} {}", pad("BUCKETS", "4"))),
        "parameter 'PADDING_BUCKETS' of model 'm' needs an input with a dimension of -1"
    );
    let text = "backend: 'echo' input { name: 'x' data_type: TYPE_STRING dims: -1 }";
    assert_eq!(
        refusal(&format!("{text} {}", pad("BUCKETS", "4"))),
        "parameter 'PADDING_BUCKETS' of model 'm' applies to numbers only, but input 'x' has TYPE_STRING"
    );
}
