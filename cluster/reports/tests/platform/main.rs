//! Watches over real sockets: gateways that report, die, fall silent and come back.

#![expect(clippy::unwrap_used, reason = "a panic fails the test, as intended")]

mod contract;
mod faults;
mod gateway;
mod watching;
