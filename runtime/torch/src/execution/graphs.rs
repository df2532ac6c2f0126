//! CUDA graphs of an instance: which batches run as a graph, and what the graphs hold.
//!
//! ```text
//!   warm-up   run a size ──wants──► trial: run, capture, replay, compare ──record──► times and graph of the size
//!   serving   batch ──graph_for──► replay, at first beside an ordinary run, whose outputs it must return (probation)
//! ```

pub(crate) mod captured;
pub(crate) mod policy;
pub(crate) mod probation;
pub(crate) mod trial;

use std::sync::Arc;

use weir_protocol::DataType;
use weir_runtime::backend::Column;

use policy::{Padding, SizeTimes};
use probation::Probation;
use trial::Outcome;

/// A captured run, as far as decisions about it need to know it.
pub(crate) trait Captured {
    /// Bytes of its inputs and outputs, which it keeps.
    fn buffers(&self) -> u64;

    /// The most bytes that its run allocated at once, which are in the pool of the instance's graphs.
    fn peak(&self) -> u64;

    /// The permission to run smaller batches with it.
    fn padding(&self) -> Padding;
}

/// The datatype and the dimensions of each input, without the batch dimension; `None` for an input that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InputLayout(Vec<Option<(DataType, Vec<usize>)>>);

/// A graph that is to run a batch.
#[derive(Clone, Debug)]
pub(crate) struct Chosen<'a, R> {
    pub(crate) run: &'a R,
    pub(crate) trust: Trust,
}

/// Evidence so far that a graph computes the same outputs as ordinary runs.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// No evidence: the run belongs to a trial or to the warm-up, which fails if the replay fails.
    Trial,
    /// Comparisons with ordinary runs of the warm-up. The batch also runs without the graph, for one more comparison.
    Probation(Arc<Probation>),
    /// Comparisons with ordinary runs of batches of clients.
    Proven(Arc<Probation>),
}

/// The graphs of an instance.
#[derive(Debug)]
pub(crate) struct Graphs<R> {
    model: Arc<str>,
    state: State,
    shapes: Vec<OfShape<R>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The instance has no graphs; with the reason, unless the configuration turned them off.
    Without(Option<String>),
    /// The warm-up tries graphs.
    Trying,
    /// Batches of clients run as graphs.
    Serving,
}

/// The graphs of one layout of inputs.
#[derive(Debug)]
struct OfShape<R> {
    layout: InputLayout,
    times: SizeTimes,
    graphs: Vec<OfSize<R>>,
}

#[derive(Debug)]
struct OfSize<R> {
    rows: usize,
    run: R,
    probation: Arc<Probation>,
}

impl<R> OfShape<R> {
    /// Returns the graph with this number of rows.
    fn of_size(&self, rows: usize) -> Option<&OfSize<R>> {
        self.graphs.iter().find(|graph| graph.rows == rows)
    }
}

impl InputLayout {
    /// Returns the layout of a batch; `None` if an input does not have the batch's rows in its first dimension.
    /// `batch_rows` is `None` for a model without a batch dimension.
    pub(crate) fn of(columns: &[Option<&Column>], batch_rows: Option<usize>) -> Option<Self> {
        let of_column = |column: &Option<&Column>| match (column, batch_rows) {
            (None, _) => Some(None),
            (Some(column), None) => Some(Some((column.datatype, column.shape.dims().to_vec()))),
            (Some(column), Some(rows)) => match column.shape.dims() {
                [first, inner @ ..] if *first == rows => Some(Some((column.datatype, inner.to_vec()))),
                _ => None,
            },
        };
        columns.iter().map(of_column).collect::<Option<_>>().map(Self)
    }
}

impl<R: Captured> Graphs<R> {
    /// Returns an instance's graphs before its warm-up. `obstacle` is the reason why the model cannot have any.
    pub(crate) fn new(model: Arc<str>, obstacle: Option<String>) -> Self {
        let state = obstacle.map_or(State::Trying, |reason| State::Without(Some(reason)));
        Self { model, state, shapes: Vec::new() }
    }

    /// Returns the state of an instance that is configured to have no graphs, or runs on the CPU.
    pub(crate) fn off() -> Self {
        Self { model: "".into(), state: State::Without(None), shapes: Vec::new() }
    }

    /// Returns true if a graph of this size should be tried.
    pub(crate) fn wants(&self, layout: &InputLayout, rows: usize) -> bool {
        let of_shape = self.shapes.iter().find(|shape| shape.layout == *layout);
        self.state == State::Trying && of_shape.is_none_or(|shape| shape.times.wants(rows))
    }

