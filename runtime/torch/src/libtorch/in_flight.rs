//! A batch in flight on a device that works asynchronously: the copy to the device, the run and the copy back are
//! queued at once. The device copies one batch while it runs the previous one.
//!
//! ```text
//!   upload stream    copy 1 ─┐       copy 2 ─┐
//!   compute stream           └► run 1, copy back 1 ─► run 2, copy back 2
//!   this thread      launch 1, launch 2, finish 1, launch 3, finish 2, …
//! ```
//!
//! Outputs are copied back on the compute stream, so that all work on a tensor that the model keeps, or returns again,
//! is in one order. libtorch manages the memory: memory dropped here is reused only after the device has finished with
//! it.

use std::time::Duration;

use weir_runtime::backend::ModelError;

use crate::libtorch::fault::Fault;

/// The purpose of one of an instance's streams. A stream runs work in the order in which it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamRole {
    Upload,
    Compute,
}

/// The two streams of one instance on one device.
pub(crate) trait DeviceStreams: Clone {
    /// A point in a stream's queue of work.
    type Event;
    /// An output of the model, on the device or in host memory.
    type Output;

    /// Records an event that completes when all work queued so far is done.
    fn record(&self, lane: StreamRole) -> Result<Self::Event, Fault>;

    /// Makes work that is queued from now on wait for the event.
    fn wait(&self, lane: StreamRole, event: &Self::Event) -> Result<(), Fault>;

    /// Queues, on the compute stream, the copy of an output to host memory, unless the output is already there.
    fn download(&self, output: Self::Output) -> Result<Self::Output, Fault>;

    /// Blocks until the event has completed.
    fn synchronize(&self, event: &Self::Event) -> Result<(), Fault>;

    /// Returns the time between two completed events of the compute stream.
    fn elapsed(&self, from: &Self::Event, to: &Self::Event) -> Result<Duration, Fault>;

    /// Waits for all queued work and returns unused memory to the driver.
    fn reclaim(&self) -> Result<(), Fault>;
}

/// A batch that is queued on a device. Dropping it discards the outputs and has no other effect.
#[derive(Debug)]
pub(crate) struct InFlightBatch<L: DeviceStreams> {
    streams: L,
    outputs: Vec<L::Output>,
    started: L::Event,
    computed: L::Event,
    done: L::Event,
}

/// A batch that the device has completed.
#[derive(Debug)]
pub(crate) struct CompletedBatch<O> {
    pub(crate) outputs: Vec<O>,
    /// Time the device ran the model.
    pub(crate) infer: Duration,
    /// Time the device copied the outputs.
    pub(crate) output: Duration,
}

/// Queues a batch: `upload` queues copies on the upload stream, `forward` queues the model on the compute stream. If
/// memory runs out, reclaims the memory that earlier runs left, and tries once more; so only a batch that is too large
/// for the device by itself fails.
pub(crate) fn launch<L: DeviceStreams, V>(
    streams: &L,
    upload: impl Fn() -> Result<V, ModelError>,
    forward: impl Fn(V) -> Result<Vec<L::Output>, Fault>,
) -> Result<InFlightBatch<L>, ModelError> {
    let attempt = || queue(streams, upload()?, &forward);
    match attempt() {
        Err(ModelError::OutOfMemory(_)) => {
            streams.reclaim().map_err(Fault::of_run)?;
            attempt().inspect_err(|_| {
                // A failure here is a failure of the device, which the next batch reports.
                let _ = streams.reclaim();
            })
        }
        Err(error @ (ModelError::Failed(_) | ModelError::Refused(_))) => Err(error),
        Ok(batch) => Ok(batch),
    }
}

fn queue<L: DeviceStreams, V>(
    streams: &L,
    uploaded: V,
    forward: impl Fn(V) -> Result<Vec<L::Output>, Fault>,
) -> Result<InFlightBatch<L>, ModelError> {
    let queue = || {
        let uploaded_event = streams.record(StreamRole::Upload)?;
        streams.wait(StreamRole::Compute, &uploaded_event)?;
        let started = streams.record(StreamRole::Compute)?;
        let outputs = forward(uploaded)?;
        let computed = streams.record(StreamRole::Compute)?;
        let outputs = outputs.into_iter().map(|output| streams.download(output));
        Ok(InFlightBatch {
            streams: streams.clone(),
            outputs: outputs.collect::<Result<_, Fault>>()?,
            started,
            computed,
            done: streams.record(StreamRole::Compute)?,
        })
    };
    queue().map_err(Fault::of_run)
}

impl<L: DeviceStreams> InFlightBatch<L> {
    /// Blocks until the batch is complete. Batches of one instance complete in the order of their launch.
    pub(crate) fn finish(self) -> Result<CompletedBatch<L::Output>, ModelError> {
        let finish = || {
            self.streams.synchronize(&self.done)?;
            Ok(CompletedBatch {
                infer: self.streams.elapsed(&self.started, &self.computed)?,
                output: self.streams.elapsed(&self.computed, &self.done)?,
                outputs: self.outputs,
            })
        };
        finish().map_err(Fault::of_run)
    }
}

#[cfg(test)]
mod fake_device;
#[cfg(test)]
mod tests;
