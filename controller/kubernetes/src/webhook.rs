//! Validating webhook: a service that the controller would refuse is refused when it is applied.
//!
//! ```text
//!   API server ─ TLS ─► port ─► request ─► rules, those of the controller ─► response
//!                        ▲
//!   Secret ─► serving pair                  rotation, where this process leads ─► Secret, caBundle
//! ```
//!
//! If the webhook is not reachable, the API server admits objects without it (`failurePolicy: Ignore`). The errors in
//! such an object show in the service's conditions.

mod images;
mod metrics;
mod port;
mod request;
mod response;
mod rules;
mod storage;
mod taken_hosts;
mod verdict;

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use weir_cluster_tls_port::{ApiServers, Callers, CertificateOptions, Resolver, Rotation, TlsPort};
use weir_controller::{Declaration, Leadership, Platform};

pub use metrics::WebhookMetrics;
use rules::Rules;
pub use storage::{StorageUri, storage_errors, storage_uris};

/// Name of the webhook's Service, Secret and ValidatingWebhookConfiguration in the chart.
const NAME: &str = "weir-webhook";

/// Validating webhook of one process.
pub struct Webhook {
    client: Client,
    rules: Rules,
    options: CertificateOptions,
    metrics: WebhookMetrics,
}

/// Returns the certificate options of the chart's webhook in Weir's namespace.
#[must_use]
pub fn webhook_certificates(namespace: &str) -> CertificateOptions {
    CertificateOptions::of_service(NAME, namespace, "weir-controller")
}

impl Webhook {
    /// Returns a webhook that applies the rules of the controller to its declared services.
    #[must_use]
    pub fn new(
        client: Client,
        declaration: watch::Receiver<Arc<Declaration>>,
        platform: Platform,
        options: CertificateOptions,
    ) -> Self {
        Self { client, rules: Rules::new(declaration, platform), options, metrics: WebhookMetrics::default() }
    }

    /// Returns the metrics of the webhook's answers.
    #[must_use]
    pub fn metrics(&self) -> WebhookMetrics {
        self.metrics.clone()
    }

    /// Answers on this port until `stop`. The leading process keeps the certificates valid and publishes them to API
    /// servers.
    pub async fn serve(self, listener: TcpListener, leadership: watch::Receiver<Leadership>, stop: CancellationToken) {
        let resolver = Arc::<Resolver>::default();
        let rotation: Rotation<ApiServers<ValidatingWebhookConfiguration>> =
            Rotation::of_port(self.client, self.options, resolver.clone());
        let rotating = rotation.run(leadership, Leadership::Leading);
        let port = TlsPort { listener, resolver, callers: Callers::Any, limits: port::LIMITS };
        let answering = port.serve(port::router(self.rules, self.metrics), stop);
        tokio::select! {
            () = answering => {}
            () = rotating => {}
        }
    }
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Webhook");
        text.field("options", &self.options).finish_non_exhaustive()
    }
}
