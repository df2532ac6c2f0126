use http::StatusCode;
use serde_json::{Value, json};

use super::*;

fn probe(container: Value) -> Probe {
    let mut container = container;
    container["name"] = "c".into();
    Probe::of(&serde_json::from_value(container).unwrap(), ServerKind::Foreign).unwrap()
}

fn endpoints(http: Option<u16>, grpc: Option<u16>) -> Endpoints {
    let at = |port| Address::from(std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    Endpoints { http: http.map(at), grpc: grpc.map(at), metrics: None }
}

fn target(probe: &Probe, endpoints: &Endpoints) -> (Option<String>, String) {
    let (path, address) = probe.target(endpoints).unwrap();
    (path.map(str::to_owned), address.to_string())
}

#[test]
fn without_a_readiness_probe_the_v2_ready_call_is_made() {
    let probe = probe(json!({}));
    let probed = target(&probe, &endpoints(Some(1), Some(2)));
    assert_eq!(probed, (Some(V2_READY.to_owned()), "127.0.0.1:1".to_owned()));
    let probed = target(&probe, &endpoints(None, Some(2)));
    assert_eq!(probed, (None, "127.0.0.1:2".to_owned()));
    assert!(probe.target(&endpoints(None, None)).is_err());
    let answered = |status| probe.evaluate(V2_READY, status);
    assert_eq!(answered(StatusCode::NOT_FOUND), Ok(Success::NoSuchCall));
    assert_eq!(answered(StatusCode::OK), Ok(Success::Answered));
    let error = probe.evaluate(V2_READY, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(error.unwrap_err(), "GET /v2/health/ready answered 503");
    assert!(!probe.is_v2());
}

#[test]
fn our_runtime_must_implement_the_v2_ready_call() {
    let probe = Probe::of(&Container::default(), ServerKind::Weir).unwrap();
    assert!(probe.is_v2());
    assert!(probe.evaluate(V2_READY, StatusCode::NOT_FOUND).is_err());
}

#[test]
fn a_readiness_probe_of_the_pod_is_used() {
    let get = probe(json!({ "readinessProbe": {
        "httpGet": { "path": "healthz", "port": 80 }, "failureThreshold": 5, "timeoutSeconds": 2,
        "periodSeconds": 7,
    }}));
    let probed = target(&get, &endpoints(Some(1), Some(2)));
    assert_eq!(probed, (Some("/healthz".to_owned()), "127.0.0.1:1".to_owned()));
    let times = (get.failure_threshold, get.timeout.as_secs(), get.period.as_secs());
    assert_eq!(times, (5, 2, 7));
    assert!(get.evaluate("/healthz", StatusCode::FOUND).is_ok());
    assert!(get.evaluate("/healthz", StatusCode::NOT_FOUND).is_err());
    let v2 = json!({ "readinessProbe": { "httpGet": { "path": V2_READY, "port": 80 }}});
    assert!(probe(v2).is_v2());

    let connect = probe(json!({
        "ports": [{ "containerPort": 80 }, { "containerPort": 81, "name": "grpc" }],
        "readinessProbe": { "tcpSocket": { "port": "grpc" } },
    }));
    let probed = target(&connect, &endpoints(Some(1), Some(2)));
    assert_eq!(probed, (None, "127.0.0.1:2".to_owned()));
}
