//! An engine over models that do what a test says: batching, failures, shapes, and the end.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

mod ahead;
mod batching;
mod ending;
mod failures;
mod fake;
mod shapes;
