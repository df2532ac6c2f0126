//! Child processes that try each model before the server loads it.
//!
//! A trial runs a model on inputs that no client sent: NaN, huge numbers, odd shapes. Some of libtorch's code ends the
//! process on such inputs, and a loop in the model may never end. So each load is tried in a child process that dies
//! with the server, is limited in time and memory, and reports each step. The server then repeats only the steps that
//! the child survived.
//!
//! ```text
//!   server ──fork at start──► fork server (one thread, libtorch is loaded) ──fork──► child of a load
//!     │ ◄─────────────── request, reports: a socket of each load ────────────────────► │
//! ```
//!
//! Starting libtorch takes about 0.3 s; forking a process that has it loaded takes a few milliseconds.

mod fork_server;
mod limits;
mod message;

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use weir_runtime::backend::LoadError;

use crate::stopwatch::Stopwatch;
use fork_server::ForkServer;
use parking_lot::Mutex;

pub(crate) use limits::{limit_memory, limited, limited_to, set_threads};
pub(crate) use message::{Report, Request, Scope, Stage, WarmUpData, enter, report, request};

/// Argument that makes the program a fork server on its standard input.
pub(crate) const ARGUMENT: &str = "--weir-fork-server";

/// Time limit of a child. Several hundred runs of an ordinary model take a second or two.
const LONGEST: Duration = Duration::from_secs(120);

/// The work of a child, which reads its request with [`request`] and returns the exit code.
pub(crate) type Child = fn() -> i32;

/// The sandbox of a server, which starts its child processes.
#[derive(Debug)]
pub(crate) struct Sandbox {
    /// The program to start if there is no fork server, or if it has ended.
    program: PathBuf,
    server: Mutex<Option<ForkServer>>,
    running: Mutex<OpenSockets>,
}

/// The sockets of the running children.
#[derive(Debug, Default)]
struct OpenSockets {
    closed: bool,
    streams: Vec<(u64, UnixStream)>,
    next: u64,
}

/// The outcome of a child.
#[derive(Debug)]
pub(crate) enum End {
    /// The child completed its work.
    Done,
    /// The child found that the model cannot be served.
    Refused(LoadError),
    /// The child ended early because of the model; with the reason, in words that follow "the trial".
    Died(String),
    /// The child could not be started, or ended for a reason unrelated to the model; with the reason, in words that
    /// follow "the trial".
    Lost(String),
    /// The server is stopping.
    Closed,
}

impl Sandbox {
    /// Returns a sandbox that forks this process, whose children run `child`. The process must have no other thread
    /// yet.
    pub(crate) fn forked(child: Child) -> Self {
        let sandbox = Self::of(PathBuf::from("/proc/self/exe"));
        // If the fork fails, the program is started as a fork server when the first model is loaded.
        *sandbox.server.lock() = ForkServer::fork(child).ok();
        sandbox
    }

    /// Returns a sandbox that starts `program`, which is `weir-runtime`, as its fork server.
    pub(crate) fn of(program: PathBuf) -> Self {
        Self { program, server: Mutex::default(), running: Mutex::default() }
    }

    /// Runs the request in a child, and calls `on_report` for each of its reports, in order.
    pub(crate) fn run(&self, request: &Request, mut on_report: impl FnMut(Report)) -> End {
        let stream = match self.child() {
            Ok(stream) => stream,
            Err(error) => return not_started(&error),
        };
        let id = match self.register(stream.try_clone()) {
            Ok(id) => id,
            Err(end) => return end,
        };
        let end = converse(&stream, request, &mut on_report);
        let _ = stream.shutdown(Shutdown::Both);
        let mut running = self.running.lock();
        running.streams.retain(|(other, _)| *other != id);
        if running.closed { End::Closed } else { end }
    }

    /// Ends the running children, and starts no more.
    pub(crate) fn close(&self) {
        let mut running = self.running.lock();
        running.closed = true;
        for (_, stream) in &running.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Makes a child. Starts a new fork server if the last one has ended.
    fn child(&self) -> io::Result<UnixStream> {
        let mut server = self.server.lock();
        if let Some(stream) = server.as_ref().and_then(|server| server.child().ok()) {
            return Ok(stream);
        }
        let started = ForkServer::start(&self.program)?;
        let stream = started.child();
        *server = Some(started);
        stream
    }

    /// Keeps a copy of a child's socket, by which [`Sandbox::close`] ends the child. Returns the number of the copy.
    fn register(&self, copy: io::Result<UnixStream>) -> Result<u64, End> {
        let mut running = self.running.lock();
        if running.closed {
            return Err(End::Closed);
        }
        let copy = copy.map_err(|error| not_started(&error))?;
        running.next += 1;
        let id = running.next;
        running.streams.push((id, copy));
        Ok(id)
    }
}

/// Serves as a fork server whose children run `child`, if the program was started as one. Otherwise returns at once.
pub(crate) fn serve_if_asked(child: Child) {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|argument| argument == ARGUMENT) {
        fork_server::serve_on_standard_input(child);
    }
}

fn not_started(error: &io::Error) -> End {
    End::Lost(format!("could not be started: {error}"))
}

/// Sends the request, and reads the reports up to the last one.
fn converse(stream: &UnixStream, request: &Request, on_report: &mut impl FnMut(Report)) -> End {
    if let Err(error) = message::write(stream, request) {
        return not_started(&error);
    }
    let (mut stopwatch, mut left) = (Stopwatch::start(), LONGEST);
    loop {
        let _ = stream.set_read_timeout(Some(left));
        match message::read(stream) {
            Ok(Report::Done) => return End::Done,
            Ok(Report::Refused { kind, text }) => return End::Refused(kind.error(text)),
            Ok(Report::Ended(how)) if how.is_lasting() => return End::Died(how.text()),
            Ok(Report::Ended(how)) => return End::Lost(how.text()),
            Ok(report) => on_report(report),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return End::Lost(format!("did not end within {} s", LONGEST.as_secs()));
            }
            Err(error) => return End::Lost(format!("was lost: {error}")),
        }
        left = left.saturating_sub(stopwatch.lap()).max(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_a_descriptor_is_lost_and_the_server_is_stopping_only_once_closed() {
        let sandbox = Sandbox::of(PathBuf::new());
        let end = |sandbox: &Sandbox| sandbox.register(Err(io::Error::other("too many open files"))).unwrap_err();
        let lost = end(&sandbox);
        assert!(matches!(&lost, End::Lost(how) if how.contains("too many open files")), "{lost:?}");
        sandbox.close();
        assert!(matches!(end(&sandbox), End::Closed));
    }
}
