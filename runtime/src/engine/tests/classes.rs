//! Tests of outputs that return the best classes instead of scores.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::sync::mpsc::channel;

use futures_util::poll;
use weir_protocol::{Delivery, InferRequest, RequestedOutput};

use crate::backend::{Batch, BatchOutput, ModelError};

use super::fake::{Fake, Running, answer, request};

/// Number of scores in a row that are too many to search on the reactor.
const MANY: i64 = 100_000;

/// Returns rows of ascending scores.
fn rising(batch: &Batch) -> Result<BatchOutput, ModelError> {
    let row = 0..MANY as i32;
    let all: Vec<i32> = (0..batch.rows).flat_map(|_| row.clone()).collect();
    Ok(answer(&[batch.rows as i64, MANY], &all))
}

fn labelled() -> Running {
    let mut labels = vec![String::new(); MANY as usize];
    "last".clone_into(&mut labels[MANY as usize - 1]);
    Fake::new(rising).start(|spec| spec.labels = vec![labels])
}

fn two_best() -> InferRequest {
    let mut asked = request(&[0]);
    asked.outputs.push(RequestedOutput {
        name: "y".to_owned(),
        delivery: Delivery::Json,
        classes: NonZeroUsize::new(2),
    });
    asked
}

#[test]
fn many_scores_are_searched_off_the_reactor() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (open, gate) = channel::<()>();
        let busy = tokio::task::spawn_blocking(move || gate.recv());
        let running = labelled();
        let mut asked = pin!(running.infer(two_best()));
        while running.engine.snapshot().success.count == 0 {
            assert!(poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
        for _ in 0..1000 {
            tokio::task::yield_now().await;
            assert!(poll!(&mut asked).is_pending(), "on the reactor");
        }
        open.send(()).unwrap();
        busy.await.unwrap().unwrap();
        let inferred = asked.await.unwrap();
        let (classes, _) = &inferred.response.outputs[0];
        assert_eq!(classes.shape().dims(), [1, 2]);
        let texts: Vec<&[u8]> = classes.strings().collect();
        assert_eq!(texts, [&b"99999:99999:last"[..], b"99998:99998"]);
    });
}
