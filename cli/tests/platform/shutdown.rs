//! Requests in flight during the shutdown.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::fixture::Fixture;
use crate::http::send;
use crate::load::Load;
use crate::manifest::Service;
use crate::weir::{Weir, wait_until};

/// A platform with one request in flight, which is answered once the file `gate` exists.
struct Busy {
    weir: Weir,
    gate: PathBuf,
    request: JoinHandle<(u16, String)>,
    _folder: TempDir,
}

fn busy() -> Busy {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate");
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").gate(&gate).yaml()).unwrap();
    let weir = Weir::up(&file, folder.path(), &[]);
    weir.wait_for("ready", |service| service["ready"] == "True");
    let serving = weir.serving;
    let ask = move || send(serving, "localhost", "POST", "/v2/models/echo/infer");
    let request = std::thread::spawn(ask);
    weir.wait_for("a request in flight", |service| service["revisions"][0]["in_flight"] == 1);
    Busy { weir, gate, request, _folder: folder }
}

#[test]
fn accepted_requests_are_answered() {
    let mut busy = busy();
    busy.weir.terminate();
    busy.weir.wait_for_drain();
    fs::write(&busy.gate, "").unwrap();
    let (status, text) = busy.request.join().unwrap();
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(busy.weir.wait_for_exit().code(), Some(0), "{}", busy.weir.output());
}

#[test]
fn repeated_sighup_shuts_down_gracefully() {
    let mut busy = busy();
    busy.weir.hang_up();
    busy.weir.wait_for_drain();
    busy.weir.hang_up();
    fs::write(&busy.gate, "").unwrap();
    let (status, text) = busy.request.join().unwrap();
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(busy.weir.wait_for_exit().code(), Some(0), "{}", busy.weir.output());
}

#[test]
fn a_signal_to_the_process_and_its_group_counts_once() {
    let mut busy = busy();
    for _ in 0..3 {
        busy.weir.terminate();
    }
    busy.weir.wait_for_drain();
    fs::write(&busy.gate, "").unwrap();
    let (status, text) = busy.request.join().unwrap();
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    let status = busy.weir.wait_for_exit();
    assert_eq!(status.code(), Some(0), "{}", busy.weir.output());
}

#[test]
fn a_second_signal_stops_the_process_at_once() {
    let mut busy = busy();
    busy.weir.terminate();
    busy.weir.wait_for_drain();
    let status = busy.weir.terminate_until_it_ends();
    assert_eq!(status.code(), Some(1), "{}", busy.weir.output());
    // The connection ended without a response.
    assert_ne!(busy.request.join().map_or(0, |(status, _)| status), 200);
}

#[test]
fn idle_clients_do_not_delay_the_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("echo.yaml");
    fs::write(&file, Service::new("one").yaml()).unwrap();
    let mut weir = Weir::up(&file, folder.path(), &[]);
    let mut clients = Vec::new();
    for address in [weir.serving, weir.admin] {
        for bytes in ["", "POST /v2/models/echo/infer HTTP/1.1\r\nho", "PRI * HT"] {
            let mut client = TcpStream::connect(address).unwrap();
            client.write_all(bytes.as_bytes()).unwrap();
            clients.push(client);
        }
        // A response on a later connection shows that the earlier ones were accepted.
        assert!(send(address, "localhost", "GET", "/v2/health/live").0 > 0);
    }
    let began = Instant::now();
    assert_eq!(weir.stop().code(), Some(0), "{}", weir.output());
    // The limits are longer: 75 s for a head, and 60 s for accepted requests.
    assert!(began.elapsed() < Duration::from_secs(20), "{}", weir.output());
}

#[test]
fn under_load_every_accepted_request_is_answered() {
    let mut fixture = Fixture::ready(2, |shared| {
        let service = Service::new("one").shared_dir(shared).service_ms(100);
        service.replicas(2, 2).concurrency(4)
    });
    // There are more clients than credits, so some requests wait.
    let load = Load::start(fixture.weir.serving, 8, 4);
    wait_until("answers", || load.answered() > 50, || fixture.weir.output());
    fixture.weir.terminate();
    let tally = load.wait_until_refused();
    assert_eq!(fixture.weir.wait_for_exit().code(), Some(0), "{}", fixture.weir.output());
    let answered: BTreeSet<_> = tally.ids.iter().cloned().collect();
    let begun: BTreeSet<_> = fixture.shared.requests().into_iter().collect();
    let lost: Vec<_> = begun.difference(&answered).collect();
    assert!(lost.is_empty(), "{lost:?}: {:?}", tally.failed);
    // A request that arrives at the moment when its idle connection is closed is not accepted, and HTTP/1.1 cannot
    // signal that. All other requests are answered.
    assert!(tally.failed.iter().all(|failed| !failed.contains(": 5")), "{tally:?}");
    assert!(tally.failed.len() <= 2, "{tally:?}");
}

#[test]
fn queued_requests_are_answered_during_the_shutdown() {
    const REQUESTS: usize = 10;
    let mut fixture = Fixture::ready(1, |shared| {
        let gate = shared.path().join("gate");
        Service::new("one").shared_dir(shared).replicas(1, 1).concurrency(1).gate(&gate)
    });
    let load = Load::start(fixture.weir.serving, REQUESTS / 2, REQUESTS / 2);
    fixture.wait_for_revision("one in flight and the others waiting", 1, |revision| {
        revision["in_flight"] == 1 && revision["queued"] == REQUESTS - 1
    });
    fixture.weir.terminate();
    fixture.weir.wait_for_drain();
    fs::write(fixture.shared.path().join("gate"), "").unwrap();
    let tally = load.wait_until_refused();
    assert_eq!(tally.failed, [""; 0], "{}", fixture.weir.output());
    assert!(tally.total() >= REQUESTS as u64, "{tally:?}");
    assert_eq!(fixture.weir.wait_for_exit().code(), Some(0), "{}", fixture.weir.output());
}

#[test]
fn replicas_end_with_a_platform_that_is_killed() {
    let mut fixture = Fixture::ready(2, |shared| Service::new("one").shared_dir(shared).replicas(2, 2));
    let replicas = fixture.shared.serving();
    assert_eq!(replicas.len(), 2);
    fixture.weir.kill();
    let lives = |id: &u32| Path::new("/proc").join(id.to_string()).exists();
    wait_until("their end", || !replicas.iter().any(lives), || format!("{replicas:?}"));
}
