//! Certificates by which gateways recognise each other.

use kube::Client;
use tokio::sync::watch;
use weir_cluster_tls_port::{CertificateOptions, Rotation};
use weir_controller::Leadership;

/// Returns the settings of the certificates with the DNS name `name` in the Secret `secret` of a namespace, which
/// gateways watch.
#[must_use]
pub fn gateway_certificates(secret: &str, namespace: &str, name: &str) -> CertificateOptions {
    CertificateOptions::of_peers(secret, namespace, name, "weir-controller")
}

/// Makes and renews the certificates while this process leads. Never returns; dropping the future ends it.
pub async fn keep_gateway_certificates(
    client: Client,
    options: CertificateOptions,
    leadership: watch::Receiver<Leadership>,
) {
    Rotation::of_peers(client, options).run(leadership, Leadership::Leading).await;
}
