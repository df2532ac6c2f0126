//! Tests of the thread that runs a batch: short batches run on the thread that received the request, if the instance
//! allows it.

use std::sync::Arc;
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::backend::{Affinity, Batch, BatchOutput, ModelError};
use crate::error::ServeError;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::fake::{Fake, Running, add_one, request, values, warm_up};

/// The thread of each run.
type Threads = Arc<Mutex<Vec<ThreadId>>>;

/// An engine whose batches take `time`.
fn measured(affinity: Affinity, time: Duration) -> (Running, Threads) {
    let threads = Threads::default();
    let seen = Arc::clone(&threads);
    let running = may_run(affinity, move |batch| {
        seen.lock().push(thread::current().id());
        thread::sleep(time);
        add_one(batch)
    });
    threads.lock().clear();
    (running, threads)
}

async fn where_it_ran(affinity: Affinity, time: Duration) -> ThreadId {
    let (running, threads) = measured(affinity, time);
    // The instance's thread may not sleep yet; then it runs the first batches itself.
    for x in 0..100 {
        let got = running.infer(request(&[x])).await.unwrap();
        assert_eq!(values(&got), [x + 1]);
        if threads.lock().last() == Some(&thread::current().id()) {
            break;
        }
    }
    *threads.lock().last().unwrap()
}

#[tokio::test]
async fn a_short_batch_runs_on_the_requests_thread() {
    let ran = where_it_ran(Affinity::None, Duration::ZERO).await;
    assert_eq!(ran, thread::current().id());
}

#[tokio::test]
async fn a_long_batch_runs_on_the_instances_thread() {
    let ran = where_it_ran(Affinity::None, Duration::from_millis(5)).await;
    assert_ne!(ran, thread::current().id());
}

#[tokio::test]
async fn an_instance_bound_to_its_thread_stays_there() {
    let ran = where_it_ran(Affinity::Thread, Duration::ZERO).await;
    assert_ne!(ran, thread::current().id());
}

/// Returns a function that records for each run whether a reactor thread made it: an instance's own thread has no
/// reactor.
fn on_reactor(runs: &Arc<Mutex<Vec<bool>>>) -> impl Fn() + Send + Sync + use<> {
    let runs = Arc::clone(runs);
    move || runs.lock().push(Handle::try_current().is_ok())
}

/// An engine whose batch sizes were measured.
fn may_run(
    affinity: Affinity,
    script: impl Fn(&Batch) -> Result<BatchOutput, ModelError> + Send + Sync + 'static,
) -> Running {
    let mut fake = Fake::new(script);
    fake.affinity = affinity;
    fake.start(|spec| warm_up(spec, 8))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_get_their_own_answers_in_batches() {
    let places = Arc::default();
    let note = on_reactor(&places);
    let running = may_run(Affinity::None, move |batch| {
        note();
        add_one(batch)
    });
    running.runs.lock().clear();
    let mut asked = 0;
    // The instance's thread may not sleep yet; then it runs the first batches itself.
    while asked < 2_000 || !places.lock().contains(&true) {
        assert!(asked < 100_000, "no batch ran on the reactor");
        let wave: Vec<_> = (0..500).map(|x| running.ask(x)).collect();
        for (x, answer) in (0..).zip(wave) {
            assert_eq!(answer.await.unwrap(), Ok(vec![x + 1]));
        }
        asked += 500;
    }
    let runs = running.runs.lock().clone();
    assert_eq!(runs.iter().sum::<usize>(), asked);
    assert!(runs.iter().all(|rows| *rows <= 8));
    running.engine.drain().await;
}

/// Number of reactor turns before the last request is sent: more than the two turns of a short batch, and fewer than
/// the six of a longer one.
const LATER: usize = 4;

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Checks that `at_once` requests, and one more sent some turns later, run on the reactor in these batches. Tries
/// several engines, because on a busy machine a batch size may be measured as slow.
async fn run_as(time: Duration, at_once: i32, batches: &[usize]) -> bool {
    for _ in 0..50 {
        if one_runs_as(time, at_once, batches).await {
            return true;
        }
    }
    false
}

/// Checks the same with one engine. Tries several times, because the instance's thread may not sleep yet.
async fn one_runs_as(time: Duration, at_once: i32, batches: &[usize]) -> bool {
    let (running, threads) = measured(Affinity::None, time);
    for _ in 0..20 {
        threads.lock().clear();
        running.runs.lock().clear();
        let mut asked: Vec<_> = (0..at_once).map(|x| running.ask(x)).collect();
        turns(LATER).await;
        asked.push(running.ask(7));
        for answer in asked {
            answer.await.unwrap().unwrap();
        }
        let here = threads.lock().iter().all(|ran| *ran == thread::current().id());
        if here && *running.runs.lock() == batches {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn a_longer_batch_waits_some_turns_for_more_requests() {
    assert!(run_as(Duration::from_micros(300), 2, &[3]).await);
}

#[tokio::test]
async fn neither_a_short_batch_nor_a_single_request_waits() {
    assert!(run_as(Duration::ZERO, 2, &[2, 1]).await);
    assert!(run_as(Duration::from_micros(300), 1, &[1, 1]).await);
}

#[tokio::test]
async fn a_panic_on_the_reactor_is_the_models_failure() {
    let panics = Arc::default();
    let note = on_reactor(&panics);
    let running = may_run(Affinity::None, move |batch| {
        let first = batch.columns[0].parts[0].data[0];
        if first == 13 {
            note();
            panic!("unlucky");
        }
        add_one(batch)
    });
    let mut asked = 0;
    while asked < 20 || !panics.lock().contains(&true) {
        assert!(asked < 1_000, "no panic was on the reactor");
        let error = running.infer(request(&[13])).await.unwrap_err();
        assert!(matches!(&error, ServeError::Model(text) if text.contains("unlucky")));
        let got = running.infer(request(&[1])).await.unwrap();
        assert_eq!(values(&got), [2]);
        asked += 1;
    }
}
