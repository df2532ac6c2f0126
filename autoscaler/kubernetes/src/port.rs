//! Server of the metrics APIs on a TLS port.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::api::Api;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster_tls_port::{ApiServers, Callers, CertificateOptions, Resolver, Rotation, TlsPort};
use weir_serve::{ConnectionLimits, Pace};

use crate::callers::{CONFIG, proxy_verifier};
use crate::{Loads, MetricsApi};

/// Name of the port's Service and Secret in the chart.
const NAME: &str = "weir-metrics";

/// One of Kubernetes' metrics APIs. A cluster has only one provider of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvidedApi {
    /// `custom.metrics.k8s.io`, with metrics of pods and InferenceServices.
    Custom,
    /// `external.metrics.k8s.io`, with metrics of services, selected by label.
    External,
}

impl ProvidedApi {
    /// Returns the name of the APIService object for this API, which is the same for every provider.
    fn object(self) -> &'static str {
        match self {
            Self::Custom => "v1beta2.custom.metrics.k8s.io",
            Self::External => "v1beta1.external.metrics.k8s.io",
        }
    }
}

/// Limits on the connections; each API server keeps a few.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 64,
    per_client: 32,
    idle: Duration::from_secs(60),
    stall: Duration::from_secs(5),
    pace: Pace { grace: Duration::from_secs(5), rate: 64 * 1024 },
};

/// Pause before the ConfigMap is read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Returns the certificate settings of the chart's metrics APIs. APIs of another provider are left alone.
#[must_use]
pub fn metrics_certificates(namespace: &str, provided: &[ProvidedApi]) -> CertificateOptions {
    let objects = provided.iter().map(|api| api.object().to_owned());
    CertificateOptions {
        called_by: objects.collect(),
        ..CertificateOptions::of_service(NAME, namespace, "weir-autoscaler")
    }
}

/// Serves the metrics APIs on this port until `stop`. It begins once the ConfigMap with the CA of the API server's
/// client certificates can be read. The ConfigMap is read only once, so the process must be restarted after that CA has
/// changed.
pub async fn serve_metrics(
    client: Client,
    loads: Loads,
    certificates: CertificateOptions,
    listener: TcpListener,
    stop: CancellationToken,
) {
    let Some(callers) = stop.run_until_cancelled(callers(&client)).await else {
        return;
    };
    let resolver = Arc::<Resolver>::default();
    let rotation: Rotation<ApiServers<APIService>> = Rotation::of_port(client.clone(), certificates, resolver.clone());
    // All processes rotate the certificates; the first to write wins.
    let (_, always) = watch::channel(());
    let port = TlsPort { listener, resolver, callers, limits: LIMITS };
    tokio::select! {
        () = port.serve(MetricsApi::new(loads, client).router(), stop) => {}
        () = rotation.run(always, ()) => {}
    }
}

async fn callers(client: &Client) -> Callers {
    let (namespace, name) = CONFIG;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    loop {
        let read = match maps.get(name).await {
            Ok(map) => proxy_verifier(&map.data.unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(verifier) => return Callers::Verified(verifier),
            Err(error) => {
                tracing::warn!(
                    "the metrics APIs wait for the ConfigMap {namespace}/{name}, which says which clients may call: {error}"
                );
            }
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}
