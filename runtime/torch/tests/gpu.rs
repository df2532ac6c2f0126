//! Tests of the libtorch backend on a CUDA device. Without one, each test prints why it is skipped.
//!
//! These tests have a binary of their own, because libtorch_cuda must be opened before any other use of CUDA.

#![allow(clippy::unwrap_used, reason = "a test says where it failed")]

#[path = "gpu/exported.rs"]
mod exported;
#[path = "torch/fixture.rs"]
#[expect(dead_code, reason = "shared with the tests on the processor")]
mod fixture;
#[path = "gpu/graphs.rs"]
mod graphs;

use std::io::Write;
use std::sync::OnceLock;

use weir_protocol::DataType;
use weir_runtime::args::DeviceChoice;
use weir_runtime::backend::{
    Batch, Device, Instance, LoadError, ModelError, ModelSource, Overlap, Started, TensorConfig,
};
use weir_runtime_torch::{find_gpus, read_gpus};

use fixture::*;

/// Tolerance between GPU and CPU: cuDNN computes convolutions in TF32, which keeps ten bits.
const TOLERANCE: f32 = 2e-3;

/// Returns the first GPU. Without one, prints the reason to stderr directly, which the test harness does not capture.
fn gpu(test: &str) -> Option<Device> {
    static FOUND: OnceLock<Result<usize, String>> = OnceLock::new();
    let found = FOUND.get_or_init(|| match find_gpus(DeviceChoice::AllCuda) {
        Ok(gpus) => gpus.first().copied().ok_or("no device".to_owned()),
        Err(error) => Err(error.to_string()),
    });
    match found {
        Ok(index) => Some(Device::Cuda(*index)),
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "skipped {test}: {reason}");
            None
        }
    }
}

fn on(device: Device, source: ModelSource) -> ModelSource {
    ModelSource { devices: vec![device], ..source }
}

fn made(source: &ModelSource) -> Box<dyn Instance> {
    load(source).instance(source.devices[0]).unwrap()
}

fn add_sub() -> ModelSource {
    let t = |name: &str| -> TensorConfig { tensor(name, DataType::Fp32, &[-1]) };
    configured("add_sub", 8, vec![t("a"), t("b")], vec![t("s"), t("d")])
}

fn sum_of(value: f32, elements: usize) -> Batch {
    let data = floats(&vec![value; elements]);
    let column = |name| whole(name, DataType::Fp32, &[1, elements as i64], data.clone());
    batch(vec![column("a"), column("b")])
}

#[test]
fn the_driver_reports_the_state_of_the_device() {
    let Some(Device::Cuda(index)) = gpu("the_driver_reports_the_state_of_the_device") else {
        return;
    };
    let read = read_gpus(&[index]);
    let [sample] = &*read else {
        panic!("{read:?}");
    };
    assert!(sample.uuid.starts_with("GPU-"), "{sample:?}");
    let memory = sample.memory.unwrap();
    assert!(0 < memory.used && memory.used <= memory.total, "{sample:?}");
}

#[test]
fn outputs_equal_those_of_the_cpu() {
    let Some(device) = gpu("outputs_equal_those_of_the_cpu") else {
        return;
    };
    for (name, dims) in [("mlp", &[3, 16][..]), ("conv_traced", &[3, 1, 8, 8])] {
        let elements = dims.iter().product::<i64>() as usize;
        let values: Vec<f32> = (0..elements).map(|i| (i % 7) as f32 / 7.0).collect();
        let answer = |device| {
            let request = whole("input", DataType::Fp32, dims, floats(&values));
            let outputs = run(&mut *made(&on(device, bare(name))), vec![request]);
            as_floats(&outputs.unwrap()[0])
        };
        let (ours, processors) = (answer(device), answer(Device::Cpu));
        assert_eq!(ours.len(), processors.len());
        for (ours, theirs) in ours.iter().zip(&processors) {
            let far = (ours - theirs).abs() / (1.0 + theirs.abs());
            assert!(far <= TOLERANCE, "{name}: {ours} for {theirs}");
        }
    }
}

/// Number of elements of a batch: enough that copies and kernels of several batches overlap.
const ELEMENTS: usize = 1 << 20;

