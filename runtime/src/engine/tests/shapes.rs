//! Tests of padding and optional inputs: the requests that share a batch, and the shape of the batch.

use std::sync::Arc;

use crate::backend::{Batch, ModelError, ShapeTolerance, Signature};
use crate::engine::Inferred;
use parking_lot::Mutex;

use super::fake::{Blocker, Fake, Running, answer, numbers, padding, request_of, tensor, values};

/// Shapes of the columns of each run.
type RunShapes = Arc<Mutex<Vec<Vec<Vec<i64>>>>>;

fn shapes(batch: &Batch) -> Vec<Vec<i64>> {
    let columns = batch.columns.iter();
    columns.map(|column| column.shape.signed().collect()).collect()
}

/// Returns the padded tensor as a backend would build it.
fn padded(batch: &Batch) -> Vec<i32> {
    let column = &batch.columns[0];
    let width = column.shape.signed().last().unwrap() as usize;
    let mut all = Vec::new();
    for part in &column.parts {
        let own = part.shape.signed().last().unwrap() as usize;
        for row in numbers(&part.data).chunks(own) {
            all.extend_from_slice(row);
            all.resize(all.len() + width - own, column.pad as i32);
        }
    }
    all
}

/// An engine with inputs of variable length, whose output is ten times its padded input. The first run is blocked.
fn ragged() -> (Running, Blocker, RunShapes) {
    let (blocker, pass) = Blocker::new();
    let seen = RunShapes::default();
    let record = Arc::clone(&seen);
    let mut fake = Fake::new(move |batch| {
        record.lock().push(shapes(batch));
        pass(batch.rows);
        let values: Vec<i32> = padded(batch).iter().map(|x| x * 10).collect();
        let shape: Vec<i64> = batch.columns[0].shape.signed().collect();
        Ok::<_, ModelError>(answer(&shape, &values))
    });
    fake.signature = Signature {
        inputs: vec![tensor("x", &[-1])],
        outputs: vec![tensor("y", &[-1])],
        max_batch_size: 8,
        tolerance: ShapeTolerance::None,
    };
    let running = fake.start(|spec| spec.interface.padding = Some(padding(&[4, 8], 9.0)));
    (running, blocker, seen)
}

fn ask(running: &Running, values: Vec<i32>) -> tokio::task::JoinHandle<Inferred> {
    let running = running.clone();
    tokio::spawn(async move {
        let shape = [1, values.len() as i64];
        let request = request_of(&[("x", &shape, &values)]);
        running.infer(request).await.unwrap()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn two_lengths_of_one_bucket_share_a_batch() {
    let (running, blocker, seen) = ragged();
    let first = ask(&running, vec![1]);
    blocker.entered();
    let five = ask(&running, vec![1, 2, 3, 4, 5]);
    running.queued(1).await;
    let seven = ask(&running, vec![7; 7]);
    running.queued(2).await;
    let three = ask(&running, vec![3; 3]);
    running.queued(3).await;
    let eleven = ask(&running, vec![2; 11]);
    running.queued(4).await;
    (0..4).for_each(|_| blocker.open());
    assert_eq!(values(&first.await.unwrap()), [10]);
    assert_eq!(values(&five.await.unwrap()), [10, 20, 30, 40, 50]);
    let seven = seven.await.unwrap();
    assert_eq!((values(&seven), seven.cost.batch_rows), (vec![70; 7], 2));
    let shape: Vec<i64> = seven.response.outputs[0].0.shape().signed().collect();
    assert_eq!(shape, [1, 7]);
    assert_eq!(values(&three.await.unwrap()), [30; 3]);
    // A request longer than the largest bucket runs unpadded and alone.
    assert_eq!(values(&eleven.await.unwrap()), [20; 11]);
    let mut seen = seen.lock().clone();
    assert_eq!(seen.remove(0), [[1, 4]]);
    seen.sort();
    assert_eq!(seen, [[[1, 4]], [[1, 11]], [[2, 8]]]);
    assert_eq!(running.engine.snapshot().execution_count, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_with_and_without_an_optional_input_do_not_mix() {
    let (blocker, pass) = Blocker::new();
    let seen = RunShapes::default();
    let record = Arc::clone(&seen);
    let mut fake = Fake::new(move |batch| {
        record.lock().push(shapes(batch));
        pass(batch.rows);
        super::fake::add_one(batch)
    });
    let mut bias = tensor("bias", &[1]);
    bias.optional = true;
    fake.signature.inputs.push(bias);
    let running = fake.start(|_| {});
    let first = running.ask(0);
    blocker.entered();
    let mut asked = Vec::new();
    for x in 1..=4 {
        let running = running.clone();
        asked.push(tokio::spawn(async move {
            let shape: &[i64] = &[1, 1];
            let (x, bias) = (&[x][..], &[100][..]);
            let both = [("x", shape, x), ("bias", shape, bias)];
            // Every second request has the optional input.
            let inputs = if x[0] % 2 == 0 { &both[..] } else { &both[..1] };
            values(&running.infer(request_of(inputs)).await.unwrap())
        }));
    }
    running.queued(4).await;
    (0..3).for_each(|_| blocker.open());
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    for (x, ask) in (1..).zip(asked) {
        assert_eq!(ask.await.unwrap(), [x + 1]);
    }
    let mut seen = seen.lock().clone();
    seen.sort();
    assert_eq!(seen, [vec![[1, 1]], vec![[2, 1]], vec![[2, 1], [2, 1]]]);
}
