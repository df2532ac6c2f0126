//! Tests models that generated inputs crash or hang, or that accept few generated inputs, which a load tries in a child
//! process.

use std::sync::Arc;

use weir_protocol::DataType;
use weir_runtime::backend::{
    Backend, Device, LoadError, Model, ModelSource, RequestTensor, ShapeTolerance, TensorConfig, WarmUp,
    WarmUpFailures, WarmUpInput, WarmUpSample,
};
use weir_runtime_torch::TorchBackend;

use crate::fixture::*;

const F: DataType = DataType::Fp32;

fn one_input(name: &str, input: &str, dims: &[i64], output: &[i64]) -> ModelSource {
    let rows = 8;
    configured(name, rows, vec![tensor(input, F, dims)], vec![tensor("OUTPUT__0", F, output)])
}

fn limitation(model: &Arc<dyn Model>) -> &str {
    model.limitation().unwrap_or("none")
}

fn warm_up(model: &Arc<dyn Model>) -> Vec<WarmUpInput> {
    match model.warm_up() {
        WarmUp::On(inputs) => inputs.to_vec(),
        WarmUp::Needless => Vec::new(),
    }
}

fn answer(model: &Arc<dyn Model>, shape: &[i64], input: &str, data: &[f32]) -> Vec<f32> {
    let mut instance = model.instance(Device::Cpu).unwrap();
    let column = whole(input, F, shape, floats(data));
    as_floats(&run(&mut *instance, vec![column]).unwrap()[0])
}

#[test]
fn a_model_that_odd_values_crash_is_served_in_doubt() {
    let identity: Vec<f32> = (0..16).map(|n| if n % 5 == 0 { 2.0 } else { 0.0 }).collect();
    let bare = load(&bare("spectral"));
    assert_eq!(bare.signature().max_batch_size, 0);
    let said = "in doubt: the trial ended its process by signal 6 (SIGABRT)";
    assert_eq!(limitation(&bare), said);
    assert_eq!(answer(&bare, &[1, 4, 4], "a", &identity), [2.0]);
    assert_eq!(warm_up(&bare).len(), 1);

    let configured = load(&one_input("spectral", "a", &[4, 4], &[1]));
    assert_eq!((configured.signature().max_batch_size, limitation(&configured)), (8, said));
    assert_eq!(answer(&configured, &[1, 4, 4], "a", &identity), [2.0]);
    assert_eq!(warm_up(&configured).len(), 1);
}

#[test]
fn a_model_that_odd_values_hang_is_served_in_doubt() {
    let bare = load(&bare("newton"));
    assert_eq!(bare.signature().max_batch_size, 0);
    assert_eq!(limitation(&bare), "in doubt: the trial had a run that did not end");
    let dims = bare.signature().inputs[0].dims.len();
    let shape = vec![1; dims];
    assert_eq!(answer(&bare, &shape, "x", &[4.0]), [2.0]);
}

#[test]
fn a_sample_that_ends_its_process_fails_the_load_and_nothing_else() {
    let sample = |name: &str, input: &str, shape: &[i64], data: &[f32]| {
        let shape = weir_protocol::Shape::new(shape).unwrap();
        let part = RequestTensor { shape, datatype: F, data: floats(data) };
        WarmUpSample { name: name.to_owned(), inputs: vec![(input.to_owned(), part)] }
    };
    let good = sample("good", "a", &[1, 4, 4], &[1.0; 16]);
    let ends = sample("ends", "a", &[1, 4, 4], &[f32::NAN; 16]);
    let spectral = |samples| ModelSource {
        samples,
        warm_up_failures: WarmUpFailures::Allow,
        ..one_input("spectral", "a", &[4, 4], &[1])
    };
    assert_eq!(warm_up(&load(&spectral(vec![good.clone()]))).len(), 1);
    let error = refusal(&spectral(vec![good, ends]));
    assert!(matches!(error, LoadError::Warmup(_)), "{error}");
    let said = "warm-up sample 'ends' failed: the trial of it ended its process by signal 6";
    assert!(error.to_string().contains(said), "{error}");
}

