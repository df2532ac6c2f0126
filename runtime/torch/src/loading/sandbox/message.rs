//! Messages between a server and a child. Each has the lengths of a JSON text and of the tensors' bytes, then both.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::OnceLock;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_protocol::{DataType, Shape, Tensor};
use weir_runtime::backend::{LoadError, ModelSource, RequestTensor, Signature, WarmUpInput, WarmUpSample};

use crate::loading::Remark;

/// Largest length of each part of a message, in bytes: no example and no warm-up row is larger.
const LONGEST: u64 = 1 << 30;

/// A load to try.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) source: ModelSource,
    /// The reason not to try batches, if an earlier child ended while it tried them.
    pub(crate) doubt: Option<String>,
    /// The tensors of the source's example, which the JSON text of `source` leaves out.
    pub(crate) example: Option<Vec<TensorData>>,
    /// Samples of the model's configuration.
    pub(crate) samples: Vec<SampleData>,
    pub(crate) scope: Scope,
    /// Directory for the child's temporary files, which the server deletes even if the child dies; `None` if the child
    /// makes none.
    pub(crate) scratch: Option<PathBuf>,
}

/// Runs that a child tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Scope {
    /// All runs that a load tries.
    All,
    /// Only the samples of `model_warmup`, which an earlier child did not reach.
    Samples,
}

/// A [`WarmUpSample`] in the form in which messages carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SampleData {
    name: String,
    inputs: Vec<TensorData>,
}

/// The stage of a trial that a child has entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The child loads the file.
    Load,
    /// The child searches for inputs that the model accepts.
    Inputs,
    /// The child runs rows beside other rows, including NaN and huge numbers.
    Batches,
    /// The signature is known, and the child runs the sample with this index.
    Sample(usize),
    /// The child runs the batches that the server runs before the model is ready.
    WarmUp,
}

/// A message of a child to its server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Report {
    Stage(Stage),
    Signature(Signature),
    Remark(Remark),
    /// The module optimised for inference is faster than the saved one.
    Optimised,
    /// An input that the model has run on.
    WarmUp(WarmUpData),
    Done,
    Refused {
        kind: RefusalKind,
        text: String,
    },
    /// The child has ended in this way, as its fork server reports.
    Ended(Death),
}

/// The way a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Death {
    Signal(i32),
    Exit(i32),
}

/// The variant of a [`LoadError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum RefusalKind {
    File,
    Config,
    Device,
    Warmup,
}

/// A tensor, whose bytes follow the message's text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TensorData {
    name: String,
    datatype: String,
    dims: Vec<i64>,
    size: usize,
    #[serde(skip)]
    data: Bytes,
}

/// A [`WarmUpInput`] in the form in which messages carry it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WarmUpData {
    length: Option<usize>,
    most_rows: usize,
    row: Vec<Option<TensorData>>,
}

impl Death {
    /// Returns true if another child would end in the same way. Signals that come from outside, as from the kernel when
    /// memory is short, say nothing about the next child.
    pub(super) fn is_lasting(self) -> bool {
        match self {
            Self::Signal(signal) => !matches!(signal, libc::SIGKILL | libc::SIGTERM | libc::SIGINT),
            Self::Exit(_) => true,
        }
    }

    /// Returns the way the trial ended, in words that follow "the trial".
    pub(crate) fn text(self) -> String {
        match self {
            Self::Signal(libc::SIGPROF) => "had a run that did not end".to_owned(),
            Self::Signal(libc::SIGKILL) => "was killed, as a process is that takes too much memory".to_owned(),
            Self::Signal(signal) => format!("ended its process by signal {signal}{}", name(signal)),
            Self::Exit(code) => format!("ended its process with exit code {code}"),
        }
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGILL => " (SIGILL)",
        _ => "",
    }
}

impl RefusalKind {
    pub(crate) fn error(self, text: String) -> LoadError {
        match self {
            Self::File => LoadError::File(text),
            Self::Config => LoadError::Config(text),
            Self::Device => LoadError::Device(text),
            Self::Warmup => LoadError::Warmup(text),
        }
    }
}

impl Report {
    pub(crate) fn refused(error: LoadError) -> Self {
        let (kind, text) = match error {
            LoadError::File(text) => (RefusalKind::File, text),
            LoadError::Config(text) => (RefusalKind::Config, text),
            LoadError::Device(text) => (RefusalKind::Device, text),
            LoadError::Warmup(text) => (RefusalKind::Warmup, text),
        };
        Self::Refused { kind, text }
    }
}

impl Request {
    pub(crate) fn new(source: &ModelSource) -> Self {
        let example = source.example.as_ref();
        Self {
            source: source.clone(),
            doubt: None,
            example: example.map(|tensors| tensors.iter().map(TensorData::of).collect()),
            samples: source.samples.iter().map(SampleData::of).collect(),
            scope: Scope::All,
            scratch: None,
        }
    }

    /// Returns the source, including its example and its samples.
    pub(crate) fn into_source(self) -> io::Result<ModelSource> {
        let tensors = self.example.map(|tensors| {
            let tensors = tensors.into_iter().map(TensorData::into_tensor);
            tensors.collect::<io::Result<Vec<_>>>()
        });
        let samples = self.samples.into_iter().map(SampleData::into_sample);
        let samples = samples.collect::<io::Result<Vec<_>>>()?;
        Ok(ModelSource { example: tensors.transpose()?, samples, ..self.source })
    }
}

impl SampleData {
    fn of(sample: &WarmUpSample) -> Self {
        let inputs = sample.inputs.iter();
        let inputs = inputs.map(|(name, part)| TensorData { name: name.clone(), ..TensorData::of_part(part) });
        Self { name: sample.name.clone(), inputs: inputs.collect() }
    }

