//! What is under way when the end begins.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http::ask;
use crate::load::Load;
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::{Weir, until};

/// A platform with one request under way, that is answered once the gate is there.
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
    weir.see("ready", |service| service["ready"] == "True");
    let serving = weir.serving;
    let ask = move || ask(serving, "localhost", "POST", "/v2/models/echo/infer");
    let request = std::thread::spawn(ask);
    weir.see("a request under way", |service| {
        service["revisions"][0]["in_flight"] == 1
    });
    Busy {
        weir,
        gate,
        request,
        _folder: folder,
    }
}

#[test]
fn what_was_accepted_is_answered() {
    let mut busy = busy();
    busy.weir.terminate();
    busy.weir.draining();
    fs::write(&busy.gate, "").unwrap();
    let (status, text) = busy.request.join().unwrap();
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(busy.weir.ended().code(), Some(0), "{}", busy.weir.output());
}

#[test]
fn a_terminal_that_closes_ends_it_in_order_however_often_it_says_so() {
    let mut busy = busy();
    busy.weir.hang_up();
    busy.weir.draining();
    busy.weir.hang_up();
    fs::write(&busy.gate, "").unwrap();
    let (status, text) = busy.request.join().unwrap();
    assert!(status == 200 && text.contains("\"one\""), "{text}");
    assert_eq!(busy.weir.ended().code(), Some(0), "{}", busy.weir.output());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut busy = busy();
    busy.weir.terminate();
    busy.weir.draining();
    busy.weir.terminate();
    assert_eq!(busy.weir.ended().code(), Some(1), "{}", busy.weir.output());
    // Nobody answered: the connection ended.
    assert_ne!(busy.request.join().map_or(0, |(status, _)| status), 200);
}

#[test]
fn who_asks_nothing_does_not_hold_it_up() {
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
        // Whoever is answered on a later connection knows that these were accepted.
        assert!(ask(address, "localhost", "GET", "/v2/health/live").0 > 0);
    }
    let began = Instant::now();
    assert_eq!(weir.end().code(), Some(0), "{}", weir.output());
    // A head may take 75 s, and requests that were accepted 60 s.
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{}",
        weir.output()
    );
}

#[test]
fn under_load_every_request_that_was_taken_is_answered() {
    let mut stage = Stage::ready(2, |field| {
        let service = Service::new("one").field(field).service_ms(100);
        service.replicas(2, 2).concurrency(4)
    });
    // More than there are credits for: some wait.
    let load = Load::start(stage.weir.serving, 8, 4);
    until("answers", || load.answered() > 50, || stage.weir.output());
    stage.weir.terminate();
    let tally = load.gone();
    assert_eq!(
        stage.weir.ended().code(),
        Some(0),
        "{}",
        stage.weir.output()
    );
    let answered: BTreeSet<_> = tally.ids.iter().cloned().collect();
    let begun: BTreeSet<_> = stage.field.begun().into_iter().collect();
    let lost: Vec<_> = begun.difference(&answered).collect();
    assert!(lost.is_empty(), "{lost:?}: {:?}", tally.failed);
    // What a client sends in the moment in which its idle connection is closed is no longer taken, and
    // HTTP/1.1 cannot say so. Everything else is answered.
    assert!(
        tally.failed.iter().all(|failed| !failed.contains(": 5")),
        "{tally:?}"
    );
    assert!(tally.failed.len() <= 2, "{tally:?}");
}

#[test]
fn what_waits_when_the_end_begins_is_answered() {
    const REQUESTS: usize = 10;
    let mut stage = Stage::ready(1, |field| {
        let gate = field.path().join("gate");
        Service::new("one")
            .field(field)
            .replicas(1, 1)
            .concurrency(1)
            .gate(&gate)
    });
    let load = Load::start(stage.weir.serving, REQUESTS / 2, REQUESTS / 2);
    stage.see("one under way and the others waiting", 1, |revision| {
        revision["in_flight"] == 1 && revision["queued"] == REQUESTS - 1
    });
    stage.weir.terminate();
    stage.weir.draining();
    fs::write(stage.field.path().join("gate"), "").unwrap();
    let tally = load.gone();
    assert_eq!(tally.failed, [""; 0], "{}", stage.weir.output());
    assert!(tally.total() >= REQUESTS as u64, "{tally:?}");
    assert_eq!(
        stage.weir.ended().code(),
        Some(0),
        "{}",
        stage.weir.output()
    );
}

#[test]
fn replicas_end_with_a_platform_that_is_killed() {
    let mut stage = Stage::ready(2, |field| Service::new("one").field(field).replicas(2, 2));
    let replicas = stage.field.serving();
    assert_eq!(replicas.len(), 2);
    stage.weir.kill();
    let lives = |id: &u32| Path::new("/proc").join(id.to_string()).exists();
    until(
        "their end",
        || !replicas.iter().any(lives),
        || format!("{replicas:?}"),
    );
}
