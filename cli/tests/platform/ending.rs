//! What is under way when the end begins.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::http::ask;
use crate::manifest::{gated, manifest};
use crate::weir::Weir;

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
    fs::write(&file, gated(&gate)).unwrap();
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
    fs::write(&file, manifest("one", None)).unwrap();
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
