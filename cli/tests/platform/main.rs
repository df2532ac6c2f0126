//! The real `weir` over real child processes: the test binary itself is what containers run (see
//! `replica`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may end at once, and looks at the clock to end at all"
)]

mod client;
mod digits;
mod ending;
mod faults;
mod field;
mod http;
mod kills;
mod life;
mod load;
mod manifest;
mod never;
mod refusals;
mod replica;
mod reports;
mod rollouts;
mod runtimes;
mod stage;
mod streams;
mod tls;
mod wave;
mod weir;
mod zero;
