//! An ONNX model, described like a module of libtorch.

use std::path::Path;

use weir_onnx::{Session, TensorInfo};
use weir_protocol::DataType;

use super::{Argument, ArgumentKind, Returned};
use crate::libtorch::element;
use crate::libtorch::fault::Fault;

/// A session of onnxruntime on the CPU.
#[derive(Debug)]
pub(super) struct Onnx {
    pub(super) session: Session,
    /// Size of the file, without files of external data.
    pub(super) bytes: u64,
}

impl Onnx {
    pub(super) fn load(file: &Path, threads: i32) -> Result<Self, Fault> {
        let session = Session::load(file, threads).map_err(Fault::of_onnx)?;
        let bytes = std::fs::metadata(file).map_or(0, |file| file.len());
        Ok(Self { session, bytes })
    }

    pub(super) fn arguments(&self) -> Vec<Argument> {
        self.session.inputs().iter().map(argument).collect()
    }

    pub(super) fn returned(&self) -> Returned {
        Returned::Fixed(self.session.outputs().iter().map(|output| output.name.clone()).collect())
    }
}

fn argument(input: &TensorInfo) -> Argument {
    Argument {
        name: input.name.clone(),
        type_text: element::config_name(input.datatype),
        kind: if input.datatype == DataType::Bytes { ArgumentKind::Strings } else { ArgumentKind::Tensor },
        optional: false,
        mutated: false,
        example: None,
    }
}
