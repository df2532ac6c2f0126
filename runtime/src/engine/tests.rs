//! An engine over models that do what a test says: batching, failures, shapes, and the end.

mod ahead;
mod batching;
mod classes;
mod ending;
mod failures;
mod fake;
mod inline;
mod shapes;
mod stuck;
