//! The two streams of an instance on a CUDA device.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use crate::libtorch::fault::Fault;
use crate::libtorch::in_flight::{DeviceStreams, StreamRole};
use crate::libtorch::process;
use crate::libtorch::stream::{Event, Stream};
use crate::libtorch::tensor::Tensor;
use crate::module::Output;

/// Two streams of one device, shared by an instance and its batches in flight.
#[derive(Clone, Debug)]
pub(crate) struct CudaStreams {
    pair: Arc<StreamPair>,
}

#[derive(Debug)]
struct StreamPair {
    upload: Stream,
    compute: Stream,
}

impl CudaStreams {
    /// Takes two streams of the device from libtorch's pool.
    pub(crate) fn new(device: usize) -> Result<Self, Fault> {
        let pair = StreamPair { upload: Stream::new(device)?, compute: Stream::new(device)? };
        Ok(Self { pair: Arc::new(pair) })
    }

    /// Gathers a tensor in page-locked memory and queues its copy to the device. `fill` must write every byte.
    pub(crate) fn upload(
        &self,
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Tensor, Fault> {
        self.upload_pinned(&Tensor::pinned(element_type, sizes, fill)?)
    }

    /// Queues the copy of a tensor in page-locked memory to the device.
    pub(crate) fn upload_pinned(&self, tensor: &Tensor) -> Result<Tensor, Fault> {
        let StreamPair { upload, compute } = &*self.pair;
        tensor.upload(upload, compute)
    }

    /// Waits until everything queued so far is done, the copies of inputs included.
    pub(crate) fn settle(&self) -> Result<(), Fault> {
        self.pair.upload.synchronize()?;
        self.pair.compute.synchronize()
    }

    /// The stream that the model runs on.
    pub(crate) fn compute(&self) -> &Stream {
        &self.pair.compute
    }

    fn stream(&self, role: StreamRole) -> &Stream {
        match role {
            StreamRole::Upload => &self.pair.upload,
            StreamRole::Compute => &self.pair.compute,
        }
    }
}

impl DeviceStreams for CudaStreams {
    type Event = Event;
    type Output = Output;

    fn record(&self, role: StreamRole) -> Result<Event, Fault> {
        self.stream(role).record()
    }

    fn wait(&self, role: StreamRole, event: &Event) -> Result<(), Fault> {
        self.stream(role).wait(event)
    }

    fn download(&self, output: Output) -> Result<Output, Fault> {
        match output {
            Output::Tensor(tensor) if !tensor.is_on_cpu() => tensor.download(self.compute()).map(Output::Tensor),
            output @ (Output::Tensor(_) | Output::Strings { .. }) => Ok(output),
        }
    }

    fn synchronize(&self, event: &Event) -> Result<(), Fault> {
        event.synchronize()
    }

    fn elapsed(&self, from: &Event, to: &Event) -> Result<Duration, Fault> {
        to.since(from)
    }

    fn reclaim(&self) -> Result<(), Fault> {
        self.settle()?;
        process::empty_cuda_cache()
    }
}
