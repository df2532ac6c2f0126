//! Replacement of a path in a container's command, arguments and variables.

use k8s_openapi::api::core::v1::Container;
use weir_cluster::relocate;

/// Replaces a path in a container's command, arguments and variables.
pub(super) fn relocate_in(container: &mut Container, from: &str, to: &str) {
    let words = container.command.iter_mut().chain(&mut container.args);
    for word in words.flatten() {
        *word = relocate(word, from, to);
    }
    let variables = container.env.iter_mut().flatten();
    for value in variables.filter_map(|variable| variable.value.as_mut()) {
        *value = relocate(value, from, to);
    }
}
