//! The flags of Weir's processes on Kubernetes.

use std::net::IpAddr;
use std::path::PathBuf;

use weir_controller::UrlScheme;

use super::LimitArgs;
use super::domain::domain;
use super::price::price;

const GATEWAY: &str = "\
It finds the API server as kubectl does: by the pod's service account, else by KUBECONFIG. It is
ready once it knows every route, and keeps serving what it knows while the API server is away.
Several share the work.

The Helm chart runs it; see docs/kubernetes.md.";

const CONTROLLER: &str = "\
It finds the API server as kubectl does: by the pod's service account, else by KUBECONFIG. Of
several, the one with the Lease weir-controller acts, and another follows when it is gone.

The Helm chart runs it; see docs/kubernetes.md.";

const AUTOSCALER: &str = "\
It finds the API server as kubectl does: by the pod's service account, else by KUBECONFIG. Of
several, the one with the Lease weir-autoscaler acts, and another follows when it is gone. While it
is away replicas stay as they are.

The Helm chart runs it; see docs/kubernetes.md.";

/// Takes requests for the InferenceServices of a Kubernetes cluster, and sends them to their pods.
#[derive(Debug, clap::Args)]
#[command(after_help = GATEWAY)]
pub(crate) struct GatewayArgs {
    /// Port for requests, HTTP and gRPC; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,

    /// Certificate chain for --tls-port, in PEM. Read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,

    /// With --tls-cert, another port for requests, which speaks TLS only; 0 takes a free one. Pods of the cluster
    /// and the other gateways keep using --port.
    #[arg(long, value_name = "PORT", default_value_t = 8443, help_heading = "TLS")]
    pub(crate) tls_port: u16,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Makes Deployments and routes of the InferenceServices of a Kubernetes cluster, and writes their status.
#[derive(Debug, clap::Args)]
#[command(after_help = CONTROLLER)]
pub(crate) struct ControllerArgs {
    /// Scheme of the URLs for callers outside, in each status: http, or https where the gateways or a proxy before
    /// them end TLS.
    #[arg(long, value_name = "SCHEME", default_value_t)]
    pub(crate) url_scheme: UrlScheme,

    /// Image of this program, which fetches models in pods [default: weir, of this version].
    #[arg(long, value_name = "IMAGE", env = "WEIR_IMAGE")]
    pub(crate) image: Option<String>,

    /// PriorityClass of pods that name none; it must exist.
    #[arg(long, value_name = "NAME", env = "WEIR_PRIORITY_CLASS")]
    pub(crate) priority_class: Option<String>,

    /// Port of the webhook that refuses InferenceServices with errors when they are applied, over TLS; 0 takes a free one
    /// [default: none].
    #[arg(long, value_name = "PORT")]
    pub(crate) webhook_port: Option<u16>,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// Sets the number of pods of each InferenceService of a Kubernetes cluster, by the load that the gateways report.
#[derive(Debug, clap::Args)]
#[command(after_help = AUTOSCALER)]
pub(crate) struct AutoscalerArgs {
    /// Provides a metrics API of Kubernetes, which HorizontalPodAutoscalers read; may be repeated.
    #[arg(long, value_enum, value_name = "API")]
    pub(crate) metrics_api: Vec<MetricsApi>,

    /// Port of the metrics APIs, which the API server calls over TLS; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9443)]
    pub(crate) metrics_port: u16,

    /// Price of a GPU for an hour, in any currency, for the metrics: with it they say what is spent.
    #[arg(long, value_name = "PRICE", value_parser = price)]
    pub(crate) gpu_price: Option<f64>,

    #[command(flatten)]
    pub(crate) process: ProcessArgs,
}

/// A metrics API of Kubernetes. A cluster has one provider of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MetricsApi {
    /// custom.metrics.k8s.io: metrics of pods and InferenceServices.
    Custom,
    /// external.metrics.k8s.io: metrics of services, chosen by label.
    External,
}

/// Flags that all processes on Kubernetes have.
#[derive(Debug, clap::Args)]
pub(crate) struct ProcessArgs {
    /// Port for /metrics, /health and /ready; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    pub(crate) admin_port: u16,

    /// Address of the ports.
    #[arg(long, default_value = "0.0.0.0")]
    pub(crate) address: IpAddr,

    /// Namespace of Weir itself, with its gateways' Service and its Leases.
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE", default_value = "weir-system")]
    pub(crate) namespace: String,

    /// Name of this process, unique among those that run: its pod's [default: the host's name].
    #[arg(long, env = "POD_NAME")]
    pub(crate) name: Option<String>,

    /// The one namespace whose InferenceServices are looked after [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) watch_namespace: Option<String>,

    /// Domain of the services' hosts, which are NAME-NAMESPACE.DOMAIN. The same for all processes: gateways send no
    /// request for another host to a service.
    #[arg(long, default_value = "example.com", value_parser = domain)]
    pub(crate) domain: String,

    /// Domain of the cluster's own names.
    #[arg(long, value_name = "DOMAIN", default_value = "cluster.local", value_parser = domain)]
    pub(crate) cluster_domain: String,

    /// Log more: -v debug messages too.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}
