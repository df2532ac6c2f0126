//! Estimate of the memory that a request message takes once decoded, computed from its encoded bytes alone.
//!
//! Few encoded bytes can take much memory: an empty tensor takes two bytes on the wire and hundreds in memory, and a
//! packed integer takes one byte on the wire and eight in memory. Therefore the message's tags are parsed before it is
//! decoded, and the memory of each field is counted. The bytes may arrive in pieces of any size. Field data is skipped,
//! except packed integers: the last byte of each is counted.

use bytes::Bytes;

use super::proto::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use super::proto::{InferParameter, InferTensorContents, ModelInferRequest};

/// Maximum number of tensors in a message: of inputs, of requested outputs and of raw contents each. Real models have
/// fewer than a hundred.
pub const MAX_TENSORS: usize = 4096;

/// Maximum number of parameters in a message, including those of its tensors. Real requests have about a dozen.
pub const MAX_PARAMETERS: usize = 4096;

/// Error of a message with more tensors or parameters than the limits allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyParts {
    /// There are more than [`MAX_TENSORS`] inputs, outputs or raw contents.
    #[error("the request has more than {MAX_TENSORS} tensors")]
    Tensors,
    /// There are more than [`MAX_PARAMETERS`] parameters.
    #[error("the request has more than {MAX_PARAMETERS} parameters")]
    Parameters,
}

/// Estimate that grows as the bytes of a message arrive.
#[derive(Clone, Debug)]
pub struct Footprint {
    root: Message,
    /// Length of the message in bytes; a field that claims to be longer is malformed.
    length: usize,
    /// Number of bytes read so far.
    offset: usize,
    /// Enclosing messages, the innermost last, with the offset of each message's end.
    open: Vec<(Message, usize)>,
    position: Position,
    inputs: usize,
    outputs: usize,
    raw: usize,
    parameters: usize,
    decoded: usize,
}

/// Kind of bytes that come next in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Tag(Varint),
    /// The value of a varint field.
    Value(Varint),
    Length(u64, Varint),
    /// Bytes of which only the length matters.
    Skip(usize),
    /// Packed varints: the bytes that remain, and the size in memory of each element.
    Packed(usize, usize),
    /// The message is not valid protobuf, so decoding will fail at the same position.
    Malformed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Varint {
    value: u64,
    bytes: u32,
}

/// A message whose fields are parsed; other messages are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// A `ModelInferRequest`, as the root message.
    Infer,
    Input,
    Output,
    Contents,
    /// A `RepositoryModelLoadRequest`, as the root message.
    Load,
}

/// Way in which a field takes memory when it is decoded.
enum Field {
    /// Varints, single or packed, with the size in memory of each element.
    Varints(usize),
    /// Numbers of a fixed size, single or packed, which is the same on the wire and in memory.
    Fixed(usize),
    /// One string or byte string in a vector.
    Bytes,
    /// A name or other text.
    Text,
    Parameter,
    Raw,
    Message(Message),
    Unknown,
}

/// Wire type of strings, byte strings, messages and packed numbers.
const LENGTH_DELIMITED: u8 = 2;

/// Factor for unused capacity: a vector doubles when it grows, so half of it may be unused, and the nodes of a tree are
/// at least half full.
const GROWTH: usize = 2;

/// Bytes of the smallest vectors of an input: its shape and one kind of contents, each with the initial capacity of
/// four elements.
const SMALLEST_VECTORS: usize = 2 * 4 * size_of::<i64>();

/// Bytes of a key and its parameter in a node of the tree.
const PARAMETER: usize = GROWTH * (size_of::<String>() + size_of::<InferParameter>());

impl Footprint {
    /// Returns the estimate of a `ModelInferRequest` of `length` bytes, none of which has arrived.
    #[must_use]
    pub fn of_infer(length: usize) -> Self {
        Self::of(Message::Infer, length)
    }

    /// Returns the estimate of a `RepositoryModelLoadRequest` of `length` bytes, none of which has arrived.
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

    /// Returns the estimated bytes of memory so far, not including the encoded bytes themselves.
    #[must_use]
    pub fn decoded_bytes(&self) -> usize {
        self.decoded
    }

    /// Parses the next bytes of the message.
    ///
    /// # Errors
    /// [`TooManyParts`] as soon as the message has more tensors or parameters than the limits allow.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), TooManyParts> {
        while let Some((&byte, rest)) = bytes.split_first() {
            match self.position {
                Position::Tag(Varint { bytes: 0, .. })
                    if let [tag @ ..0x80, length @ ..0x80, rest @ ..] = bytes
                        && tag & 7 == LENGTH_DELIMITED =>
                {
                    // Fast path for almost all fields, which have a low number and a short length. The state machine
                    // below would take two steps for them.
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

    /// Takes the next byte of a varint, and acts on the value once it is complete.
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
            // The fields of a group are read as fields of this message, which may count too much but never too little.
            3 | 4 => self.advance(Position::Skip(0)),
            _ => self.position = Position::Malformed,
        }
    }

    /// Returns how a field of the innermost open message takes memory.
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

    /// Starts the content of a length-delimited field.
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

    /// Continues with `next`, or with the following tag if nothing of `next` is left.
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

/// Returns the bytes of memory that a decoded request holds for its inputs: tensor data and descriptions.
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
