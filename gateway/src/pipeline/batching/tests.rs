//! Tests that merged bodies and split responses return every row to its own request.

mod grpc;
mod v1;
mod v2;

use std::ops::Range;

use bytes::Bytes;
use proptest::prelude::*;
use weir_protocol::{DataType, Shape, Tensor};

/// Tensors of one batch, and the rows of each entry.
#[derive(Clone, Debug)]
struct Sample {
    rows: Vec<usize>,
    tensors: Vec<SampleTensor>,
}

#[derive(Clone, Debug)]
struct SampleTensor {
    datatype: DataType,
    tail: Vec<i64>,
    /// Data of the tensor, one item for each entry.
    data: Vec<Bytes>,
}

impl Sample {
    fn entries(&self) -> usize {
        self.rows.len()
    }

    fn all_rows(&self) -> usize {
        self.rows.iter().sum()
    }

    /// Returns each entry's range of rows in the batch.
    fn spans(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let span = |rows: &usize| {
            end += rows;
            end - rows..end
        };
        self.rows.iter().map(span).collect()
    }

    fn of_member(&self, entry: usize) -> Vec<Tensor> {
        let tensors = self.tensors.iter().enumerate();
        let one = |(i, tensor): (usize, &SampleTensor)| tensor.with(i, self.rows[entry], tensor.data[entry].clone());
        tensors.map(one).collect()
    }

    fn of_all(&self) -> Vec<Tensor> {
        let tensors = self.tensors.iter().enumerate();
        let one = |(i, tensor): (usize, &SampleTensor)| tensor.with(i, self.all_rows(), tensor.data.concat().into());
        tensors.map(one).collect()
    }
}

impl SampleTensor {
    fn with(&self, number: usize, rows: usize, data: Bytes) -> Tensor {
        let dims: Vec<i64> = std::iter::once(rows as i64).chain(self.tail.clone()).collect();
        let shape = Shape::new(&dims).unwrap();
        Tensor::new(format!("tensor \"{number}\""), self.datatype, shape, data).unwrap()
    }
}

/// Generates batches of tensors of these types.
fn samples(datatypes: Vec<DataType>) -> impl Strategy<Value = Sample> {
    let rows = proptest::collection::vec(1_usize..4, 1..5);
    let kind = (proptest::sample::select(datatypes), proptest::collection::vec(1_i64..4, 0..3));
    let kinds = proptest::collection::vec(kind, 1..3);
    (rows, kinds).prop_flat_map(|(rows, kinds)| {
        let tensors = kinds.into_iter().map(|(datatype, tail)| tensor(datatype, tail, &rows));
        let tensors: Vec<_> = tensors.collect();
        let rows = Just(rows);
        (rows, tensors).prop_map(|(rows, tensors)| Sample { rows, tensors })
    })
}

fn tensor(datatype: DataType, tail: Vec<i64>, rows: &[usize]) -> impl Strategy<Value = SampleTensor> + use<> {
    let each = tail.iter().product::<i64>() as usize;
    let data: Vec<_> = rows.iter().map(|rows| proptest::collection::vec(element(datatype), rows * each)).collect();
    data.prop_map(move |data| SampleTensor {
        datatype,
        tail: tail.clone(),
        data: data.into_iter().map(|elements| elements.concat().into()).collect(),
    })
}

/// Generates the bytes of one element. Floats are finite, because NaN is not equal to itself.
fn element(datatype: DataType) -> BoxedStrategy<Vec<u8>> {
    match datatype {
        DataType::Bool => (0_u8..2).prop_map(|byte| vec![byte]).boxed(),
        DataType::Fp32 => any::<i32>().prop_map(|n| (n as f32).to_le_bytes().to_vec()).boxed(),
        DataType::Fp64 => any::<i64>().prop_map(|n| (n as f64).to_le_bytes().to_vec()).boxed(),
        DataType::Bytes => {
            ".{0,6}".prop_map(|text| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()).boxed()
        }
        DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Fp16
        | DataType::Bf16 => {
            let size = datatype.size().unwrap();
            proptest::collection::vec(any::<u8>(), size..=size).boxed()
        }
    }
}

/// Returns the data types that JSON and typed contents can represent: all except FP16 and BF16.
fn but_half() -> Vec<DataType> {
    let is_half = |datatype: &DataType| matches!(datatype, DataType::Fp16 | DataType::Bf16);
    DataType::ALL.into_iter().filter(|datatype| !is_half(datatype)).collect()
}