    fn into_sample(self) -> io::Result<WarmUpSample> {
        let inputs = self.inputs.into_iter().map(|mut input| {
            let name = std::mem::take(&mut input.name);
            Ok((name, input.into_part()?))
        });
        Ok(WarmUpSample { name: self.name, inputs: inputs.collect::<io::Result<_>>()? })
    }
}

impl TensorData {
    fn of(tensor: &Tensor) -> Self {
        Self {
            name: tensor.name().to_owned(),
            datatype: tensor.datatype().name().to_owned(),
            dims: tensor.shape().signed().collect(),
            size: tensor.data().len(),
            data: tensor.data().clone(),
        }
    }

    fn of_part(part: &RequestTensor) -> Self {
        Self {
            name: String::new(),
            datatype: part.datatype.name().to_owned(),
            dims: part.shape.signed().collect(),
            size: part.data.len(),
            data: part.data.clone(),
        }
    }

    fn into_tensor(self) -> io::Result<Tensor> {
        let (datatype, shape) = self.typed()?;
        Tensor::new(self.name, datatype, shape, self.data).map_err(invalid)
    }

    fn into_part(self) -> io::Result<RequestTensor> {
        let (datatype, shape) = self.typed()?;
        Ok(RequestTensor { shape, datatype, data: self.data })
    }

    fn typed(&self) -> io::Result<(DataType, Shape)> {
        let datatype = DataType::parse(&self.datatype).ok_or_else(|| invalid("no datatype"))?;
        Ok((datatype, Shape::new(&self.dims).map_err(invalid)?))
    }
}

impl WarmUpData {
    pub(crate) fn of(input: &WarmUpInput) -> Self {
        let row = input.row.iter();
        Self {
            length: input.length,
            most_rows: input.most_rows,
            row: row.map(|part| part.as_ref().map(TensorData::of_part)).collect(),
        }
    }

    pub(crate) fn into_input(self) -> io::Result<WarmUpInput> {
        let row = self.row.into_iter();
        let row = row.map(|part| part.map(TensorData::into_part).transpose());
        Ok(WarmUpInput { length: self.length, most_rows: self.most_rows, row: row.collect::<io::Result<_>>()? })
    }
}

/// A message that may carry tensors.
pub(super) trait Message: Serialize + DeserializeOwned {
    /// Returns the message's tensors, in the order of their bytes.
    fn tensors(&mut self) -> Vec<&mut TensorData>;
}

impl Message for Request {
    fn tensors(&mut self) -> Vec<&mut TensorData> {
        let samples = self.samples.iter_mut().flat_map(|sample| &mut sample.inputs);
        self.example.iter_mut().flatten().chain(samples).collect()
    }
}

impl Message for Report {
    fn tensors(&mut self) -> Vec<&mut TensorData> {
        match self {
            Self::WarmUp(input) => input.row.iter_mut().flatten().collect(),
            Self::Stage(_)
            | Self::Signature(_)
            | Self::Remark(_)
            | Self::Optimised
            | Self::Done
            | Self::Refused { .. }
            | Self::Ended(_) => Vec::new(),
        }
    }
}

/// Writes a message to the socket.
///
/// # Errors
/// An I/O error when the other process is gone, or a path in the message is not UTF-8.
pub(super) fn write<M: Message + Clone>(mut to: &UnixStream, message: &M) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    let mut message = message.clone();
    let tensors = message.tensors();
    let bytes: usize = tensors.iter().map(|tensor| tensor.data.len()).sum();
    let mut head = Vec::with_capacity(16 + text.len());
    head.extend_from_slice(&(text.len() as u64).to_le_bytes());
    head.extend_from_slice(&(bytes as u64).to_le_bytes());
    head.extend_from_slice(&text);
    to.write_all(&head)?;
    for tensor in tensors {
        to.write_all(&tensor.data)?;
    }
    Ok(())
}

/// Reads a message from the socket.
///
/// # Errors
/// An I/O error when the other process is gone, has not written in time, or has written an invalid message.
pub(super) fn read<M: Message>(from: &UnixStream) -> io::Result<M> {
    let [text, bytes] = [length(from)?, length(from)?];
    let mut message: M = serde_json::from_slice(&take(from, text)?)?;
    let mut data = take(from, bytes)?;
    for tensor in message.tensors() {
        if tensor.size > data.len() {
            return Err(invalid("a tensor has too few bytes"));
        }
        tensor.data = data.split_to(tensor.size);
    }
    Ok(message)
}

fn length(mut from: &UnixStream) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    let length = u64::from_le_bytes(bytes);
    if length > LONGEST {
        return Err(invalid("a message is too long"));
    }
    Ok(length)
}

fn take(from: &UnixStream, length: u64) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Bytes::from(bytes))
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The socket of this child; unset in a process that is not a child.
static SERVER: OnceLock<UnixStream> = OnceLock::new();

/// Makes this process a child that reports on the socket.
pub(super) fn begin(stream: UnixStream) {
    let _ = SERVER.set(stream);
}

/// Reads the request of this child; `None` if it cannot be read.
pub(crate) fn request() -> Option<Request> {
    read(SERVER.get()?).ok()
}

/// Sends a report. Errors are ignored: if the server is gone, the fork server ends this process.
pub(crate) fn report(report: &Report) {
    if let Some(stream) = SERVER.get() {
        let _ = write(stream, report);
    }
}

/// Reports the next stage, so that the server knows which stage ended this process.
pub(crate) fn enter(stage: Stage) {
    report(&Report::Stage(stage));
}
