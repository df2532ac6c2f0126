use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::claim::*;
use super::*;

#[expect(clippy::disallowed_methods, reason = "the test measures time from an arbitrary start")]
fn some_time() -> Instant {
    Instant::now()
}

fn stored(identity: &str, version: &str) -> LeaseObject {
    let mut lease = claimed(LeaseObject::default(), identity);
    lease.metadata.resource_version = Some(version.to_owned());
    lease
}

/// Returns the holder `a` of a lease at an API server with this address.
fn holder(address: SocketAddr) -> Holder {
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    Holder {
        leases: Api::namespaced(kube::Client::try_from(config).unwrap(), "weir-system"),
        name: "weir-controller".to_owned(),
        identity: "a".to_owned(),
    }
}

#[test]
fn a_lease_is_held_while_it_changes() {
    let mut observation = LeaseObservation::default();
    let start = some_time();
    for second in 0..60 {
        let lease = stored("other", &second.to_string());
        let now = start + Duration::from_secs(second * 10);
        assert_eq!(observation.claim(&lease, now), Claim::Held);
    }
}

#[test]
fn a_silent_holder_loses_the_lease() {
    let mut observation = LeaseObservation::default();
    let start = some_time();
    let lease = stored("other", "1");
    assert_eq!(observation.claim(&lease, start), Claim::Held);
    assert_eq!(observation.claim(&lease, start + HELD_FOR), Claim::Held);
    let later = start + HELD_FOR + Duration::from_millis(1);
    assert_eq!(observation.claim(&lease, later), Claim::Free);
}

#[test]
fn a_released_lease_is_free_at_once() {
    let lease = released(stored("other", "1"));
    assert_eq!(LeaseObservation::default().claim(&lease, some_time()), Claim::Free);
    assert_eq!(LeaseObservation::default().claim(&LeaseObject::default(), some_time()), Claim::Free);
}

#[test]
fn a_renewal_is_no_transition() {
    let first = claimed(LeaseObject::default(), "a");
    let transitions = |lease: &LeaseObject| lease.spec.as_ref().unwrap().lease_transitions;
    assert_eq!(transitions(&claimed(first.clone(), "a")), Some(1));
    assert_eq!(transitions(&claimed(first, "b")), Some(2));
}

#[test]
fn a_holder_stops_before_another_begins() {
    assert!(LOST_AFTER < HELD_FOR && RENEW_EVERY < LOST_AFTER);
    assert!(RENEW_EVERY + ANSWERED_WITHIN + LOOK_EVERY < LOST_AFTER);
}

#[tokio::test]
async fn a_request_without_an_answer_times_out() {
    // The listener never accepts: the kernel completes the handshake, and no answer ever comes.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let holder = holder(silent.local_addr().unwrap());
    let mut observation = LeaseObservation::default();
    let asked = holder.try_acquire(&mut observation);
    let outcome = tokio::time::timeout(2 * ANSWERED_WITHIN, asked).await;
    let outcome = outcome.unwrap();
    let is_unavailable = matches!(outcome, Err(ClusterError::Unavailable { .. }));
    assert!(is_unavailable, "{outcome:?}");
}

/// Answers one request with the lease or with this error, and returns the method of the request.
async fn answer(stream: TcpStream, answer: &Result<LeaseObject, u16>) -> String {
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let begin = head.len();
        stream.read_line(&mut head).await.unwrap();
        let field = head[begin..].to_ascii_lowercase();
        if let Some(value) = field.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    let (status, body) = match answer {
        Ok(lease) => (200, serde_json::to_string(lease).unwrap()),
        Err(code) => (*code, serde_json::json!({ "kind": "Status", "status": "Failure", "code": code }).to_string()),
    };
    let reply = format!("HTTP/1.1 {status} -\r\ncontent-type: application/json\r\nconnection: close\r\n");
    let text = format!("{reply}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).await.unwrap();
    head.split(' ').next().unwrap().to_owned()
}

/// Renews the lease at an API server that gives these answers. Returns the renewed lease and the
/// methods of the requests.
async fn renew(answers: &[Result<LeaseObject, u16>]) -> (Option<LeaseObject>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let holder = holder(listener.local_addr().unwrap());
    let serve = async {
        let mut methods = Vec::new();
        for one in answers {
            methods.push(answer(listener.accept().await.unwrap().0, one).await);
        }
        methods
    };
    let known = stored("a", "1");
    tokio::time::timeout(LOST_AFTER, async { tokio::join!(holder.renewed(&known), serve) }).await.unwrap()
}

#[tokio::test]
async fn a_conflict_is_retried_until_the_holder_is_known() {
    let answers = [Err(409), Err(500), Err(409), Ok(stored("a", "2")), Ok(stored("a", "3"))];
    let (renewed, methods) = renew(&answers).await;
    assert_eq!(methods, ["PUT", "GET", "PUT", "GET", "PUT"]);
    assert_eq!(renewed.unwrap().metadata.resource_version.as_deref(), Some("3"));
    let (renewed, _) = renew(&[Err(409), Ok(stored("b", "2"))]).await;
    assert_eq!(renewed, None);
}
