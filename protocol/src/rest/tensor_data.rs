//! Decodes the `data` of an input from JSON text straight into one typed buffer.

use bytes::Bytes;

use super::RestError;
use super::elements;
use super::nesting::Nesting;
use crate::json::{JsonError, Reader};
use crate::{DataType, Shape};

/// A decoder for the data of one input.
#[derive(Clone, Copy, Debug)]
pub(super) struct DataDecoder<'a> {
    /// Name of the input, for error messages.
    pub(super) name: &'a str,
    /// Member with the data, for error messages.
    pub(super) field: &'a str,
    /// Datatype of the elements.
    pub(super) datatype: DataType,
    /// Limit on the decoded data, in bytes.
    pub(super) max_bytes: usize,
}

/// Error of decoding the elements. The type is small because the innermost loop returns it.
enum ElementsError {
    Json(JsonError),
    TooMany,
    TooLarge(usize),
}

impl From<JsonError> for ElementsError {
    fn from(error: JsonError) -> Self {
        Self::Json(error)
    }
}

impl DataDecoder<'_> {
    /// Decodes an array of exactly as many scalars as the shape has elements. In V2, clients may send tensors flat or
    /// nested; data whose nesting differs from the shape is refused.
    pub(super) fn decode_array(&self, reader: &mut Reader<'_>, shape: &Shape) -> Result<Bytes, RestError> {
        let elements = shape.elements();
        self.refuse_half()?;
        let size = self.datatype.size();
        self.check_size(elements.saturating_mul(size.unwrap_or(4)))?;
        // A scalar takes at least two bytes of text, so a wrong shape reserves no more memory than a multiple of the
        // body.
        let likely = elements.min(reader.remaining() / 2 + 1);
        let mut data = Vec::with_capacity(likely * size.unwrap_or(4));
        let nesting = &mut Nesting::default();
        let count = self
            .decode_elements(reader, elements, nesting, &mut data)
            .map_err(|error| self.rest_error(reader.text(), error))?;
        self.check_size(data.len())?;
        if count == elements && !nesting.fits(shape.dims()) {
            return Err(RestError::DataNesting { input: self.name.to_owned() });
        }
        if count == elements { Ok(data.into()) } else { Err(self.count_error()) }
    }

    /// Decodes a scalar or an array of any length. Returns the bytes, the number of scalars and their nesting.
    pub(super) fn decode_any(&self, reader: &mut Reader<'_>) -> Result<(Bytes, usize, Nesting), RestError> {
        self.refuse_half()?;
        let (mut data, mut nesting) = (Vec::new(), Nesting::default());
        let count = if reader.at_array() {
            self.decode_elements(reader, usize::MAX, &mut nesting, &mut data)
        } else {
            elements::read(reader, self.datatype, &mut data).map(|()| 1).map_err(ElementsError::Json)
        };
        let count = count.map_err(|error| self.rest_error(reader.text(), error))?;
        self.check_size(data.len())?;
        Ok((data.into(), count, nesting))
    }

    /// Decodes one scalar, for V1, where the caller reads the nesting.
    pub(super) fn decode_scalar(&self, reader: &mut Reader<'_>, data: &mut Vec<u8>) -> Result<(), RestError> {
        elements::read(reader, self.datatype, data)
            .map_err(|error| self.rest_error(reader.text(), ElementsError::Json(error)))?;
        self.check_size(data.len())
    }

    /// Selects the loop for the datatype once, instead of for each element.
    fn decode_elements(
        &self,
        reader: &mut Reader<'_>,
        elements: usize,
        nesting: &mut Nesting,
        data: &mut Vec<u8>,
    ) -> Result<usize, ElementsError> {
        let out = (nesting, data);
        match self.datatype {
            DataType::Bool => self.decode_typed(reader, out, elements, DataType::Bool),
            DataType::Uint8 => self.decode_typed(reader, out, elements, DataType::Uint8),
            DataType::Uint16 => self.decode_typed(reader, out, elements, DataType::Uint16),
            DataType::Uint32 => self.decode_typed(reader, out, elements, DataType::Uint32),
            DataType::Uint64 => self.decode_typed(reader, out, elements, DataType::Uint64),
            DataType::Int8 => self.decode_typed(reader, out, elements, DataType::Int8),
            DataType::Int16 => self.decode_typed(reader, out, elements, DataType::Int16),
            DataType::Int32 => self.decode_typed(reader, out, elements, DataType::Int32),
            DataType::Int64 => self.decode_typed(reader, out, elements, DataType::Int64),
            DataType::Fp16 => self.decode_typed(reader, out, elements, DataType::Fp16),
            DataType::Fp32 => self.decode_typed(reader, out, elements, DataType::Fp32),
            DataType::Fp64 => self.decode_typed(reader, out, elements, DataType::Fp64),
            DataType::Bf16 => self.decode_typed(reader, out, elements, DataType::Bf16),
            DataType::Bytes => self.decode_typed(reader, out, elements, DataType::Bytes),
        }
    }

    /// Decodes scalars up to the end of the array. Every caller passes a constant `datatype`, so the compiler makes one
    /// loop per datatype.
    #[inline(always)]
    fn decode_typed(
        &self,
        reader: &mut Reader<'_>,
        (nesting, data): (&mut Nesting, &mut Vec<u8>),
        elements: usize,
        datatype: DataType,
    ) -> Result<usize, ElementsError> {
        let outside = reader.depth();
        reader.begin_array()?;
        let mut count = 0;
        loop {
            if !reader.element()? {
                nesting.close(count);
                if reader.depth() == outside {
                    return Ok(count);
                }
            } else if reader.at_array() {
                reader.begin_array()?;
                nesting.open(count);
            } else if count == elements {
                return Err(ElementsError::TooMany);
            } else if data.len() > self.max_bytes {
                return Err(ElementsError::TooLarge(data.len()));
            } else {
                elements::read(reader, datatype, data)?;
                count += 1;
            }
        }
    }

    fn refuse_half(&self) -> Result<(), RestError> {
        if matches!(self.datatype, DataType::Fp16 | DataType::Bf16) {
            return Err(RestError::HalfInput { datatype: self.datatype, input: self.name.to_owned() });
        }
        Ok(())
    }

    fn check_size(&self, size: usize) -> Result<(), RestError> {
        if size > self.max_bytes {
            return Err(RestError::DataTooLarge { input: self.name.to_owned(), size, limit: self.max_bytes });
        }
        Ok(())
    }

    fn count_error(&self) -> RestError {
        RestError::DataCount { input: self.name.to_owned() }
    }

    #[cold]
    fn rest_error(&self, text: &[u8], error: ElementsError) -> RestError {
        match error {
            ElementsError::TooMany => self.count_error(),
            ElementsError::TooLarge(size) => {
                RestError::DataTooLarge { input: self.name.to_owned(), size, limit: self.max_bytes }
            }
            ElementsError::Json(JsonError::OutOfRange(range)) => RestError::OutOfRange {
                field: self.field.to_owned(),
                value: excerpt(text.get(range).unwrap_or_default()),
                datatype: self.datatype,
                input: self.name.to_owned(),
            },
            ElementsError::Json(JsonError::Mismatch(expected)) => RestError::Element {
                field: self.field.to_owned(),
                reason: expected.reason(),
                input: self.name.to_owned(),
            },
            ElementsError::Json(error @ (JsonError::Syntax { .. } | JsonError::TooDeep)) => {
                RestError::from_json(self.field, &error)
            }
        }
    }
}

/// Returns the number as the client wrote it, at most the first 40 bytes.
fn excerpt(number: &[u8]) -> String {
    let cut = number.get(..40).unwrap_or(number);
    let dots = if cut.len() < number.len() { "…" } else { "" };
    format!("{}{dots}", String::from_utf8_lossy(cut))
}
