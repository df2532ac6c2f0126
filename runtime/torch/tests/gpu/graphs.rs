//! CUDA graphs on a CUDA device: the outputs, the gain, and what stays when a capture fails or a model is unloaded.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_protocol::{DataType, Tensor};
use weir_runtime::backend::{Batch, Captured, Column, Device, Instance, ModelSource, Started};
use weir_runtime_torch::read_gpus;

use super::fixture::{as_floats, bare, batch, configured, floats, load, tensor, whole};
use super::{gpu, made, on};

/// Batch sizes that are tried; batches between them are padded.
pub(super) const SIZES: [usize; 4] = [1, 2, 4, 8];

pub(super) fn with_graphs(device: Device, source: ModelSource) -> ModelSource {
    let mut source = on(device, source);
    source.parameters.insert("CUDA_GRAPHS".to_owned(), "auto".to_owned());
    source
}

/// Returns a batch of different rows for the model `mlp` or `fails`, whose input has 16 elements.
fn rows(rows: usize, seed: usize) -> Batch {
    let values: Vec<f32> = (0..rows * 16).map(|i| ((i * 7 + seed * 13) % 29) as f32 / 29.0).collect();
    batch(vec![whole("input", DataType::Fp32, &[rows as i64, 16], floats(&values))])
}

/// Runs each size and tries its graph, as a warm-up does. Returns the sizes that got one.
pub(super) fn warmed_up(instance: &mut dyn Instance, batch_of: impl Fn(usize) -> Batch) -> Vec<usize> {
    let captured = SIZES.into_iter().filter(|size| {
        let batch = batch_of(*size);
        instance.run(&batch).unwrap();
        instance.capture(&batch) == Captured::Yes
    });
    let captured = captured.collect();
    instance.finish_warm_up();
    captured
}

/// Asserts that the outputs of a batch are those of ordinary runs: to the last bit if the batch's size has a graph. A batch of
/// another size may be padded, and libraries may choose other kernels then, as for any larger batch.
pub(super) fn assert_agree((ours, theirs): (&[Tensor], &[Tensor]), (captured, rows): (&[usize], usize), what: &str) {
    assert_near(ours, theirs, what);
    for (ours, theirs) in ours.iter().zip(theirs).filter(|_| captured.contains(&rows)) {
        assert_eq!(ours.data(), theirs.data(), "{what}");
    }
}

pub(super) fn assert_near(ours: &[Tensor], theirs: &[Tensor], what: &str) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!(ours.shape(), theirs.shape(), "{what}");
        for (ours, theirs) in as_floats(ours).iter().zip(as_floats(theirs)) {
            assert!((ours - theirs).abs() <= super::TOLERANCE * (1.0 + theirs.abs()), "{what}: {ours} for {theirs}");
        }
    }
}

#[test]
fn replays_return_what_launches_return() {
    let Some(device) = gpu("replays_return_what_launches_return") else {
        return;
    };
    let mut plain = made(&on(device, bare("mlp")));
    let mut graphed = made(&with_graphs(device, bare("mlp")));
    let captured = warmed_up(&mut *graphed, |size| rows(size, 0));
    assert!(captured.contains(&1), "launches are the cost of a small model: {captured:?}");
    for seed in 1..80 {
        let batch = rows(1 + seed % 8, seed);
        let ours = graphed.run(&batch).unwrap().outputs;
        let theirs = plain.run(&batch).unwrap().outputs;
        assert_agree((&ours, &theirs), (&captured, batch.rows), &format!("batch {seed}"));
    }
}

#[test]
fn batches_started_ahead_have_their_own_outputs_with_graphs() {
    let Some(device) = gpu("batches_started_ahead_have_their_own_outputs_with_graphs") else {
        return;
    };
    let mut plain = made(&on(device, bare("mlp")));
    let mut graphed = made(&with_graphs(device, bare("mlp")));
    let captured = warmed_up(&mut *graphed, |size| rows(size, 0));
    let mut before = None;
    for seed in 0..200 {
        let started = graphed.start(&rows(4, seed)).unwrap();
        if let Some((seed, started)) = before.replace((seed, started)) {
            let ours = Started::finish(started).unwrap().outputs;
            let theirs = plain.run(&rows(4, seed)).unwrap().outputs;
            assert_agree((&ours, &theirs), (&captured, 4), &format!("batch {seed}"));
        }
    }
}

/// A model that branches on its input cannot be captured. It serves as before, and the device's caches can be emptied.
#[test]
fn a_failed_capture_leaves_the_ordinary_path() {
    let Some(device) = gpu("a_failed_capture_leaves_the_ordinary_path") else {
        return;
    };
    let t = |name: &str| tensor(name, DataType::Fp32, &[-1]);
    let source = configured("fails", 8, vec![t("x")], vec![t("y")]);
    let of = |value: f32| batch(vec![whole("x", DataType::Fp32, &[1, 4], floats(&[value; 4]))]);
    let mut instance = made(&with_graphs(device, source));
    assert_eq!(warmed_up(&mut *instance, |_| of(1.0)), [0; 0]);
    for value in [1.0, 2.0, 3.0] {
        let outputs = instance.run(&of(value)).unwrap().outputs;
        assert_eq!(as_floats(&outputs[0]), [2.0 * value; 4]);
    }
    let mut other = made(&with_graphs(device, bare("mlp")));
    assert!(warmed_up(&mut *other, |size| rows(size, 0)).contains(&1), "later captures work");
}

