//! The configuration's `metric_tags`.

use std::collections::BTreeMap;

use weir_protocol::grpc::proto::ModelConfig;

use super::ConfigError;

/// Reads the tags as the labels that Triton makes of them: `team` is `_team`, and so never one of the labels that series
/// have of themselves.
pub(super) fn parse(config: &ModelConfig) -> Result<BTreeMap<String, String>, ConfigError> {
    let label = |(name, value): (&String, &String)| {
        if is_rest_of_label(name) {
            Ok((format!("_{name}"), value.clone()))
        } else {
            Err(ConfigError::Invalid(format!(
                "model '{}': metric_tags '{}' makes no label of Prometheus: it has letters, digits and '_', and does not \
                 begin with '_'",
                config.name,
                name.escape_debug()
            )))
        }
    };
    config.metric_tags.iter().map(label).collect()
}

/// True for what may follow the first `_` of a label that is not Prometheus' own: those begin with `__`.
fn is_rest_of_label(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.starts_with('_') && name.bytes().all(is_word)
}
