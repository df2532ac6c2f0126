//! Tensors as the command line names them.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;

/// A tensor in a file: `NAME:TYPE:DIMS=FILE`.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    name: String,
    datatype: Type,
    shape: Vec<i64>,
    file: PathBuf,
}

/// A tensor with its data.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) datatype: Type,
    pub(crate) shape: Vec<i64>,
    /// Little-endian, row-major.
    pub(crate) data: Bytes,
}

/// The element types that are measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Fp32,
    Int64,
}

impl Type {
    /// V2's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "FP32",
            Self::Int64 => "INT64",
        }
    }

    /// Bytes of an element.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Fp32 => 4,
            Self::Int64 => 8,
        }
    }

    /// All elements of the bytes, as numbers to compare.
    pub(crate) fn numbers(self, data: &[u8]) -> Vec<f64> {
        match self {
            Self::Fp32 => {
                let elements = data.as_chunks::<4>().0.iter();
                elements
                    .map(|raw| f64::from(f32::from_le_bytes(*raw)))
                    .collect()
            }
            Self::Int64 => {
                let elements = data.as_chunks::<8>().0.iter();
                elements
                    .map(|raw| i64::from_le_bytes(*raw) as f64)
                    .collect()
            }
        }
    }

    /// All elements as a JSON list writes them.
    pub(crate) fn json(self, data: &[u8]) -> String {
        let texts: Vec<String> = match self {
            Self::Fp32 => {
                let elements = data.as_chunks::<4>().0.iter();
                elements
                    .map(|raw| f32::from_le_bytes(*raw).to_string())
                    .collect()
            }
            Self::Int64 => {
                let elements = data.as_chunks::<8>().0.iter();
                elements
                    .map(|raw| i64::from_le_bytes(*raw).to_string())
                    .collect()
            }
        };
        texts.join(",")
    }
}

impl FromStr for Description {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (tensor, file) = text.split_once('=').context("there is no =FILE")?;
        let parts: Vec<&str> = tensor.split(':').collect();
        let [name, datatype, dims] = parts[..] else {
            bail!("'{tensor}' is not NAME:TYPE:DIMS");
        };
        let datatype = match datatype {
            "FP32" => Type::Fp32,
            "INT64" => Type::Int64,
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

impl Description {
    /// Reads the file.
    ///
    /// # Errors
    /// A file that cannot be read, or is not as long as the shape says.
    pub(crate) fn read(&self) -> anyhow::Result<Tensor> {
        let file = self.file.display();
        let data = std::fs::read(&self.file).with_context(|| format!("cannot read {file}"))?;
        let elements: i64 = self.shape.iter().product();
        let expected = usize::try_from(elements)? * self.datatype.size();
        ensure!(
            data.len() == expected,
            "{file} has {} bytes where '{}' has {expected}",
            data.len(),
            self.name
        );
        Ok(Tensor {
            name: self.name.clone(),
            datatype: self.datatype,
            shape: self.shape.clone(),
            data: data.into(),
        })
    }
}
