//! Generates rows to run, alone and beside each other.

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, RequestTensor};

use crate::execution::runner::Placement;
use crate::libtorch::element::{self, is_float};
use crate::loading::infer::samples::strings;
use crate::loading::infer::trial::{Rows, Trial};

/// A row of each input.
pub(super) type Row = Vec<Column>;

/// The elements of a row, relative to those of ordinary trials, which are floats in (0, 1] and integers 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherRows {
    /// Small elements, for the row under test, so that all other rows are larger or zero.
    Subject,
    /// The elements of ordinary trials.
    Alike,
    /// Zeros and empty strings.
    Zeros,
    /// Elements between those of ordinary trials and the large ones, for a second row under test.
    Medium,
    /// Much larger elements: true for all of BOOL, longer strings, integers raised by [`Increase`] because they may be
    /// indices.
    Large,
    /// Elements of the opposite sign, in signed types on the CPU; otherwise the same as `Alike`.
    Negative,
    /// Much larger elements of the opposite sign, in floats on the CPU; otherwise the same as `Large`.
    LargeNegative,
    /// NaN, in floats on the CPU; otherwise the same as `Alike`.
    NotANumber,
}

/// Inputs of the other rows that have the elements of the row under test. A model that joins rows by a key, or that
/// counts equal rows, shows that only beside such rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shared {
    Nothing,
    /// The input at this index.
    Input(usize),
    All,
}

impl Shared {
    pub(super) fn has(self, input: usize) -> bool {
        match self {
            Self::Nothing => false,
            Self::Input(shared) => shared == input,
            Self::All => true,
        }
    }
}

/// Amount by which integers may exceed 0 and 1, by input: as far as the model accepts. Without an increase, lengths,
/// counts and class numbers are nearly alike in all rows, which would hide that a model sizes every row by the largest
/// of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Increase(pub(super) Vec<u16>);

impl Increase {
    /// Increases to try, the largest first. All are even, small enough for a table of few rows and for a loop with one
    /// step per unit.
    pub(super) const TRIED: [u16; 3] = [16, 4, 2];

    pub(super) fn none(inputs: usize) -> Self {
        Self(vec![0; inputs])
    }

    /// Returns the least increase for the same inputs.
    pub(super) fn least(&self) -> Self {
        let [.., least] = Self::TRIED;
        Self(self.0.iter().map(|&reach| reach.min(least)).collect())
    }

    /// Returns the amount to add to an input's integers, of which a row has `elements`. The row under test gets an
    /// amount between `Alike` and `Large`; a row of one integer, such as a length, gets one less, because its integer
    /// starts one higher.
    fn raise(&self, input: usize, other_rows: OtherRows, elements: usize) -> f64 {
        let reach = f64::from(self.0.get(input).copied().unwrap_or(0));
        match other_rows {
            OtherRows::Subject if elements == 1 => (reach / 2.0 - 1.0).max(0.0),
            OtherRows::Subject => reach / 2.0,
            OtherRows::Large | OtherRows::LargeNegative => reach,
            OtherRows::Alike | OtherRows::Zeros | OtherRows::Medium | OtherRows::Negative | OtherRows::NotANumber => {
                0.0
            }
        }
    }
}

/// Factor of the row under test: a power of two, which every float type represents exactly.
const SMALL: f64 = 1.0 / 16.0;

/// Factor of large rows on the CPU, where a model that uses the values as indices merely fails.
const LARGE: f64 = 1000.0;

/// Factor of large rows on a GPU, where an out-of-range index makes the device unusable for all models. Indices this
/// small are in range of even small tables.
const LARGE_ON_GPU: f64 = 16.0;

/// Generates one row of each of the trial's inputs; `index` selects it in the trial's sequence of rows.
pub(super) fn row(
    trial: &Trial<'_>,
    index: usize,
    other_rows: OtherRows,
    (reach, placement): (&Increase, &Placement),
) -> Result<Row, String> {
    let mut columns = trial.columns(&Rows::Range(index..index + 1))?;
    for (input, column) in columns.iter_mut().enumerate() {
        let raise = reach.raise(input, other_rows, column.shape.elements());
        for part in &mut column.parts {
            part.data = scaled(column.datatype, &part.data, other_rows, placement);
            if raise > 0.0 && is_integer(column.datatype) {
                part.data = mapped(column.datatype, &part.data, |element| element + raise);
            }
        }
    }
    Ok(columns)
}

