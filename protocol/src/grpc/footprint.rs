//! The memory that a request message will take once decoded, from its bytes alone.
//!
//! A message says much in few bytes: an empty tensor takes two on the wire and hundreds in memory, a packed
//! integer one and eight. So its tags are read before it is decoded, and what it asks for is counted. The bytes
//! may come in any pieces; data is skipped, but for packed integers, whose ends are counted.

use bytes::Bytes;

use super::proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::proto::{InferParameter, InferTensorContents, ModelInferRequest};

/// Most tensors of a message: inputs, requested outputs and raw contents each. Real models have fewer than a hundred.
pub const MAX_TENSORS: usize = 4096;

/// Most parameters of a message, those of its tensors included. Real requests have a dozen.
pub const MAX_PARAMETERS: usize = 4096;

/// The error of a message with more tensors or parameters than any model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyParts {
    /// More than [`MAX_TENSORS`] inputs, outputs or raw contents.
    #[error("the request has more than {MAX_TENSORS} tensors")]
    Tensors,
    /// More than [`MAX_PARAMETERS`] parameters.
    #[error("the request has more than {MAX_PARAMETERS} parameters")]
    Parameters,
}

/// An estimate that grows as the bytes of a message come.
#[derive(Clone, Debug)]
pub struct Footprint {
    root: Message,
    /// Length of the message; what claims to be longer is malformed.
    length: usize,
    /// Bytes seen since the beginning of the message.
    offset: usize,
    /// Messages that are open, the innermost last, with the offset of their ends.
    open: Vec<(Message, usize)>,
    position: Position,
    inputs: usize,
    outputs: usize,
    raw: usize,
    parameters: usize,
    decoded: usize,
}

/// The part of the message that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Tag(Varint),
    /// The value of a field that is a varint.
    Value(Varint),
    Length(u64, Varint),
    /// Bytes that say nothing about memory.
    Skip(usize),
    /// Packed varints, each of which becomes an element of that many bytes.
    Packed(usize, usize),
    /// Not protobuf: decoding will fail here as well.
    Malformed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Varint {
    value: u64,
    bytes: u32,
}

/// A message whose fields are read; others are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// The message `ModelInferRequest` itself.
    Infer,
    Input,
    Output,
    Contents,
    /// The message `RepositoryModelLoadRequest` itself.
    Load,
}

/// The meaning of a field for memory.
enum Field {
    /// Varints, alone or packed, in elements of that many bytes.
    Varints(usize),
    /// Numbers of a fixed size on the wire, alone or packed, as large in memory.
    Fixed(usize),
    /// One string or byte string of a vector.
    Bytes,
    /// A name or another text.
    Text,
    Parameter,
    Raw,
    Message(Message),
    Unknown,
}

/// Wire type of strings, bytes, messages and packed numbers.
const LENGTH_DELIMITED: u8 = 2;

/// A vector that grows doubles, so that half of it may be spare; a tree's nodes are half full at worst.
const GROWTH: usize = 2;

/// A vector has room for four elements at once: a shape's, and those of one kind of contents.
const SMALLEST_VECTORS: usize = 2 * 4 * size_of::<i64>();

/// A key and its parameter in a tree's node.
const PARAMETER: usize = GROWTH * (size_of::<String>() + size_of::<InferParameter>());

impl Footprint {
    /// The estimate of a `ModelInferRequest` of `length` bytes, of which none has come yet.
    #[must_use]
    pub fn of_infer(length: usize) -> Self {
        Self::of(Message::Infer, length)
    }

    /// The estimate of a `RepositoryModelLoadRequest` of `length` bytes, of which none has come yet.
    #[must_use]
    pub fn of_load(length: usize) -> Self {
        Self::of(Message::Load, length)
    }

    fn of(root: Message, length: usize) -> Self {
        Self {
            root,
            length,
            offset: 0,
            open: Vec::new(),
            position: Position::Tag(Varint::default()),
            inputs: 0,
            outputs: 0,
            raw: 0,
            parameters: 0,
            decoded: size_of::<ModelInferRequest>(),
        }
    }

