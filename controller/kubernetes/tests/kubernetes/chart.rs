//! Objects of the chart as helm renders them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Returns the chart's objects of a kind, rendered with these settings.
pub(crate) fn rendered(kind: &str, namespace: &str, settings: &[&str]) -> Vec<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let render = r#"exec "$(tests/kubernetes/bed/build.sh helm)/bin/helm" template weir charts/weir --namespace "$@""#;
    let mut helm = Command::new("bash");
    helm.current_dir(root).args(["-c", render, "helm", namespace]);
    for setting in settings {
        helm.args(["--set", setting]);
    }
    let rendered = helm.output().unwrap();
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let text = String::from_utf8(rendered.stdout).unwrap();
    let documents = text.split("\n---\n").map(|document| document.trim_start_matches("---\n"));
    let of_kind = documents.filter(|document| {
        let line = format!("kind: {kind}");
        document.lines().any(|found| found == line)
    });
    of_kind.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}
