//! Headers about how a request was served, with the same text in HTTP headers and gRPC metadata.

use std::fmt::Write;

use crate::engine::Cost;

/// The header of a request that was refused before any work on it, or expired in the queue. `1`: another replica may be
/// tried. `0`: the request has no time left for a retry. `2`: the replica is stuck. `3`: the client's own deadline was
/// too short.
pub(crate) const REFUSED: &str = "weir-refused";

/// Returns `queue;dur=…, compute;dur=…`: milliseconds with three decimals.
#[must_use]
pub(crate) fn server_timing(cost: &Cost) -> String {
    let (queue, compute) = (cost.queue.as_micros(), cost.compute().as_micros());
    let mut text = String::with_capacity(48);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "queue;dur={}.{:03}, compute;dur={}.{:03}",
        queue / 1000,
        queue % 1000,
        compute / 1000,
        compute % 1000,
    );
    text
}

/// Returns `size=…;us=…`: the rows of the batch and its duration in microseconds.
#[must_use]
pub(crate) fn batch(cost: &Cost) -> String {
    format!("size={};us={}", cost.batch_rows, cost.compute().as_micros())
}
