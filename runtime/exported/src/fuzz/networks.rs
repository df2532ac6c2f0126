//! Random networks of convolutions with the calls that fusion takes in. Some are wrong: in sizes, in types, by a weight
//! that is missing, or by a value that is used before it is computed.

use serde_json::{Value as Json, json};
use weir_fuzz::{FuzzRng, pick};

/// Number of weights of each network: kernels, then vectors of a number per channel.
const WEIGHTS: usize = 10;
const KERNELS: usize = 4;

/// Operators with one operand.
const UNARY: [&str; 19] = [
    "relu.default",
    "relu_.default",
    "silu.default",
    "silu_.default",
    "sigmoid.default",
    "hardswish.default",
    "relu6.default",
    "hardtanh.default",
    "hardtanh_.default",
    "leaky_relu.default",
    "view.default",
    "view.dtype",
    "view_as.default",
    "reshape.default",
    "flatten.using_ints",
    "as_strided.default",
    "contiguous.default",
    "adaptive_avg_pool2d.default",
    "chunk.default",
];

const NORMS: [&str; 3] =
    ["batch_norm.default", "native_batch_norm.default", "_native_batch_norm_legit_no_training.default"];

const CONVOLUTIONS: [&str; 4] = ["conv2d.default", "conv1d.default", "convolution.default", "conv2d.padding"];

/// Returns `program` and `weights` as an archive has them.
pub(super) fn network(rng: &mut FuzzRng) -> Json {
    let channels = [8, 64, 1000][pick(rng, 3)];
    let steps = 1 + pick(rng, 12);
    let metas: Vec<Json> = (0..WEIGHTS).map(|weight| weight_meta(weight, channels, rng)).collect();
    let mut values = serde_json::Map::from_iter([("x".to_owned(), image_meta(channels, rng))]);
    let mut specs = vec![json!({"user_input": {"arg": tensor("x")}})];
    let mut config = serde_json::Map::new();
    for (weight, meta) in metas.into_iter().enumerate() {
        let name = format!("w{weight}");
        specs.push(json!({"parameter": {"arg": {"name": name}, "parameter_name": name}}));
        values.insert(name.clone(), meta.clone());
        let payload = json!({"path_name": name, "use_pickle": rarely(rng), "tensor_meta": meta});
        if !rarely(rng) {
            config.insert(name, payload);
        }
    }
    let nodes: Vec<Json> = (0..steps).map(|step| node(step, rng)).collect();
    (0..steps).for_each(|step| drop(values.insert(format!("v{step}"), image_meta(channels, rng))));
    let outputs =
        [steps - 1, pick(rng, steps)].map(|step| json!({"user_output": {"arg": tensor(&format!("v{step}"))}}));
    let graph = json!({"nodes": nodes, "tensor_values": values, "sym_int_values": {}});
    let module = json!({"graph": graph, "signature": {"input_specs": specs, "output_specs": outputs}});
    let program = json!({"graph_module": module, "schema_version": {"major": 8, "minor": 14}});
    json!({"program": program, "weights": {"config": config}})
}

/// True once in some forty times, so that most networks of a dozen choices have no error or one.
fn rarely(rng: &mut FuzzRng) -> bool {
    pick(rng, 40) == 0
}

fn tensor(name: &str) -> Json {
    json!({"as_tensor": {"name": name}})
}

fn meta(sizes: &[Json], rng: &mut FuzzRng) -> Json {
    let dtype = if rarely(rng) { pick(rng, 16) } else { 7 };
    json!({"dtype": dtype, "sizes": sizes, "strides": vec![json!({"as_int": 1}); sizes.len()],
           "storage_offset": {"as_int": 0}, "layout": if rarely(rng) { 1 } else { 7 }})
}

fn number(number: i64, rng: &mut FuzzRng) -> Json {
    let odd = [0, -1, i64::MAX, i64::MIN, number + 1];
    json!({"as_int": if rarely(rng) { odd[pick(rng, odd.len())] } else { number }})
}

