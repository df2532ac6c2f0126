//! Ready calls through the gateway are answered at once, in any state of the service, and do not wake it.

use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};

use crate::client::GrpcClient;
use crate::fixture::Fixture;
use crate::http::send;
use crate::load::runtime;
use crate::manifest::Service;
use crate::weir::wait_until;

/// Limit for an immediate answer. It is far less than a service takes to start, for which a request may wait 55 s.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Host and path of each ready call over HTTP.
const CALLS: [(&str, &str); 6] = [
    ("localhost", "/v2/health/ready"),
    ("localhost", "/v2/models/echo/ready"),
    ("localhost", "/serving/default/echo/v2/health/ready"),
    ("localhost", "/serving/default/echo/v2/models/echo/ready"),
    ("echo-default.example.com", "/v2/health/ready"),
    ("echo.default", "/v2/models/echo/versions/1/ready"),
];

/// Sends each call, which must be answered at once; returns the status and text of each.
fn call_all(fixture: &Fixture) -> Vec<(u16, String)> {
    let call = |(host, path): &(&str, &str)| {
        let since = Instant::now();
        let answer = send(fixture.weir.serving, host, "GET", path);
        assert!(since.elapsed() < AT_ONCE, "{host}{path} took {:?}", since.elapsed());
        answer
    };
    CALLS.iter().map(call).collect()
}

/// Calls `ModelReady` and `ServerReady`; returns the readiness in field 1 of each message.
fn call_grpc(fixture: &Fixture) -> [bool; 2] {
    let mut grpc = GrpcClient::new(fixture.weir.serving);
    let mut name = vec![0, 0, 0, 0, 6, 10, 4];
    name.extend(b"echo");
    ["ModelReady", "ServerReady"].map(|rpc| {
        let body = match rpc {
            "ModelReady" => name.clone(),
            _ => vec![0; 5],
        };
        let asking = async {
            let path = format!("/inference.GRPCInferenceService/{rpc}");
            let body = Full::new(body.into()).map_err(crate::replica::infallible);
            let answer = grpc.call(&path, &[], body.boxed_unsync()).await.unwrap();
            let answer = tokio::time::timeout(AT_ONCE, answer).await.unwrap().unwrap();
            answer.into_body().collect().await.unwrap().to_bytes()
        };
        let message = runtime().block_on(asking);
        message.len() > 5
    })
}

#[test]
fn a_sleeping_service_is_ready_and_stays_asleep() {
    let fixture = Fixture::new(|_| Service::new("one").replicas(0, 1));
    let sleeps = || {
        let output = fixture.weir.output();
        output.contains("asleep until a request arrives")
    };
    wait_until("asleep", sleeps, || fixture.weir.output());
    // The gateway learns the state of the cluster a moment later.
    let knows = || send(fixture.weir.serving, CALLS[2].0, "GET", CALLS[2].1).0 == 200;
    wait_until("the gateway to know", knows, || fixture.weir.output());
    let loads = || fixture.weir.output().matches("00001  loading").count();
    let before = loads();
    for (status, text) in call_all(&fixture) {
        assert!(status == 200 && text.contains("\"ready\":true"), "{text}");
    }
    assert_eq!(call_grpc(&fixture), [true, true]);
    let live = "/serving/default/echo/v2/health/live";
    let (status, text) = send(fixture.weir.serving, "localhost", "GET", live);
    assert!(status == 200 && text.contains("\"live\":true"), "{text}");
    // A service that the calls had woken would be loading by the time a replica answers a request.
    let (status, text) = send(fixture.weir.serving, "localhost", "POST", "/v2/models/echo/infer");
    assert_eq!(status, 200, "{text}");
    assert_eq!(loads(), before + 1, "{}", fixture.weir.output());
    let service = &fixture.weir.status()["services"][0];
    assert_eq!(service["revisions"][0]["failed"], 0, "{service:#}");
}

#[test]
fn a_crash_loop_is_not_ready_and_says_why() {
    let script = "echo cannot load the model: $(PORT); exit 7";
    let fixture = Fixture::new(|_| Service::new("one").replicas(1, 1).shell(script));
    fixture.wait_for_revision("the crash loop", 1, |revision| {
        let failure = revision["failure"].as_str();
        failure.is_some_and(|failure| failure.starts_with("CrashLoopBackOff"))
    });
    for (status, text) in call_all(&fixture) {
        assert!(status == 503 && text.contains("\"ready\":false"), "{text}");
        assert!(text.contains("(exit status 7 at "), "{text}");
        // The program's output is for the operator, in the status, and not for clients.
        assert!(!text.contains("cannot load the model"), "{text}");
    }
    assert_eq!(call_grpc(&fixture), [false, false]);
    let live = "/serving/default/echo/v2/health/live";
    let (status, text) = send(fixture.weir.serving, "localhost", "GET", live);
    assert!(status == 503 && text.contains("(exit status 7 at "), "{text}");
}

#[test]
fn a_busy_service_is_ready_at_once() {
    let gate = tempfile::tempdir().unwrap();
    let open = gate.path().join("gate");
    let fixture = Fixture::ready(1, |_| {
        let service = Service::new("one").replicas(1, 1);
        service.concurrency(1).gate(&open)
    });
    let address = fixture.weir.serving;
    let busy = || send(address, "localhost", "POST", "/v2/models/echo/infer").0;
    std::thread::scope(|scope| {
        let waiting = [scope.spawn(busy), scope.spawn(busy)];
        fixture.wait_for_revision("a queue", 1, |revision| revision["queued"] == 1);
        // The test's replica knows only the server's ready call, and treats other paths as inferences.
        for (host, path) in CALLS.iter().filter(|(_, path)| path.ends_with("health/ready")) {
            let since = Instant::now();
            let (status, text) = send(address, host, "GET", path);
            assert!(since.elapsed() < AT_ONCE, "{path} took {:?}", since.elapsed());
            assert_eq!(status, 200, "{text}");
        }
        std::fs::write(&open, "").unwrap();
        for one in waiting {
            assert_eq!(one.join().unwrap(), 200);
        }
    });
}