    /// Bytes of memory that the message takes so far, beside the bytes it came in.
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.decoded
    }

    /// Reads the next bytes of the message.
    ///
    /// # Errors
    /// [`TooManyParts`] as soon as the message has more tensors or parameters than are taken.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), TooManyParts> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.position {
                Position::Tag(Varint { bytes: 0, .. })
                    if let [tag @ ..0x80, length @ ..0x80, rest @ ..] = bytes
                        && tag & 7 == LENGTH_DELIMITED =>
                {
                    // As almost all fields are: a low number, and short. Byte by byte, each would take two steps of the machine below.
                    bytes = rest;
                    self.offset += 2;
                    self.length(u64::from(tag >> 3), u64::from(*length))?;
                }
                Position::Skip(left) => {
                    let taken = left.min(bytes.len());
                    bytes = &bytes[taken..];
                    self.offset += taken;
                    self.advance(Position::Skip(left - taken));
                }
                Position::Packed(left, element) => {
                    let taken = left.min(bytes.len());
                    let ends = bytes[..taken].iter().filter(|byte| **byte < 0x80).count();
                    self.elements(ends, element);
                    bytes = &bytes[taken..];
                    self.offset += taken;
                    self.advance(Position::Packed(left - taken, element));
                }
                Position::Malformed => return Ok(()),
                Position::Tag(varint) | Position::Value(varint) | Position::Length(_, varint) => {
                    bytes = rest;
                    self.offset += 1;
                    self.varint(varint, byte)?;
                }
            }
        }
        Ok(())
    }

    /// Takes the next byte of a varint, and what follows from the whole.
    fn varint(&mut self, mut varint: Varint, byte: u8) -> Result<(), TooManyParts> {
        varint.value |= u64::from(byte & 0x7f) << (7 * varint.bytes).min(63);
        varint.bytes += 1;
        let is_open = byte >= 0x80;
        if is_open && varint.bytes >= 10 {
            self.position = Position::Malformed;
            return Ok(());
        }
        match self.position {
            Position::Tag(_) if is_open => self.position = Position::Tag(varint),
            Position::Value(_) if is_open => self.position = Position::Value(varint),
            Position::Length(field, _) if is_open => {
                self.position = Position::Length(field, varint);
            }
            Position::Tag(_) => self.tag(varint.value),
            Position::Length(field, _) => return self.length(field, varint.value),
            Position::Value(_) | Position::Skip(_) | Position::Packed(..) | Position::Malformed => {
                self.advance(Position::Skip(0));
            }
        }
        Ok(())
    }

    fn tag(&mut self, tag: u64) {
        let (field, wire_type) = (tag >> 3, tag & 7);
        match (wire_type, self.field(field)) {
            (0, Field::Varints(element)) | (1 | 5, Field::Fixed(element)) => {
                self.elements(1, element);
            }
            _ => {}
        }
        match wire_type {
            0 => self.position = Position::Value(Varint::default()),
            1 => self.advance(Position::Skip(8)),
            2 => self.position = Position::Length(field, Varint::default()),
            5 => self.advance(Position::Skip(4)),
            // A group's fields are read as this message's, which counts too much and never too little.
            3 | 4 => self.advance(Position::Skip(0)),
            _ => self.position = Position::Malformed,
        }
    }

    /// The meaning of a field of the innermost open message.
    fn field(&self, number: u64) -> Field {
        let message = self.open.last().map_or(self.root, |(message, _)| *message);
        match (message, number) {
            (Message::Infer, 1..=3) | (Message::Load | Message::Input, 1 | 2) | (Message::Output, 1) => Field::Text,
            (Message::Infer | Message::Input, 4) | (Message::Output, 2) | (Message::Load, 3) => Field::Parameter,
            (Message::Infer, 5) => Field::Message(Message::Input),
            (Message::Infer, 6) => Field::Message(Message::Output),
            (Message::Infer, 7) => Field::Raw,
            (Message::Input, 5) => Field::Message(Message::Contents),
            (Message::Contents, 1) => Field::Varints(size_of::<bool>()),
            (Message::Contents, 2 | 4) => Field::Varints(size_of::<i32>()),
            (Message::Input, 3) | (Message::Contents, 3 | 5) => Field::Varints(size_of::<i64>()),
            (Message::Contents, 6) => Field::Fixed(size_of::<f32>()),
            (Message::Contents, 7) => Field::Fixed(size_of::<f64>()),
            (Message::Contents, 8) => Field::Bytes,
            _ => Field::Unknown,
        }
    }

    /// Takes a field whose length is known now.
    fn length(&mut self, field: u64, length: u64) -> Result<(), TooManyParts> {
        let end = usize::try_from(length).ok().and_then(|length| self.offset.checked_add(length));
        let outer = self.open.last().map_or(self.length, |(_, end)| *end);
        let Some(end) = end.filter(|end| *end <= outer) else {
            self.position = Position::Malformed;
            return Ok(());
        };
        let length = end - self.offset;
        let mut next = Position::Skip(length);
        match self.field(field) {
            Field::Varints(element) => next = Position::Packed(length, element),
            Field::Fixed(element) => self.elements(length / element, element),
            Field::Bytes => self.elements(1, size_of::<Bytes>()),
            Field::Text => self.decoded += length,
            Field::Parameter => {
                count(&mut self.parameters, MAX_PARAMETERS, TooManyParts::Parameters)?;
                self.decoded += PARAMETER + length;
            }
            Field::Raw => {
                count(&mut self.raw, MAX_TENSORS, TooManyParts::Tensors)?;
                self.decoded += GROWTH * size_of::<Bytes>();
            }
            Field::Message(message) => {
                self.begin(message)?;
                self.open.push((message, end));
                next = Position::Skip(0);
            }
            Field::Unknown => {}
        }
        self.advance(next);
        Ok(())
    }

    fn begin(&mut self, message: Message) -> Result<(), TooManyParts> {
        let (tensors, size) = match message {
            Message::Input => (&mut self.inputs, size_of::<InferInputTensor>() + SMALLEST_VECTORS),
            Message::Output => (&mut self.outputs, size_of::<InferRequestedOutputTensor>()),
            Message::Infer | Message::Contents | Message::Load => return Ok(()),
        };
        self.decoded += GROWTH * size;
        count(tensors, MAX_TENSORS, TooManyParts::Tensors)
    }

    fn elements(&mut self, count: usize, size: usize) {
        self.decoded += GROWTH * count * size;
    }

    /// Goes on at `next`, or after it where nothing of it is left.
    fn advance(&mut self, next: Position) {
        let is_left = match next {
            Position::Skip(left) | Position::Packed(left, _) => left > 0,
            Position::Tag(_) | Position::Value(_) | Position::Length(..) | Position::Malformed => true,
        };
        if is_left {
            self.position = next;
            return;
        }
        while self.open.last().is_some_and(|(_, end)| *end <= self.offset) {
            self.open.pop();
        }
        self.position = Position::Tag(Varint::default());
    }
}

