//! Certificates of gateways in a Secret of a real API server, which rotate while gateways connect to each other.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams};
use parking_lot::Mutex;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::json;
use tokio::sync::watch;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster_kubernetes::{DataKind, DataObject, Entries, watch_entries};
use weir_cluster_tls_port::CertificateOptions;
use weir_controller::Leadership;
use weir_controller_kubernetes::{gateway_certificates, keep_gateway_certificates};

use crate::world::World;

const NAME: &str = "weir-gateway";
const SECRET: &str = "weir-gateway-peers";

/// Timeout of every wait, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(60);

/// A controller that keeps the certificates.
struct Controller {
    role: watch::Sender<Leadership>,
    _task: AbortOnDropHandle<()>,
}

/// TLS of a gateway as it last read the Secret.
struct Gateway {
    tls: Arc<Mutex<Option<(Arc<ServerConfig>, Arc<ClientConfig>)>>>,
    _task: AbortOnDropHandle<()>,
}

impl World {
    fn secrets_of_gateways(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes the Secret as the chart does, without content.
    async fn make_empty_secret(&self) {
        self.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}})).await;
    }

    /// Returns settings with which certificates live for seconds.
    fn certificates(&self) -> CertificateOptions {
        CertificateOptions {
            lifetime: Duration::from_secs(60),
            renew_after: Duration::from_secs(6),
            settle: Duration::from_secs(3),
            ..gateway_certificates(SECRET, &self.namespace, NAME)
        }
    }

    fn certifying_controller(&self, leadership: Leadership) -> Controller {
        let (role, roles) = watch::channel(leadership);
        let keeping = keep_gateway_certificates(self.client.clone(), self.certificates(), roles);
        Controller { role, _task: AbortOnDropHandle::new(tokio::spawn(keeping)) }
    }

    /// Starts a gateway that uses each content of the Secret after a delay.
    fn gateway(&self, delay: Duration) -> Gateway {
        let object = DataObject { kind: DataKind::Secret, namespace: self.namespace.clone(), name: SECRET.to_owned() };
        let mut contents = watch_entries(&self.client, &object, || ());
        let tls = Arc::new(Mutex::new(None));
        let used = Arc::clone(&tls);
        let following = async move {
            while let Some(content) = contents.next().await {
                tokio::time::sleep(delay).await;
                if content.contains_key("tls.crt") {
                    *used.lock() = Some(configurations(&content));
                }
            }
        };
        Gateway { tls, _task: AbortOnDropHandle::new(tokio::spawn(following)) }
    }

    /// Waits until the Secret has a certificate and its authority, and returns its content.
    async fn until_made(&self) -> Entries {
        let object = DataObject { kind: DataKind::Secret, namespace: self.namespace.clone(), name: SECRET.to_owned() };
        let mut contents = watch_entries(&self.client, &object, || ());
        let made = async {
            loop {
                let content = contents.next().await.unwrap();
                if content.get("tls.crt").is_some_and(|pem| pem.starts_with(b"-----BEGIN"))
                    && content.contains_key("ca.crt")
                {
                    return content;
                }
            }
        };
        tokio::time::timeout(SOON, made).await.unwrap()
    }
}

/// Returns the TLS configurations of a gateway with this content of the Secret, for connections that it accepts and opens.
fn configurations(content: &Entries) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&content["ca.crt"]) {
        roots.add(authority.unwrap()).unwrap();
    }
    let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
    let chain = vec![CertificateDer::from_pem_slice(&content["tls.crt"]).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(&content["tls.key"]).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let server = server.unwrap().with_client_cert_verifier(verifier.build().unwrap());
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_client_auth_cert(chain.clone(), key.clone_key());
    (Arc::new(server.with_single_cert(chain, key).unwrap()), Arc::new(client.unwrap()))
}

impl Gateway {
    /// Opens a connection to another gateway, and returns the certificate that it presented; `None` while one of them has no
    /// certificate.
    async fn connect(&self, other: &Self) -> Option<Vec<u8>> {
        let client = self.tls.lock().as_ref().map(|(_, client)| Arc::clone(client))?;
        let server = other.tls.lock().as_ref().map(|(server, _)| Arc::clone(server))?;
        let (here, there) = tokio::io::duplex(16 << 10);
        let connecting = TlsConnector::from(client).connect(NAME.try_into().unwrap(), here);
        let (connected, accepted) = tokio::join!(connecting, TlsAcceptor::from(server).accept(there));
        let accepted = accepted.unwrap();
        assert!(accepted.get_ref().1.peer_certificates().is_some());
        let connected = connected.unwrap();
        let presented = connected.get_ref().1.peer_certificates().unwrap();
        Some(presented[0].to_vec())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_gateways_rotate_and_no_connection_fails() {
    let world = World::new("peers-rotate").await;
    world.make_empty_secret().await;
    let gateways = [world.gateway(Duration::ZERO), world.gateway(Duration::from_secs(1))];
    let (first, second) =
        (world.certifying_controller(Leadership::Leading), world.certifying_controller(Leadership::Standby));
    let (mut seen, mut connections) = (BTreeSet::new(), 0);
    let rotations = async {
        while seen.len() < 5 {
            for (one, other) in [(0, 1), (1, 0)] {
                let presented = gateways[one].connect(&gateways[other]).await;
                connections += usize::from(presented.is_some());
                seen.extend(presented);
            }
            if seen.len() == 2 {
                // Another controller takes over, perhaps between two steps of a rotation.
                first.role.send_replace(Leadership::Standby);
                second.role.send_replace(Leadership::Leading);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON * 2, rotations).await.unwrap();
    assert!(connections > 100, "{connections}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_share_the_certificate_of_gateways_and_restore_it() {
    let world = World::new("peers-restore").await;
    world.make_empty_secret().await;
    let _controllers =
        [world.certifying_controller(Leadership::Leading), world.certifying_controller(Leadership::Leading)];
    let made = world.until_made().await;
    assert_eq!(made.keys().collect::<Vec<_>>(), ["ca.crt", "pairs.json", "tls.crt", "tls.key"]);
    let secrets = world.secrets_of_gateways();
    let broken = Patch::Merge(json!({"data": {"tls.crt": "YQ==", "ca.crt": null}}));
    secrets.patch(SECRET, &PatchParams::default(), &broken).await.unwrap();
    let restored = world.until_made().await;
    assert!(restored["tls.crt"].starts_with(b"-----BEGIN") && restored["ca.crt"].starts_with(b"-----BEGIN"));
}
