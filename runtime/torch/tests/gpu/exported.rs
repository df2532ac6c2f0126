//! Programs of torch.export on a CUDA device: the outputs of the processor, and CUDA graphs.

use std::path::Path;

use weir_protocol::DataType;
use weir_runtime::backend::{Batch, Device, ModelSource};

use super::fixture::{batch, floats, whole};
use super::graphs::{assert_agree, assert_near, warmed_up, with_graphs};
use super::{gpu, made, on};

/// A program with its inputs: the name and the dimensions of a row of each.
type Case = (&'static str, &'static [(&'static str, &'static [i64])]);

/// The programs to compare, among them one with sequences of other lengths than the example's, and one with several
/// outputs.
const PROGRAMS: [Case; 8] = [
    ("mlp", &[("x", &[8])]),
    ("cnn", &[("image", &[3, 12, 12])]),
    ("attention", &[("x", &[6, 8])]),
    ("attention", &[("x", &[9, 8])]),
    ("even", &[("x", &[10, 3])]),
    ("lstm", &[("x", &[5, 6])]),
    ("gru", &[("x", &[4, 5]), ("state", &[7])]),
    ("autoencoder", &[("x", &[1, 8, 8])]),
];

fn program(name: &str) -> ModelSource {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/models/exported");
    ModelSource::bare(name, folder.join(format!("{name}.pt2")))
}

fn rows_of((_, inputs): Case, rows: usize, seed: usize) -> Batch {
    let column = |(name, inner): &(&str, &[i64])| {
        let dims: Vec<i64> = std::iter::once(rows as i64).chain(inner.iter().copied()).collect();
        let count = dims.iter().product::<i64>() as usize;
        let values: Vec<f32> = (0..count).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 29.0 - 0.4).collect();
        whole(name, DataType::Fp32, &dims, floats(&values))
    };
    batch(inputs.iter().map(column).collect())
}

#[test]
fn programs_return_what_the_processor_returns() {
    let Some(device) = gpu("programs_return_what_the_processor_returns") else {
        return;
    };
    for case in PROGRAMS {
        let [ours, processors] =
            [device, Device::Cpu].map(|device| made(&on(device, program(case.0))).run(&rows_of(case, 3, 1)).unwrap());
        assert_near(&ours.outputs, &processors.outputs, case.0);
    }
}

/// The programs of torch.export have no interpreter that could choose other kernels for a batch that is not padded, so the
/// outputs of a captured size are equal to the last bit.
#[test]
fn replays_of_programs_return_what_launches_return() {
    let Some(device) = gpu("replays_of_programs_return_what_launches_return") else {
        return;
    };
    for case in PROGRAMS {
        let mut plain = made(&on(device, program(case.0)));
        let mut graphed = made(&with_graphs(device, program(case.0)));
        let captured = warmed_up(&mut *graphed, |size| rows_of(case, size, 0));
        println!("{}: graphs of the sizes {captured:?}", case.0);
        for seed in 1..40 {
            let batch = rows_of(case, 1 + seed % 8, seed);
            let (ours, theirs) = (graphed.run(&batch).unwrap().outputs, plain.run(&batch).unwrap().outputs);
            assert_agree((&ours, &theirs), (&captured, batch.rows), &format!("{} {seed}", case.0));
        }
    }
}

/// Launches are the cost of a small program, so at least a lone run of it gains by a graph.
#[test]
fn a_small_program_has_graphs() {
    let Some(device) = gpu("a_small_program_has_graphs") else {
        return;
    };
    for case in [PROGRAMS[0], PROGRAMS[2]] {
        let mut instance = made(&with_graphs(device, program(case.0)));
        let captured = warmed_up(&mut *instance, |size| rows_of(case, size, 0));
        assert!(captured.contains(&1), "{}: {captured:?}", case.0);
    }
}
