//! Defaults that KServe adds for certain servers: variables, arguments, and labels for placeholders.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::Storage;
use weir_crds::inference_service::{Model, Protocol};

use super::variable::set_default;
use crate::runtimes::ServerType;

/// Label with the class of the model, which MLServer's runtime reads by a placeholder.
const MODEL_CLASS: &str = "modelClass";
/// Label with the format of requests, which TorchServe's runtime reads by a placeholder.
const SERVICE_ENVELOPE: &str = "serviceEnvelope";

/// Adds the defaults of a server to the service's metadata and its model. Values that the service sets are kept.
pub(crate) fn add_defaults(server: ServerType, object: &mut ObjectMeta, model: &mut Model) {
    match server {
        ServerType::MlServer => mlserver(object, model),
        ServerType::Triton => triton(model),
        ServerType::TorchServe => torchserve(object, model),
        ServerType::TensorFlow | ServerType::HuggingFace | ServerType::Vllm | ServerType::Weir => {}
    }
}

fn mlserver(object: &mut ObjectMeta, model: &mut Model) {
    let name = object.name.clone().unwrap_or_default();
    let has_model = has_storage(model);
    let container = &mut model.framework.container;
    if has_model {
        set_default(container, "MLSERVER_MODEL_NAME", &name);
        set_default(container, "MLSERVER_MODEL_URI", Storage::MOUNT_PATH);
    } else {
        set_default(container, "MLSERVER_LOAD_MODELS_AT_STARTUP", "false");
    }
    let class = match model.model_format.name.as_str() {
        "xgboost" => "mlserver_xgboost.XGBoostModel",
        "lightgbm" => "mlserver_lightgbm.LightGBMModel",
        "mlflow" => "mlserver_mlflow.MLflowRuntime",
        _ => "mlserver_sklearn.SKLearnModel",
    };
    label(object, MODEL_CLASS, class);
}

/// Sets Triton's explicit mode if there is no model: clients then choose the models to load.
fn triton(model: &mut Model) {
    if !has_storage(model) {
        let args = model.framework.container.args.get_or_insert_default();
        if !args.iter().any(|arg| arg.starts_with("--model-control-mode")) {
            args.push("--model-control-mode=explicit".to_owned());
        }
    }
}

fn torchserve(object: &mut ObjectMeta, model: &mut Model) {
    let (envelope, version) = match model.framework.protocol_version {
        Some(Protocol::V2 | Protocol::GrpcV2) => ("kservev2", "v2"),
        Some(Protocol::V1 | Protocol::GrpcV1) | None => ("kserve", "v1"),
    };
    label(object, SERVICE_ENVELOPE, envelope);
    set_default(&mut model.framework.container, "PROTOCOL_VERSION", version);
}

fn has_storage(model: &Model) -> bool {
    model.framework.storage_uri.is_some() || model.framework.storage.is_some()
}

fn label(object: &mut ObjectMeta, key: &str, value: &str) {
    let labels = object.labels.get_or_insert_default();
    labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
}
