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
    /// Much larger ones; the same as `Alike` for what may be an index.
    Large,
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
    placement: &Placement,
) -> Result<Row, String> {
    let mut columns = trial.columns(&Rows::Range(index..index + 1))?;
    for column in &mut columns {
        for part in &mut column.parts {
            part.data = scaled(column.datatype, &part.data, companions, placement);
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
        let parts = rows
            .iter()
            .filter_map(|row| row.get(index))
            .flat_map(|column| &column.parts);
        let data: Vec<u8> = parts.flat_map(|part| part.data.iter().copied()).collect();
        Ok(Column {
            parts: vec![Part {
                shape: shape.clone(),
                datatype: column.datatype,
                data: Bytes::from(data),
            }],
            shape,
            ..column.clone()
        })
    };
    first.iter().enumerate().map(column).collect()
}

fn scaled(
    datatype: DataType,
    data: &Bytes,
    companions: Companions,
    placement: &Placement,
) -> Bytes {
    let large = match placement {
        Placement::Processor => LARGE,
        Placement::Cuda(_) => LARGE_ON_GPU,
    };
    match (datatype, companions) {
        // An empty string is four zero bytes: its length.
        (DataType::Bytes, Companions::Zeros) => Bytes::from(vec![0; 4 * strings(data).len()]),
        (_, Companions::Zeros) => Bytes::from(vec![0; data.len()]),
        (DataType::Uint8, Companions::Large) => Bytes::from(vec![u8::MAX; data.len()]),
        (float, Companions::Subject) if is_float(float) => multiplied(float, data, SMALL),
        (float, Companions::Large) if is_float(float) => multiplied(float, data, large),
        (_, Companions::Subject | Companions::Alike | Companions::Large) => data.clone(),
    }
}

/// Splits a column of strings, each after its length.
pub(super) fn strings(data: &Bytes) -> Vec<Bytes> {
    let (mut strings, mut at) = (Vec::new(), 0);
    while let Some(length) = data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()) {
        let end = (at + 4)
            .saturating_add(u32::from_le_bytes(length) as usize)
            .min(data.len());
        strings.push(data.slice(at..end));
        at = end;
    }
    strings
}

fn multiplied(datatype: DataType, data: &[u8], factor: f64) -> Bytes {
    let elements = element::decode(datatype, data).into_iter();
    Bytes::from_iter(elements.flat_map(|element| element::encode(datatype, element * factor)))
}

pub(super) fn is_float(datatype: DataType) -> bool {
    matches!(
        datatype,
        DataType::Fp16 | DataType::Bf16 | DataType::Fp32 | DataType::Fp64
    )
}
