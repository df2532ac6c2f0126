//! Programs that torch exported (`tests/models/exported.py`): contract, verdict and plan.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::{Path, PathBuf};

use weir_exported::{Archive, Dimension, ExportedError, Plan, Processor, Program, Verdict};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/models/exported/{name}.pt2"))
}

fn program(name: &str) -> Result<Program, ExportedError> {
    Archive::open(&path(name))?.program()
}

fn verdict(name: &str) -> String {
    let program = program(name).unwrap();
    match program.batch().map(|batch| program.verdict(&batch)) {
        None => "no batch".to_owned(),
        Some(Verdict::Proven) => "proven".to_owned(),
        Some(Verdict::Coupled(what)) => format!("coupled: {what}"),
        Some(Verdict::Unknown(what)) => format!("unknown: {what}"),
    }
}

#[test]
fn rows_are_followed_through_each_program() {
    let decided = [
        ("mlp", "proven"),
        ("cnn", "proven"),
        ("encoder", "proven"),
        ("attention", "proven"),
        ("lstm", "unknown: operator aten::select.int at 'select_1'"),
        ("bag", "proven"),
        ("recommender", "proven"),
        ("numbers", "proven"),
        ("autoencoder", "proven"),
        ("gru", "proven"),
        ("norm", "proven"),
        ("centred", "coupled: operator aten::mean.dim at 'mean'"),
        ("share", "coupled: operator aten::div.Tensor at 'div'"),
        ("mixer", "coupled: operator aten::scaled_dot_product_attention at 'scaled_dot_product_attention'"),
        ("fixed", "no batch"),
        ("even", "proven"),
        ("ungraded", "proven"),
        ("branches", "proven"),
        ("condition", "coupled: operator aten::sum at 'sum_1'"),
        ("torch_2_8", "proven"),
        ("torch_2_13", "proven"),
        ("torch_2_15", "proven"),
    ];
    let found: Vec<(&str, String)> = decided.iter().map(|(name, _)| (*name, verdict(name))).collect();
    let expected: Vec<(&str, String)> = decided.iter().map(|(name, is)| (*name, (*is).to_owned())).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_contract_comes_from_the_file() {
    let encoder = program("encoder").unwrap();
    let names: Vec<&str> = encoder.inputs.iter().map(|input| &*input.name).collect();
    assert_eq!(names, ["input_ids", "attention_mask"]);
    assert_eq!(encoder.inputs[0].dimensions, [Dimension::Variable, Dimension::Variable]);
    assert_eq!((encoder.inputs[0].element_type, encoder.inputs[0].example.clone()), (4, vec![2, 6]));
    assert_eq!(encoder.batch().unwrap().most, Some(16));
    let paths: Vec<&str> = encoder.outputs.iter().map(|output| &*output.path).collect();
    assert_eq!(paths, ["logits", "hidden"]);
    let recommender = program("recommender").unwrap();
    let names: Vec<&str> = recommender.inputs.iter().map(|input| &*input.name).collect();
    assert_eq!(names, ["user", "item", "features"]);
    let lstm = program("lstm").unwrap();
    let paths: Vec<&str> = lstm.outputs.iter().map(|output| &*output.path).collect();
    assert_eq!(paths, ["#0", "#1"]);
}

#[test]
fn sizes_outside_the_contract_are_refused_by_input_and_dimension() {
    let attention = program("attention").unwrap();
    assert_eq!(attention.check_sizes(&[vec![1, 9, 8]]), Ok(()));
    let refused = |program: &Program, sizes: &[Vec<i64>]| program.check_sizes(sizes).unwrap_err();
    let text = refused(&attention, &[vec![2, 9, 7]]);
    assert_eq!(text, "dimension 2 of input 'x' is 7, and the model takes 8");
    let text = refused(&attention, &[vec![17, 9, 8]]);
    assert!(text.starts_with("dimension 0 of input 'x' is 17, and the model takes "), "{text}");
    assert_eq!(refused(&attention, &[vec![2, 9]]), "input 'x' has 2 dimensions, and the model takes 3");
    let encoder = program("encoder").unwrap();
    let text = refused(&encoder, &[vec![2, 6], vec![2, 5]]);
    assert_eq!(text, "dimension 1 of input 'attention_mask' is 5, and the model takes 6");
    let even = program("even").unwrap();
    assert_eq!(even.check_sizes(&[vec![2, 6, 3]]), Ok(()));
    assert!(even.check_sizes(&[vec![2, 7, 3]]).is_err());
}

#[test]
fn programs_that_cannot_be_served_name_the_operator() {
    let refused = |name: &str| match program(name).and_then(|program| program.plan(Processor::Gpu)) {
        Ok(Plan { .. }) => String::new(),
        Err(error) => error.to_string(),
    };
    let counter = refused("counter");
    assert!(counter.contains("changes 'count'"), "{counter}");
    let cache = refused("cache");
    assert!(cache.contains("operator aten::copy_ at 'copy_' changes 'cache'"), "{cache}");
    let repeated = refused("loop");
    assert!(repeated.contains("torch.ops.higher_order.while_loop"), "{repeated}");
}

#[test]
fn branches_are_calls_with_guards() {
    let program = program("branches").unwrap();
    for processor in [Processor::Cpu, Processor::Gpu] {
        let plan = program.plan(processor).unwrap();
        let guards = |name: &str| plan.calls.iter().find(|call| call.name == name).unwrap().guards.clone();
        assert!(guards("aten::gt").is_empty() && guards("aten::add").len() == 1);
        // The condition inside of a branch is computed only there.
        assert_eq!(guards("aten::is_nonzero"), guards("aten::conv1d"));
        assert_eq!(guards("aten::exp").len(), 2);
        assert_eq!(guards("aten::linear"), [(guards("aten::conv1d")[0].0, false)]);
    }
}

#[test]
fn subgraphs_without_gradients_are_part_of_the_plan() {
    // The length of this name makes the reader of archives misplace the directory if it searches for the beginning.
    let plan = program("ungraded").unwrap().plan(Processor::Gpu).unwrap();
    let names: Vec<&str> = plan.calls.iter().map(|call| &*call.name).collect();
    assert_eq!(names, ["aten::linear", "aten::relu", "aten::amax", "aten::add", "aten::div", "aten::linear"]);
}

#[test]
fn the_weights_of_each_release_are_read() {
    for name in ["torch_2_8", "torch_2_13", "torch_2_15"] {
        let mut archive = Archive::open(&path(name)).unwrap();
        let program = archive.program().unwrap();
        let mut found: Vec<(String, i32, Vec<i64>, Vec<u8>)> = Vec::new();
        for weight in &program.weights {
            let mut bytes = vec![0; usize::try_from(weight.payload.bytes).unwrap()];
            archive.read_payload(&weight.payload, &mut bytes).unwrap();
            found.push((weight.name.clone(), weight.element_type, weight.sizes.clone(), bytes));
        }
        let of = |name: &str| found.iter().find(|(own, ..)| own == name).unwrap();
        assert_eq!((of("layer.weight").1, &*of("layer.weight").2), (6, [3, 4].as_slice()), "{name}");
        assert_eq!(of("shift").3, 0.5_f32.to_le_bytes(), "{name}");
        let order: Vec<u8> = [2_i64, 0, 1].iter().flat_map(|at| at.to_le_bytes()).collect();
        assert_eq!((of("order").1, &of("order").3), (4, &order), "{name}");
    }
}

#[test]
fn a_cut_off_file_is_damaged() {
    let whole = std::fs::read(path("mlp")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.pt2");
    for length in (0..whole.len()).step_by(997) {
        std::fs::write(&cut, &whole[..length]).unwrap();
        assert!(matches!(Archive::open(&cut), Err(ExportedError::Archive(_))), "{length}");
    }
}

#[test]
fn each_value_of_a_plan_is_freed_once() {
    for name in ["mlp", "cnn", "encoder", "lstm", "recommender"] {
        let program = program(name).unwrap();
        let plan = program.plan(Processor::Gpu).unwrap();
        let mut freed: Vec<usize> = plan.calls.iter().flat_map(|call| call.frees.clone()).collect();
        let count = freed.len();
        freed.sort_unstable();
        freed.dedup();
        assert_eq!(freed.len(), count, "{name}");
        assert!(freed.iter().all(|slot| *slot >= plan.constants && !plan.outputs.contains(slot)), "{name}");
    }
}
