//! Reports of a child to its server. A process that is none reports nothing.

use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

use super::message::{self, Report, Request, Stage};

/// The socket of this child.
static SERVER: OnceLock<UnixStream> = OnceLock::new();

/// Makes this process a child that reports on the socket.
pub(super) fn begin(stream: UnixStream) {
    let _ = SERVER.set(stream);
}

/// Reads the request of this child.
pub(crate) fn request() -> Option<Request> {
    message::read(SERVER.get()?).ok()
}

/// Reports what was found. A server that is gone ends this process by itself.
pub(crate) fn report(report: &Report) {
    if let Some(stream) = SERVER.get() {
        let _ = message::write(stream, report);
    }
}

/// Reports what is tried next, so that the server knows what this process did not survive.
pub(crate) fn enter(stage: Stage) {
    report(&Report::Stage(stage));
}
