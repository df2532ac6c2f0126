//! The model repository from outside: real directories, and a stand-in for what runs models.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may fail by a panic"
)]

mod concurrency;
mod control;
mod fake;
mod folder;
mod layouts;
mod lifecycle;
mod polling;
mod reload;
mod uploads;
