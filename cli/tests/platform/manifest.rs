//! Manifests of services whose containers are the test's replica.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use crate::replica;
use crate::shared_dir::SharedDir;

/// Name of the service in most tests.
pub(crate) const NAME: &str = "echo";

/// Builder for the manifest of an InferenceService.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    name: String,
    replicas: (u32, u32),
    canary: Option<u8>,
    concurrency: Option<u32>,
    annotations: Vec<(String, String)>,
    command: Vec<String>,
    variables: Vec<(String, String)>,
    beside: String,
}

impl Service {
    /// Returns a service that scales from 0 to 2 replicas and answers with this label.
    pub(crate) fn new(label: &str) -> Self {
        let retention = "autoscaling.knative.dev/scale-to-zero-pod-retention-period";
        let service = Self {
            name: NAME.to_owned(),
            replicas: (0, 2),
            canary: None,
            concurrency: None,
            annotations: vec![(retention.to_owned(), "1s".to_owned())],
            command: replica::command(),
            variables: Vec::new(),
            beside: String::new(),
        };
        service.variable(replica::LABEL, label).variable("PORT", "$(PORT)")
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets the fewest and the most replicas.
    pub(crate) fn replicas(mut self, min: u32, max: u32) -> Self {
        self.replicas = (min, max);
        self
    }

    pub(crate) fn canary(mut self, percent: u8) -> Self {
        self.canary = Some(percent);
        self
    }

    /// Adds `spec.canary` with one entry named `label`, which has the container of a new manifest of that label.
    pub(crate) fn canary_beside(self, label: &str, percent: u8) -> Self {
        self.canary_of(&Self::new(label), label, percent)
    }

    /// Adds `spec.canary` with one entry named `label`, which has the container of `service`.
    pub(crate) fn canary_of(mut self, service: &Self, label: &str, percent: u8) -> Self {
        let container = container(&service.command, &service.variables);
        self.beside = format!(
            "  canary:
    - trafficPercent: {percent}
      predictor:
        name: {label}
        containers:
{}",
            indented(&container, "    ")
        );
        self
    }

    /// Sets the concurrent requests of a replica.
    pub(crate) fn concurrency(mut self, requests: u32) -> Self {
        self.concurrency = Some(requests);
        self
    }

    pub(crate) fn annotation(mut self, name: &str, value: &str) -> Self {
        self.annotations.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the time of an inference, in milliseconds.
    pub(crate) fn service_ms(self, ms: u32) -> Self {
        self.variable(replica::SERVICE_MS, &ms.to_string())
    }

    pub(crate) fn shared_dir(self, shared: &SharedDir) -> Self {
        self.variable(replica::SHARED_DIR, shared.path().to_str().unwrap())
    }

    /// Makes inferences wait until the file `gate` exists.
    pub(crate) fn gate(self, gate: &Path) -> Self {
        self.variable(replica::GATE, gate.to_str().unwrap())
    }

    /// Runs a shell script instead of the replica.
    pub(crate) fn shell(mut self, script: &str) -> Self {
        self.command = ["/bin/sh", "-c", script].map(str::to_owned).into();
        self
    }

    /// Returns the manifest as YAML in block style, as people write it.
    pub(crate) fn yaml(&self) -> String {
        let (min, max) = self.replicas;
        let annotations: BTreeMap<_, _> = self.annotations.iter().cloned().collect();
        let mut text = format!(
            "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata:
  name: {}
  annotations: {}
spec:
  predictor:
    minReplicas: {min}
    maxReplicas: {max}
",
            self.name,
            json!(annotations)
        );
        let canary = self.canary.map(u32::from);
        let numbers = [("canaryTrafficPercent", canary), ("containerConcurrency", self.concurrency)];
        for (field, value) in numbers {
            if let Some(value) = value {
                writeln!(text, "    {field}: {value}").unwrap();
            }
        }
        text + "    containers:\n" + &container(&self.command, &self.variables) + &self.beside
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }
}

fn container(command: &[String], variables: &[(String, String)]) -> String {
    let variables = variables.iter();
    let variables: Vec<_> = variables.map(|(name, value)| json!({"name": name, "value": value})).collect();
    format!(
        "      - name: kserve-container
        command: {}
        env: {}
",
        json!(command),
        json!(variables)
    )
}

fn indented(text: &str, by: &str) -> String {
    text.lines().map(|line| format!("{by}{line}\n")).collect()
}
