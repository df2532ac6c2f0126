//! The flags of Weir's processes on Kubernetes.

use std::net::IpAddr;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::ResourceRequirements;
use weir_controller::UrlScheme;

use super::LimitArgs;
use super::domain::domain;
use super::object_name::object_name;
use super::price;
use super::storage_initializer::{resources, variable};

const GATEWAY: &str = "\
The gateway finds the API server as kubectl does: by the pod's service account, else by KUBECONFIG.
It is ready once it knows every route. While the API server is unavailable, it keeps serving with
the last known routes. Several gateways can share the traffic.

The Helm chart runs it; see docs/kubernetes.md.";

const CONTROLLER: &str = "\
The controller finds the API server as kubectl does: by the pod's service account, else by
KUBECONFIG. Of several controllers, only the holder of the Lease weir-controller acts; another one
takes over when the holder fails.

The Helm chart runs it; see docs/kubernetes.md.";

const AUTOSCALER: &str = "\
The autoscaler finds the API server as kubectl does: by the pod's service account, else by
KUBECONFIG. Of several autoscalers, only the holder of the Lease weir-autoscaler acts; another one
takes over when the holder fails. While none runs, the numbers of replicas stay as they are.

The Helm chart runs it; see docs/kubernetes.md.";

/// Routes requests to the InferenceServices of a Kubernetes cluster and balances them over their pods.
#[derive(Debug, clap::Args)]
#[command(after_help = GATEWAY)]
pub(crate) struct GatewayArgs {
    /// Port for requests, HTTP and gRPC; 0 chooses a free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// Certificate chain for --tls-port, in PEM. The gateway reloads it when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Additional port for requests over TLS only, opened if --tls-cert is set; 0 chooses a free one. Pods of the
    /// cluster and other gateways keep using --port.
    #[arg(long, value_name = "PORT", default_value_t = 8443, help_heading = "TLS")]
    pub(crate) tls_port: u16,

    /// File with the keys of clients and the rules that allow requests; repeatable, and read again when it changes. If
    /// it is set, requests that no rule allows are refused [default: every request is served].
    #[arg(long = "access-file", value_name = "FILE", help_heading = "Access")]
    pub(crate) access_files: Vec<PathBuf>,

    /// Secret in --namespace whose entries are files like --access-file; repeatable. The gateway serves requests once
    /// it has read the Secret, and applies a change within a second. The Secret need not exist.
    #[arg(long = "access-secret", value_name = "NAME", value_parser = object_name, help_heading = "Access")]
    pub(crate) access_secrets: Vec<String>,

    /// ConfigMap like --access-secret, for rules and issuers; repeatable.
    #[arg(long = "access-config-map", value_name = "NAME", value_parser = object_name, help_heading = "Access")]
    pub(crate) access_config_maps: Vec<String>,

    #[command(flatten)]
    pub(crate) peers: PeerArgs,

    /// Secret in --namespace with tls.crt, tls.key and ca.crt, by which the gateway connects to replicas that serve
    /// TLS, such as the one that controllers keep with --replica-tls-port. The gateway watches it, and serves once it
    /// has read it; the certificate may be made later [default: such replicas cannot be reached].
    #[arg(long, value_name = "NAME", value_parser = object_name, help_heading = "TLS to replicas")]
    pub(crate) replica_secret: Option<String>,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Flags for the connections between gateways.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS between gateways")]
pub(crate) struct PeerArgs {
    /// Certificate chain by which other gateways recognise this one, in PEM. With it, requests are handed over to other
    /// gateways over TLS, on --port. The three files are read again when they change [default: gateways recognise each
    /// other by their addresses].
    #[arg(long, value_name = "FILE", requires_all = ["peer_key", "peer_ca"])]
    pub(crate) peer_cert: Option<PathBuf>,

    /// Private key of --peer-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "peer_cert")]
    pub(crate) peer_key: Option<PathBuf>,

    /// Authorities that sign the certificates of gateways, in PEM.
    #[arg(long, value_name = "FILE", requires = "peer_cert")]
    pub(crate) peer_ca: Option<PathBuf>,

    /// Secret in --namespace with tls.crt, tls.key and ca.crt in place of the three files, such as the one that controllers
    /// keep with their --peer-secret. The gateway watches it, and serves once it has read it; the certificates may be made
    /// later.
    #[arg(long, value_name = "NAME", value_parser = object_name, conflicts_with = "peer_cert")]
    pub(crate) peer_secret: Option<String>,

    /// The only DNS name of the certificates of all gateways.
    #[arg(long, value_name = "NAME", default_value = "weir-gateway")]
    pub(crate) peer_name: String,

    /// Proof by which a gateway recognises another one. Begin with certificate-or-address, and change to certificate once
    /// all gateways have certificates.
    #[arg(long, value_enum, value_name = "PROOF", default_value = "certificate")]
    pub(crate) peer_trust: PeerTrustFlag,
}

/// Proof by which a gateway recognises another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PeerTrustFlag {
    /// The certificate of its connection alone.
    Certificate,
    /// The certificate, or its IP address, and plain connections to gateways that speak no TLS.
    CertificateOrAddress,
}

/// Creates Deployments and routes for the InferenceServices of a Kubernetes cluster, and writes their status.
#[derive(Debug, clap::Args)]
#[command(after_help = CONTROLLER)]
pub(crate) struct ControllerArgs {
    /// Scheme of the external URLs in each status: http, or https if the gateways or a proxy before them terminate TLS.
    #[arg(long, value_name = "SCHEME", default_value_t)]
    pub(crate) url_scheme: UrlScheme,

    /// Image of this program, which downloads models in init containers [default: the weir image of this version].
    #[arg(long, value_name = "IMAGE", env = "WEIR_IMAGE")]
    pub(crate) image: Option<String>,

