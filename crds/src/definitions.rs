//! The custom resource definitions for the API server.

/// A custom resource definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name of the resource: `inferenceservices.serving.kserve.io`.
    pub name: &'static str,
    /// Manifest of the definition, in YAML.
    pub yaml: &'static str,
}

/// The definitions of all four kinds. `make generate` writes them from the types.
pub const DEFINITIONS: [Definition; 4] = [
    Definition { name: "inferenceservices.serving.kserve.io", yaml: include_str!("../yaml/inferenceservices.yaml") },
    Definition { name: "servingruntimes.serving.kserve.io", yaml: include_str!("../yaml/servingruntimes.yaml") },
    Definition {
        name: "clusterservingruntimes.serving.kserve.io",
        yaml: include_str!("../yaml/clusterservingruntimes.yaml"),
    },
    Definition {
        name: "clusterstoragecontainers.serving.kserve.io",
        yaml: include_str!("../yaml/clusterstoragecontainers.yaml"),
    },
];
