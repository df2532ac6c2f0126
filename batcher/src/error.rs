//! Errors of items that get no answer from their model.

use std::time::Duration;

/// Bound that a predicted wait exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The item's own timeout or deadline: the item would be late.
    Item,
    /// Only the policy's bound: the item itself could wait.
    Policy,
}

/// Errors of the batcher itself; errors of the model are part of the answer. The texts are Triton's where Triton has
/// one, because clients know them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The queue, or the item's priority level, is full.
    #[error("Exceeds maximum queue size")]
    QueueFull,
    /// The item would be late before it starts, or would wait longer than the policy allows.
    #[error(
        "predicted queue wait of {} ms exceeds the {} ms allowed",
        predicted.as_millis(),
        allowed.as_millis()
    )]
    PredictedWait {
        /// Estimated time until a device is free for the item.
        predicted: Duration,
        /// Allowed wait: the least of what the item's timeout, its deadline and the policy leave.
        allowed: Duration,
        /// Bound that was exceeded.
        bound: Bound,
    },
    /// The item's timeout passed in the queue.
    #[error("Request timeout expired")]
    Expired {
        /// Length of the timeout if the item set it; `None` if the policy did.
        own: Option<Duration>,
    },
    /// The item's deadline passed, in the queue or on the device.
    #[error("deadline exceeded after {} ms", waited.as_millis())]
    DeadlineExceeded {
        /// Time from admission until the passed deadline was noticed.
        waited: Duration,
    },
    /// The batcher accepts no more items.
    #[error("Server is stopping, scheduler for model has stopped accepting new inference requests")]
    Draining,
    /// The worker that took the item ended without an answer.
    #[error("the model instance ended before it answered")]
    Lost,
}
