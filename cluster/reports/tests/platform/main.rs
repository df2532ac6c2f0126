//! Watches over real sockets: gateways that report, die, fall silent and come back.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod contract;
mod faults;
mod gateway;
mod watching;
