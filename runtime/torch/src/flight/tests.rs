//! Laws of [`launch`] and [`Flight::finish`] on a fake device.

use std::cell::Cell;

use proptest::prelude::*;
use weir_runtime::backend::ModelError;

use super::fake::{Fake, Number};
use super::*;

/// Slots of the device that one batch takes: input and output.
const ONE_BATCH: usize = 2;

/// Where a batch goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// While inputs are copied, as for bytes that do not fit.
    Upload,
    /// In the model, before it queued anything.
    Early,
    /// In the model, after it queued work on its inputs.
    Late,
}

fn failed() -> ModelError {
    ModelError::Failed("trouble".to_owned())
}

fn send(fake: &Fake, value: u64, trouble: Trouble) -> Result<Flight<Fake>, ModelError> {
    let upload = || {
        let input = fake.upload(value).map_err(Fault::of_run)?;
        match trouble {
            Trouble::Upload => Err(failed()),
            Trouble::None | Trouble::Early | Trouble::Late => Ok(input),
        }
    };
    let raised = || Err(Fault::Raised("trouble".to_owned()));
    launch(fake, upload, |input: Number| match trouble {
        Trouble::None | Trouble::Upload => Ok(vec![fake.square(&input)?]),
        Trouble::Early => raised(),
        Trouble::Late => {
            fake.square(&input)?;
            raised()
        }
    })
}

fn answer(flight: Flight<Fake>) -> u64 {
    flight.finish().unwrap().outputs[0].read()
}

fn trouble() -> impl Strategy<Value = Trouble> {
    prop_oneof![
        4 => Just(Trouble::None),
        1 => Just(Trouble::Upload),
        1 => Just(Trouble::Early),
        1 => Just(Trouble::Late),
    ]
}

fn lane() -> impl Strategy<Value = Lane> {
    prop_oneof![Just(Lane::Upload), Just(Lane::Compute)]
}

proptest! {
    /// Each batch gets its own answer: with one launched ahead or none, however the lanes interleave,
    /// whatever batch fails or is forgotten between, and with as little memory as one batch needs.
    #[test]
    fn every_answer_is_its_own(
        batches in prop::collection::vec((1u64..1000, trouble(), any::<bool>()), 1..30),
        luck in prop::collection::vec(lane(), 0..300),
        capacity in ONE_BATCH..6,
        ahead in 0usize..2,
    ) {
        let fake = Fake::new(capacity, luck);
        let mut flying = std::collections::VecDeque::new();
        for (value, trouble, forget) in batches {
            match send(&fake, value, trouble) {
                Ok(_) if forget => {}
                Ok(flight) => flying.push_back((value, flight)),
                Err(error) => prop_assert!(trouble != Trouble::None, "{}", error),
            }
            while flying.len() > ahead {
                let (value, flight) = flying.pop_front().unwrap();
                prop_assert_eq!(answer(flight), value * value);
            }
        }
        for (value, flight) in flying {
            prop_assert_eq!(answer(flight), value * value);
        }
        fake.reclaim().unwrap();
        prop_assert_eq!(fake.used(), 0, "device memory is left behind");
    }
}

#[test]
fn the_next_batch_is_copied_before_the_one_before_has_run() {
    let fake = Fake::new(2 * ONE_BATCH, []);
    let first = send(&fake, 3, Trouble::None).unwrap();
    let second = send(&fake, 5, Trouble::None).unwrap();
    fake.work(Lane::Upload);
    assert_eq!(fake.queued(Lane::Upload), 0, "both copies are done");
    assert!(fake.queued(Lane::Compute) > 0, "and nothing has run");
    assert_eq!((answer(first), answer(second)), (9, 25));
}

#[test]
fn nothing_runs_before_its_input_is_there() {
    let fake = Fake::new(ONE_BATCH, []);
    let flight = send(&fake, 7, Trouble::None).unwrap();
    let queued = fake.queued(Lane::Compute);
    fake.work(Lane::Compute);
    assert_eq!(fake.queued(Lane::Compute), queued);
    assert_eq!(answer(flight), 49);
}

/// What the laws above rest on: the fake gives wrong answers for work in a wrong order.
#[test]
fn the_fake_notices_a_missing_wait() {
    let fake = Fake::new(ONE_BATCH, []);
    let input = fake.upload(7).unwrap();
    let output = fake.square(&input).unwrap();
    let here = fake.download(output).unwrap();
    fake.work(Lane::Compute);
    fake.work(Lane::Upload);
    assert_ne!(here.read(), 49);
}

#[test]
fn a_batch_that_fits_alone_waits_for_the_one_before() {
    let fake = Fake::new(ONE_BATCH, []);
    let first = send(&fake, 3, Trouble::None).unwrap();
    let second = send(&fake, 5, Trouble::None).unwrap();
    assert_eq!(fake.reclaimed(), 1);
    assert_eq!((answer(first), answer(second)), (9, 25));
}

#[test]
fn a_batch_too_large_is_reported_with_all_memory_reclaimed() {
    let fake = Fake::new(ONE_BATCH, []);
    let before = send(&fake, 3, Trouble::None).unwrap();
    let attempts = Cell::new(0);
    let upload = || fake.upload(5).map_err(Fault::of_run);
    let error = launch(&fake, upload, |input| {
        attempts.set(attempts.get() + 1);
        let _activation = fake.square(&input)?;
        Ok(vec![fake.square(&input)?])
    });
    assert!(matches!(error, Err(ModelError::OutOfMemory(_))));
    assert_eq!((attempts.get(), fake.reclaimed(), fake.used()), (1, 2, 0));
    assert_eq!(answer(before), 9);
    assert_eq!(answer(send(&fake, 6, Trouble::None).unwrap()), 36);
}

#[test]
fn another_failure_is_not_tried_again() {
    let fake = Fake::new(ONE_BATCH, []);
    let error = send(&fake, 3, Trouble::Late).unwrap_err();
    assert!(matches!(error, ModelError::Failed(_)));
    assert_eq!(fake.reclaimed(), 0);
}

#[test]
fn a_flight_tells_what_the_device_spent_on_what() {
    let fake = Fake::new(ONE_BATCH, []);
    let landed = send(&fake, 3, Trouble::None).unwrap().finish().unwrap();
    assert!(landed.infer > Duration::ZERO && landed.output > Duration::ZERO);
}
