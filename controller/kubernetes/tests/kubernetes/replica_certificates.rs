//! Certificates of replicas: tokens that a real API server has signed for pods, and Secrets of a real API server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, Secret, ServiceAccount};
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster_kubernetes::{DataKind, DataObject, watch_entries};
use weir_controller::Leadership;
use weir_controller_kubernetes::ReplicaCertificates;

use crate::world::World;

/// Timeout of every wait, on a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(60);

const AUDIENCE: &str = "weir-certificates";

const ACCOUNT: &str = "server";

/// A controller's port for replicas.
struct Port {
    address: SocketAddr,
    host: String,
    authority: String,
    _stop: DropGuard,
}

impl World {
    async fn make_empty_secrets(&self) {
        for name in ["weir-replica-authority", "weir-gateway-replicas"] {
            self.apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})).await;
        }
    }

    async fn replica_certificates(&self) -> ReplicaCertificates {
        ReplicaCertificates::open(self.client.clone(), &self.namespace, "cluster.local").await.unwrap()
    }

    fn port(&self, certificates: &ReplicaCertificates) -> Port {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = weir_serve::bind(address, weir_serve::PortUse::Exclusive).unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        tokio::spawn(certificates.clone().serve(listener, stop.clone()));
        let (host, authority) =
            (format!("weir-certificates.{}.svc.cluster.local", self.namespace), certificates.authorities().to_owned());
        assert_eq!(certificates.url(), format!("https://{host}/v1/certificate"));
        Port { address, host, authority, _stop: stop.drop_guard() }
    }

    fn replica_pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn make_account(&self) {
        self.apply(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}})).await;
    }

    /// Makes a pod, which no kubelet runs.
    async fn make_pod(&self, name: &str, labels: Value) -> Pod {
        let pod = json!({
            "metadata": { "name": name, "labels": labels },
            "spec": { "serviceAccountName": ACCOUNT, "containers": [{ "name": "a", "image": "weir-runtime:1" }] },
        });
        self.replica_pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
    }

    /// Returns a token as the kubelet mounts it in a pod, or one that is bound to no pod.
    async fn token(&self, pod: Option<&Pod>, audience: &str) -> String {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let bound = |pod: &Pod| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name_any()),
            uid: pod.meta().uid.clone(),
        };
        let spec = TokenRequestSpec {
            audiences: Some(vec![audience.to_owned()]),
            bound_object_ref: pod.map(bound),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let made = accounts.create_token_request(ACCOUNT, &PostParams::default(), &request).await;
        made.unwrap().status.unwrap().token.unwrap()
    }
}

