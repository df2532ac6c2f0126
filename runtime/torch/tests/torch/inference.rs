//! Tests the inferred signatures of models without a configuration.

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, Signature, TensorConfig};

use crate::fixture::*;

type Row<'a> = (&'a str, DataType, &'a [i64]);

fn check(name: &str, max_batch_size: usize, inputs: &[Row<'_>], outputs: &[Row<'_>]) {
    let expected = |rows: &[Row<'_>]| -> Vec<TensorConfig> {
        rows.iter().map(|(name, datatype, dims)| tensor(name, *datatype, dims)).collect()
    };
    let expected = Signature {
        inputs: expected(inputs),
        outputs: expected(outputs),
        max_batch_size,
        tolerance: load(&bare(name)).signature().tolerance,
    };
    assert_eq!(*load(&bare(name)).signature(), expected, "{name}");
}

const F: DataType = DataType::Fp32;

#[test]
fn a_traced_model_has_the_shapes_of_its_example() {
    check("conv_traced", 32, &[("input", F, &[1, 8, 8])], &[("OUTPUT__0", F, &[10])]);
    check("masked_mean_traced", 32, &[("x", F, &[-1]), ("mask", DataType::Int64, &[-1])], &[("OUTPUT__0", F, &[1])]);
}

#[test]
fn weights_suggest_the_inputs_of_a_scripted_model() {
    check("mlp", 32, &[("input", F, &[16])], &[("OUTPUT__0", F, &[4])]);
    check("embedding", 32, &[("ids", DataType::Int64, &[-1])], &[("OUTPUT__0", F, &[4])]);
}

#[test]
fn without_weights_the_simplest_inputs_that_work_are_taken() {
    let any: &[i64] = &[-1];
    check("add_sub", 32, &[("a", F, any), ("b", F, any)], &[("OUTPUT__0", F, any), ("OUTPUT__1", F, any)]);
    check("hides", 32, &[("x", F, any), ("mask", DataType::Bool, any)], &[("OUTPUT__0", F, any)]);
    check(
        "outputs",
        32,
        &[("x", F, any)],
        &[("OUTPUT__0", F, any), ("OUTPUT__1", DataType::Int64, any), ("OUTPUT__2", DataType::Bool, any)],
    );
    check("transpose", 32, &[("x", F, &[-1, -1])], &[("OUTPUT__0", F, &[-1, -1])]);
    check("strings", 32, &[("texts", DataType::Bytes, &[1])], &[("OUTPUT__0", DataType::Bytes, &[1])]);
}

#[test]
fn a_model_whose_rows_depend_on_each_other_is_not_batched() {
    check("batch_mean", 0, &[("x", F, &[-1, -1])], &[("OUTPUT__0", F, &[-1, -1])]);
}

#[test]
fn the_configuration_takes_precedence() {
    let mut source = bare("mlp");
    source.inputs = vec![tensor("input", F, &[16])];
    source.max_batch_size = Some(5);
    let model = load(&source);
    assert_eq!(model.signature().max_batch_size, 5);
    assert_eq!(model.signature().outputs, [tensor("OUTPUT__0", F, &[4])]);

    let mut source = bare("add_sub");
    source.outputs = vec![tensor("sum", F, &[-1]), tensor("difference", F, &[-1])];
    let outputs = load(&source).signature().outputs.clone();
    assert_eq!(outputs[1].name, "difference");
}

#[test]
fn the_error_says_what_the_configuration_must_add() {
    let error = refusal(&bare("dict_input"));
    assert!(matches!(error, LoadError::Config(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("Dict[str, Tensor]") && text.contains("config.pbtxt"), "{text}");
}
