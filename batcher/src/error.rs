//! Causes for which an item gets no answer from its model.

use std::time::Duration;

/// The bound that a predicted wait exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The item's own timeout or deadline: it has no time to lose.
    Item,
    /// The policy's alone: the item itself could wait.
    Policy,
}

/// The batcher's own causes; what the model says is inside the answer. The texts are the ones
/// Triton's clients know, where Triton has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue, or the one of the item's priority level, holds as many items as it may.
    #[error("Exceeds maximum queue size")]
    QueueFull,
    /// The item would be late before it starts, or wait longer than the policy allows.
    #[error(
        "predicted queue wait of {} ms exceeds the {} ms allowed",
        predicted.as_millis(),
        allowed.as_millis()
    )]
    PredictedWait {
        /// Estimated time of the backlog.
        predicted: Duration,
        /// The least of what the item's timeout, its deadline and the policy leave.
        allowed: Duration,
        /// The bound that was exceeded.
        bound: Bound,
    },
    /// The item waited its whole timeout in the queue.
    #[error("Request timeout expired")]
    Expired {
        /// That timeout, if it is the item's own; `None` if it is the policy's.
        own: Option<Duration>,
    },
    /// The item's deadline passed, in the queue or on the device.
    #[error("deadline exceeded after {} ms", waited.as_millis())]
    DeadlineExceeded {
        /// From admission to when it was noticed.
        waited: Duration,
    },
    /// The batcher takes no more items.
    #[error("Server is stopping, scheduler for model has stopped accepting new inference requests")]
    Draining,
    /// The worker that took the item ended without an answer.
    #[error("the model instance ended before it answered")]
    Lost,
}