    /// Resources of the init containers that download models, as JSON with `requests` and `limits` [default: 100m CPU and
    /// 100Mi of memory, at most 1 CPU and 1Gi].
    #[arg(long, value_name = "JSON", value_parser = resources, help_heading = "Downloads of models")]
    pub(crate) storage_initializer_resources: Option<ResourceRequirements>,

    /// Environment variable of the init containers that download models, such as HTTPS_PROXY=http://proxy:3128;
    /// repeatable.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, help_heading = "Downloads of models")]
    pub(crate) storage_initializer_env: Vec<(String, String)>,

    /// ConfigMap in the services' namespaces whose key cabundle.crt has the private certificate authorities that
    /// downloads trust [default: none].
    #[arg(long, value_name = "NAME", help_heading = "Downloads of models")]
    pub(crate) storage_initializer_ca_bundle: Option<String>,

    /// URL of the cache of models on each node (`weir model-cache`). Init containers download from it first, and
    /// otherwise from the model's URI [default: none].
    #[arg(long, value_name = "URL", help_heading = "Downloads of models")]
    pub(crate) model_cache_url: Option<String>,

    /// PriorityClass of pods that set none. It must exist [default: none].
    #[arg(long, value_name = "NAME", env = "WEIR_PRIORITY_CLASS")]
    pub(crate) priority_class: Option<String>,

    /// Watch the labels of nodes with NVIDIA GPUs, so that a service whose GPUs are shared with other pods has the
    /// condition GpuNotIsolated. This needs the right to list and watch nodes [default: only the name of a resource, such
    /// as nvidia.com/gpu.shared, shows it].
    #[arg(long)]
    pub(crate) watch_gpu_nodes: bool,

    /// Port of the validating webhook (TLS), which refuses InferenceServices with errors when they are applied; 0
    /// chooses a free one [default: no webhook].
    #[arg(long, value_name = "PORT")]
    pub(crate) webhook_port: Option<u16>,

    /// Secret in --namespace in which the leading controller keeps the certificates of gateways, for their --peer-secret. It
    /// makes a new one every two days [default: none].
    #[arg(long, value_name = "NAME", value_parser = object_name, help_heading = "TLS between gateways")]
    pub(crate) peer_secret: Option<String>,

    /// The only DNS name of the certificates of gateways, as their --peer-name.
    #[arg(long, value_name = "NAME", default_value = "weir-gateway", help_heading = "TLS between gateways")]
    pub(crate) peer_name: String,

    /// Port (TLS) on which replicas get certificates that name their revisions, from an authority in the Secret
    /// weir-replica-authority in --namespace. The leading controller keeps the certificate of gateways for these replicas in
    /// the Secret weir-gateway-replicas; 0 chooses a free port [default: no certificates].
    #[arg(long, value_name = "PORT", help_heading = "TLS to replicas")]
    pub(crate) replica_tls_port: Option<u16>,

    /// Let the replicas of new revisions serve requests by TLS alone, where they run weir-runtime. Gateways without
    /// --replica-secret cannot reach them.
    #[arg(long, requires = "replica_tls_port", help_heading = "TLS to replicas")]
    pub(crate) replica_tls: bool,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Scales the pods of the InferenceServices of a Kubernetes cluster by the load that the gateways report.
#[derive(Debug, clap::Args)]
#[command(after_help = AUTOSCALER)]
pub(crate) struct AutoscalerArgs {
    /// Metrics API of Kubernetes to provide, from which HorizontalPodAutoscalers read; repeatable [default: none].
    #[arg(long, value_enum, value_name = "API")]
    pub(crate) metrics_api: Vec<MetricsApi>,

    /// Port of the metrics APIs, which the API server calls over TLS; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub(crate) metrics_port: u16,

    /// Price of one GPU per hour, in any currency, exported as a metric so that dashboards can compute costs.
    #[arg(long, value_name = "PRICE", value_parser = price)]
    pub(crate) gpu_price: Option<f64>,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// A metrics API of Kubernetes. A cluster has only one provider of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MetricsApi {
    /// custom.metrics.k8s.io, with metrics of pods and InferenceServices.
    Custom,
    /// external.metrics.k8s.io, with metrics of services, selected by label.
    External,
}

/// Flags common to all processes on Kubernetes.
#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Port for /metrics, /health and /ready; 0 chooses a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub(crate) admin_port: u16,

    /// File with one bearer token in each line. Requests from other pods to --admin-port need one of them, except for
    /// /health and /ready. The processes of Weir send the first token to each other. It is read again when it changes
    /// [default: no token].
    #[arg(long, value_name = "FILE")]
    pub(crate) admin_token_file: Option<PathBuf>,

    /// IP address on which all ports listen.
    #[arg(long, default_value = "0.0.0.0")]
    pub(crate) address: IpAddr,

    /// Namespace in which Weir is installed, with the gateways' Service and Weir's Leases.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "weir-system")]
    pub(crate) namespace: String,

    /// Unique name of this process, usually its pod's name [default: the host's name].
    #[arg(long, env = "POD_NAME")]
    pub(crate) name: Option<String>,

    /// Only namespace whose InferenceServices are served [default: all namespaces].
    #[arg(long, value_name = "NAME")]
    pub(crate) watch_namespace: Option<String>,

    /// Domain of the service hosts NAME-NAMESPACE.DOMAIN. Set the same for all processes: gateways route no other hosts
    /// to services.
    #[arg(long, default_value = "example.com", value_parser = domain)]
    pub(crate) domain: String,

    /// DNS domain of the Kubernetes cluster.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = domain)]
    pub(crate) cluster_domain: String,

    /// Log more: -v adds debug messages.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}