/// The second load has the same contents under another name and reuses the verdict, because a trial would have the same
/// result.
#[test]
fn a_verdict_is_kept_by_the_contents_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let backend = TorchBackend::with_program(env!("CARGO_BIN_EXE_weir-runtime").into());
    let first = one_input("spectral", "a", &[4, 4], &[1]);
    let model = backend.load(&first).unwrap();
    assert!(limitation(&model).contains("SIGABRT"));
    let moved = folder.path().join("model.pt");
    std::fs::copy(&first.path, &moved).unwrap();
    let second = ModelSource { path: moved, ..first };
    let again = backend.load(&second).unwrap();
    assert_eq!(limitation(&again), limitation(&model));
    assert_eq!(warm_up(&again), warm_up(&model));
}

#[test]
fn a_closed_backend_loads_nothing() {
    let backend = TorchBackend::with_program(env!("CARGO_BIN_EXE_weir-runtime").into());
    backend.close();
    let error = backend.load(&bare("mlp")).err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("the server is stopping"));
}

#[test]
fn without_a_child_a_configured_model_is_served_in_doubt() {
    let backend = TorchBackend::with_program("/nonexistent/weir-runtime".into());
    let model = backend.load(&one_input("mlp", "input", &[16], &[4])).unwrap();
    assert!(limitation(&model).contains("could not be started"), "{}", limitation(&model));
    assert_eq!(answer(&model, &[1, 16], "input", &[0.0; 16]).len(), 4);
}

#[test]
fn inputs_of_a_warm_up_are_found_for_models_that_take_few() {
    let speech = configured(
        "speech",
        8,
        vec![
            tensor("x", F, &[-1, 80]),
            weir_runtime::backend::TensorConfig {
                reshape: Some(Vec::new()),
                ..tensor("lengths", DataType::Int64, &[1])
            },
        ],
        vec![tensor("OUTPUT__0", F, &[8])],
    );
    for source in [
        one_input("pixels_traced", "x", &[-1, -1, -1], &[1]),
        one_input("pixels_traced", "x", &[1, 28, 28], &[1]),
        one_input("stft", "x", &[-1], &[513]),
        one_input("sound", "x", &[-1], &[1]),
        speech,
    ] {
        let name = source.name.clone();
        let model = load(&source);
        let inputs = warm_up(&model);
        assert_eq!(inputs.len(), 1, "{name}");
        assert_eq!(inputs[0].most_rows, 8, "{name}");
        assert_eq!(model.limitation(), None, "{name}");
    }
}

#[test]
fn a_larger_input_that_becomes_more_rows_is_no_variable_dimension() {
    let model = load(&bare("pixels_traced"));
    assert_eq!(model.signature().inputs, [tensor("x", F, &[1, 28, 28])]);
    assert_eq!(model.signature().max_batch_size, 32);
}

#[test]
fn a_model_that_takes_no_made_up_input_is_served() {
    let model = load(&one_input("few", "x", &[4], &[4]));
    assert_eq!(warm_up(&model), []);
    assert_eq!(answer(&model, &[1, 4], "x", &[42.0, 0.0, 0.0, 0.0]), [84.0, 0.0, 0.0, 0.0]);
}

#[test]
fn an_example_beside_a_configuration_warms_up() {
    let values = floats(&[42.0, 0.0, 0.0, 0.0]);
    let shape = weir_protocol::Shape::new(&[1, 4]).unwrap();
    let example = weir_protocol::Tensor::new("x".to_owned(), F, shape, values.clone()).unwrap();
    let model = load(&ModelSource { example: Some(vec![example]), ..one_input("few", "x", &[4], &[4]) });
    let inputs = warm_up(&model);
    assert_eq!(inputs[0].row[0].as_ref().unwrap().data, values);
}

