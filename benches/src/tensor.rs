//! Tensors given on the command line.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;

/// A tensor in a file: `NAME:TYPE:DIMS=FILE`.
#[derive(Clone, Debug)]
pub(crate) struct TensorFile {
    name: String,
    datatype: ElementType,
    shape: Vec<i64>,
    file: PathBuf,
}

/// A tensor with its data.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) datatype: ElementType,
    pub(crate) shape: Vec<i64>,
    /// Bytes of the elements in row-major order, little-endian.
    pub(crate) data: Bytes,
}

/// Element types of the measured models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElementType {
    Fp32,
    Int64,
}

impl ElementType {
    /// Returns the name of the type in V2.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Int64 => "INT64",
        }
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Fp32 => 4,
            Self::Int64 => 8,
        }
    }

    /// Decodes all elements to numbers that can be compared.
    pub(crate) fn numbers(self, data: &[u8]) -> Vec<f64> {
        match self {
            Self::Fp32 => {
                let elements = data.as_chunks::<4>().0.iter();
                elements.map(|raw| f64::from(f32::from_le_bytes(*raw))).collect()
            }
            Self::Int64 => {
                let elements = data.as_chunks::<8>().0.iter();
                elements.map(|raw| i64::from_le_bytes(*raw) as f64).collect()
            }
        }
    }

    /// Encodes all elements as the content of a JSON array.
    pub(crate) fn json(self, data: &[u8]) -> String {
        let texts: Vec<String> = match self {
            Self::Fp32 => {
                let elements = data.as_chunks::<4>().0.iter();
                elements.map(|raw| f32::from_le_bytes(*raw).to_string()).collect()
            }
            Self::Int64 => {
                let elements = data.as_chunks::<8>().0.iter();
                elements.map(|raw| i64::from_le_bytes(*raw).to_string()).collect()
            }
        };
        texts.join(",")
    }
}

impl FromStr for TensorFile {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (tensor, file) = text.split_once('=').context("=FILE is missing")?;
        let parts: Vec<&str> = tensor.split(':').collect();
        let [name, datatype, dims] = parts[..] else {
            bail!("'{tensor}' is not NAME:TYPE:DIMS");
        };
        let datatype = match datatype {
            "FP32" => ElementType::Fp32,
            "INT64" => ElementType::Int64,
            other => bail!("datatype '{other}' is neither FP32 nor INT64"),
        };
        let shape: Result<Vec<i64>, _> = dims.split(',').map(str::parse).collect();
        Ok(Self {
            name: name.to_owned(),
            datatype,
            shape: shape.with_context(|| format!("dims '{dims}'"))?,
            file: file.into(),
        })
    }
}

impl TensorFile {
    /// Reads the tensor's data.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or its length does not fit the shape.
    pub(crate) fn read(&self) -> anyhow::Result<Tensor> {
        let file = self.file.display();
        let data = std::fs::read(&self.file).with_context(|| format!("cannot read {file}"))?;
        let elements: i64 = self.shape.iter().product();
        let expected = usize::try_from(elements)? * self.datatype.size();
        ensure!(
            data.len() == expected,
            "{file} has {} bytes, but the shape of '{}' needs {expected}",
            data.len(),
            self.name
        );
        Ok(Tensor { name: self.name.clone(), datatype: self.datatype, shape: self.shape.clone(), data: data.into() })
    }
}