#[test]
fn a_batch_started_ahead_has_its_own_outputs() {
    let Some(device) = gpu("a_batch_started_ahead_has_its_own_outputs") else {
        return;
    };
    let mut instance = made(&on(device, add_sub()));
    assert_eq!(instance.overlap(), Overlap::OneAhead);
    let mut before = None;
    for round in 0..200_u8 {
        let value = f32::from(round);
        let started = instance.start(&sum_of(value, ELEMENTS)).unwrap();
        if let Some((value, started)) = before.replace((value, started)) {
            let answer = Started::finish(started).unwrap();
            let sums = as_floats(&answer.outputs[0]);
            assert!(sums.iter().all(|sum| *sum == 2.0 * value), "round {round}");
        }
    }
}

#[test]
fn rows_that_mix_by_their_values_are_not_batched() {
    let Some(device) = gpu("rows_that_mix_by_their_values_are_not_batched") else {
        return;
    };
    let largest = |name: &str| {
        let model = load(&on(device, bare(&format!("mixing/{name}"))));
        model.signature().max_batch_size
    };
    for name in ["onehot", "upto", "distinct", "signed", "guarded"] {
        assert_eq!(largest(name), 0, "{name}");
    }
    for name in ["mlp", "masked", "conv"] {
        assert_eq!(largest(name), 32, "{name}");
    }
}

#[test]
fn out_of_memory_affects_no_other_batch() {
    let Some(device) = gpu("out_of_memory_affects_no_other_batch") else {
        return;
    };
    let t = |name| tensor(name, DataType::Fp32, &[1]);
    let source = configured("hungry", 4, vec![t("x")], vec![t("y")]);
    let mut instance = made(&on(device, source));
    let request = |value| batch(vec![whole("x", DataType::Fp32, &[1, 1], floats(&[value]))]);
    let before = instance.start(&request(1.0)).unwrap();
    let error = instance.run(&request(-1.0)).unwrap_err();
    assert!(matches!(error, ModelError::OutOfMemory(_)), "{error}");
    assert_eq!(as_floats(&before.finish().unwrap().outputs[0]), [1.0]);
    let after = instance.run(&request(2.0)).unwrap();
    assert_eq!(as_floats(&after.outputs[0]), [2.0]);
}

#[test]
fn a_model_keeps_within_its_memory_limit() {
    let Some(device) = gpu("a_model_keeps_within_its_memory_limit") else {
        return;
    };
    let limited = |source: ModelSource, bytes: &str| {
        let mut source = on(device, source);
        let parameters = &mut source.parameters;
        parameters.insert("GPU_MEM_LIMIT".to_owned(), bytes.to_owned());
        source
    };
    let error = refusal(&limited(bare("mlp"), "1"));
    assert!(matches!(&error, LoadError::Device(_)), "{error}");
    assert!(error.to_string().contains("GPU_MEM_LIMIT"), "{error}");

    let mut instance = made(&limited(add_sub(), "1000000"));
    assert!(instance.run(&sum_of(1.0, 1000)).is_ok());
    for _ in 0..2 {
        let error = instance.run(&sum_of(1.0, ELEMENTS)).unwrap_err();
        assert!(matches!(error, ModelError::OutOfMemory(_)), "{error}");
    }
    assert!(instance.run(&sum_of(1.0, 1000)).is_ok());
}

#[test]
fn memory_is_counted_and_that_of_the_warm_up_returned() {
    let Some(device @ Device::Cuda(index)) = gpu("memory_is_counted_and_that_of_the_warm_up_returned") else {
        return;
    };
    let model = load(&on(device, bare("mlp")));
    assert!(model.weight_bytes().unwrap() > 0);
    let mut instance = made(&on(device, add_sub()));
    instance.run(&sum_of(1.0, ELEMENTS)).unwrap();
    let run = instance.run_memory().unwrap();
    let both = 2 * 4 * ELEMENTS as u64;
    assert_eq!(run.inputs, both);
    assert!((both..2 * both).contains(&run.workspace), "both outputs: {run:?}");
    let reserved = || read_gpus(&[index])[0].allocator.unwrap().total;
    let before = reserved();
    instance.finish_warm_up();
    assert!(reserved() < before, "{} of {before} bytes remain", reserved());
    let sums = run_sum(instance.as_mut());
    assert!(sums.iter().all(|sum| *sum == 6.0));
}

fn run_sum(instance: &mut dyn Instance) -> Vec<f32> {
    as_floats(&instance.run(&sum_of(3.0, ELEMENTS)).unwrap().outputs[0])
}
