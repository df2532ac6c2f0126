//! A model server in place of a container: this test binary, told by a variable to be one. It is ready
//! at once and answers every inference with its label.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// Set where this binary is to be a server: its label.
pub(crate) const LABEL: &str = "WEIR_TEST_SERVER";

/// Set where inferences wait until there is a file of this name.
pub(crate) const GATE: &str = "WEIR_TEST_GATE";

/// Between two looks at the gate.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// No test lives so long; a server that was forgotten ends by itself.
const LIFETIME: Duration = Duration::from_secs(300);

/// The command that makes this binary a server.
pub(crate) fn command() -> Vec<String> {
    let this = std::env::current_exe().unwrap().display().to_string();
    let rest = ["--exact", "server::serve", "--nocapture"];
    std::iter::once(this)
        .chain(rest.map(str::to_owned))
        .collect()
}

/// Passes at once, unless it is told to serve.
#[test]
fn serve() {
    let Some(label) = std::env::var_os(LABEL) else {
        return;
    };
    let label = label.into_string().unwrap();
    let port = std::env::var_os("PORT").unwrap().into_string().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.parse().unwrap())).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, label) = (stream.unwrap(), label.clone());
            // Who asked may have left.
            std::thread::spawn(move || answer(stream, &label).ok());
        }
    });
    std::thread::park_timeout(LIFETIME);
}

/// Answers one request.
fn answer(mut stream: TcpStream, label: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut length = 0;
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let is_inference = line.starts_with("POST");
    line.clear();
    while reader.read_line(&mut line)? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if is_inference {
        wait_at_gate();
    }
    let body = format!(
        r#"{{"outputs": [{{"name": "label", "datatype": "BYTES", "shape": [1], "data": ["{label}"]}}]}}"#
    );
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )
}

fn wait_at_gate() {
    let gate = std::env::var_os(GATE).map(PathBuf::from);
    while gate.as_ref().is_some_and(|gate| !gate.exists()) {
        std::thread::sleep(LOOK_AGAIN);
    }
}
