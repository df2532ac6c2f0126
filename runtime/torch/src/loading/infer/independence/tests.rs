use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use weir_protocol::DataType;
use weir_runtime::backend::Device;

use super::*;
use crate::execution::runner::Placement;
use crate::loading::infer::{self, candidates};
use crate::module::Module;
use crate::settings::RunOptions;

fn source(name: &str) -> ModelSource {
    ModelSource::bare(name, Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/mixing/{name}.pt")))
}

fn runner(source: &ModelSource) -> Runner {
    Runner {
        module: Arc::new(Module::load(&source.path, Device::Cpu, "forward").unwrap()),
        placement: Placement::Processor,
        options: RunOptions { inference_mode: true, optimize: true },
        intra_op_threads: 1,
    }
}

fn inferred_batch_size(name: &str) -> usize {
    let source = source(name);
    let inferred = infer::signature(&source, &runner(&source), None);
    inferred.unwrap().signature.max_batch_size
}

#[test]
fn rows_that_mix_are_never_batched() {
    for name in [
        "centred",
        "offset",
        "faint",
        "softmax",
        "cumulative",
        "scaled",
        "sorted",
        "reversed",
        "fromthree",
        "fromeight",
        "clipped",
        "beside",
        "longest",
        "ranked",
        "dynamic",
        "onehot",
        "upto",
        "uptoeach",
        "padded",
        "unpacked",
        "cut",
        "distinct",
        "signed",
        "guarded",
        "rounded",
        "lowest",
        "seven",
        "averaged",
        "counted",
        "missing",
        "below",
        "absent",
    ] {
        assert_eq!(inferred_batch_size(name), 0, "{name}");
    }
}

/// If the model accepts few lengths, they suffice to show that a length does not change other rows.
#[test]
fn steps_up_to_the_length_of_the_input_are_batched() {
    assert_eq!(inferred_batch_size("unpackedto"), 32);
}

#[test]
fn lengths_that_are_not_batched_may_be_any_number() {
    for name in ["unpacked", "cut"] {
        let source = source(name);
        let signature = infer::signature(&source, &runner(&source), None).unwrap().signature;
        let lengths = &signature.inputs[1];
        assert_eq!((lengths.datatype, lengths.dims.as_slice()), (DataType::Int64, [-1].as_slice()), "{name}");
    }
}

#[test]
fn strings_that_are_not_batched_may_be_any_number() {
    let source = source("padded");
    let signature = infer::signature(&source, &runner(&source), None).unwrap().signature;
    assert_eq!(signature.inputs[0].dims, [-1]);
    assert_eq!(signature.outputs[0].dims[0], -1);
}

fn input(name: &str, datatype: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig::new(name, datatype, dims)
}

#[test]
fn a_copy_on_the_processor_shows_what_a_gpu_cannot() {
    for (name, input) in [
        ("onehot", input("x", DataType::Int64, &[4])),
        ("distinct", input("ids", DataType::Int64, &[4])),
        ("signed", input("x", DataType::Fp32, &[4])),
        ("guarded", input("x", DataType::Fp32, &[4])),
    ] {
        let source = source(name);
        let checked = check_on_processor(&source, &runner(&source), &[input], 32);
        let is_reported = |reason: &str| !reason.contains("the model does not run");
        let shown = checked.as_ref().is_err_and(|why| is_reported(why.reason()));
        assert!(shown, "{name}: {checked:?}");
    }
    for name in ["mlp", "masked", "conv"] {
        let source = source(name);
        let runner = runner(&source);
        let candidates = candidates::batched(&source, &runner.module).unwrap();
        let checked = check_on_processor(&source, &runner, &candidates[0].inputs, 32);
        assert_eq!(checked, Ok(()), "{name}");
    }
}

#[test]
fn rows_are_taken_to_mix_where_there_is_no_copy() {
    let source = source("placed");
    let input = input("x", DataType::Fp32, &[4]);
    let checked = check_on_processor(&source, &runner(&source), &[input], 32);
    let Err(Dependence::Mixed(reason)) = checked else {
        panic!("{checked:?}");
    };
    let words = "there the model does not run because its code names a CUDA device";
    assert!(reason.ends_with(words), "{reason}");
}

#[test]
fn a_model_that_needs_a_gpu_is_refused_on_the_processor() {
    let source = source("placed");
    let error = infer::signature(&source, &runner(&source), None).unwrap_err();
    let words = "model 'placed' does not run on the CPU, where it is to be served: its code names a CUDA device";
    assert!(error.to_string().starts_with(words), "{error}");
}

#[test]
fn a_device_that_is_only_compared_is_none_that_the_code_names() {
    for (name, expected) in [("placed", true), ("moved", true), ("compared", false)] {
        let runner = runner(&source(name));
        assert_eq!(runner.module.names_cuda(), expected, "{name}");
    }
}

#[test]
fn a_copy_is_a_module_of_its_own_that_names_no_device() {
    let runner = runner(&source("mlp"));
    let copy = runner.on_processor().unwrap();
    assert!(copy.placement.is_processor());
    assert!(!Arc::ptr_eq(&copy.module, &runner.module));
    assert_eq!(copy.module.arguments(), runner.module.arguments());
    let gone = tempfile::tempdir().unwrap();
    let path = gone.path().join("model.pt");
    std::fs::copy(source("mlp").path, &path).unwrap();
    let module = Module::load(&path, Device::Cpu, "forward").unwrap();
    drop(gone);
    let refused = module.on_processor().unwrap_err();
    assert!(refused.contains("model.pt"), "{refused}");
}

#[test]
fn in_doubt_rows_are_not_batched() {
    for name in ["chance", "constant"] {
        assert_eq!(inferred_batch_size(name), 0, "{name}");
    }
}

#[test]
fn ordinary_models_are_batched() {
    for name in [
        "far",
        "strict",
        "classes",
        "attention",
        "gru",
        "conv",
        "mlp",
        "float16",
        "bfloat16",
        "float64",
        "extreme",
        "masked",
    ] {
        let source = source(name);
        let runner = runner(&source);
        let candidates = candidates::batched(&source, &runner.module).unwrap();
        let first = check(&source, &runner, &candidates[0].inputs, 32);
        assert_eq!(first, Ok(()), "{name}");
        assert_eq!(inferred_batch_size(name), 32, "{name}");
    }
}

#[test]
fn the_reason_says_what_changes() {
    let source = source("centred");
    let runner = runner(&source);
    let inputs = [input("y", DataType::Fp32, &[4])];
    let Err(Dependence::Mixed(reason)) = check(&source, &runner, &inputs, 32) else {
        panic!("it mixes");
    };
    assert!(reason.contains("output 0 of a row changes by 1.0e0"), "{reason}");
    assert!(reason.contains("in a batch of 3"), "{reason}");
    assert_eq!(check(&source, &runner, &inputs, 1), Ok(()), "a batch of one mixes nothing");
}

proptest! {
    #[test]
    fn cases_stay_within_the_largest_batch_and_cover_it(max_batch_size in 0..100_usize) {
        let cases = [telling_cases(max_batch_size, 3), cases(max_batch_size)].concat();
        for (at, case) in cases.iter().enumerate() {
            prop_assert!(case.place < case.rows && (2..=max_batch_size.min(LARGEST)).contains(&case.rows));
            prop_assert!(!cases[..at].contains(case));
        }
        if max_batch_size >= 2 {
            let largest = cases.iter().map(|case| case.rows).max();
            prop_assert_eq!(largest, Some(max_batch_size.min(LARGEST)));
        }
    }
}
