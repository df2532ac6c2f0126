//! The real `weir` over real child processes: the test binary itself is what containers run (see
//! `server`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may end at once"
)]

mod digits;
mod ending;
mod http;
mod life;
mod manifest;
mod refusals;
mod reports;
mod server;
mod tls;
mod weir;
