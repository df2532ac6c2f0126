//! The manifest of a service whose container is our test server.

use std::path::Path;

use serde_json::json;

use crate::server;

/// The service's name.
pub(crate) const NAME: &str = "echo";

/// The same, of a server that answers inferences once the file `gate` is there.
pub(crate) fn gated(gate: &Path) -> String {
    let variable = format!(
        "          - name: {}\n            value: {}\n",
        server::GATE,
        gate.display()
    );
    manifest("one", None) + &variable
}

/// YAML is a superset of JSON, but people edit YAML: the outer part is written as they do.
pub(crate) fn manifest(label: &str, canary: Option<u8>) -> String {
    let share = canary.map_or(String::new(), |percent| {
        format!("    canaryTrafficPercent: {percent}\n")
    });
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {NAME}
  annotations:
    autoscaling.knative.dev/scale-to-zero-pod-retention-period: 1s
spec:
  predictor:
    minReplicas: 0
    maxReplicas: 2
{share}    containers:
      - name: kserve-container
        command: {command}
        env:
          - name: {variable}
            value: {label}
          - name: PORT
            value: $(PORT)
",
        command = json!(server::command()),
        variable = server::LABEL,
    )
}
