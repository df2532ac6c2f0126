//! A batch on its way over a device that works by itself: copied there, run, copied back, all of it queued
//! at once. The device copies one batch while it runs the one before.
//!
//! ```text
//!   upload lane    copy 1 ─┐       copy 2 ─┐
//!   compute lane           └► run 1, copy back 1 ─► run 2, copy back 2
//!   this thread    launch 1, launch 2, finish 1, launch 3, finish 2, …
//! ```
//!
//! Copying back stays on the compute lane, so that a model that keeps a tensor, or gives the same one out
//! again, finds all its work in one order. Memory is libtorch's care: what is dropped here while the device
//! still uses it is used for nothing else before the device is done.

use std::time::Duration;

use weir_runtime::backend::ModelError;

use crate::fault::Fault;

/// Where a device does its work; each lane in the order it was queued in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Upload,
    Compute,
}

/// The lanes of one instance on one device.
pub(crate) trait Lanes: Clone {
    /// A moment of a lane.
    type Event;
    /// An output of the model, on the device or not.
    type Output;

    /// The moment when all that the lane has queued is done.
    fn record(&self, lane: Lane) -> Result<Self::Event, Fault>;

    /// Lets what the lane queues from now on wait for that moment.
    fn wait(&self, lane: Lane, event: &Self::Event) -> Result<(), Fault>;

    /// Queues on the compute lane the copying to the processor's memory, where it does not lie there already.
    fn download(&self, output: Self::Output) -> Result<Self::Output, Fault>;

    /// Blocks until that moment.
    fn synchronize(&self, event: &Self::Event) -> Result<(), Fault>;

    /// The time from one moment to a later one of the compute lane, both in the past.
    fn elapsed(&self, from: &Self::Event, to: &Self::Event) -> Result<Duration, Fault>;

    /// Waits for all that is queued and gives unused memory back to the driver.
    fn reclaim(&self) -> Result<(), Fault>;
}

/// A batch that is queued on a device. Dropping it forgets the answer and harms nothing.
#[derive(Debug)]
pub(crate) struct Flight<L: Lanes> {
    lanes: L,
    outputs: Vec<L::Output>,
    began: L::Event,
    computed: L::Event,
    done: L::Event,
}

/// A batch that has come back.
#[derive(Debug)]
pub(crate) struct Landed<O> {
    pub(crate) outputs: Vec<O>,
    /// How long the device ran the model.
    pub(crate) infer: Duration,
    /// How long it copied the outputs.
    pub(crate) output: Duration,
}

/// Queues a batch: `upload` queues copies on the upload lane, `forward` the model on the compute lane.
/// Where memory runs out, what other batches and earlier runs left behind is reclaimed and all of it is
/// tried once more: only a batch that is too large for the device as it is then, is.
pub(crate) fn launch<L: Lanes, V>(
    lanes: &L,
    upload: impl Fn() -> Result<V, ModelError>,
    forward: impl Fn(V) -> Result<Vec<L::Output>, Fault>,
) -> Result<Flight<L>, ModelError> {
    let attempt = || queue(lanes, upload()?, &forward);
    match attempt() {
        Err(ModelError::OutOfMemory(_)) => {
            lanes.reclaim().map_err(Fault::of_run)?;
            attempt().inspect_err(|_| {
                // Fails where the device does, which the next batch will report.
                let _ = lanes.reclaim();
            })
        }
        Err(error @ ModelError::Failed(_)) => Err(error),
        Ok(flight) => Ok(flight),
    }
}

fn queue<L: Lanes, V>(
    lanes: &L,
    uploaded: V,
    forward: impl Fn(V) -> Result<Vec<L::Output>, Fault>,
) -> Result<Flight<L>, ModelError> {
    let queue = || {
        let there = lanes.record(Lane::Upload)?;
        lanes.wait(Lane::Compute, &there)?;
        let began = lanes.record(Lane::Compute)?;
        let outputs = forward(uploaded)?;
        let computed = lanes.record(Lane::Compute)?;
        let outputs = outputs.into_iter().map(|output| lanes.download(output));
        Ok(Flight {
            lanes: lanes.clone(),
            outputs: outputs.collect::<Result<_, Fault>>()?,
            began,
            computed,
            done: lanes.record(Lane::Compute)?,
        })
    };
    queue().map_err(Fault::of_run)
}

impl<L: Lanes> Flight<L> {
    /// Blocks until the batch is back. Flights of one instance come back in the order of their launch.
    pub(crate) fn finish(self) -> Result<Landed<L::Output>, ModelError> {
        let finish = || {
            self.lanes.synchronize(&self.done)?;
            Ok(Landed {
                infer: self.lanes.elapsed(&self.began, &self.computed)?,
                output: self.lanes.elapsed(&self.computed, &self.done)?,
                outputs: self.outputs,
            })
        };
        finish().map_err(Fault::of_run)
    }
}

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
