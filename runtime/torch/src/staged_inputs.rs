//! Page-locked memory for the inputs of the next batch, which is filled by its requests before the batch is formed.

use std::time::Duration;

use weir_protocol::DataType;
use weir_runtime::backend::{Column, RequestInfo, StagedRows};

use crate::libtorch::element;
use crate::libtorch::gather;
use crate::libtorch::tensor::{PinnedMemory, Tensor};
use crate::stopwatch::Stopwatch;

/// Largest memory that is staged in, in bytes. It is taken in addition to the memory of the batches in flight, and large
/// batches take the device long enough to hide their copies.
const MOST_BYTES: usize = 256 << 20;

/// The inputs that an instance has staged for its next batch.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    current: Option<StagedInputs>,
    /// Number of memories that were taken so far.
    memories: u64,
}

impl Staging {
    /// Copies the inputs of a request of `rows` rows, into new memory for batches of `most` rows if there is none with
    /// this layout. Returns `None` if they cannot be staged. `uploads` returns true for a column whose input is copied
    /// to the device as a tensor.
    pub(crate) fn add(
        &mut self,
        columns: &[Option<&Column>],
        (rows, most): (usize, usize),
        uploads: impl Fn(usize) -> bool,
    ) -> Option<StagedRows> {
        let current = self.current.take().filter(|current| current.holds(columns)).or_else(|| {
            self.memories += 1;
            StagedInputs::new(self.memories, most, columns, uploads)
        });
        self.current.insert(current?).add(columns, rows)
    }

    /// Makes the inputs of a batch from what was staged, and discards the rest.
    pub(crate) fn prepare(&mut self, columns: &[Option<&Column>], requests: &[RequestInfo]) -> PreparedInputs {
        let current = self.current.take();
        current.and_then(|current| current.prepare(columns, requests)).unwrap_or_default()
    }
}

/// The inputs of some requests, each in rows of its own.
#[derive(Debug)]
struct StagedInputs {
    number: u64,
    /// Number of rows that are taken.
    used: usize,
    most: usize,
    /// By column; `None` for inputs that are copied when the batch is formed.
    columns: Vec<Option<StagedColumn>>,
}

/// The rows of one input.
#[derive(Debug)]
struct StagedColumn {
    datatype: DataType,
    /// Dimensions of a row.
    inner: Vec<usize>,
    memory: PinnedMemory,
}

/// The inputs of a batch that were staged.
#[derive(Debug, Default)]
pub(crate) struct PreparedInputs {
    /// By column; `None` or missing for inputs that are to be copied.
    pub(crate) tensors: Vec<Option<Tensor>>,
    /// Time in which the rest of the inputs was copied.
    pub(crate) spent: Duration,
}

impl StagedInputs {
    /// Takes memory for batches of up to `most` rows with the columns of this request. Returns `None` if none of them can be
    /// staged, or they take too much memory.
    fn new(number: u64, most: usize, columns: &[Option<&Column>], uploads: impl Fn(usize) -> bool) -> Option<Self> {
        let wanted: Vec<Option<Layout>> = columns
            .iter()
            .enumerate()
            .map(|(index, column)| column.filter(|_| uploads(index)).and_then(|column| Layout::of(column, most)))
            .collect();
        let bytes: usize = wanted.iter().flatten().map(|layout| layout.bytes).sum();
        if bytes == 0 || bytes > MOST_BYTES {
            return None;
        }
        let columns = wanted.into_iter().map(|layout| match layout {
            Some(layout) => layout.allocate().map(Some),
            None => Some(None),
        });
        Some(Self { number, used: 0, most, columns: columns.collect::<Option<_>>()? })
    }

    /// Returns true if the rows of these columns lie in this memory as they would in a batch of their own.
    fn holds(&self, columns: &[Option<&Column>]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().zip(columns).all(|(staged, column)| match (staged, column) {
                (Some(staged), Some(column)) => staged.holds(column),
                (Some(_), None) => false,
                (None, _) => true,
            })
    }

    /// Copies the inputs of a request of `rows` rows; `None` if there is no room, or they are wrong, which the run reports.
    fn add(&mut self, columns: &[Option<&Column>], rows: usize) -> Option<StagedRows> {
        let first = self.used;
        if first + rows > self.most {
            return None;
        }
        for (staged, column) in self.columns.iter_mut().zip(columns) {
            if let (Some(staged), Some(column)) = (staged, column) {
                staged.add(column, first)?;
            }
        }
        self.used += rows;
        Some(StagedRows { memory: self.number, first })
    }

    /// Makes the inputs of a batch: moves the rows of its staged requests together, and copies those of the others. Returns
    /// `None` if none of the requests is staged here, or the batch does not fit.
    fn prepare(self, columns: &[Option<&Column>], requests: &[RequestInfo]) -> Option<PreparedInputs> {
        let place = |request: &RequestInfo| request.staged.filter(|staged| staged.memory == self.number);
        let places: Vec<Option<usize>> =
            requests.iter().map(|request| place(request).map(|staged| staged.first)).collect();
        let rows: usize = requests.iter().map(|request| request.rows).sum();
        if places.iter().all(Option::is_none) || rows > self.most || !self.holds(columns) {
            return None;
        }
        let mut stopwatch = Stopwatch::start();
        let staged = self.columns.into_iter().zip(columns);
        let tensors = staged.map(|(staged, column)| staged?.gather((*column)?, &places));
        Some(PreparedInputs { tensors: tensors.collect(), spent: stopwatch.lap() })
    }
}

impl StagedColumn {
    fn holds(&self, column: &Column) -> bool {
        self.datatype == column.datatype && column.shape.dims().get(1..) == Some(self.inner.as_slice())
    }

    fn add(&mut self, column: &Column, first: usize) -> Option<()> {
        let size = checked_size(column)?;
        gather::stage(column, size, first, self.memory.bytes());
        Some(())
    }

    fn gather(mut self, column: &Column, places: &[Option<usize>]) -> Option<Tensor> {
        let size = checked_size(column).filter(|_| column.parts.len() == places.len())?;
        gather::gather_staged(column, size, places, self.memory.bytes());
        let sizes: Vec<i64> = column.shape.signed().collect();
        let element_type = element::element_type(self.datatype)?;
        self.memory.into_tensor(element_type, &sizes, size).ok().flatten()
    }
}

/// The memory of a column that is to be allocated.
struct Layout {
    datatype: DataType,
    element_type: i32,
    inner: Vec<usize>,
    most: usize,
    bytes: usize,
}

impl Layout {
    fn of(column: &Column, most: usize) -> Option<Self> {
        let element_type = element::element_type(column.datatype)?;
        let inner = column.shape.dims().get(1..)?.to_vec();
        let bytes = inner.iter().product::<usize>() * column.datatype.size()? * most;
        Some(Self { datatype: column.datatype, element_type, inner, most, bytes })
    }

    fn allocate(self) -> Option<StagedColumn> {
        let sizes: Vec<i64> =
            std::iter::once(self.most).chain(self.inner.iter().copied()).map(|dim| dim as i64).collect();
        let memory = PinnedMemory::new(self.element_type, &sizes).ok()?;
        Some(StagedColumn { datatype: self.datatype, inner: self.inner, memory })
    }
}

/// Returns the size of an element; `None` if the column is not a tensor of whole parts of its datatype.
fn checked_size(column: &Column) -> Option<usize> {
    let size = column.datatype.size()?;
    let is_uniform = column.parts.iter().all(|part| part.datatype == column.datatype);
    (is_uniform && gather::check(column, size).is_ok()).then_some(size)
}
