//! The backend of ONNX models.

use std::sync::Arc;

use weir_runtime::backend::{Backend, Inspection, LoadError, Model, ModelSource};
use weir_runtime::model_file;

use crate::model::TorchBackend;

/// Serves ONNX files with onnxruntime's library. Loads are tried in the same child processes as those of libtorch.
#[derive(Debug)]
pub struct OnnxBackend {
    torch: Arc<TorchBackend>,
}

impl OnnxBackend {
    /// Returns a backend that shares the child processes of `torch`.
    #[must_use]
    pub fn new(torch: Arc<TorchBackend>) -> Self {
        Self { torch }
    }
}

impl Backend for OnnxBackend {
    fn names(&self) -> &'static [&'static str] {
        &["onnxruntime", "onnxruntime_onnx"]
    }

    fn default_filename(&self) -> Option<&'static str> {
        Some("model.onnx")
    }

    fn runs_on_gpus(&self) -> bool {
        false
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError> {
        model_file::check_onnx(&source.path).map_err(LoadError::File)?;
        self.torch.load_checked(source)
    }

    fn inspect(&self, source: &ModelSource) -> Result<Inspection, LoadError> {
        model_file::check_onnx(&source.path).map_err(LoadError::File)?;
        self.torch.inspect(source)
    }

    fn code_in(&self, _source: &ModelSource) -> Option<String> {
        // Operators of libraries beside a file would be code, and no such library is ever opened.
        None
    }
}
