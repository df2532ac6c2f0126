//! Tests of the model repository with real directories and a fake launcher.

mod concurrency;
mod control;
mod fake;
mod folder;
mod layouts;
mod lifecycle;
mod polling;
mod reload;
mod remote;
mod uploads;
