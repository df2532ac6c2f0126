//! Options of the init containers that fetch models.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Options of the init containers that fetch models.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchOptions {
    /// Resources of each container.
    pub resources: ResourceRequirements,
    /// Environment variables of each container, such as `HTTPS_PROXY`.
    pub env: BTreeMap<String, String>,
    /// ConfigMap of the service's namespace whose key `cabundle.crt` has the certificates of private authorities; None
    /// if no server needs one.
    pub ca_bundle: Option<String>,
    /// URL of the cache of models on each node; None without one.
    pub node_cache: Option<String>,
}

/// Default resources, as KServe's: files are streamed through memory in parts.
const REQUESTS: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "100Mi")];
const LIMITS: [(&str, &str); 2] = [("cpu", "1"), ("memory", "1Gi")];

impl Default for FetchOptions {
    fn default() -> Self {
        Self {
            resources: ResourceRequirements {
                requests: Some(quantities(REQUESTS)),
                limits: Some(quantities(LIMITS)),
                claims: None,
            },
            env: BTreeMap::new(),
            ca_bundle: None,
            node_cache: None,
        }
    }
}

fn quantities(all: [(&str, &str); 2]) -> BTreeMap<String, Quantity> {
    all.map(|(name, value)| (name.to_owned(), Quantity(value.to_owned()))).into()
}
