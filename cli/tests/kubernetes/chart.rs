//! Objects of the chart, rendered by helm.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Renders the chart with these settings, and returns its documents.
pub(crate) fn rendered(namespace: &str, settings: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let render = r#"exec "$(tests/kubernetes/bed/build.sh helm)/bin/helm" template weir charts/weir --namespace "$@""#;
    let mut helm = Command::new("bash");
    helm.current_dir(root).args(["-c", render, "helm", namespace]);
    for setting in settings {
        helm.args(["--set", setting]);
    }
    let rendered = helm.output().unwrap();
    let errors = String::from_utf8_lossy(&rendered.stderr);
    assert!(rendered.status.success(), "{errors}");
    let text = String::from_utf8(rendered.stdout).unwrap();
    text.split("\n---\n").map(str::to_owned).collect()
}

/// Returns the documents of these kinds.
pub(crate) fn of_kinds(documents: &[String], kinds: &[&str]) -> Vec<String> {
    let is_of = |document: &&String| {
        let kind = document.lines().find_map(|line| line.strip_prefix("kind: "));
        kind.is_some_and(|kind| kinds.contains(&kind))
    };
    documents.iter().filter(is_of).cloned().collect()
}

/// Returns the value of a document's `metadata.name`.
pub(crate) fn name(document: &str) -> &str {
    let name = document.lines().find_map(|line| line.strip_prefix("  name: "));
    name.unwrap_or_default()
}

/// Returns the rules of a role; in the chart each rule is a line of JSON.
pub(crate) fn rules(role: &str) -> Vec<Value> {
    let lines = role.lines().filter_map(|line| line.strip_prefix("  - {"));
    lines.map(|line| serde_json::from_str(&format!("{{{line}")).unwrap()).collect()
}
