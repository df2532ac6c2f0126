//! Properties of [`launch`] and [`InFlightBatch::finish`] on the fake device.

use std::cell::Cell;

use proptest::prelude::*;
use weir_runtime::backend::ModelError;

use super::fake_device::{FakeDevice, Number};
use super::*;

/// Device slots that one batch uses: one for the input, one for the output.
const ONE_BATCH: usize = 2;

/// The step at which a batch fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailAt {
    None,
    /// The copy of the inputs, as for an input with too few bytes.
    Upload,
    /// The model, before it queues any work.
    BeforeWork,
    /// The model, after it queued work on its inputs.
    AfterWork,
}

fn failed() -> ModelError {
    ModelError::Failed("failed on purpose".to_owned())
}

fn send(device: &FakeDevice, value: u64, fail_at: FailAt) -> Result<InFlightBatch<FakeDevice>, ModelError> {
    let upload = || {
        let input = device.upload(value).map_err(Fault::of_run)?;
        match fail_at {
            FailAt::Upload => Err(failed()),
            FailAt::None | FailAt::BeforeWork | FailAt::AfterWork => Ok(input),
        }
    };
    let raised = || Err(Fault::Raised("failed on purpose".to_owned()));
    launch(device, upload, |input: Number| match fail_at {
        FailAt::None | FailAt::Upload => Ok(vec![device.square(&input)?]),
        FailAt::BeforeWork => raised(),
        FailAt::AfterWork => {
            device.square(&input)?;
            raised()
        }
    })
}

fn result(batch: InFlightBatch<FakeDevice>) -> u64 {
    batch.finish().unwrap().outputs[0].read()
}

fn fail_at() -> impl Strategy<Value = FailAt> {
    prop_oneof![
        4 => Just(FailAt::None),
        1 => Just(FailAt::Upload),
        1 => Just(FailAt::BeforeWork),
        1 => Just(FailAt::AfterWork),
    ]
}

fn role() -> impl Strategy<Value = StreamRole> {
    prop_oneof![Just(StreamRole::Upload), Just(StreamRole::Compute)]
}

proptest! {
    /// Each batch has its own result under any interleaving of the streams: with or without another batch launched
    /// ahead, with failed or dropped batches between, and with as little memory as one batch needs.
    #[test]
    fn every_batch_has_its_own_result(
        batches in prop::collection::vec((1u64..1000, fail_at(), any::<bool>()), 1..30),
        schedule in prop::collection::vec(role(), 0..300),
        capacity in ONE_BATCH..6,
        ahead in 0usize..2,
    ) {
        let device = FakeDevice::new(capacity, schedule);
        let mut in_flight = std::collections::VecDeque::new();
        for (value, fail_at, dropped) in batches {
            match send(&device, value, fail_at) {
                Ok(_) if dropped => {}
                Ok(batch) => in_flight.push_back((value, batch)),
                Err(error) => prop_assert!(fail_at != FailAt::None, "{}", error),
            }
            while in_flight.len() > ahead {
                let (value, batch) = in_flight.pop_front().unwrap();
                prop_assert_eq!(result(batch), value * value);
            }
        }
        for (value, batch) in in_flight {
            prop_assert_eq!(result(batch), value * value);
        }
        device.reclaim().unwrap();
        prop_assert_eq!(device.used(), 0, "device memory leaks");
    }
}

#[test]
fn the_next_batch_is_copied_before_the_previous_one_has_run() {
    let device = FakeDevice::new(2 * ONE_BATCH, []);
    let first = send(&device, 3, FailAt::None).unwrap();
    let second = send(&device, 5, FailAt::None).unwrap();
    device.run(StreamRole::Upload);
    assert_eq!(device.queued(StreamRole::Upload), 0, "both copies are done");
    assert!(device.queued(StreamRole::Compute) > 0, "and nothing has run");
    assert_eq!((result(first), result(second)), (9, 25));
}

#[test]
fn nothing_runs_before_its_input_is_copied() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let batch = send(&device, 7, FailAt::None).unwrap();
    let queued = device.queued(StreamRole::Compute);
    device.run(StreamRole::Compute);
    assert_eq!(device.queued(StreamRole::Compute), queued);
    assert_eq!(result(batch), 49);
}

/// Validates the fake device, on which the other tests rely: work in a wrong order computes a wrong result.
#[test]
fn the_fake_notices_a_missing_wait() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let input = device.upload(7).unwrap();
    let output = device.square(&input).unwrap();
    let here = device.download(output).unwrap();
    device.run(StreamRole::Compute);
    device.run(StreamRole::Upload);
    assert_ne!(here.read(), 49);
}

#[test]
fn a_batch_that_fits_alone_waits_for_the_previous_one() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let first = send(&device, 3, FailAt::None).unwrap();
    let second = send(&device, 5, FailAt::None).unwrap();
    assert_eq!(device.reclaimed(), 1);
    assert_eq!((result(first), result(second)), (9, 25));
}

#[test]
fn a_batch_too_large_is_reported_with_all_memory_reclaimed() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let before = send(&device, 3, FailAt::None).unwrap();
    let attempts = Cell::new(0);
    let upload = || device.upload(5).map_err(Fault::of_run);
    let error = launch(&device, upload, |input| {
        attempts.set(attempts.get() + 1);
        let _activation = device.square(&input)?;
        Ok(vec![device.square(&input)?])
    });
    assert!(matches!(error, Err(ModelError::OutOfMemory(_))));
    assert_eq!((attempts.get(), device.reclaimed(), device.used()), (1, 2, 0));
    assert_eq!(result(before), 9);
    assert_eq!(result(send(&device, 6, FailAt::None).unwrap()), 36);
}

#[test]
fn other_failures_are_not_retried() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let error = send(&device, 3, FailAt::AfterWork).unwrap_err();
    assert!(matches!(error, ModelError::Failed(_)));
    assert_eq!(device.reclaimed(), 0);
}

#[test]
fn a_completed_batch_has_the_times_of_the_device() {
    let device = FakeDevice::new(ONE_BATCH, []);
    let completed = send(&device, 3, FailAt::None).unwrap().finish().unwrap();
    assert!(completed.infer > Duration::ZERO && completed.output > Duration::ZERO);
}
