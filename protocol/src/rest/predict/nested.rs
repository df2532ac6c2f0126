//! Reads nested arrays, whose nesting gives the tensor's shape.

use smallvec::SmallVec;

use super::super::elements::push_string;
use super::super::error::InField;
use super::super::tensor_data::DataDecoder;
use super::super::{RestError, decode_base64};
use super::predict_error;
use crate::DataType;
use crate::json::Reader;

/// Shape of a tensor as far as it has been read. It is kept from row to row, so that rows of different shapes are
/// refused.
#[derive(Debug, Default)]
pub(super) struct NestedShape {
    /// Length of the arrays at each level; `None` until one of them has ended.
    lengths: SmallVec<[Option<usize>; 8]>,
    /// Number of levels above the scalars; `None` until a scalar or an empty array was read.
    rank: Option<usize>,
}

impl NestedShape {
    /// Reads one value, a scalar or nested arrays, and appends its scalars to `data`.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        decoder: &DataDecoder<'_>,
        data: &mut Vec<u8>,
    ) -> Result<(), RestError> {
        let mut counts: SmallVec<[usize; 8]> = SmallVec::new();
        loop {
            if reader.at_array() {
                reader.begin_array().field(decoder.name)?;
                counts.push(0);
            } else {
                self.settle_rank(counts.len(), decoder)?;
                scalar(reader, decoder, data)?;
            }
            // Leave the arrays that end here, then continue with the next element.
            loop {
                if counts.is_empty() {
                    return Ok(());
                }
                if reader.element().field(decoder.name)? {
                    break;
                }
                self.leave(&mut counts, decoder)?;
            }
            if let Some(count) = counts.last_mut() {
                *count += 1;
            }
        }
    }

    /// Returns the dimensions of one value.
    pub(super) fn dims(&self) -> impl Iterator<Item = usize> + '_ {
        let rank = self.rank.unwrap_or(0);
        self.lengths.iter().take(rank).map(|length| length.unwrap_or(0))
    }

    fn leave(&mut self, counts: &mut SmallVec<[usize; 8]>, decoder: &DataDecoder<'_>) -> Result<(), RestError> {
        let level = counts.len();
        let Some(count) = counts.pop() else {
            return Ok(());
        };
        if count == 0 {
            self.settle_rank(level, decoder)?;
        }
        if self.lengths.len() < level {
            self.lengths.resize(level, None);
        }
        match &mut self.lengths[level - 1] {
            Some(length) if *length != count => Err(ragged(decoder)),
            length => {
                *length = Some(count);
                Ok(())
            }
        }
    }

    fn settle_rank(&mut self, level: usize, decoder: &DataDecoder<'_>) -> Result<(), RestError> {
        if *self.rank.get_or_insert(level) == level { Ok(()) } else { Err(ragged(decoder)) }
    }
}

fn ragged(decoder: &DataDecoder<'_>) -> RestError {
    predict_error(format!("input '{}' is ragged: its arrays differ in length or depth", decoder.name))
}

/// Returns true if the next value is `{"b64": …}`: an object with only that key.
pub(super) fn next_is_base64(reader: &Reader<'_>) -> bool {
    let mut ahead = reader.clone();
    ahead.begin_object().is_ok()
        && matches!(ahead.key(), Ok(Some(key)) if key == "b64")
        && ahead.skip().is_ok()
        && matches!(ahead.key(), Ok(None))
}

fn scalar(reader: &mut Reader<'_>, decoder: &DataDecoder<'_>, data: &mut Vec<u8>) -> Result<(), RestError> {
    if decoder.datatype != DataType::Bytes || !next_is_base64(reader) {
        return decoder.decode_scalar(reader, data);
    }
    reader.begin_object().field(decoder.name)?;
    reader.key().field(decoder.name)?;
    let text = reader.string().field("b64")?;
    let bytes = decode_base64(text).map_err(|error| RestError::field("b64", error.to_string()))?;
    reader.key().field(decoder.name)?;
    push_string(data, &bytes).ok_or_else(|| RestError::field("b64", "string is too long"))
}