#[test]
fn a_configuration_that_contradicts_the_model_is_refused() {
    for (source, said) in [
        (one_input("mlp", "input", &[12], &[4]), "shapes cannot be multiplied (1x12 and 16x32) (input of [12])"),
        (
            configured("mlp", 8, vec![tensor("input", DataType::Int64, &[16])], vec![tensor("OUTPUT__0", F, &[4])]),
            "must have the same dtype, but got Long and Float (input of [16])",
        ),
        (
            configured("mlp", 8, vec![tensor("input", F, &[16])], vec![tensor("OUTPUT__0", DataType::Int64, &[4])]),
            "configuration expects datatype TYPE_INT64 for output 'OUTPUT__0'",
        ),
        (
            one_input("mlp", "input", &[16], &[5]),
            "output 'OUTPUT__0' has dims [4], where the configuration says [5] (input of [16])",
        ),
    ] {
        let error = refusal(&source);
        assert!(matches!(error, LoadError::Warmup(_)), "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_configured_output_size_that_no_answer_has_is_refused_where_inputs_vary() {
    let bags = |input: &[i64], output: &[i64]| {
        configured("sized", 0, vec![tensor("x", DataType::Int64, input)], vec![tensor("y", DataType::Int64, output)])
    };
    let of = |method: &str, source: ModelSource| {
        let parameters = [("method".to_owned(), method.to_owned())].into();
        let outputs = vec![TensorConfig { name: "OUTPUT__0".to_owned(), ..source.outputs[0].clone() }];
        ModelSource { parameters, outputs, ..source }
    };
    for (source, said) in [
        (one_input("encoder", "x", &[-1, 32], &[-1, 31]), "where the configuration says [-1, 31]"),
        (of("fixed", bags(&[-1], &[-1, 4])), "5], where the configuration says [-1, 4]"),
    ] {
        let error = refusal(&source);
        assert!(matches!(error, LoadError::Warmup(_)), "{error}");
        assert!(error.to_string().contains(said), "{error}");
        load(&ModelSource { warm_up_failures: WarmUpFailures::Allow, ..source });
    }
    // With inputs of ten elements, or with numbers below ten, clients get what the configuration says.
    load(&one_input("identity", "x", &[-1], &[10]));
    load(&of("bincount", bags(&[-1], &[10])));
    load(&of("bincount", bags(&[6], &[10])));
    load(&of("one_hot", bags(&[6], &[6, 10])));
}

#[test]
fn made_up_inputs_are_small() {
    let model =
        load(&configured("images", 0, vec![tensor("x", F, &[-1, 3, -1, -1])], vec![tensor("OUTPUT__0", F, &[-1, 1])]));
    let inputs = warm_up(&model);
    let row = inputs[0].row[0].as_ref().unwrap();
    // With 224 for every dimension, the input would have 33 million elements.
    assert!(row.shape.elements() <= 4 << 20, "{}", row.shape);
}

#[test]
fn a_partial_configuration_is_completed_with_sizes_that_run() {
    let mut source = bare("stft");
    source.inputs = vec![tensor("x", F, &[-1])];
    source.max_batch_size = Some(4);
    let model = load(&source);
    assert_eq!(model.signature().inputs, source.inputs);
    assert_eq!(model.signature().outputs, [tensor("OUTPUT__0", F, &[513])]);
}

#[test]
fn a_model_of_two_ranks_takes_both() {
    let model = load(&bare("encoder"));
    let signature = model.signature();
    assert_eq!(signature.inputs, [tensor("x", F, &[-1, 32])]);
    assert_eq!((signature.max_batch_size, signature.tolerance), (0, ShapeTolerance::OneLeadingDim));
    assert_eq!(answer(&model, &[2, 5, 32], "x", &[0.5; 320]).len(), 320);
}
