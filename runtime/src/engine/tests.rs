//! Tests of an engine over models that run a script: batching, failures, shapes and shutdown.

mod ahead;
mod batching;
mod classes;
mod ending;
mod failures;
mod fake;
mod inline;
mod shapes;
mod stuck;
