//! Tests of models that fail: only the requests at fault get errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::backend::{Batch, BatchOutput, LoadError, ModelError};
use crate::error::ServeError;
use crate::statistics::Reason;
use weir_protocol::{Code, Coded};

use super::fake::{Blocker, Fake, Running, add_one, answer, inputs, request, sample, values, warm_up};

const POISON: i32 = 13;

/// Sends eight requests that share a batch behind a running one; returns the answers of the eight.
async fn eight(
    script: impl Fn(&Batch) -> Result<BatchOutput, ModelError> + Send + Sync + 'static,
) -> (Running, Vec<Result<Vec<i32>, ServeError>>) {
    let (blocker, pass) = Blocker::new();
    let running = Fake::new(move |batch| {
        if inputs(batch) == [0] {
            pass(batch.rows);
            return add_one(batch);
        }
        script(batch)
    })
    .start(|_| {});
    let first = running.ask(0);
    blocker.entered();
    let mut asked = Vec::new();
    for x in POISON - 4..POISON + 4 {
        asked.push(running.ask(x));
        running.queued(asked.len() as u64).await;
    }
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    let mut answers = Vec::new();
    for ask in asked {
        answers.push(ask.await.unwrap());
    }
    (running, answers)
}

/// Checks that all requests but the poisoned one were answered.
fn others_are_answered(answers: &[Result<Vec<i32>, ServeError>]) {
    for (x, answer) in (POISON - 4..).zip(answers) {
        if x != POISON {
            assert_eq!(*answer, Ok(vec![x + 1]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_request_fails_alone() {
    let (running, answers) = eight(|batch| {
        if inputs(batch).contains(&POISON) {
            return Err(ModelError::Failed("index out of range".to_owned()));
        }
        add_one(batch)
    })
    .await;
    others_are_answered(&answers);
    let error = ServeError::Model("index out of range".to_owned());
    assert_eq!(answers[4], Err(error));
    // One run of the whole batch, then one of each request.
    assert_eq!(*running.runs.lock(), [1, 8, 1, 1, 1, 1, 1, 1, 1, 1]);
    let snapshot = running.engine.snapshot();
    assert_eq!((snapshot.success.count, snapshot.fail.count), (8, 1));
    let backend = Reason::ALL.iter().position(|reason| *reason == Reason::Backend);
    assert_eq!(snapshot.failures[backend.unwrap()], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_request_but_not_the_thread() {
    let (running, answers) = eight(|batch| {
        assert!(!inputs(batch).contains(&POISON), "boom");
        add_one(batch)
    })
    .await;
    others_are_answered(&answers);
    let error = ServeError::Model("the model panicked: boom".to_owned());
    assert_eq!(answers[4], Err(error));
    assert_eq!(values(&running.infer(request(&[1])).await.unwrap()), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_too_large_for_the_device_runs_in_halves() {
    let (running, answers) = eight(|batch| {
        if batch.rows > 2 {
            return Err(ModelError::OutOfMemory("8 GiB wanted".to_owned()));
        }
        add_one(batch)
    })
    .await;
    others_are_answered(&answers);
    assert_eq!(answers[4], Ok(vec![POISON + 1]));
    assert_eq!(*running.runs.lock(), [1, 8, 4, 2, 2, 4, 2, 2]);
    assert_eq!(running.engine.snapshot().fail.count, 0);
}

/// Asks for as many values as `asked` beside a batch that blocks the instance, and returns the rows of all batches that
/// ran for them.
async fn sizes_of(running: &Running, blocker: &Blocker, asked: i32) -> Vec<usize> {
    let first = running.ask(0);
    blocker.entered();
    let begun = running.runs.lock().len();
    let mut answers = Vec::new();
    for x in 1..=asked {
        answers.push(running.ask(x));
        running.queued(x as u64).await;
    }
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    for (x, answer) in (1..).zip(answers) {
        assert_eq!(answer.await.unwrap(), Ok(vec![x + 1]));
    }
    running.runs.lock()[begun..].to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_shrink_while_a_neighbour_takes_the_memory_and_come_back() {
    let (blocker, pass) = Blocker::new();
    let room = Arc::new(AtomicUsize::new(8));
    let device = Arc::clone(&room);
    let running = Fake::new(move |batch| {
        if inputs(batch) == [0] {
            pass(batch.rows);
        }
        if batch.rows > device.load(Ordering::SeqCst) {
            return Err(ModelError::OutOfMemory("a neighbour has it".to_owned()));
        }
        add_one(batch)
    })
    .start(|_| {});
    assert_eq!(sizes_of(&running, &blocker, 8).await, [8]);
    room.store(2, Ordering::SeqCst);
    assert_eq!(sizes_of(&running, &blocker, 8).await, [8, 4, 2, 2, 4, 2, 2]);
    assert_eq!((running.engine.snapshot().shrunk_batches, running.engine.batch_bound()), (1, 2));
    let until = async |expected: &[usize]| while sizes_of(&running, &blocker, 8).await != expected {};
    let timeout = Duration::from_secs(20);
    tokio::time::timeout(timeout, until(&[2, 2, 2, 2])).await.expect("no batch runs out of memory");
    room.store(8, Ordering::SeqCst);
    tokio::time::timeout(timeout, until(&[8])).await.expect("batches are as large as before");
    assert_eq!(running.engine.batch_bound(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_takes_too_much_memory_alone_does_not_shrink_the_batches_of_others() {
    let (blocker, pass) = Blocker::new();
    let running = Fake::new(move |batch| {
        if inputs(batch) == [0] {
            pass(batch.rows);
        }
        if inputs(batch).contains(&-POISON) {
            return Err(ModelError::OutOfMemory("8 GiB wanted".to_owned()));
        }
        add_one(batch)
    })
    .start(|_| {});
    let first = running.ask(0);
    blocker.entered();
    let asked: Vec<_> = [-POISON, 1, 2, 3].map(|x| running.ask(x)).into();
    running.queued(4).await;
    blocker.open();
    assert!(first.await.unwrap().is_ok());
    for (answer, is_ok) in asked.into_iter().zip([false, true, true, true]) {
        assert_eq!(answer.await.unwrap().is_ok(), is_ok);
    }
    assert_eq!(sizes_of(&running, &blocker, 8).await, [8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_request_that_is_too_large_reports_it() {
    let running = Fake::new(|_| Err(ModelError::OutOfMemory("8 GiB wanted".to_owned()))).start(|_| {});
    let error = running.infer(request(&[1])).await.unwrap_err();
    assert_eq!(error.to_string(), "out of memory: 8 GiB wanted");
    assert_eq!(error.code(), Code::Internal);
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_the_wrong_shape_fail_only_their_requests() {
    for (broken, says) in [
        (answer(&[1, 1], &[7]), "has not one row for each of the batch's 2"),
        (answer(&[3, 1], &[7; 3]), "has not one row for each of the batch's 2"),
        (answer(&[2], &[7; 2]), ""),
        (BatchOutput { outputs: Vec::new(), ..answer(&[1], &[7]) }, "the model returned no output 'y'"),
    ] {
        let running = Fake::new(move |batch| {
            if inputs(batch) == [POISON; 2] {
                return Ok(broken.clone());
            }
            add_one(batch)
        })
        .start(|_| {});
        let bad = running.infer(request(&[POISON; 2])).await;
        match bad {
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{error}"),
            Ok(got) => assert_eq!((says, values(&got)), ("", vec![7; 2])),
        }
        assert_eq!(values(&running.infer(request(&[1])).await.unwrap()), [2]);
    }
}

#[test]
fn a_failing_sample_fails_the_load() {
    let fake = Fake::new(|batch| {
        if inputs(batch).contains(&POISON) {
            return Err(ModelError::Failed("unlucky".to_owned()));
        }
        add_one(batch)
    });
    let runs = fake.runs.clone();
    let error = fake.try_start(|spec| {
        let sample = |x| sample(&spec.interface, x);
        spec.warm_up.samples = vec![sample(1), sample(POISON)];
    });
    let error = error.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "warm-up sample 'first' failed: unlucky");
    assert_eq!(*runs.lock(), [1, 1, 1]);
}

#[test]
fn a_warm_up_runs_no_batch_larger_than_its_input_allows() {
    let fake = Fake::new(add_one);
    let runs = fake.runs.clone();
    fake.try_start(|spec| warm_up(spec, 4)).unwrap();
    let runs = runs.lock().clone();
    let mut sizes = runs.clone();
    sizes.dedup();
    assert!(sizes.starts_with(&[1, 2]), "{runs:?}");
    assert!(runs.iter().all(|rows| *rows <= 4), "{runs:?}");
}

/// A failing warm-up batch only causes a warning, because requests may have other inputs.
#[test]
fn a_failing_warm_up_run_does_not_fail_the_load() {
    let fake = Fake::new(|_| Err(ModelError::Failed("unlucky".to_owned())));
    let runs = fake.runs.clone();
    fake.try_start(|spec| warm_up(spec, 4)).unwrap();
    assert_eq!(*runs.lock(), [1]);
}

#[test]
fn a_warm_up_that_runs_out_of_memory_limits_the_first_batches() {
    let fake = Fake::new(|batch| match batch.rows {
        0..=2 => add_one(batch),
        _ => Err(ModelError::OutOfMemory("8 GiB wanted".to_owned())),
    });
    let runs = fake.runs.clone();
    let engine = fake.try_start(|spec| warm_up(spec, 8));
    assert_eq!(engine.unwrap().batch_bound(), 2);
    assert_eq!(runs.lock().iter().filter(|rows| **rows > 2).count(), 1);
}

#[test]
fn a_row_that_does_not_fit_the_memory_is_a_limitation() {
    let limitation = |most: usize| {
        let fake = Fake::new(move |batch| match batch.rows {
            rows if rows <= most => add_one(batch),
            _ => Err(ModelError::OutOfMemory("8 GiB wanted".to_owned())),
        });
        let engine = fake.try_start(|spec| warm_up(spec, 8));
        engine.unwrap().limitation().map(str::to_owned)
    };
    assert_eq!(limitation(1), None);
    let reason = limitation(0).unwrap();
    assert!(reason.contains("too little memory for one row") && reason.contains("8 GiB wanted"), "{reason}");
}

#[test]
fn an_instance_that_cannot_be_created_fails_the_load() {
    for (panics, says) in [(false, "the device is full"), (true, "the instance panicked: no such device")] {
        let started = Fake::new(add_one).start_instances(move || {
            assert!(!panics, "no such device");
            Err(LoadError::Device("the device is full".to_owned()))
        });
        let error = started.map(drop).unwrap_err();
        assert_eq!(error.to_string(), says);
    }
}
