//! Reports of a child to its server. Processes that are not children report nothing.

use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use super::message::{self, Report, Request, Stage};

/// The socket of this child; unset in a process that is not a child.
static SERVER: OnceLock<UnixStream> = OnceLock::new();

/// Makes this process a child that reports on the socket.
pub(super) fn begin(stream: UnixStream) {
    let _ = SERVER.set(stream);
}

/// Reads the request of this child; `None` if it cannot be read.
pub(crate) fn request() -> Option<Request> {
    message::read(SERVER.get()?).ok()
}

/// Sends a report. Errors are ignored: if the server is gone, the fork server ends this process.
pub(crate) fn report(report: &Report) {
    if let Some(stream) = SERVER.get() {
        let _ = message::write(stream, report);
    }
}

/// Reports the next stage, so that the server knows which stage ended this process.
pub(crate) fn enter(stage: Stage) {
    report(&Report::Stage(stage));
}
