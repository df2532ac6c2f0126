//! Tests of a gateway over real sockets, with replicas in this process that answer, hang, break off or die.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a panic fails the test, and tests measure durations"
)]

mod access;
mod answers;
mod batching;
mod burst;
mod client;
mod control;
mod early;
mod ending;
mod engine_queue;
mod faults;
mod forms;
mod garbage;
mod given_up;
mod grpc;
mod isolation;
mod logs;
mod matrix;
mod mirror;
mod openai;
mod readers;
mod replica;
mod replica_tls;
mod reports;
mod routing;
mod service_health;
mod sharing;
mod streams;
mod tls;
mod waits;
mod websocket;
mod world;
mod zero;
