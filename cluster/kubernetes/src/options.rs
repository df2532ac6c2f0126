//! Settings of the cluster.

use crate::view::View;

/// Settings of the cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace of Weir itself: its gateways' Service and its Leases.
    pub namespace: String,
    /// Domain of the cluster's own names.
    pub cluster_domain: String,
    /// What of the cluster this process watches.
    pub view: View,
    /// Image of the program `weir`, which fetches models.
    pub weir_image: String,
    /// PriorityClass of pods that name none; unset where there is no such class.
    pub priority_class: Option<String>,
    /// Name of this process among those that ask for a lease, such as its pod's.
    pub process: String,
}

impl Options {
    /// Name of the gateways' Service.
    pub const GATEWAY: &'static str = "weir-gateway";
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "weir-system".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            view: View::default(),
            weir_image: concat!("weir:", env!("CARGO_PKG_VERSION")).to_owned(),
            priority_class: None,
            process: "weir".to_owned(),
        }
    }
}
