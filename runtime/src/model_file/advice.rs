//! Messages about files that are not TorchScript: the format of the file, and what to do.

/// A description of a file that is not TorchScript, and the way to have it served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// The format with its article, such as `a state_dict (weights without code)`.
    pub(super) what: String,
    /// The next step for the user, in the imperative.
    pub(super) remedy: &'static str,
}

/// Advice for a format whose description is fixed.
pub(super) struct Format {
    pub(super) what: &'static str,
    pub(super) remedy: &'static str,
}

/// The way from weights to a model file.
pub(super) const FROM_WEIGHTS: &str = "build the module in Python, give it these weights with load_state_dict, \
     torch.export.export it with an example, and torch.export.save the result";

/// The way from a Python module to a model file.
pub(super) const FROM_MODULE: &str = "load it in Python where its classes are, torch.export.export it with an example, and \
     torch.export.save the result";

/// The way from a pickled model of scikit-learn or of boosted trees.
pub(super) const FROM_ESTIMATOR: &str = "load it in Python, convert it with skl2onnx (onnxmltools for xgboost, lightgbm \
     and catboost), and serve the ONNX file";

/// The way from a pickle of an unknown class.
pub(super) const FROM_PICKLE: &str = "load it in Python; a PyTorch module is served if it is saved with torch.export.save, \
     and a model of another library if it is converted to ONNX";

/// The way from a format of another library.
const FROM_SOURCE: &str = "this runtime serves programs of torch.export and ONNX files: torch.export.save the model's \
     PyTorch original, convert this file to ONNX, or serve it with a runtime made for it";

/// The way from an archive that contains the model.
pub(super) const UNPACK: &str = "unpack it, and serve the model file inside";

/// Format of ONNX files.
pub(super) const ONNX: Format =
    Format { what: "an ONNX model", remedy: "name it model.onnx, or write backend: \"onnxruntime\" in config.pbtxt" };

/// Format of ONNX files whose `ir_version` is above all that exist.
pub(super) const OTHER_ONNX: Format =
    Format { what: "ONNX of an unknown IR version", remedy: "export it again with a released version of ONNX" };

/// Format of graphs that TensorFlow exports.
pub(super) const SAVED_MODEL: Format = Format { what: "a TensorFlow SavedModel", remedy: FROM_SOURCE };

/// Format of TensorFlow Lite.
pub(super) const TFLITE: Format = Format { what: "a TensorFlow Lite model", remedy: FROM_SOURCE };

/// Format of HDF5 files, which Keras writes.
pub(super) const HDF5: Format = Format { what: "an HDF5 file, such as Keras writes", remedy: FROM_SOURCE };

/// Format of Keras 3.
pub(super) const KERAS: Format = Format { what: "a Keras model", remedy: FROM_SOURCE };

/// Format of engines built by TensorRT.
pub(super) const TENSORRT: Format = Format { what: "a TensorRT engine", remedy: FROM_SOURCE };

/// Format of models for llama.cpp.
pub(super) const GGUF: Format = Format { what: "a GGUF model", remedy: FROM_SOURCE };

/// Format of ExecuTorch programs.
pub(super) const EXECUTORCH: Format = Format { what: "an ExecuTorch program", remedy: FROM_SOURCE };

/// Format that `torch.export.save` wrote before torch 2.8.
pub(super) const OLD_EXPORTED: Format = Format {
    what: "a .pt2 archive of torch.export before torch 2.8",
    remedy: "torch.export.load it in Python with torch 2.8 or later, and torch.export.save the result",
};

/// The way from an AOTInductor package, which `aoti_compile_and_package` writes.
pub(super) const FROM_COMPILED: &str = "torch.export.save the program that it was compiled from";

/// Format of TorchServe's model archives.
pub(super) const MAR: Format = Format {
    what: "a TorchServe archive (.mar)",
    remedy: "build the module in Python, give it the weights with load_state_dict, torch.export.export it with an example, \
             torch.export.save the result, and serve that file",
};

/// Format that `torch.package` writes.
pub(super) const PACKAGE: Format = Format { what: "a torch.package archive", remedy: FROM_MODULE };

/// Format of the safetensors library.
pub(super) const SAFETENSORS: Format =
    Format { what: "a safetensors file (weights without code)", remedy: FROM_WEIGHTS };

/// Format that `torch.save` writes for a state_dict or a checkpoint.
pub(super) const STATE_DICT: Format =
    Format { what: "a state_dict or checkpoint of torch.save (weights without code)", remedy: FROM_WEIGHTS };

/// Format of the placeholders that Git LFS checks out instead of large files.
pub(super) const LFS_POINTER: Format = Format {
    what: "a Git LFS pointer, not the file it stands for",
    remedy: "run `git lfs pull` where it was checked out, and copy the file again",
};

/// Format of NumPy arrays.
pub(super) const NUMPY: Format = Format { what: "a file of NumPy arrays (weights without code)", remedy: FROM_WEIGHTS };

impl Format {
    /// Returns the message about a file of this format.
    pub(super) fn text(&self) -> String {
        Advice::from(self).text()
    }
}

impl From<&Format> for Advice {
    fn from(format: &Format) -> Self {
        Self { what: format.what.to_owned(), remedy: format.remedy }
    }
}

impl Advice {
    /// Returns the rest of a sentence that starts with the file's name.
    pub(super) fn text(&self) -> String {
        let Self { what, remedy } = self;
        format!("is {what}, not TorchScript: {remedy}")
    }
}