impl Port {
    async fn ask(&self, token: &str) -> (StatusCode, String) {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(self.authority.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
        let stream = TcpStream::connect(self.address).await.unwrap();
        let stream = TlsConnector::from(config).connect(self.host.clone().try_into().unwrap(), stream).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
        let request = Request::post("/v1/certificate")
            .header("host", &self.host)
            .header("authorization", format!("Bearer {token}"))
            .body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }
}

fn revision_label(name: &str) -> Value {
    json!({ "weir.dev/revision": name })
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Checks that a certificate and its key belong together.
fn check_pair(certificate: &CertificateDer<'static>, key: &[u8]) {
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    config.with_single_cert(vec![certificate.clone()], PrivateKeyDer::from_pem_slice(key).unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_gets_a_certificate_of_its_own_revision_alone() {
    let world = World::new("replica-certificates").await;
    world.make_empty_secrets().await;
    world.make_account().await;
    let port = world.port(&world.replica_certificates().await);
    let pod = world.make_pod("one", revision_label("digits-predictor-00001")).await;
    let (status, body) = port.ask(&world.token(Some(&pod), AUDIENCE).await).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let issued: Value = serde_json::from_str(&body).unwrap();
    let certificate = CertificateDer::from_pem_slice(issued["certificate"].as_str().unwrap().as_bytes()).unwrap();
    assert!(contains(&certificate, "weir://replica-certificates/digits-predictor-00001"));
    check_pair(&certificate, issued["key"].as_str().unwrap().as_bytes());
    assert!(issued["renewSeconds"].as_u64().unwrap() < issued["validSeconds"].as_u64().unwrap());

    let plain = world.make_pod("plain", json!({})).await;
    let mislabelled = world.make_pod("mislabelled", revision_label("digits")).await;
    for (token, expected) in [
        (world.token(Some(&plain), AUDIENCE).await, StatusCode::FORBIDDEN),
        (world.token(Some(&mislabelled), AUDIENCE).await, StatusCode::FORBIDDEN),
        (world.token(None, AUDIENCE).await, StatusCode::UNAUTHORIZED),
        (world.token(Some(&pod), "https://kubernetes.default.svc").await, StatusCode::UNAUTHORIZED),
        ("guess".to_owned(), StatusCode::UNAUTHORIZED),
        ("x".repeat(9000), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
    ] {
        let (status, body) = port.ask(&token).await;
        assert_eq!(status, expected, "{body}");
        assert!(!body.contains("PRIVATE KEY"));
    }
    // A new pod of the same name is another pod.
    let former = world.token(Some(&pod), AUDIENCE).await;
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    world.replica_pods().delete("one", &now).await.unwrap();
    world.make_pod("one", revision_label("digits-predictor-00002")).await;
    let (status, body) = port.ask(&former).await;
    assert!(matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN), "{status} {body}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_share_one_authority_and_keep_the_certificate_of_gateways() {
    let world = World::new("replica-authority").await;
    world.make_empty_secrets().await;
    let (one, other) = tokio::join!(world.replica_certificates(), world.replica_certificates());
    assert_eq!(one.authorities(), other.authorities());
    assert_eq!(world.replica_certificates().await.authorities(), one.authorities());
    let (_leads, leadership) = watch::channel(Leadership::Leading);
    let _keeping = AbortOnDropHandle::new(tokio::spawn(one.clone().keep_gateways(leadership)));
    let (namespace, name) = (world.namespace.clone(), "weir-gateway-replicas".to_owned());
    let object = DataObject { kind: DataKind::Secret, namespace, name };
    let mut contents = watch_entries(&world.client, &object, || ());
    let made = async {
        loop {
            let content = contents.next().await.unwrap();
            if content.contains_key("tls.crt") {
                return content;
            }
        }
    };
    let made = tokio::time::timeout(SOON, made).await.unwrap();
    assert_eq!(made["ca.crt"], one.authorities().as_bytes());
    let certificate = CertificateDer::from_pem_slice(&made["tls.crt"]).unwrap();
    assert!(contains(&certificate, "weir-gateway"));
    check_pair(&certificate, &made["tls.key"]);
}

/// The steps of an administrator as in docs/kubernetes.md, with controllers that start again after each one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_is_replaced_by_one_that_pods_trust_before_it_signs() {
    let world = World::new("replica-authority-replaced").await;
    world.make_empty_secrets().await;
    world.make_account().await;
    let pod = world.make_pod("one", revision_label("digits-predictor-00001")).await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    let step = async |change: fn(&mut BTreeMap<String, ByteString>)| {
        let mut secret = secrets.get("weir-replica-authority").await.unwrap();
        change(secret.data.get_or_insert_default());
        secrets.replace("weir-replica-authority", &PostParams::default(), &secret).await.unwrap();
        world.replica_certificates().await
    };
    let before = world.replica_certificates().await.authorities().to_owned();
    let prepared = step(|entries| drop(entries.insert("next-authority.json".to_owned(), ByteString::default()))).await;
    let next = prepared.authorities().strip_prefix(&before).unwrap().to_owned();
    assert_eq!(world.replica_certificates().await.authorities(), prepared.authorities());
    let switched = step(|entries| {
        for (from, to) in [("authority.json", "former-authority.json"), ("next-authority.json", "authority.json")] {
            let moved = entries.remove(from).unwrap();
            entries.insert(to.to_owned(), moved);
        }
    });
    let switched = switched.await;
    assert_eq!(switched.authorities(), format!("{next}{before}"));
    // A pod of a revision that was made before still gets a certificate, and with it the authorities to trust.
    let port = Port { authority: before, ..world.port(&switched) };
    let (status, body) = port.ask(&world.token(Some(&pod), AUDIENCE).await).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let issued: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(issued["authorities"], switched.authorities());
    let after = step(|entries| drop(entries.remove("former-authority.json").unwrap())).await;
    assert_eq!(after.authorities(), next);
    let (status, _) = world.port(&after).ask(&world.token(Some(&pod), AUDIENCE).await).await;
    assert_eq!(status, StatusCode::OK);
}

/// Pods that run trust the authority that the Secret held, so it is not replaced.
#[tokio::test]
async fn an_authority_that_cannot_be_read_is_not_overwritten() {
    let world = World::new("replica-authority-broken").await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "weir-replica-authority" },
        "data": { "authority.json": "YQ==" },
    });
    world.apply(secret).await;
    for _ in 0..2 {
        let opened = ReplicaCertificates::open(world.client.clone(), &world.namespace, "cluster.local").await;
        assert!(opened.is_err());
    }
}
