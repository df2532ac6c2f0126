//! Gathers single items into batches under a policy. Knows no tensor and no metric.
//!
//! ```text
//!   submit ──► Batcher ──admit──► Assembler ──next──► Puller::pull ──► Work ──answer──► Ticket
//!              (a mutex)          (a value: no clock)  (a device's thread)             (a future)
//! ```
//!
//! A [`Loan`] lets the caller run a short batch itself, in the place of a device's thread that sleeps.
//!
//! A batch is formed when a device takes it, never before: whatever arrived while the device was
//! busy is in it. [`Assembler`] decides and is pure; [`Batcher`] lends it a clock and threads.

mod assembler;
mod batcher;
mod clock;
mod curve;
mod cut;
mod error;
mod forecast;
mod item;
mod loan;
mod observer;
mod policy;
mod puller;
mod sequence;
mod ticket;
mod work;

pub use assembler::{Assembler, Batch, Due, Id, Lapsed, Member, Next, Refused};
pub use batcher::Batcher;
pub use curve::Curve;
pub use error::{Bound, SubmitError};
pub use forecast::cleared_after;
pub use item::{Item, Terms};
pub use loan::Loan;
pub use observer::{Formed, Observer};
pub use policy::{Ordering, Policy, QueuePolicy, TimeoutAction};
pub use puller::{Puller, form_at};
pub use sequence::Sequence;
pub use ticket::Ticket;
pub use work::Work;