/// Joins rows into a batch.
pub(super) fn batch(rows: &[&Row]) -> Result<Vec<Column>, String> {
    let Some(first) = rows.first() else {
        return Err("a batch of no rows".to_owned());
    };
    let column = |(index, column): (usize, &Column)| {
        let inner = column.shape.signed().skip(1);
        let shape: Vec<i64> = std::iter::once(rows.len() as i64).chain(inner).collect();
        let shape = Shape::new(&shape).map_err(|error| error.to_string())?;
        let parts = rows.iter().filter_map(|row| row.get(index)).flat_map(|column| &column.parts);
        let data: Vec<u8> = parts.flat_map(|part| part.data.iter().copied()).collect();
        Ok(Column {
            parts: vec![RequestTensor { shape: shape.clone(), datatype: column.datatype, data: Bytes::from(data) }],
            shape,
            ..column.clone()
        })
    };
    first.iter().enumerate().map(column).collect()
}

fn scaled(datatype: DataType, data: &Bytes, other_rows: OtherRows, placement: &Placement) -> Bytes {
    let multiplied = |factor: f64| mapped(datatype, data, |element| element * factor);
    match other_rows {
        // An empty string is encoded as its length: four zero bytes.
        OtherRows::Zeros if datatype == DataType::Bytes => Bytes::from(vec![0; 4 * strings(data).len()]),
        OtherRows::Zeros => Bytes::from(vec![0; data.len()]),
        OtherRows::Subject if is_float(datatype) => multiplied(SMALL),
        OtherRows::Medium if is_float(datatype) => multiplied(SMALL * large_factor(placement)),
        // A GPU gets no negative number, because the model may cast it to an index.
        OtherRows::LargeNegative if placement.is_processor() && is_float(datatype) => multiplied(-LARGE),
        OtherRows::Large | OtherRows::LargeNegative => large(datatype, data, placement),
        // A negative index, or a probability of NaN, makes a GPU unusable for all models.
        OtherRows::Negative if placement.is_processor() && is_signed(datatype) => multiplied(-1.0),
        OtherRows::NotANumber if placement.is_processor() && is_float(datatype) => mapped(datatype, data, |_| f64::NAN),
        OtherRows::Subject | OtherRows::Medium | OtherRows::Alike | OtherRows::Negative | OtherRows::NotANumber => {
            data.clone()
        }
    }
}

fn large_factor(placement: &Placement) -> f64 {
    if placement.is_processor() { LARGE } else { LARGE_ON_GPU }
}

fn large(datatype: DataType, data: &Bytes, placement: &Placement) -> Bytes {
    match datatype {
        DataType::Uint8 => Bytes::from(vec![u8::MAX; data.len()]),
        DataType::Bool => Bytes::from(vec![1; data.len()]),
        DataType::Bytes => Bytes::from_iter(strings(data).iter().flat_map(longer)),
        float if is_float(float) => {
            let factor = large_factor(placement);
            mapped(float, data, |element| element * factor)
        }
        _ => data.clone(),
    }
}

/// Repeats the text of a length-prefixed string five times.
fn longer(string: &Bytes) -> Vec<u8> {
    let text = string.get(4..).unwrap_or_default().repeat(5);
    [&(text.len() as u32).to_le_bytes(), text.as_slice()].concat()
}

fn mapped(datatype: DataType, data: &[u8], map: impl Fn(f64) -> f64) -> Bytes {
    let elements = element::decode(datatype, data).into_iter();
    Bytes::from_iter(elements.flat_map(|element| element::encode(datatype, map(element))))
}

/// Returns true for integers wide enough to be lengths, classes or indices. UINT8 is excluded, because it usually holds
/// image bytes.
pub(super) fn is_integer(datatype: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, Uint16, Uint32, Uint64};
    matches!(datatype, Int8 | Int16 | Int32 | Int64 | Uint16 | Uint32 | Uint64)
}

fn is_signed(datatype: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64};
    is_float(datatype) || matches!(datatype, Int8 | Int16 | Int32 | Int64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compared_row_stands_between_the_others() {
        for reach in Increase::TRIED {
            let increase = Increase(vec![reach]);
            // A row of one integer has 2 in the row under test and 1 in the others; with several integers, each is 0 or
            // 1.
            for (elements, own, others) in [(1, 2.0, 1.0), (4, 0.0, 1.0)] {
                let raise = |other_rows| increase.raise(0, other_rows, elements);
                let subject = own + raise(OtherRows::Subject);
                assert!(subject < others + raise(OtherRows::Large), "{reach}");
                let alike = if elements == 1 { others } else { 0.0 };
                assert!(subject > alike + raise(OtherRows::Alike), "{reach}");
            }
        }
    }
}
