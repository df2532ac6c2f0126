//! The field `metric_tags` of a configuration.

use std::collections::BTreeMap;

use weir_protocol::grpc::proto::ModelConfig;

use super::ConfigError;

/// Parses the tags into labels like Triton: tag `team` becomes label `_team`, so a tag never collides with a label of
/// the metrics themselves.
pub(super) fn parse(config: &ModelConfig) -> Result<BTreeMap<String, String>, ConfigError> {
    let label = |(name, value): (&String, &String)| {
        if is_rest_of_label(name) {
            Ok((format!("_{name}"), value.clone()))
        } else {
            Err(ConfigError::Invalid(format!(
                "model '{}': metric_tags '{}' is not valid in a Prometheus label: use letters, digits and '_', and do not \
                 begin with '_'",
                config.name,
                name.escape_debug()
            )))
        }
    };
    config.metric_tags.iter().map(label).collect()
}

/// True if `_` and this name form a valid label. A second `_` is not allowed, because Prometheus reserves labels that
/// begin with `__`.
fn is_rest_of_label(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !name.is_empty() && !name.starts_with('_') && name.bytes().all(is_word)
}
