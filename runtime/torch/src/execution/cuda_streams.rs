//! The two streams of an instance on a CUDA device.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::execution::stream_pairs::{Lent, Numbered, Pair, StreamPairs, Tenancy};
use crate::libtorch::fault::Fault;
use crate::libtorch::in_flight::{DeviceStreams, StreamRole};
use crate::libtorch::process;
use crate::libtorch::stream::{Event, Stream};
use crate::libtorch::tensor::Tensor;
use crate::module::Output;

/// The streams of each device that instances have used so far.
static PAIRS: Mutex<BTreeMap<usize, StreamPairs<Stream>>> = Mutex::new(BTreeMap::new());

/// Two streams of one device, for an instance and its batches in flight.
#[derive(Clone, Debug)]
pub(crate) struct CudaStreams {
    pair: Arc<Pair<Stream>>,
    tenancy: Tenancy,
}

impl Numbered for Stream {
    fn number(&self) -> i64 {
        Stream::number(self)
    }
}

impl CudaStreams {
    /// Takes two streams of the device, which no other instance uses as long as there are enough.
    pub(crate) fn new(device: usize) -> Result<Self, Fault> {
        let mut by_device = PAIRS.lock();
        let draw = || Stream::new(device);
        let pairs = match by_device.entry(device) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(StreamPairs::new(draw)?),
        };
        let Lent { pair, tenancy } = pairs.lend(draw)?;
        Ok(Self { pair, tenancy })
    }

    /// Returns true if other instances may use the same streams.
    pub(crate) fn are_shared(&self) -> bool {
        self.tenancy == Tenancy::Shared
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
        let Pair { upload, compute } = &*self.pair;
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

    /// Lets an output in page-locked memory keep the streams, so that they are lent to no other instance before the
    /// output is freed. libtorch then records an event on the stream that copied the output. If another instance
    /// captured on that stream at the time, the event would become part of its graph, and the next page-locked
    /// allocation of any model would fail.
    pub(crate) fn keep_for(&self, output: Bytes) -> Bytes {
        Bytes::from_owner(OutputOnStreams { output, _pair: Arc::clone(&self.pair) })
    }

    fn stream(&self, role: StreamRole) -> &Stream {
        match role {
            StreamRole::Upload => &self.pair.upload,
            StreamRole::Compute => &self.pair.compute,
        }
    }
}

/// An output with the streams on which its memory was used. The output is dropped first.
struct OutputOnStreams {
    output: Bytes,
    _pair: Arc<Pair<Stream>>,
}

impl AsRef<[u8]> for OutputOnStreams {
    fn as_ref(&self) -> &[u8] {
        &self.output
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
