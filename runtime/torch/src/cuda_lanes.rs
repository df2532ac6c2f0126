//! The lanes of an instance on a CUDA device: two streams.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use crate::fault::Fault;
use crate::flight::{Lane, Lanes};
use crate::module::Output;
use crate::process;
use crate::stream::{Event, Stream};
use crate::tensor::Tensor;

/// Two streams of one device, belonging to one instance and to what it has under way.
#[derive(Clone, Debug)]
pub(crate) struct CudaLanes {
    streams: Arc<Streams>,
}

#[derive(Debug)]
struct Streams {
    upload: Stream,
    compute: Stream,
}

impl CudaLanes {
    /// Streams of that device.
    pub(crate) fn new(device: usize) -> Result<Self, Fault> {
        let streams = Streams {
            upload: Stream::new(device)?,
            compute: Stream::new(device)?,
        };
        Ok(Self {
            streams: Arc::new(streams),
        })
    }

    /// Gathers a tensor in page-locked memory and queues its copying to the device. `fill` must write every
    /// byte.
    pub(crate) fn upload(
        &self,
        element_type: i32,
        sizes: &[i64],
        fill: impl FnOnce(&mut [MaybeUninit<u8>]),
    ) -> Result<Tensor, Fault> {
        let Streams { upload, compute } = &*self.streams;
        Tensor::pinned(element_type, sizes, fill)?.upload(upload, compute)
    }

    /// Where the model runs.
    pub(crate) fn compute(&self) -> &Stream {
        &self.streams.compute
    }

    fn stream(&self, lane: Lane) -> &Stream {
        match lane {
            Lane::Upload => &self.streams.upload,
            Lane::Compute => &self.streams.compute,
        }
    }
}

impl Lanes for CudaLanes {
    type Event = Event;
    type Output = Output;

    fn record(&self, lane: Lane) -> Result<Event, Fault> {
        self.stream(lane).record()
    }

    fn wait(&self, lane: Lane, event: &Event) -> Result<(), Fault> {
        self.stream(lane).wait(event)
    }

    fn download(&self, output: Output) -> Result<Output, Fault> {
        match output {
            Output::Tensor(tensor) if !tensor.on_processor() => {
                tensor.download(self.compute()).map(Output::Tensor)
            }
            here @ (Output::Tensor(_) | Output::Strings { .. }) => Ok(here),
        }
    }

    fn synchronize(&self, event: &Event) -> Result<(), Fault> {
        event.synchronize()
    }

    fn elapsed(&self, from: &Event, to: &Event) -> Result<Duration, Fault> {
        to.since(from)
    }

    fn reclaim(&self) -> Result<(), Fault> {
        self.streams.upload.synchronize()?;
        self.streams.compute.synchronize()?;
        process::empty_cuda_cache()
    }
}
