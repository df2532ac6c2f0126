//! The `data` of an input: JSON text straight into one typed buffer.

use bytes::Bytes;

use super::RestError;
use super::elements;
use crate::DataType;
use crate::json::{JsonError, Reader};

/// The input that data is read for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// Its name, for messages.
    pub(super) name: &'a str,
    /// The member that holds the data, for messages.
    pub(super) field: &'a str,
    /// Its element type.
    pub(super) datatype: DataType,
    /// Bytes that the data may take at most.
    pub(super) max_bytes: usize,
}

/// Why a walk over elements ended early. Small, because it passes through the innermost loop.
enum Stop {
    Json(JsonError),
    TooMany,
    TooLarge(usize),
}

impl From<JsonError> for Stop {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl Wanted<'_> {
    /// Reads an array of exactly `elements` scalars, however they are nested: V2 lets clients send
    /// tensors flat or nested, and like Triton we only count.
    pub(super) fn array(
        &self,
        reader: &mut Reader<'_>,
        elements: usize,
    ) -> Result<Bytes, RestError> {
        self.refuse_half()?;
        let size = self.datatype.size();
        self.check_size(elements.saturating_mul(size.unwrap_or(4)))?;
        // A scalar takes two bytes of text at least, so a shape that lies cannot make us reserve
        // more than a multiple of what was sent.
        let likely = elements.min(reader.remaining() / 2 + 1);
        let mut data = Vec::with_capacity(likely * size.unwrap_or(4));
        let count = self.walk(reader, elements, &mut data);
        let count = count.map_err(|stop| self.explain(reader.text(), stop))?;
        self.check_size(data.len())?;
        if count == elements {
            Ok(data.into())
        } else {
            Err(self.miscounted())
        }
    }

    /// Reads a scalar or an array of however many, and returns the bytes with their count.
    pub(super) fn any(&self, reader: &mut Reader<'_>) -> Result<(Bytes, usize), RestError> {
        self.refuse_half()?;
        let mut data = Vec::new();
        let count = if reader.at_array() {
            self.walk(reader, usize::MAX, &mut data)
        } else {
            elements::read(reader, self.datatype, &mut data)
                .map(|()| 1)
                .map_err(Stop::Json)
        };
        let count = count.map_err(|stop| self.explain(reader.text(), stop))?;
        self.check_size(data.len())?;
        Ok((data.into(), count))
    }

    /// Reads one scalar; V1 uses it where nesting matters.
    pub(super) fn scalar(
        &self,
        reader: &mut Reader<'_>,
        data: &mut Vec<u8>,
    ) -> Result<(), RestError> {
        elements::read(reader, self.datatype, data)
            .map_err(|error| self.explain(reader.text(), Stop::Json(error)))?;
        self.check_size(data.len())
    }

    /// Picks the loop for the datatype once, not per element.
    fn walk(
        &self,
        reader: &mut Reader<'_>,
        elements: usize,
        data: &mut Vec<u8>,
    ) -> Result<usize, Stop> {
        match self.datatype {
            DataType::Bool => self.run(reader, data, elements, DataType::Bool),
            DataType::Uint8 => self.run(reader, data, elements, DataType::Uint8),
            DataType::Uint16 => self.run(reader, data, elements, DataType::Uint16),
            DataType::Uint32 => self.run(reader, data, elements, DataType::Uint32),
            DataType::Uint64 => self.run(reader, data, elements, DataType::Uint64),
            DataType::Int8 => self.run(reader, data, elements, DataType::Int8),
            DataType::Int16 => self.run(reader, data, elements, DataType::Int16),
            DataType::Int32 => self.run(reader, data, elements, DataType::Int32),
            DataType::Int64 => self.run(reader, data, elements, DataType::Int64),
            DataType::Fp16 => self.run(reader, data, elements, DataType::Fp16),
            DataType::Fp32 => self.run(reader, data, elements, DataType::Fp32),
            DataType::Fp64 => self.run(reader, data, elements, DataType::Fp64),
            DataType::Bf16 => self.run(reader, data, elements, DataType::Bf16),
            DataType::Bytes => self.run(reader, data, elements, DataType::Bytes),
        }
    }

    /// Reads scalars up to the end of the array. `datatype` is a constant at each place that calls
    /// this, so every datatype gets a loop of its own.
    #[inline(always)]
    fn run(
        &self,
        reader: &mut Reader<'_>,
        data: &mut Vec<u8>,
        elements: usize,
        datatype: DataType,
    ) -> Result<usize, Stop> {
        let outside = reader.depth();
        reader.begin_array()?;
        let mut count = 0;
        loop {
            if !reader.element()? {
                if reader.depth() == outside {
                    return Ok(count);
                }
            } else if reader.at_array() {
                reader.begin_array()?;
            } else if count == elements {
                return Err(Stop::TooMany);
            } else if data.len() > self.max_bytes {
                return Err(Stop::TooLarge(data.len()));
            } else {
                elements::read(reader, datatype, data)?;
                count += 1;
            }
        }
    }

    fn refuse_half(&self) -> Result<(), RestError> {
        if matches!(self.datatype, DataType::Fp16 | DataType::Bf16) {
            return Err(RestError::HalfInput {
                datatype: self.datatype,
                input: self.name.to_owned(),
            });
        }
        Ok(())
    }

    fn check_size(&self, size: usize) -> Result<(), RestError> {
        if size > self.max_bytes {
            return Err(RestError::DataTooLarge {
                input: self.name.to_owned(),
                size,
                limit: self.max_bytes,
            });
        }
        Ok(())
    }

    fn miscounted(&self) -> RestError {
        RestError::DataCount {
            input: self.name.to_owned(),
        }
    }

    #[cold]
    fn explain(&self, text: &[u8], stop: Stop) -> RestError {
        match stop {
            Stop::TooMany => self.miscounted(),
            Stop::TooLarge(size) => RestError::DataTooLarge {
                input: self.name.to_owned(),
                size,
                limit: self.max_bytes,
            },
            Stop::Json(JsonError::OutOfRange(range)) => RestError::OutOfRange {
                field: self.field.to_owned(),
                value: excerpt(text.get(range).unwrap_or_default()),
                datatype: self.datatype,
                input: self.name.to_owned(),
            },
            Stop::Json(JsonError::Mismatch(expected)) => RestError::Element {
                field: self.field.to_owned(),
                reason: expected.reason(),
                input: self.name.to_owned(),
            },
            Stop::Json(error @ (JsonError::Syntax { .. } | JsonError::TooDeep)) => {
                RestError::reading(self.field, &error)
            }
        }
    }
}

/// The number as the client wrote it, cut where it is absurdly long.
fn excerpt(number: &[u8]) -> String {
    let cut = number.get(..40).unwrap_or(number);
    let dots = if cut.len() < number.len() { "…" } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(cut))
}
