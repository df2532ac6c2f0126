//! `logger`: logging of requests and responses.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Storage;
use crate::rules;

/// Logging of requests and responses as CloudEvents.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logger {
    /// URL that receives the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Messages to log: `all`, `request` or `response`. Default `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<LogMode>,
    /// Request headers to add to the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_headers: Option<Vec<String>>,
    /// Annotations of the service to add to the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_annotations: Option<Vec<String>>,
    /// Object store for the events, instead of `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<LoggerStorage>,
    /// URL of a service that converts events before they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marshaller_url: Option<String>,
    /// Number of events to store in one batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<i32>,
    /// Maximum time to wait for a full batch of events, a duration such as `5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_interval: Option<String>,
}

/// Messages that a logger logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogMode {
    /// Requests and responses alike.
    All,
    /// Requests without their responses.
    Request,
    /// Responses without their requests.
    Response,
}

/// Object store for logged events. `path`, `parameters` and `key` are required.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::logger_storage()))]
pub struct LoggerStorage {
    /// Path, parameters and key of the store.
    #[serde(flatten)]
    pub storage: Storage,
    /// ServiceAccount whose secrets hold the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}
