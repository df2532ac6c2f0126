//! Runtimes of other model servers, for advice about models that no installed runtime serves.

/// The ClusterServingRuntime that the value `servingRuntimes.enabled` of Weir's chart installs for each format.
const OF_CHART: [(&str, &str); 8] = [
    ("sklearn", "kserve-mlserver"),
    ("xgboost", "kserve-mlserver"),
    ("lightgbm", "kserve-mlserver"),
    ("mlflow", "kserve-mlserver"),
    ("tensorflow", "kserve-tritonserver"),
    ("tensorrt", "kserve-tritonserver"),
    ("huggingface", "kserve-huggingfaceserver"),
    ("vllm", "kserve-vllmserver"),
];

/// The ClusterServingRuntime that only KServe's `kserve-cluster-resources.yaml` has for each of these formats.
const OF_KSERVE: [(&str, &str); 2] = [("pmml", "kserve-pmmlserver"), ("paddle", "kserve-paddleserver")];

/// Formats whose models convert to ONNX with onnxmltools.
const BOOSTED: [&str; 2] = ["xgboost", "lightgbm"];

/// Returns what to do with a model of a format that no installed runtime takes.
pub(super) fn advice(format: &str) -> String {
    let export = if format == "sklearn" {
        "Convert the model to ONNX with skl2onnx and declare it as onnx"
    } else if BOOSTED.contains(&format) {
        "Convert the model to ONNX with onnxmltools and declare it as onnx"
    } else {
        "Save a PyTorch model with torch.export.save and declare it as pytorch, or convert another to ONNX and declare \
         it as onnx"
    };
    let named = |runtimes: &[(&str, &'static str)]| {
        runtimes.iter().find(|(name, _)| *name == format).map(|(_, runtime)| *runtime)
    };
    if let Some(runtime) = named(&OF_CHART) {
        format!(
            "{export}. On Kubernetes the ClusterServingRuntime {runtime} takes {format}: the value \
             servingRuntimes.enabled=true of Weir's chart installs it"
        )
    } else if let Some(runtime) = named(&OF_KSERVE) {
        format!(
            "{export}. On Kubernetes the ClusterServingRuntime {runtime} takes {format}: kubectl apply --server-side -f \
             kserve-cluster-resources.yaml of a KServe release installs it"
        )
    } else {
        format!("{export}, or add a ServingRuntime for {format}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtimes_of_a_known_format_are_named() {
        let text = advice("sklearn");
        assert!(text.starts_with("Convert the model to ONNX with skl2onnx"), "{text}");
        assert!(advice("lightgbm").starts_with("Convert the model to ONNX with onnxmltools"));
        assert!(text.contains("kserve-mlserver takes sklearn: the value servingRuntimes.enabled=true"), "{text}");
        assert!(advice("pmml").contains("kserve-pmmlserver takes pmml: kubectl apply"));
    }

    #[test]
    fn the_chart_has_the_runtimes_that_are_named() {
        let chart = include_str!("../../../charts/weir/templates/serving-runtimes.yaml");
        for (format, runtime) in OF_CHART {
            let name = runtime.strip_prefix("kserve-").unwrap();
            assert!(chart.contains(&format!("{{name: {format}, ")), "{format}");
            assert!(chart.contains(&format!("\"weir.servingRuntime\" (list $ \"{name}\")")), "{runtime}");
        }
    }

    #[test]
    fn an_unknown_format_can_be_exported_or_get_a_runtime() {
        let text = advice("caffe");
        assert!(text.contains("torch.export.save") && text.ends_with("or add a ServingRuntime for caffe"), "{text}");
    }
}
