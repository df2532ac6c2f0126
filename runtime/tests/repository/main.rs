//! The model repository from outside: real directories, and a stand-in for what runs models.

mod concurrency;
mod control;
mod fake;
mod folder;
mod layouts;
mod lifecycle;
mod polling;
mod reload;
mod uploads;
