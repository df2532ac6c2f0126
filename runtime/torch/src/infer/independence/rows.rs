//! Rows to run, alone and beside each other.

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, Part};

use crate::element;
use crate::infer::trial::{Rows, Trial};
use crate::runner::Placement;

/// A row of each input.
pub(super) type Row = Vec<Column>;

/// The elements of a row, relative to what trials use, which are in (0, 1] or are 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Companions {
    /// Small ones: those of the row that is compared, so that any others are larger or zero.
    Subject,
    /// Those that trials use.
    Alike,
    /// Zeros and empty strings.
    Zeros,
    /// Those of another row that is compared: between the trials' and the large ones.
    Medium,
    /// Much larger ones: true for all of BOOL, longer strings; integers, which may be indices, by [`Increase`].
    Large,
    /// Those of the opposite sign.
    Negative,
    /// Much larger ones of the opposite sign; the same as `Large` where there is none.
    LargeNegative,
    /// NaN; the same as `Alike` where there is none.
    NotANumber,
}

/// How far integers may be raised above 0 and 1, by input: by as much as the model takes. With none, lengths, counts
/// and class numbers are nearly alike in all rows, and hide that rows are brought to the largest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Increase(pub(super) Vec<u16>);

impl Increase {
    /// Reaches to try, all even: small enough for a table of few rows and for a loop of as many steps.
    pub(super) const TRIED: [u16; 3] = [16, 4, 2];

    pub(super) fn none(inputs: usize) -> Self {
        Self(vec![0; inputs])
    }

    /// The least increase of the same inputs.
    pub(super) fn least(&self) -> Self {
        let [.., least] = Self::TRIED;
        Self(self.0.iter().map(|&reach| reach.min(least)).collect())
    }

    /// Amount added to an input's integers, of which a row has as many as `elements`. The compared row stands between
    /// `Alike` and `Large`: where it is one integer, such as a length, it is one larger than theirs before that.
    fn raise(&self, input: usize, companions: Companions, elements: usize) -> f64 {
        let reach = f64::from(self.0.get(input).copied().unwrap_or(0));
        match companions {
            Companions::Subject if elements == 1 => (reach / 2.0 - 1.0).max(0.0),
            Companions::Subject => reach / 2.0,
            Companions::Large | Companions::LargeNegative => reach,
            Companions::Alike
            | Companions::Zeros
            | Companions::Medium
            | Companions::Negative
            | Companions::NotANumber => 0.0,
        }
    }
}

/// Factor of the row that is compared: a power of two, which every type of float has.
const SMALL: f64 = 1.0 / 16.0;

/// Factor of large rows on the processor: a model that takes them for indices refuses them.
const LARGE: f64 = 1000.0;

/// Factor of large rows on a GPU, where an index beyond its table ends the use of the device by all models: those
/// of even small tables are in their range.
const LARGE_ON_GPU: f64 = 16.0;

/// Makes one row of each of the trial's inputs; `index` chooses it among those of trials.
pub(super) fn row(
    trial: &Trial<'_>,
    index: usize,
    companions: Companions,
    (reach, placement): (&Increase, &Placement),
) -> Result<Row, String> {
    let mut columns = trial.columns(&Rows::Range(index..index + 1))?;
    for (input, column) in columns.iter_mut().enumerate() {
        let raise = reach.raise(input, companions, column.shape.elements());
        for part in &mut column.parts {
            part.data = scaled(column.datatype, &part.data, companions, placement);
            if raise > 0.0 && is_integer(column.datatype) {
                part.data = mapped(column.datatype, &part.data, |element| element + raise);
            }
        }
    }
    Ok(columns)
}

/// Joins rows to a batch.
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
            parts: vec![Part { shape: shape.clone(), datatype: column.datatype, data: Bytes::from(data) }],
            shape,
            ..column.clone()
        })
    };
    first.iter().enumerate().map(column).collect()
}

fn scaled(datatype: DataType, data: &Bytes, companions: Companions, placement: &Placement) -> Bytes {
    let multiplied = |factor: f64| mapped(datatype, data, |element| element * factor);
    match companions {
        // An empty string is four zero bytes: its length.
        Companions::Zeros if datatype == DataType::Bytes => Bytes::from(vec![0; 4 * strings(data).len()]),
        Companions::Zeros => Bytes::from(vec![0; data.len()]),
        Companions::Subject if is_float(datatype) => multiplied(SMALL),
        Companions::Medium if is_float(datatype) => multiplied(SMALL * large_factor(placement)),
        // A number that is cast to an index is none on a GPU.
        Companions::LargeNegative if placement.is_processor() && is_float(datatype) => multiplied(-LARGE),
        Companions::Large | Companions::LargeNegative => large(datatype, data, placement),
        // On a GPU an index of less than 0, or a probability of NaN, ends its use by all models.
        Companions::Negative if placement.is_processor() && is_signed(datatype) => multiplied(-1.0),
        Companions::NotANumber if placement.is_processor() && is_float(datatype) => {
            mapped(datatype, data, |_| f64::NAN)
        }
        Companions::Subject
        | Companions::Medium
        | Companions::Alike
        | Companions::Negative
        | Companions::NotANumber => data.clone(),
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

/// A string, after its length, with as much again four times.
fn longer(string: &Bytes) -> Vec<u8> {
    let text = string.get(4..).unwrap_or_default().repeat(5);
    [&(text.len() as u32).to_le_bytes(), text.as_slice()].concat()
}

/// Splits a column of strings, each after its length.
pub(super) fn strings(data: &Bytes) -> Vec<Bytes> {
    let (mut strings, mut at) = (Vec::new(), 0);
    while let Some(length) = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) {
        let end = (at + 4).saturating_add(u32::from_le_bytes(length) as usize).min(data.len());
        strings.push(data.slice(at..end));
        at = end;
    }
    strings
}

fn mapped(datatype: DataType, data: &[u8], map: impl Fn(f64) -> f64) -> Bytes {
    let elements = element::decode(datatype, data).into_iter();
    Bytes::from_iter(elements.flat_map(|element| element::encode(datatype, map(element))))
}

/// Checks for integers of a sign or enough bits to be lengths, classes or indices; bytes of images are neither.
pub(super) fn is_integer(datatype: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64, Uint16, Uint32, Uint64};
    matches!(datatype, Int8 | Int16 | Int32 | Int64 | Uint16 | Uint32 | Uint64)
}

fn is_signed(datatype: DataType) -> bool {
    use DataType::{Int8, Int16, Int32, Int64};
    is_float(datatype) || matches!(datatype, Int8 | Int16 | Int32 | Int64)
}

pub(super) fn is_float(datatype: DataType) -> bool {
    matches!(datatype, DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compared_row_stands_between_the_others() {
        for reach in Increase::TRIED {
            let increase = Increase(vec![reach]);
            // One integer is 2 in the compared row and 1 in the others; of several, each is 0 or 1.
            for (elements, own, others) in [(1, 2.0, 1.0), (4, 0.0, 1.0)] {
                let raise = |companions| increase.raise(0, companions, elements);
                let subject = own + raise(Companions::Subject);
                assert!(subject < others + raise(Companions::Large), "{reach}");
                let alike = if elements == 1 { others } else { 0.0 };
                assert!(subject > alike + raise(Companions::Alike), "{reach}");
            }
        }
    }
}
