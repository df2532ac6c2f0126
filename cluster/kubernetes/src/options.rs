//! Settings of the cluster.

use crate::watch_scope::WatchScope;
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};
use weir_cluster::Domains;

/// Settings of the cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace of Weir itself: its gateways' Service and its Leases.
    pub namespace: String,
    /// Domain of the services' hosts for callers outside.
    pub domain: String,
    /// Domain of the cluster's own names.
    pub cluster_domain: String,
    /// What of the cluster this process watches.
    pub scope: WatchScope,
    /// Image of the program `weir`, which fetches models.
    pub weir_image: String,
    /// PriorityClass of pods that name none; unset where there is no such class.
    pub priority_class: Option<String>,
    /// The one namespace whose services are looked after; unset: all.
    pub watched: Option<String>,
    /// Name of this process among those that ask for a lease, such as its pod's.
    pub process: String,
}

impl Options {
    /// Name of the gateways' Service.
    pub const GATEWAY: &'static str = "weir-gateway";

    /// The domains of the hosts that services may have.
    pub(crate) fn domains(&self) -> Domains {
        Domains { external: self.domain.clone(), cluster: self.cluster_domain.clone() }
    }

    /// The objects of the watched namespaces.
    pub fn watched<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        match &self.watched {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            namespace: "weir-system".to_owned(),
            domain: "example.com".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            scope: WatchScope::default(),
            weir_image: concat!("weir:", env!("CARGO_PKG_VERSION")).to_owned(),
            priority_class: None,
            watched: None,
            process: "weir".to_owned(),
        }
    }
}