    /// Returns true if no batch can run as a graph.
    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// Returns any of the graphs, whose memory pool a further graph shares.
    pub(crate) fn any(&self) -> Option<&R> {
        self.shapes.iter().flat_map(|shape| &shape.graphs).map(|graph| &graph.run).next()
    }

    /// Records the outcome of a trial. A model that is unfit loses all of its graphs.
    pub(crate) fn record(&mut self, layout: InputLayout, rows: usize, outcome: Outcome<R>) {
        let (launched, replayed, run) = match outcome {
            Outcome::Kept { graph, launched, replayed } => (launched, replayed, Some(graph)),
            Outcome::TooSlow { launched, replayed } => (launched, replayed, None),
            Outcome::Unfit(reason) => return self.give_up(reason.to_string()),
        };
        tracing::debug!(model = &*self.model, rows, ?launched, ?replayed, "tried a CUDA graph");
        let at = self.shapes.iter().position(|shape| shape.layout == layout).unwrap_or_else(|| {
            self.shapes.push(OfShape { layout, times: SizeTimes::default(), graphs: Vec::new() });
            self.shapes.len() - 1
        });
        let shape = &mut self.shapes[at];
        shape.times.record(rows, launched, run.is_some().then_some(replayed));
        shape.graphs.extend(run.map(|run| OfSize { rows, run, probation: Arc::default() }));
    }

    /// Ends the trials, and logs what serves. `has_room` returns true if the device has this many bytes for the graphs
    /// beside the model's runs.
    pub(crate) fn finish(&mut self, has_room: impl FnOnce(u64) -> bool) {
        if self.state == State::Trying {
            let bytes = self.bytes();
            match self.any() {
                Some(_) if has_room(bytes) => self.state = State::Serving,
                Some(_) => self.give_up(format!("GPU_MEM_LIMIT has no room for their {bytes} bytes")),
                None if self.shapes.is_empty() => self.give_up("the warm-up ran no batch".to_owned()),
                None => self.give_up("no batch size gains by them".to_owned()),
            }
        }
        self.log();
    }

    fn log(&self) {
        let model = &*self.model;
        match &self.state {
            State::Without(Some(reason)) => tracing::info!(model, reason, "the model runs without CUDA graphs"),
            State::Without(None) | State::Trying => {}
            State::Serving => {
                let sizes: Vec<Vec<usize>> = self.shapes.iter().map(|shape| shape.times.captured().collect()).collect();
                tracing::info!(model, ?sizes, bytes = self.bytes(), "batches of these sizes run as CUDA graphs");
            }
        }
    }

    /// Returns the graph that runs a batch; `None` if its kernels are launched one by one. A graph that is still compared
    /// with ordinary runs takes no smaller batch, because libraries compute other roundings for other sizes.
    pub(crate) fn choose(&mut self, layout: &InputLayout, rows: usize) -> Option<Chosen<'_, R>> {
        if self.shapes.iter().flat_map(|shape| &shape.graphs).any(|graph| graph.probation.is_refuted()) {
            self.give_up("a replay failed, or returned other outputs than a run".to_owned());
        }
        let shape = self.shapes.iter().find(|shape| shape.layout == *layout)?;
        let mut paddings = shape.graphs.iter().map(|graph| graph.run.padding());
        let padding = paddings.find(|padding| *padding == Padding::Forbidden).unwrap_or(Padding::Allowed);
        let graph = shape.of_size(shape.times.graph_for(rows, padding)?)?;
        let trust = match self.state {
            State::Trying | State::Without(_) => Trust::Trial,
            State::Serving if !graph.probation.is_open() => Trust::Proven(Arc::clone(&graph.probation)),
            State::Serving if graph.rows == rows => Trust::Probation(Arc::clone(&graph.probation)),
            State::Serving => return None,
        };
        Some(Chosen { run: &graph.run, trust })
    }

    /// Returns the bytes that the graphs hold: the inputs and outputs of each, and the pool that all share, which is as
    /// large as the run that needs most.
    pub(crate) fn bytes(&self) -> u64 {
        let runs = || self.shapes.iter().flat_map(|shape| &shape.graphs).map(|graph| &graph.run);
        let buffers = runs().map(R::buffers).fold(0, u64::saturating_add);
        buffers.saturating_add(runs().map(R::peak).max().unwrap_or(0))
    }

    /// Returns the bytes that limit other runs: those of graphs that serve.
    pub(crate) fn held(&self) -> u64 {
        match self.state {
            State::Serving => self.bytes(),
            State::Without(_) | State::Trying => 0,
        }
    }

    fn give_up(&mut self, reason: String) {
        if self.state == State::Serving {
            tracing::error!(model = &*self.model, reason, "the model runs without CUDA graphs from now on");
        }
        self.shapes.clear();
        self.state = State::Without(Some(reason));
    }
}

#[cfg(test)]
mod tests;
