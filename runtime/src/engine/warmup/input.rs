//! Inputs for runs before readiness: zeros of the smallest size where the model accepts them, else ones and, of real
//! numbers, what is large or negative.

use std::sync::Arc;

use bytes::Bytes;
use half::{bf16, f16};
use weir_protocol::{DataType, Parameters, Shape};

use crate::backend::{Part, TensorConfig};
use crate::interface::{Interface, model_dims};
use crate::job::{Job, Length};
use crate::padding::variable_axis;

/// An input by its elements and the size of its variable dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WarmUpInput {
    fill: Fill,
    variable: i64,
}

/// The elements of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    /// Zeros, or empty strings.
    Zeros,
    /// Ones, or strings of one character: some models refuse lengths of zero, or masks that hide everything.
    Ones,
    /// Real numbers of a hundred, and ones: some models return one of their outputs above a threshold only.
    Hundreds,
    /// Real numbers below zero, and ones.
    Negative,
}

/// The elements to try: the second pair where an input has real numbers. Of integers it has ones: a hundred may be an
/// index that a table of the model does not have, which a GPU's context does not survive.
const FILLS: [[Fill; 2]; 2] = [[Fill::Zeros, Fill::Ones], [Fill::Hundreds, Fill::Negative]];

/// Sizes of variable dimensions to try: a convolution needs more than its kernel has, and models of images often
/// halve them five times.
const VARIABLE: [i64; 4] = [1, 8, 64, 224];

/// Most bytes of an input: as many as a request may have by default. A slip of some digits in a dimension would take
/// all memory there is, of which the other models are served.
const MAX_BYTES: usize = 1 << 30;

impl WarmUpInput {
    /// The inputs to try, the smallest first.
    pub(super) fn candidates(interface: &Interface) -> Vec<Self> {
        let inputs = &interface.signature.inputs;
        let varies = inputs
            .iter()
            .any(|input| variable_axis(model_dims(input)).is_some());
        let sizes = if varies {
            &VARIABLE[..]
        } else {
            &VARIABLE[..1]
        };
        let fills = if inputs
            .iter()
            .any(|input| real(input.datatype, 0.0).is_some())
        {
            &FILLS[..]
        } else {
            &FILLS[..1]
        };
        let of_size = |pair: &'static [Fill; 2], variable| pair.map(|fill| Self { fill, variable });
        fills
            .iter()
            .flat_map(|pair| {
                sizes
                    .iter()
                    .flat_map(move |&variable| of_size(pair, variable))
            })
            .collect()
    }

    /// A job of this input; `length` is the bucket where requests are padded. `None` if a tensor would be too large.
    pub(super) fn job(
        self,
        interface: &Interface,
        rows: usize,
        length: Option<usize>,
    ) -> Option<Job> {
        let inputs = &interface.signature.inputs;
        let part = |config: &TensorConfig| {
            if config.optional {
                Some(None)
            } else {
                self.part(interface, config, (rows, length)).map(Some)
            }
        };
        let parts = inputs.iter().map(part).collect::<Option<Vec<_>>>()?;
        let length = length.map(|length| Length {
            own: length,
            bucket: length,
        });
        let group = interface.group(&parts, length);
        Some(Job {
            rows,
            parts,
            group,
            length,
            parameters: Arc::new(Parameters::new()),
        })
    }

    fn part(
        self,
        interface: &Interface,
        config: &TensorConfig,
        (rows, length): (usize, Option<usize>),
    ) -> Option<Part> {
        let dims = model_dims(config);
        let axis = variable_axis(dims);
        let batch = (interface.signature.max_batch_size > 0).then_some(rows as i64);
        let dims = dims.iter().enumerate().map(|(i, &dim)| {
            if dim >= 0 {
                return dim;
            }
            let bucket = length.filter(|_| Some(i) == axis);
            bucket.map_or(self.variable, |length| length as i64)
        });
        let shape = Shape::new(&batch.into_iter().chain(dims).collect::<Vec<_>>()).ok()?;
        let element = self.fill.element(config.datatype);
        if shape.elements().saturating_mul(element.len()) > MAX_BYTES {
            return None;
        }
        Some(Part {
            datatype: config.datatype,
            data: Bytes::from(element.repeat(shape.elements())),
            shape,
        })
    }
}

impl Fill {
    /// The bytes of one element.
    fn element(self, datatype: DataType) -> Vec<u8> {
        match self {
            // An empty string is four zero bytes: its length.
            Self::Zeros => vec![0; datatype.size().unwrap_or(4)],
            Self::Ones => one(datatype).to_vec(),
            Self::Hundreds => real(datatype, 100.0).unwrap_or_else(|| one(datatype).to_vec()),
            Self::Negative => real(datatype, -1.0).unwrap_or_else(|| one(datatype).to_vec()),
        }
    }
}

/// The bytes of a real number; `None` for the other datatypes.
fn real(datatype: DataType, value: f32) -> Option<Vec<u8>> {
    match datatype {
        DataType::Fp16 => Some(f16::from_f32(value).to_le_bytes().to_vec()),
        DataType::Bf16 => Some(bf16::from_f32(value).to_le_bytes().to_vec()),
        DataType::Fp32 => Some(value.to_le_bytes().to_vec()),
        DataType::Fp64 => Some(f64::from(value).to_le_bytes().to_vec()),
        _ => None,
    }
}

fn one(datatype: DataType) -> &'static [u8] {
    match datatype {
        DataType::Bool | DataType::Uint8 | DataType::Int8 => &[1],
        DataType::Uint16 | DataType::Int16 => &[1, 0],
        DataType::Fp16 => &[0, 0x3c],
        DataType::Bf16 => &[0x80, 0x3f],
        DataType::Uint32 | DataType::Int32 => &[1, 0, 0, 0],
        DataType::Fp32 => &[0, 0, 0x80, 0x3f],
        DataType::Uint64 | DataType::Int64 => &[1, 0, 0, 0, 0, 0, 0, 0],
        DataType::Fp64 => &[0, 0, 0, 0, 0, 0, 0xf0, 0x3f],
        DataType::Bytes => &[1, 0, 0, 0, b'1'],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_fills_its_datatype() {
        for datatype in DataType::ALL {
            let size = datatype.size().unwrap_or(4);
            assert_eq!(Fill::Zeros.element(datatype).len(), size);
            for fill in FILLS.as_flattened() {
                assert!(fill.element(datatype).len() >= size);
            }
            let ones = real(datatype, 1.0);
            assert!(ones.is_none_or(|bytes| bytes == one(datatype)));
        }
    }
}
