//! A test server in place of a runtime: this test binary serves if a variable is set. It answers every request with a
//! status and its process id.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// Variable that makes this binary a server; its value is the behaviour.
pub(crate) const BEHAVIOUR: &str = "WEIR_TEST_SERVER";

/// Lifetime of a server, longer than any test, so that a forgotten server ends by itself.
const LIFETIME: Duration = Duration::from_secs(120);

/// Path of the liveness probe.
pub(crate) const LIVE: &str = "/alive";

/// Behaviour of a test server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers 200 to every request.
    Ready,
    /// Accepts connections and never answers.
    Hang,
    /// Answers 503 to every request.
    NeverReady,
    /// Is ready for the first three requests, and then answers 503.
    Sickens,
    /// Is ready for the first three requests, and then accepts connections without answering.
    Freezes,
    /// Answers 404 three times, and then accepts connections without answering, like a busy server with one thread.
    Busy,
    /// Is always live, but not ready for the fourth request and the next 59.
    Pauses,
}

impl Behaviour {
    const ALL: [Self; 7] =
        [Self::Ready, Self::Hang, Self::NeverReady, Self::Sickens, Self::Freezes, Self::Busy, Self::Pauses];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Hang => "hang",
            Self::NeverReady => "never-ready",
            Self::Sickens => "sickens",
            Self::Freezes => "freezes",
            Self::Busy => "busy",
            Self::Pauses => "pauses",
        }
    }

    fn read(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|behaviour| behaviour.name() == name);
        found.expect("a behaviour")
    }

    /// Returns the status of the response to a request for `path` after `answered` readiness requests; `None` for no
    /// response.
    fn status(self, path: &str, answered: u32) -> Option<u16> {
        match self {
            Self::Ready => Some(200),
            Self::Sickens | Self::Freezes if answered < 3 => Some(200),
            Self::Busy if answered < 3 => Some(404),
            Self::Hang | Self::Freezes | Self::Busy => None,
            Self::Pauses if path == LIVE || !(3..63).contains(&answered) => Some(200),
            Self::NeverReady | Self::Sickens | Self::Pauses => Some(503),
        }
    }
}

/// Returns the command that runs this binary as a server.
pub(crate) fn command() -> Vec<String> {
    let this = std::env::current_exe().unwrap().display().to_string();
    ["--exact", "server::serve", "--nocapture"].into_iter().fold(vec![this], |mut words, word| {
        words.push(word.to_owned());
        words
    })
}

/// Serves if the variable is set; otherwise passes at once.
#[test]
fn serve() {
    let Some(behaviour) = std::env::var_os(BEHAVIOUR) else {
        return;
    };
    let behaviour = Behaviour::read(behaviour.to_str().unwrap());
    let port: u16 = std::env::var_os("PORT").unwrap().to_str().unwrap().parse().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    println!("serving on {port}");
    std::thread::spawn(move || {
        let mut unanswered = Vec::new();
        let mut answered = 0;
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let path = read_path(&stream);
            match behaviour.status(&path, answered) {
                Some(status) => write_answer(stream, status),
                None => unanswered.push(stream),
            }
            answered += u32::from(path != LIVE);
        }
    });
    std::thread::park_timeout(LIFETIME);
}

/// Reads one request and answers it with `status`.
pub(crate) fn answer(stream: TcpStream, status: u16) {
    read_path(&stream);
    write_answer(stream, status);
}

/// Reads the head of a request and returns its path.
fn read_path(stream: &TcpStream) -> String {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
    let path = head.split(' ').nth(1);
    path.unwrap_or_default().to_owned()
}

fn write_answer(mut stream: TcpStream, status: u16) {
    let body = std::process::id().to_string();
    let length = body.len();
    let text = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    // The client may have closed the connection.
    let _ = stream.write_all(text.as_bytes());
}
