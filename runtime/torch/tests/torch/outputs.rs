//! Tests outputs other than a tensor or a tuple of tensors, and arguments other than tensors.

use bytes::Bytes;
use weir_protocol::{DataType, Tensor};
use weir_runtime::backend::{Column, LoadError, ModelError, ModelSource, TensorConfig};

use crate::fixture::*;

const F: DataType = DataType::Fp32;

fn output_names(source: &ModelSource) -> Vec<String> {
    let model = load(source);
    let outputs = model.signature().outputs.iter();
    outputs.map(|output| output.name.clone()).collect()
}

fn any(names: &[&str]) -> Vec<TensorConfig> {
    names.iter().map(|name| tensor(name, F, &[-1])).collect()
}

fn floats_in(name: &str, shape: &[i64], values: &[f32]) -> Column {
    whole(name, F, shape, floats(values))
}

fn failure(outcome: Result<Vec<Tensor>, ModelError>) -> String {
    match outcome {
        Err(ModelError::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn near(left: &[f32], right: &[f32]) -> bool {
    let mut pairs = left.iter().zip(right);
    left.len() == right.len() && pairs.all(|(one, other)| (one - other).abs() < 1e-4)
}

#[test]
fn outputs_are_named_by_key_field_and_dotted_path() {
    let names = |name: &str| output_names(&bare(name));
    assert_eq!(names("segmentation"), ["out", "aux"]);
    assert_eq!(names("dict_traced"), ["out", "aux"]);
    assert_eq!(names("fields"), ["left", "right"]);
    assert_eq!(names("named"), ["mean"]);
    assert_eq!(names("lstm"), ["OUTPUT__0", "OUTPUT__1.0", "OUTPUT__1.1"]);
    let nested = ["logits.0.0", "logits.0.1", "past.0.0", "past.0.1", "past.1.0", "past.1.1"];
    assert_eq!(names("dict_of_tuples"), nested);
    assert_eq!(names("detections"), ["boxes", "scores"]);
    assert_eq!(names("add_sub"), ["OUTPUT__0", "OUTPUT__1"]);
}

#[test]
fn configured_outputs_go_by_name() {
    for (model, names, expected) in [
        ("segmentation", ["aux", "out"], [[2.0, 3.0], [2.0, 4.0]]),
        ("fields", ["right", "left"], [[2.0, 3.0], [0.0, 1.0]]),
        ("lstm", ["OUTPUT__1.1", "OUTPUT__0"], [[3.0, 4.0], [1.0, 2.0]]),
        ("dict_of_tuples", ["past.1.1", "past.0.1"], [[4.0, 5.0], [2.0, 3.0]]),
    ] {
        let source = configured(model, 4, any(&["x"]), any(&names));
        let request = floats_in("x", &[1, 2], &[1.0, 2.0]);
        let outputs = run(&mut *instance(&source), vec![request]).unwrap();
        for (output, (name, expected)) in outputs.iter().zip(names.iter().zip(expected)) {
            assert_eq!(output.name(), *name, "{model}");
            assert_eq!(as_floats(output), expected, "{model} {name}");
        }
    }
}

#[test]
fn rows_of_a_dict_are_batched() {
    assert_eq!(load(&bare("segmentation")).signature().max_batch_size, 32);
    let mut instance = instance(&bare("segmentation"));
    let parts: [(&[i64], Bytes); 2] = [(&[1, 1], floats(&[1.0])), (&[2, 1], floats(&[2.0, 3.0]))];
    let outputs = run(&mut *instance, vec![column("x", F, &[3, 1], &parts)]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [2.0, 4.0, 6.0]);
    assert_eq!(as_floats(&outputs[1]), [2.0, 3.0, 4.0]);
}

#[test]
fn a_key_that_comes_and_goes_fails_requests_but_never_changes_places() {
    let mut learned = instance(&bare("moody_dict"));
    let request = |value| vec![floats_in("x", &[1, 1], &[value])];
    assert_eq!(as_floats(&run(&mut *learned, request(1.0)).unwrap()[0]), [1.0]);
    let text = failure(run(&mut *learned, request(11.0)));
    assert!(text.contains("returned 'high', which it did not"), "{text}");

    let source = configured("moody_dict", 4, any(&["x"]), any(&["high"]));
    let mut configured = instance(&source);
    let outputs = run(&mut *configured, request(11.0)).unwrap();
    assert_eq!(as_floats(&outputs[0]), [22.0]);
    let text = failure(run(&mut *configured, request(1.0)));
    assert_eq!(text, "the model returned no output 'high' for this input, only low");

    let source = configured_named();
    let mut named = instance(&source);
    let outputs = run(&mut *named, request(-2.0)).unwrap();
    assert_eq!(as_floats(&outputs[0]), [4.0]);
    let text = failure(run(&mut *named, request(2.0)));
    assert!(text.contains("no output 'std'"), "{text}");
}

/// Returns a source whose only output is a field that may be None.
fn configured_named() -> ModelSource {
    configured("named", 4, any(&["x"]), any(&["std"]))
}

#[test]
fn a_list_is_served_up_to_the_outputs_configured() {
    let source = configured("split", 0, any(&["x"]), any(&["OUTPUT__0", "OUTPUT__1"]));
    let mut split = instance(&source);
    let request = |values: &[f32]| vec![floats_in("x", &[values.len() as i64], values)];
    let outputs = run(&mut *split, request(&[5.0])).unwrap();
    assert!(outputs[0].shape().dims().is_empty());

    let rows = |rows: &[f32]| vec![floats_in("x", &[rows.len() as i64, 1], rows)];
    let outputs = run(&mut *split, rows(&[5.0])).unwrap();
    assert_eq!(as_floats(&outputs[0]), [5.0]);
    assert_eq!(outputs[1].shape().dims(), [0]);
    let outputs = run(&mut *split, rows(&[5.0, 6.0])).unwrap();
    assert_eq!(as_floats(&outputs[1]), [6.0]);

    let mut source = bare("split");
    source.inputs = vec![tensor("x", F, &[-1, 1])];
    source.max_batch_size = Some(0);
    let learned = load(&source).signature().outputs.len();
    let mut learned_split = instance(&source);
    let text = failure(run(&mut *learned_split, rows(&vec![1.0; learned + 1])));
    assert!(text.contains("list as many outputs"), "{text}");
}

#[test]
fn a_list_of_images_is_one_tensor() {
    let mut source = bare("detections");
    let model = load(&source);
    let signature = model.signature();
    assert_eq!(signature.max_batch_size, 0);
    assert_eq!(signature.inputs[0].dims.len(), 3, "one image");
    assert_eq!(signature.outputs[0].dims, [-1, 4]);
    let mut one = instance(&source);
    let request = floats_in("images", &[1, 1, 3], &[1.0, 0.0, 2.0]);
    let outputs = run(&mut *one, vec![request]).unwrap();
    assert_eq!(as_floats(&outputs[1]), [1.0, 2.0]);
    assert_eq!(outputs[0].shape().dims(), [2, 4]);
    let request = floats_in("images", &[1, 1, 1], &[0.0]);
    let outputs = run(&mut *one, vec![request]).unwrap();
    assert_eq!(outputs[0].shape().dims(), [0, 4]);

    source.inputs = vec![tensor("images", F, &[-1, 1, 1, -1])];
    source.outputs = any(&["1.0.scores", "1.1.scores"]);
    source.max_batch_size = Some(0);
    let mut two = instance(&source);
    let request = floats_in("images", &[2, 1, 1, 2], &[1.0, 2.0, 3.0, 0.0]);
    let outputs = run(&mut *two, vec![request]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [1.0, 2.0]);
    assert_eq!(as_floats(&outputs[1]), [3.0]);
}

/// Returns a column with one number or string.
fn one(name: &str, datatype: DataType, data: Bytes) -> Column {
    whole(name, datatype, &[1], data)
}

#[test]
fn numbers_and_strings_are_inputs_of_one_element() {
    let model = load(&bare("settings"));
    let signature = model.signature();
    assert_eq!(signature.max_batch_size, 0);
    let inputs = signature.inputs.iter();
    let inputs: Vec<_> =
        inputs.map(|input| (input.name.as_str(), input.datatype, input.dims.clone(), input.optional)).skip(1).collect();
    let expected = [
        ("times", DataType::Int64, vec![1], false),
        ("scale", DataType::Fp64, vec![1], true),
        ("negate", DataType::Bool, vec![1], true),
        ("word", DataType::Bytes, vec![1], true),
        ("offset", DataType::Int64, vec![1], true),
        ("weights", DataType::Fp64, vec![-1], true),
    ];
    assert_eq!(inputs, expected);
}

#[test]
fn numbers_and_strings_reach_the_model() {
    let mut instance = instance(&bare("settings"));
    let x = || floats_in("x", &[2, 4], &[1.0; 8]);
    let times = || one("times", DataType::Int64, ints(&[3]));
    let first = |outputs: Result<Vec<Tensor>, ModelError>| as_floats(&outputs.unwrap()[0])[0];
    assert_eq!(first(run(&mut *instance, vec![x(), times()])), 3.0);
    let text = Bytes::from_static(b"\x06\0\0\0longer");
    let all = vec![
        x(),
        times(),
        one("scale", DataType::Fp64, Bytes::from_iter(0.5_f64.to_le_bytes())),
        one("negate", DataType::Bool, Bytes::from_static(&[1])),
        one("word", DataType::Bytes, text),
        one("offset", DataType::Int64, ints(&[10])),
    ];
    assert_eq!(first(run(&mut *instance, all)), 6.5);
    let weights = Bytes::from_iter([2.0_f64, 4.0].iter().flat_map(|value| value.to_le_bytes()));
    let weights = whole("weights", DataType::Fp64, &[2], weights);
    assert_eq!(first(run(&mut *instance, vec![x(), times(), weights])), 24.0);
}

/// A number has one value for the whole batch. A batch whose rows disagree fails, and the engine then runs its requests
/// alone.
#[test]
fn rows_that_disagree_about_a_number_never_share_a_run() {
    let inputs = vec![tensor("x", F, &[1]), tensor("times", DataType::Int32, &[1])];
    let mut instance = instance(&configured("settings", 4, inputs, any(&["y"])));
    let request = |times: [i32; 2]| {
        let times = times.iter().flat_map(|value| value.to_le_bytes());
        vec![floats_in("x", &[2, 1], &[1.0, 2.0]), whole("times", DataType::Int32, &[2, 1], Bytes::from_iter(times))]
    };
    let outputs = run(&mut *instance, request([5, 5])).unwrap();
    assert_eq!(as_floats(&outputs[0]), [5.0, 10.0]);
    let text = failure(run(&mut *instance, request([5, 6])));
    assert!(text.contains("differs between the rows"), "{text}");
}

#[test]
fn rows_agree_about_a_number_by_its_bytes() {
    let one = |name: &str, datatype| tensor(name, datatype, &[1]);
    let (times, scale) = (one("times", DataType::Int64), one("scale", DataType::Fp64));
    let inputs = vec![one("x", F), times, scale];
    let mut instance = instance(&configured("settings", 4, inputs, any(&["y"])));
    let request = |scale: [f64; 2]| {
        let times = [1_i64, 1].iter().flat_map(|value| value.to_le_bytes());
        let scale = scale.iter().flat_map(|value| value.to_le_bytes());
        vec![
            floats_in("x", &[2, 1], &[1.0, 2.0]),
            whole("times", DataType::Int64, &[2, 1], Bytes::from_iter(times)),
            whole("scale", DataType::Fp64, &[2, 1], Bytes::from_iter(scale)),
        ]
    };
    let outputs = run(&mut *instance, request([f64::NAN; 2])).unwrap();
    assert!(as_floats(&outputs[0]).iter().all(|value| value.is_nan()));
    let text = failure(run(&mut *instance, request([0.0, -0.0])));
    assert!(text.contains("differs between the rows"), "{text}");
}

#[test]
fn numbers_and_strings_are_outputs_of_one_element() {
    let mut instance = instance(&bare("numbers"));
    let outputs = run(&mut *instance, vec![floats_in("x", &[2, 4], &[0.5; 8])]).unwrap();
    let data: Vec<(DataType, Vec<usize>, &[u8])> = outputs
        .iter()
        .map(|output| {
            let dims = output.shape().dims().to_vec();
            (output.datatype(), dims, &**output.data())
        })
        .collect();
    let four = 4.0_f64.to_le_bytes();
    assert_eq!(data[0], (DataType::Int64, vec![1], &*ints(&[4])));
    assert_eq!(data[1], (DataType::Fp64, vec![1], &four[..]));
    assert_eq!(data[2], (DataType::Bool, vec![1], &[1][..]));
    assert_eq!(data[3], (DataType::Bytes, vec![1], &b"\x03\0\0\0sum"[..]));
    assert_eq!(data[4], (DataType::Int64, vec![2], &*ints(&[2, 8])));
    assert_eq!(data[5], (DataType::Fp64, vec![1], &four[..]));
    assert_eq!(data[6], (DataType::Bool, vec![2], &[1, 0][..]));
}

#[test]
fn another_method_than_forward_runs() {
    let mut source = bare("methods");
    let mut choose = |method: &str| {
        let method = method.to_owned();
        source.parameters.insert("method".to_owned(), method);
        source.clone()
    };
    let mut encode = instance(&choose("encode"));
    let outputs = run(&mut *encode, vec![floats_in("x", &[1, 1], &[1.5])]).unwrap();
    assert_eq!(as_floats(&outputs[0]), [15.0]);
    let error = refusal(&choose("decode")).to_string();
    assert!(error.contains("no method decode; its methods are: forward, encode"), "{error}");
}

#[test]
fn types_that_cannot_be_served_are_refused_before_a_run() {
    for (model, said) in [
        ("returns_none", "it returns a NoneType"),
        ("returns_any", "annotate the type"),
        ("returns_future", "torch.jit.wait"),
        ("returns_complex", "torch.view_as_real"),
        ("returns_class", "return its tensors"),
    ] {
        for source in [bare(model), configured(model, 8, any(&["x"]), any(&["y"]))] {
            let error = refusal(&source);
            assert!(matches!(error, LoadError::Config(_)), "{error}");
            let text = error.to_string();
            assert!(text.contains(said) && text.contains(model), "{text}");
        }
    }
}

/// The schema says only Tensor, so the trial finds this.
#[test]
fn complex_tensors_are_refused_by_the_trial() {
    let error = refusal(&bare("spectrum")).to_string();
    assert!(error.contains("torch.view_as_real"), "{error}");
    let source = configured("spectrum", 8, any(&["x"]), any(&["y"]));
    let text = failure(run(&mut *instance(&source), vec![floats_in("x", &[1, 2], &[1.0, 2.0])]));
    assert!(text.contains("torch.view_as_real"), "{text}");
}

fn vision() -> Box<dyn weir_runtime::backend::Instance> {
    let inputs = vec![
        tensor("boxes", F, &[-1, 4]),
        tensor("scores", F, &[-1]),
        tensor("x", F, &[-1, -1, -1, -1]),
        tensor("rois", F, &[-1, 5]),
    ];
    let outputs = vec![
        tensor("kept", DataType::Int64, &[-1]),
        tensor("pooled", F, &[-1, -1, -1, -1]),
        tensor("plain", F, &[-1, -1, -1, -1]),
    ];
    instance(&configured("vision", 0, inputs, outputs))
}

/// Samples outside of the plane are zero. A region has as many samples as pixels, which would not fit in memory.
#[test]
fn a_region_far_larger_than_its_plane_is_pooled_at_once() {
    let mut vision = vision();
    let mut pooled = |right: f32, bottom: f32| {
        let columns = vec![
            floats_in("boxes", &[1, 4], &[0.0, 0.0, 1.0, 1.0]),
            floats_in("scores", &[1], &[0.5]),
            floats_in("x", &[1, 1, 6, 6], &[1.0; 36]),
            floats_in("rois", &[1, 5], &[0.0, 0.0, 0.0, right, bottom]),
        ];
        run(&mut *vision, columns).map(|outputs| as_floats(&outputs[1]))
    };
    // The cell has 30 × 20 samples, shifted by half a pixel to the left and up. The 36 samples on pixels of the plane
    // are 1, and so are samples just outside of its edges.
    let first = pooled(120.0, 120.0).unwrap();
    assert!(near(&first[1..], &[0.0; 5]), "{first:?}");
    assert!((first[0] - 49.0 / 600.0).abs() < 1e-3, "{first:?}");
    let far = pooled(1e5, 1e5).unwrap();
    assert!(far[0] > 0.0 && far[0] < 1e-6 && near(&far[1..], &[0.0; 5]), "{far:?}");
    for size in [1e30, f32::INFINITY, f32::NAN] {
        let error = pooled(size, 1.0).unwrap_err().to_string();
        assert!(error.contains("roi_align: a region has a cell of"), "{error}");
    }
}

/// The expected numbers are torchvision's own, printed by `tests/models/generate.py`.
#[test]
fn nms_and_roi_align_have_torchvisions_results() {
    let mut instance = vision();
    let boxes = [0.0, 0.0, 4.0, 4.0, 0.5, 0.0, 4.5, 4.0, 8.0, 8.0, 9.0, 9.0, 0.0, 0.0, 4.0, 2.0, 8.0, 8.0, 9.0, 9.5];
    let pixels: Vec<f32> = (0..72_u16).map(|at| f32::from(at * 7 % 11)).collect();
    let rois = [0.0, 1.0, 1.5, 9.0, 7.0, 1.0, -3.0, 2.0, 20.0, 13.0, 1.0, 4.0, 4.0, 4.2, 4.2];
    let outputs = run(
        &mut *instance,
        vec![
            floats_in("boxes", &[5, 4], &boxes),
            floats_in("scores", &[5], &[0.5, 0.9, 0.1, 0.9, 0.3]),
            floats_in("x", &[2, 1, 6, 6], &pixels),
            floats_in("rois", &[3, 5], &rois),
        ],
    )
    .unwrap();
    assert_eq!(*outputs[0].data(), ints(&[1, 3, 4]));
    let pooled = [
        5.7135415, 3.9895837, 6.791666, 3.708333, 7.427083, 4.0416665, 3.5462236, 5.8177085, 0.0, 2.6433737, 5.0950522,
        0.0, 3.8670833, 3.9262497, 3.9854164, 4.0512495, 4.12875, 4.206249,
    ];
    assert!(near(&as_floats(&outputs[1]), &pooled), "{:?}", outputs[1]);
    let plain = [4.53125, 5.125, 5.3046875, 2.8046875, 4.963867, 3.625, 3.649414, 1.28125, 7.5, 5.5, 6.5, 4.5];
    assert!(near(&as_floats(&outputs[2]), &plain), "{:?}", outputs[2]);
}

/// Runs a small Faster R-CNN, whose boxes pass through both operators.
#[test]
fn a_detector_has_torchvisions_detections() {
    let source = bare("detector");
    assert_eq!(output_names(&source), ["boxes", "labels", "scores"]);
    let mut detector = instance(&source);
    let pixels: Vec<f32> = (0..3 * 48 * 40_u32).map(|at| (at * 7 % 101) as f32 / 101.0).collect();
    let request = floats_in("images", &[3, 48, 40], &pixels);
    let outputs = run(&mut *detector, vec![request]).unwrap();
    let boxes = [
        0.2637327, 29.32483, 8.512329, 38.50974, 12.60454, 15.818988, 29.092716, 25.005177, 28.308912, 34.58814, 40.0,
        46.82169, 15.845988, 21.956728, 39.866432, 46.40516, 9.055224, 15.18508, 33.061615, 39.63823, 29.034235,
        0.15101695, 40.0, 19.25798,
    ];
    let found = as_floats(&outputs[0]);
    assert_eq!(found.len(), boxes.len());
    for (found, expected) in found.iter().zip(boxes) {
        assert!((found - expected).abs() < 1e-2, "{found} {expected}");
    }
    assert_eq!(*outputs[1].data(), ints(&[2; 6]));
    let scores = [0.3295188, 0.3291351, 0.3273626, 0.3270377, 0.3270095, 0.3268761];
    assert!(near(&as_floats(&outputs[2]), &scores), "{:?}", outputs[2]);
}

/// Each method is listed with its output dimensions; -1 marks a dimension that depends on input values.
#[test]
fn sizes_that_depend_on_values_are_variable() {
    for (method, expected) in [
        ("one_hot", &[-1, -1, -1][..]),
        ("bincount", &[-1]),
        ("nonzero", &[-1, 2]),
        ("unique", &[-1]),
        ("masked_select", &[-1]),
        ("repeats", &[-1]),
        ("arange", &[-1]),
        ("zeros", &[-1, 3]),
        ("histogram", &[-1]),
        ("fixed", &[-1, 5]),
    ] {
        let mut source = bare("sized");
        source.parameters.insert("method".to_owned(), method.to_owned());
        let model = load(&source);
        assert_eq!(model.signature().outputs[0].dims, expected, "{method}");
    }
}
