//! Runs the real `weir` with real child processes. The containers run the test binary itself (see `replica`).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may end at once, and looks at the clock to end at all"
)]

mod access;
mod check;
mod client;
mod digits;
mod faults;
mod fetching;
mod fixture;
mod http;
mod kills;
mod lifecycle;
mod load;
mod logs;
mod manifest;
mod many_keys;
mod messages;
mod no_model;
mod not_ready;
mod notes;
mod output;
mod ready_calls;
mod refusals;
mod replica;
mod reports;
mod rollouts;
mod runtimes;
mod scale_to_zero;
mod shared_dir;
mod shutdown;
mod streams;
mod tls;
mod torch;
mod wave;
mod weir;
