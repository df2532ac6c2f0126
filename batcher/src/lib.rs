//! Gathers single items into batches under a policy. The crate knows neither tensors nor metrics.
//!
//! ```text
//!   submit ──► Batcher ──admit──► Assembler ──next──► Worker::pull ──► Work ──answer──► Ticket
//!              (a mutex)          (a value: no clock)  (a device's thread)             (a future)
//! ```
//!
//! With an [`InlineRun`], the caller runs a short batch itself while the device's own thread sleeps.
//!
//! A batch is formed when a device takes it, never before, so it contains everything that arrived while the device was
//! busy. For a device that works asynchronously, a batch is formed shortly before the device is free, or later if it
//! gains more by the items that follow the answers of a running batch. Until then a [`Stager`] may copy the inputs of queued
//! items. [`Assembler`] decides and is pure; [`Batcher`] adds a clock and threads.

mod assembler;
mod batcher;
mod clock;
mod curve;
mod error;
mod forecast;
mod inline;
mod observer;
mod policy;
mod prefix;
mod reorder;
mod shared;
mod stager;
mod ticket;
mod work;
mod worker;

pub use assembler::{Assembler, AsyncDevice, Batch, Due, ExpiredItem, Id, Member, Next, Refused, Staged, ToStage};
pub use batcher::Batcher;
pub use curve::Curve;
pub use error::{Bound, SubmitError};
pub use forecast::cleared_after;
pub use inline::{InlineRun, InlineStart};
pub use observer::{BatchStats, Observer};
pub use policy::{Item, Ordering, Policy, QueuePolicy, Terms, TimeoutAction};
pub use reorder::ReorderBuffer;
pub use stager::Stager;
pub use ticket::Ticket;
pub use work::{BatchCallers, Work};
pub use worker::{Worker, form_at};
