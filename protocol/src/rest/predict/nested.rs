//! Nested arrays whose shape is told by their nesting.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smallvec::SmallVec;

use super::super::RestError;
use super::super::elements::push_string;
use super::super::error::InField;
use super::super::tensor_data::Wanted;
use super::fault;
use crate::DataType;
use crate::json::Reader;

/// What is known of a tensor's shape while it is read. Kept from row to row, it makes sure that rows
/// are alike.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    /// Length of the arrays of each level, once one of them has ended.
    lengths: SmallVec<[Option<usize>; 8]>,
    /// Levels above the scalars, once there was a scalar or an empty array.
    rank: Option<usize>,
}

impl Nesting {
    /// Reads one value, scalar or arrays within arrays, and appends its scalars to `data`.
    pub(super) fn read(
        &mut self,
        reader: &mut Reader<'_>,
        wanted: &Wanted<'_>,
        data: &mut Vec<u8>,
    ) -> Result<(), RestError> {
        let mut counts: SmallVec<[usize; 8]> = SmallVec::new();
        loop {
            if reader.at_array() {
                reader.begin_array().field(wanted.name)?;
                counts.push(0);
            } else {
                self.settle_rank(counts.len(), wanted)?;
                scalar(reader, wanted, data)?;
            }
            // Leave the arrays that end here, then go on with the next element.
            loop {
                if counts.is_empty() {
                    return Ok(());
                }
                if reader.element().field(wanted.name)? {
                    break;
                }
                self.leave(&mut counts, wanted)?;
            }
            if let Some(count) = counts.last_mut() {
                *count += 1;
            }
        }
    }

    /// The dimensions of one value.
    pub(super) fn dims(&self) -> impl Iterator<Item = usize> + '_ {
        let rank = self.rank.unwrap_or(0);
        self.lengths
            .iter()
            .take(rank)
            .map(|length| length.unwrap_or(0))
    }

    fn leave(
        &mut self,
        counts: &mut SmallVec<[usize; 8]>,
        wanted: &Wanted<'_>,
    ) -> Result<(), RestError> {
        let level = counts.len();
        let Some(count) = counts.pop() else {
            return Ok(());
        };
        if count == 0 {
            self.settle_rank(level, wanted)?;
        }
        if self.lengths.len() < level {
            self.lengths.resize(level, None);
        }
        match &mut self.lengths[level - 1] {
            Some(length) if *length != count => Err(ragged(wanted)),
            length => {
                *length = Some(count);
                Ok(())
            }
        }
    }

    fn settle_rank(&mut self, level: usize, wanted: &Wanted<'_>) -> Result<(), RestError> {
        if *self.rank.get_or_insert(level) == level {
            Ok(())
        } else {
            Err(ragged(wanted))
        }
    }
}

fn ragged(wanted: &Wanted<'_>) -> RestError {
    fault(format!(
        "input '{}' is ragged: its arrays differ in length or depth",
        wanted.name
    ))
}

/// Whether a `{"b64": …}` follows: an object that begins with that key and has no other.
pub(super) fn at_base64(reader: &Reader<'_>) -> bool {
    let mut ahead = reader.clone();
    ahead.begin_object().is_ok()
        && matches!(ahead.key(), Ok(Some(key)) if key == "b64")
        && ahead.skip().is_ok()
        && matches!(ahead.key(), Ok(None))
}

fn scalar(
    reader: &mut Reader<'_>,
    wanted: &Wanted<'_>,
    data: &mut Vec<u8>,
) -> Result<(), RestError> {
    if wanted.datatype != DataType::Bytes || !at_base64(reader) {
        return wanted.scalar(reader, data);
    }
    reader.begin_object().field(wanted.name)?;
    reader.key().field(wanted.name)?;
    let text = reader.string().field("b64")?;
    let bytes = STANDARD.decode(text.as_bytes());
    let bytes = bytes.map_err(|error| RestError::field("b64", error.to_string()))?;
    reader.key().field(wanted.name)?;
    push_string(data, &bytes).ok_or_else(|| RestError::field("b64", "string is too long"))
}
