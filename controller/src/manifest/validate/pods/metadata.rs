//! Labels and annotations of a pod or a service, whose names and values must have Kubernetes' syntax.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::manifest::field_error::FieldError;

/// Most characters of a label's value, and of a name without its prefix.
const LONGEST: usize = 63;
/// Most characters of the prefix of a name, which is a DNS name.
const LONGEST_PREFIX: usize = 253;

/// Message about an invalid name of a label or annotation.
const NO_NAME: &str = "is no name: write letters, digits, `-`, `_` and `.`, 63 at most, after a prefix such as example.com/ \
                       if it has one";

/// Returns the errors in the labels and annotations, with their fields below the metadata.
pub(in crate::manifest::validate) fn errors(metadata: &ObjectMeta) -> Vec<FieldError> {
    let labels = metadata.labels.iter().flatten();
    let annotations = metadata.annotations.iter().flatten();
    // Prefixes of annotations may have capitals, as in Kubernetes.
    let annotations = annotations.filter(|(name, _)| !is_name(&name.to_ascii_lowercase()));
    let annotations = annotations.map(|(name, _)| FieldError::new(format!("annotations[{name}]"), NO_NAME));
    let keys = labels
        .clone()
        .filter(|(name, _)| !is_name(name))
        .map(|(name, _)| FieldError::new(format!("labels[{name}]"), NO_NAME));
    let values = labels.filter(|(_, value)| !is_label_value(value)).map(|(name, value)| {
        let message = format!(
            "`{value}` is no value of a label: write letters, digits, `-`, `_` and `.`, {LONGEST} at most, with a letter \
             or digit first and last"
        );
        FieldError::new(format!("labels[{name}]"), message)
    });
    keys.chain(annotations).chain(values).collect()
}

fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value)
}

/// Returns true if a name is a valid word, or a valid word after a prefix and a slash.
fn is_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, word)) => is_prefix(prefix) && is_word(word),
        None => is_word(name),
    }
}

fn is_word(word: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_outer = |c: char| c.is_ascii_alphanumeric();
    word.len() <= LONGEST && word.chars().all(is_inner) && word.starts_with(is_outer) && word.ends_with(is_outer)
}

fn is_prefix(prefix: &str) -> bool {
    let is_part = |part: &str| {
        let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        !part.is_empty() && part.chars().all(is_inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(is_part)
}
