//! The trial of a CUDA graph on the device of an instance.

use std::time::Duration;

use weir_runtime::backend::{Column, ModelError};

use crate::execution::binding::Binding;
use crate::execution::graphs::captured::CapturedRun;
use crate::execution::graphs::trial::GraphDevice;
use crate::execution::graphs::{Chosen, Trust};
use crate::execution::runner::{Gpu, Prepared, RunOutput, Runner, StartedRun};
use crate::libtorch::fault::Fault;
use crate::libtorch::graph::Capture;
use crate::module::{Metering, Run, Values};
use crate::staged_inputs::PreparedInputs;
use crate::stopwatch::Stopwatch;

/// A model on its device with one batch.
pub(crate) struct CudaTrial<'a> {
    pub(crate) runner: &'a Runner,
    pub(crate) gpu: &'a Gpu,
    pub(crate) binding: &'a Binding,
    pub(crate) columns: &'a [Option<&'a Column>],
    /// Rows of the batch; `None` for a model without a batch dimension.
    pub(crate) batch_rows: Option<usize>,
    /// A graph of the instance, whose memory pool this one shares.
    pub(crate) like: Option<&'a CapturedRun>,
    /// The capture that is under way.
    pub(crate) open: Option<OpenCapture<'a>>,
}

/// A capture that is under way.
pub(crate) struct OpenCapture<'a> {
    capture: Capture<'a>,
    inputs: Values,
    run: Option<Run>,
}

impl GraphDevice for CudaTrial<'_> {
    type Answer = Vec<RunOutput>;
    type Graph = CapturedRun;

    fn launch(&mut self) -> Result<(Vec<RunOutput>, Duration), Fault> {
        self.run(None)
    }

    fn begin(&mut self) -> Result<(), Fault> {
        let inputs = self.runner.upload(self.binding, self.columns).map_err(fault)?;
        self.gpu.streams.settle()?;
        let like = self.like.map(CapturedRun::graph);
        let capture = Capture::begin(self.gpu.streams.compute(), like)?;
        self.open = Some(OpenCapture { capture, inputs, run: None });
        Ok(())
    }

    fn record(&mut self) -> Result<(), Fault> {
        let Some(open) = &mut self.open else { return Err(nothing()) };
        let stream = Some(self.gpu.streams.compute());
        open.run = Some(self.runner.module.run(&open.inputs, self.runner.options, Metering::On, stream)?);
        Ok(())
    }

    fn end(&mut self) -> Result<CapturedRun, Fault> {
        let Some(OpenCapture { capture, inputs, run }) = self.open.take() else { return Err(nothing()) };
        let graph = capture.end()?;
        let captured = (inputs, run.ok_or_else(nothing)?);
        CapturedRun::new(graph, captured, self.batch_rows, self.gpu.streams.clone())
    }

    fn replay(&mut self, graph: &CapturedRun) -> Result<(Vec<RunOutput>, Duration), Fault> {
        self.run(Some(Chosen { run: graph, trust: Trust::Trial }))
    }
}

impl CudaTrial<'_> {
    fn run(&self, graph: Option<Chosen<'_, CapturedRun>>) -> Result<(Vec<RunOutput>, Duration), Fault> {
        let mut stopwatch = Stopwatch::start();
        let inputs = &PreparedInputs::default();
        let prepared = Prepared { inputs, metering: Metering::Off, graph, held: 0 };
        let (run, _) = self.runner.start(self.binding, self.columns, prepared).map_err(fault)?;
        let (outputs, _) = match run {
            StartedRun::Done(outputs, timing) => (outputs, timing),
            StartedRun::Queued(run) => run.finish().map_err(fault)?,
        };
        Ok((outputs, stopwatch.lap()))
    }
}

fn nothing() -> Fault {
    Fault::Raised("no capture is under way".to_owned())
}

fn fault(error: ModelError) -> Fault {
    match error {
        ModelError::Failed(text) => Fault::Raised(text),
        ModelError::Refused(text) => Fault::Refused(text),
        ModelError::OutOfMemory(text) => Fault::OutOfMemory(text),
    }
}
