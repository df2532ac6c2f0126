//! Options of the connection to a cluster.

use crate::fetch_options::FetchOptions;
use k8s_openapi::NamespaceResourceScope;
use kube::api::Api;
use kube::{Client, Resource};
use weir_cluster::Domains;

/// Options of the connection to a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace of Weir itself, with the gateways' Service and the Leases.
    pub namespace: String,
    /// Domain of the services' hosts for clients outside the cluster.
    pub domain: String,
    /// Domain of names inside the cluster, usually `cluster.local`.
    pub cluster_domain: String,
    /// Kinds of objects that this process watches.
    pub scope: WatchScope,
    /// Image of the program `weir`, used to fetch models.
    pub weir_image: String,
    /// Init containers that fetch models.
    pub fetch: FetchOptions,
    /// Source of the certificates of new revisions that run Weir's own runtime; None if they serve requests plainly.
    pub certificates: Option<CertificateSource>,
    /// PriorityClass of pods that name none; None to set no class.
    pub priority_class: Option<String>,
    /// Only namespace whose services are managed; None for all namespaces.
    pub watched: Option<String>,
    /// Use of the labels of nodes with GPUs.
    pub gpu_nodes: GpuNodes,
    /// Name of this process as a holder of leases, such as its pod's name.
    pub process: String,
}

/// Source of the certificates of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSource {
    /// URL at which controllers sign them.
    pub url: String,
    /// Authority of that URL and of the certificates, in PEM.
    pub authority: String,
}

/// Use of the labels of nodes with GPUs, which show if pods share a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuNodes {
    /// Nodes are not read, so only the name of a resource can show that a GPU is shared.
    Ignored,
    /// The metadata of nodes is watched. This needs the right to list and watch nodes.
    Watched,
}

impl Options {
    /// Name of the gateways' Service.
    pub const GATEWAY: &'static str = "weir-gateway";

    /// Returns the domains of the hosts that services may have.
    pub(crate) fn domains(&self) -> Domains {
        Domains { external: self.domain.clone(), cluster: self.cluster_domain.clone() }
    }

    /// Returns the API for objects in the watched namespaces.
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
            fetch: FetchOptions::default(),
            certificates: None,
            priority_class: None,
            watched: None,
            gpu_nodes: GpuNodes::Ignored,
            process: "weir".to_owned(),
        }
    }
}

/// Kinds of objects that a process watches, and therefore must be allowed to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchScope {
    /// Services and EndpointSlices: all that a gateway needs. They do not show how many replicas of a revision without
    /// endpoints are desired, or why none exists. If its policy allows zero replicas, it counts as scaled to zero, so
    /// that a request wakes it.
    Gateway,
    /// Deployments and Pods too, which show the desired replicas and the failures.
    #[default]
    Control,
}
