//! The formats that KServe's own runtimes take, for advice about models that no installed runtime serves.

/// The ClusterServingRuntimes that KServe's `kserve-cluster-resources.yaml` has for each format.
const TAKERS: [(&str, &str); 9] = [
    ("sklearn", "kserve-sklearnserver, kserve-mlserver"),
    ("xgboost", "kserve-xgbserver, kserve-mlserver"),
    ("lightgbm", "kserve-lgbserver, kserve-mlserver"),
    ("mlflow", "kserve-mlserver"),
    ("pmml", "kserve-pmmlserver"),
    ("paddle", "kserve-paddleserver"),
    ("tensorflow", "kserve-tensorflow-serving, kserve-tritonserver"),
    ("tensorrt", "kserve-tritonserver"),
    ("huggingface", "kserve-huggingfaceserver"),
];

/// Formats whose models convert to ONNX with skl2onnx or onnxmltools.
const ESTIMATORS: [&str; 3] = ["sklearn", "xgboost", "lightgbm"];

/// Returns what to do with a model of a format that no installed runtime takes.
pub(super) fn advice(format: &str) -> String {
    let export = if ESTIMATORS.contains(&format) {
        "Convert the model to ONNX with skl2onnx and declare it as onnx"
    } else {
        "Save a PyTorch model with torch.export.save and declare it as pytorch, or convert another to ONNX and declare \
         it as onnx"
    };
    match TAKERS.iter().find(|(name, _)| *name == format) {
        Some((_, takers)) => format!(
            "{export}. KServe's ClusterServingRuntimes for {format} are {takers}: kubectl apply --server-side -f \
             kserve-cluster-resources.yaml of a KServe release installs them"
        ),
        None => format!("{export}, or add a ServingRuntime for {format}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_of_a_known_format_are_named() {
        let text = advice("sklearn");
        assert!(text.starts_with("Convert the model to ONNX with skl2onnx"), "{text}");
        assert!(text.contains("kserve-sklearnserver, kserve-mlserver: kubectl apply"), "{text}");
        for (format, _) in TAKERS {
            assert!(advice(format).contains("kserve-cluster-resources.yaml"), "{format}");
        }
    }

    #[test]
    fn an_unknown_format_can_be_exported_or_get_a_runtime() {
        let text = advice("caffe");
        assert!(text.contains("torch.export.save") && text.ends_with("or add a ServingRuntime for caffe"), "{text}");
    }
}
