//! KServe's defaults and names that several modules need.

/// API group of all kinds. It is KServe's, so that existing manifests keep working.
pub const GROUP: &str = "serving.kserve.io";

/// Default of `minReplicas`: the minimum number of replicas.
pub const MIN_REPLICAS: i32 = 1;

/// Default of `batcher.maxBatchSize` in items, the same as in KServe's batcher.
pub const BATCH_MAX_SIZE: i32 = 32;

/// Default of `batcher.maxLatency` in milliseconds, the same as in KServe's batcher. It bounds the wait for a busy
/// runtime: an idle runtime gets its batch at once.
pub const BATCH_MAX_LATENCY: i32 = 5000;

/// Directory in which a container finds its model.
pub const MODEL_MOUNT_PATH: &str = "/mnt/models";

/// Name of the serving container.
pub const SERVING_CONTAINER: &str = "kserve-container";

/// Names of a predictor's short forms, as in YAML; each is the name of a model format.
pub(crate) const SHORT_FORMS: [&str; 10] =
    ["sklearn", "xgboost", "tensorflow", "pytorch", "triton", "onnx", "huggingface", "pmml", "lightgbm", "paddle"];