/// Returns the description of a batch of images.
fn image_meta(channels: i64, rng: &mut FuzzRng) -> Json {
    let rows =
        if rarely(rng) { json!({"as_int": 1}) } else { json!({"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}) };
    let sizes = [rows, number(channels, rng), number(8, rng), number(8, rng)];
    let rank = if rarely(rng) { pick(rng, 5) } else { 4 };
    meta(&sizes[..rank], rng)
}

fn weight_meta(weight: usize, channels: i64, rng: &mut FuzzRng) -> Json {
    let sizes = [number(channels, rng), number(channels, rng), number(3, rng), number(3, rng)];
    let rank = if rarely(rng) {
        pick(rng, 5)
    } else if weight < KERNELS {
        4
    } else {
        1
    };
    meta(&sizes[..rank], rng)
}

/// Returns a call that takes values before it, mostly the last ones.
fn node(step: usize, rng: &mut FuzzRng) -> Json {
    let (one, other) = (operand(step, rng), operand(step, rng));
    let (target, inputs) = match pick(rng, 10) {
        0..3 => (CONVOLUTIONS[often_first(CONVOLUTIONS.len(), rng)], convolution(one, rng)),
        3..5 => (NORMS[pick(rng, NORMS.len())], norm(one, rng)),
        5..7 => (["add.Tensor", "add_.Tensor", "add.Scalar"][often_first(3, rng)], sum(one, other, rng)),
        _ => (UNARY[pick(rng, UNARY.len())], vec![named("self", one)]),
    };
    let result = if rarely(rng) { operand(step, rng) } else { tensor(&format!("v{step}")) };
    let outputs = if rarely(rng) { vec![] } else { vec![result] };
    json!({"target": format!("torch.ops.aten.{target}"), "name": format!("n{step}"), "inputs": inputs, "outputs": outputs})
}

fn often_first(count: usize, rng: &mut FuzzRng) -> usize {
    if pick(rng, 3) == 0 { pick(rng, count) } else { 0 }
}

fn operand(step: usize, rng: &mut FuzzRng) -> Json {
    let name = match pick(rng, 80) {
        // The node itself or a later one, or a weight.
        0 => format!("v{}", step + pick(rng, 3)),
        1 => format!("w{}", pick(rng, WEIGHTS)),
        2..8 => "x".to_owned(),
        8..50 => step.checked_sub(1).map_or_else(|| "x".to_owned(), |step| format!("v{step}")),
        _ => step.checked_sub(1 + pick(rng, 3)).map_or_else(|| "x".to_owned(), |step| format!("v{step}")),
    };
    tensor(&name)
}

fn named(name: &str, argument: Json) -> Json {
    json!({"name": name, "arg": argument})
}

fn weight(range: std::ops::Range<usize>, rng: &mut FuzzRng) -> Json {
    let range = if rarely(rng) { 0..WEIGHTS } else { range };
    tensor(&format!("w{}", range.start + pick(rng, range.len())))
}

fn convolution(input: Json, rng: &mut FuzzRng) -> Vec<Json> {
    let mut inputs = vec![named("input", input), named("weight", weight(0..KERNELS, rng))];
    for (name, argument) in [
        ("bias", [weight(KERNELS..WEIGHTS, rng), json!({"as_none": true})][pick(rng, 2)].clone()),
        ("stride", json!({"as_ints": vec![1 + pick(rng, 2); 1 + pick(rng, 3)]})),
        ("padding", json!({"as_ints": [pick(rng, 3), pick(rng, 3)]})),
        ("dilation", json!({"as_ints": [number(1, rng)["as_int"], 1]})),
        ("groups", number(1 + pick(rng, 2) as i64, rng)),
        ("transposed", json!({"as_bool": rarely(rng)})),
        ("padding", json!({"as_string": "same"})),
    ] {
        if pick(rng, 3) == 0 {
            inputs.push(named(name, argument));
        }
    }
    inputs
}

fn norm(input: Json, rng: &mut FuzzRng) -> Vec<Json> {
    let mut inputs = vec![named("input", input)];
    for name in ["weight", "bias", "running_mean", "running_var"] {
        let given = if rarely(rng) { json!({"as_none": true}) } else { weight(KERNELS..WEIGHTS, rng) };
        inputs.push(named(name, given));
    }
    inputs.push(named("training", json!({"as_bool": rarely(rng)})));
    let eps = if rarely(rng) { json!({"as_int": 1}) } else { json!({"as_float": 1e-5}) };
    inputs.push(named("eps", eps));
    if rarely(rng) {
        inputs.remove(pick(rng, inputs.len()));
    }
    inputs
}

fn sum(one: Json, other: Json, rng: &mut FuzzRng) -> Vec<Json> {
    let mut inputs = vec![named("self", one), named("other", other)];
    if rarely(rng) {
        inputs.push(named("alpha", number(1, rng)));
    }
    inputs
}
