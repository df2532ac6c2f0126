//! Port on which replicas get their certificates. Every pod in the cluster can reach it, so the number of concurrent
//! requests to the API server is bounded, and request bodies are not read.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, StatusCode, header};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::sync::Semaphore;
use weir_cluster_kubernetes::{TokenPod, pod_of_token};
use weir_cluster_tls_port::Holder;
use weir_serve::{ConnectionLimits, Pace};

use super::{LIFETIME, RENEW_AFTER, ReplicaCertificates, decide, wall_clock};

/// Path of requests for a certificate.
pub(super) const PATH: &str = "/v1/certificate";

/// Audience of the tokens of pods. The API server and other services do not accept them.
const AUDIENCE: &str = "weir-certificates";

/// Limits on the connections. A replica connects once a day, and many may start at once.
pub(super) const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 256,
    per_client: 32,
    idle: Duration::from_secs(10),
    stall: Duration::from_secs(5),
    pace: Pace { grace: Duration::from_secs(5), rate: 1024 },
};

/// Maximum number of concurrent requests to the API server.
const AT_ONCE: usize = 8;

/// Longest wait of a request while [`AT_ONCE`] others are in progress.
const WAIT: Duration = Duration::from_secs(5);

/// Longest wait for the API server's answer about a pod.
const POD_TIMEOUT: Duration = Duration::from_secs(5);

/// Scheme of `Authorization` for tokens (RFC 6750).
const BEARER: &str = "Bearer ";

/// Status and sentence of a refusal.
type Refused = (StatusCode, String);

/// Returns the router for requests of replicas.
pub(super) fn router(certificates: ReplicaCertificates) -> Router {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let answer = async move |request: Request| answer(&certificates, &places, request.headers()).await;
    Router::new().route(PATH, post(answer))
}

async fn answer(certificates: &ReplicaCertificates, places: &Semaphore, headers: &HeaderMap) -> Response {
    match signed(certificates, places, headers).await {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err((status, sentence)) => (status, sentence + "\n").into_response(),
    }
}

/// Returns a new certificate for the pod whose token is in these headers.
async fn signed(
    certificates: &ReplicaCertificates,
    places: &Semaphore,
    headers: &HeaderMap,
) -> Result<String, Refused> {
    let token = token(headers).ok_or_else(unauthorized)?;
    let busy =
        || (StatusCode::SERVICE_UNAVAILABLE, "too many replicas request certificates at once: retry later".to_owned());
    let _place = tokio::time::timeout(WAIT, places.acquire()).await.map_err(|_| busy())?.map_err(|_| busy())?;
    let pod = pod_of_token(&certificates.client, token, AUDIENCE).await.map_err(unavailable)?;
    let named = pod.ok_or_else(unauthorized)?;
    let found = find(certificates, &named).await?;
    let revision =
        decide::revision(found.as_ref(), &named).map_err(|refusal| (StatusCode::FORBIDDEN, refusal.to_string()))?;
    let uri = decide::uri(&revision);
    let pair = certificates.authorities.sign(Holder::Replica(&uri), wall_clock(), LIFETIME).map_err(unavailable)?;
    tracing::info!(%revision, namespace = named.namespace, pod = named.name, "a replica got a certificate");
    let (certificate, key) = (pair.certificate(), pair.key());
    let (valid, renew) = (LIFETIME.as_secs(), RENEW_AFTER.as_secs());
    Ok(json!({
        "certificate": certificate,
        "key": key,
        "authorities": certificates.authorities(),
        "validSeconds": valid,
        "renewSeconds": renew,
    })
    .to_string())
}

/// Reads the pod from the API server, because a watch may not show a new pod yet.
async fn find(certificates: &ReplicaCertificates, named: &TokenPod) -> Result<Option<Pod>, Refused> {
    let pods: Api<Pod> = Api::namespaced(certificates.client.clone(), &named.namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", named.name));
    let listed = tokio::time::timeout(POD_TIMEOUT, pods.list(&params)).await.map_err(unavailable)?;
    Ok(listed.map_err(unavailable)?.items.pop())
}

fn token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    value.strip_prefix(BEARER)
}

fn unauthorized() -> Refused {
    let sentence = format!("a token of a pod for the audience {AUDIENCE} is needed");
    (StatusCode::UNAUTHORIZED, sentence)
}

/// Returns the response to a request that failed in the controller or at the API server. Only the controller's log has
/// the cause.
fn unavailable(error: impl std::fmt::Display) -> Refused {
    tracing::warn!(%error, "cannot sign the certificate of a replica");
    (StatusCode::SERVICE_UNAVAILABLE, "no certificate can be signed now: retry later".to_owned())
}
