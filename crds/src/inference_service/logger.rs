//! `logger`: where requests and responses are logged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Storage;
use crate::rules;

/// Where requests and responses are logged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logger {
    /// Receiver of the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What is logged. Default `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<LogMode>,
    /// Request headers that go along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_headers: Option<Vec<String>>,
    /// Annotations of the service that go along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata_annotations: Option<Vec<String>>,
    /// Object store that keeps the events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<LoggerStorage>,
    /// Service that schemas events before they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marshaller_url: Option<String>,
    /// Events stored together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_size: Option<i32>,
    /// Longest wait for a full batch, as in `5s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_interval: Option<String>,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogMode {
    /// Requests and responses.
    All,
    /// Requests.
    Request,
    /// Responses.
    Response,
}

/// Object store that keeps events.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::logger_storage()))]
pub struct LoggerStorage {
    /// Where and how.
    #[serde(flatten)]
    pub storage: Storage,
    /// ServiceAccount whose secrets hold the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
}
