//! The configuration's `metric_tags`.

use std::collections::BTreeMap;

use weir_protocol::grpc::proto::ModelConfig;

use super::ConfigError;

/// Labels that the series of a model have of themselves. Prometheus discards everything that the server measures, of
/// all models, where one series has a label twice.
const TAKEN: [&str; 6] = ["model", "version", "reason", "cause", "instance", "le"];

/// Reads the tags, each of which must be a label by Prometheus' rules.
pub(super) fn parse(config: &ModelConfig) -> Result<BTreeMap<String, String>, ConfigError> {
    for name in config.metric_tags.keys() {
        if TAKEN.contains(&name.as_str()) {
            return Err(fail(config, name, "is a label of every model already"));
        }
        if !is_label(name) {
            let rule = "is no label's name: it has letters, digits and '_', and begins with no digit and no '__'";
            return Err(fail(config, name, rule));
        }
    }
    Ok(config.metric_tags.clone())
}

fn fail(config: &ModelConfig, name: &str, what: &str) -> ConfigError {
    ConfigError::Invalid(format!(
        "model '{}': metric_tags '{}' {what}",
        config.name,
        name.escape_debug()
    ))
}

/// True for the names of labels that are not Prometheus' own, which begin with `__`.
fn is_label(name: &str) -> bool {
    let mut letters = name.bytes();
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    letters.next().is_some_and(is_letter)
        && letters.all(|byte| is_letter(byte) || byte.is_ascii_digit())
        && !name.starts_with("__")
}