fn count(counted: &mut usize, limit: usize, error: TooManyParts) -> Result<(), TooManyParts> {
    *counted += 1;
    if *counted > limit { Err(error) } else { Ok(()) }
}

/// Bytes that a decoded request holds: its tensors' data, and what it says of them.
#[must_use]
pub fn held_bytes(request: &ModelInferRequest) -> usize {
    let raw = request.raw_input_contents.iter().map(Bytes::len);
    let inputs = request.inputs.iter().map(|input| {
        let contents = input.contents.as_ref().map_or(0, contents_bytes);
        size_of::<InferInputTensor>() + input.shape.capacity() * size_of::<i64>() + contents
    });
    raw.chain(inputs).sum()
}

fn contents_bytes(contents: &InferTensorContents) -> usize {
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let strings = bytes_contents.iter().map(Bytes::len).sum::<usize>();
    bool_contents.capacity()
        + size_of::<i32>() * (int_contents.capacity() + uint_contents.capacity())
        + size_of::<i64>() * (int64_contents.capacity() + uint64_contents.capacity())
        + size_of::<f32>() * fp32_contents.capacity()
        + size_of::<f64>() * fp64_contents.capacity()
        + size_of::<Bytes>() * bytes_contents.capacity()
        + strings
}

#[cfg(test)]
mod tests;