#[test]
fn a_model_that_changes_itself_has_no_graphs() {
    let Some(device) = gpu("a_model_that_changes_itself_has_no_graphs") else {
        return;
    };
    let mut instance = made(&with_graphs(device, bare("counter")));
    let columns: Vec<Column> = Vec::new();
    let request = Batch { rows: 1, columns, requests: Vec::new() };
    assert_eq!(instance.capture(&request), Captured::No);
}

/// Runs of a model with dropout hold off captures, because they may draw random numbers. The run that is captured must not
/// wait for its own capture.
#[test]
fn the_capture_of_a_model_with_dropout_ends() {
    let Some(device) = gpu("the_capture_of_a_model_with_dropout_ends") else {
        return;
    };
    let t = |name: &str| tensor(name, DataType::Fp32, &[-1, -1, 32]);
    let source = || configured("encoder", 0, vec![t("x")], vec![t("y")]);
    let values: Vec<f32> = (0..5 * 2 * 32).map(|i| (i % 23) as f32 / 23.0).collect();
    let request = || batch(vec![whole("x", DataType::Fp32, &[5, 2, 32], floats(&values))]);
    let mut instance = made(&with_graphs(device, source()));
    let captured = warmed_up(&mut *instance, |_| request());
    println!("encoder: {} graphs", captured.len());
    let theirs = made(&on(Device::Cpu, source())).run(&request()).unwrap().outputs;
    for _ in 0..3 {
        let ours = instance.run(&request()).unwrap().outputs;
        assert_near(&ours, &theirs, "encoder");
    }
}

/// More instances are alive than a device has streams, and each has the outputs of its own batches.
#[test]
fn more_instances_than_streams_have_their_own_outputs() {
    let Some(device) = gpu("more_instances_than_streams_have_their_own_outputs") else {
        return;
    };
    let (mut plain, model) = (made(&on(device, bare("mlp"))), load(&with_graphs(device, bare("mlp"))));
    let mut instances: Vec<(Box<dyn Instance>, Vec<usize>)> = Vec::new();
    for seed in 0..40 {
        let mut instance = model.instance(device).unwrap();
        let captured = warmed_up(&mut *instance, |size| rows(size, seed));
        assert!(captured.contains(&1) || seed > 10, "instance {seed}: {captured:?}");
        instances.push((instance, captured));
        for (at, (instance, captured)) in instances.iter_mut().enumerate() {
            let batch = rows(4, seed * 41 + at);
            let (ours, theirs) = (instance.run(&batch).unwrap().outputs, plain.run(&batch).unwrap().outputs);
            assert_agree((&ours, &theirs), (captured, 4), &format!("instance {at} of {seed}"));
        }
    }
}

#[test]
fn captures_disturb_no_model_that_serves() {
    let Some(device) = gpu("captures_disturb_no_model_that_serves") else {
        return;
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let (mut instance, mut runs) = (made(&on(device, super::add_sub())), 0);
            while !done.load(Ordering::Relaxed) || runs == 0 {
                let value = (runs % 100) as f32;
                let outputs = instance.run(&super::sum_of(value, 1000)).unwrap().outputs;
                assert!(as_floats(&outputs[0]).iter().all(|sum| *sum == 2.0 * value));
                runs += 1;
            }
        });
        for _ in 0..10 {
            let mut instance = made(&with_graphs(device, bare("mlp")));
            assert!(warmed_up(&mut *instance, |size| rows(size, 0)).contains(&1));
        }
        done.store(true, Ordering::Relaxed);
        serving.join().unwrap();
    });
}

/// Prints the time of a lone run with and without a graph.
#[test]
fn a_lone_run_of_a_small_model_is_faster_as_a_graph() {
    let Some(device) = gpu("a_lone_run_of_a_small_model_is_faster_as_a_graph") else {
        return;
    };
    let fastest = |instance: &mut dyn Instance| {
        let times = (0..200).map(|seed| {
            let begun = now();
            instance.run(&rows(1, seed)).unwrap();
            begun.elapsed()
        });
        times.min().unwrap()
    };
    let mut plain = made(&on(device, bare("mlp")));
    let mut graphed = made(&with_graphs(device, bare("mlp")));
    assert!(warmed_up(&mut *graphed, |size| rows(size, 0)).contains(&1));
    let (launched, replayed): (Duration, Duration) = (fastest(&mut *plain), fastest(&mut *graphed));
    println!("a lone run of mlp: launched {launched:?}, replayed {replayed:?}");
    assert!(replayed < launched);
}

/// Loads and unloads a model with graphs, and compares the memory after 5 and after 25 rounds.
#[test]
fn unloaded_graphs_leave_no_memory() {
    let Some(device @ Device::Cuda(index)) = gpu("unloaded_graphs_leave_no_memory") else {
        return;
    };
    let round = || {
        let model = load(&with_graphs(device, bare("mlp")));
        let mut instance = model.instance(device).unwrap();
        assert!(warmed_up(&mut *instance, |size| rows(size, 0)).contains(&1));
        assert!(instance.run_memory().unwrap().graphs > 0);
    };
    let reserved = || read_gpus(&[index])[0].allocator.unwrap().total;
    (0..5).for_each(|_| round());
    let early = reserved();
    (0..20).for_each(|_| round());
    assert!(reserved() <= early, "{} bytes after 25 rounds, {early} after 5", reserved());
}

#[expect(clippy::disallowed_methods, reason = "the test measures a run")]
fn now() -> Instant {
    Instant::now()
}
