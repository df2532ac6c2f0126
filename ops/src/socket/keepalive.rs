//! Finds peers that are gone without a word: their machine lost its power, or the network between does.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// How a connection finds that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Silence after which the peer is asked whether it is there.
    pub time: Duration,
    /// Pause between such probes.
    pub interval: Duration,
    /// Probes in a row that the peer may leave without an answer.
    pub probes: u32,
}

impl Keepalive {
    /// Time after which a peer counts as gone that answers no probe. One that acknowledges nothing of what was sent to
    /// it, or takes none of it, has as long.
    #[must_use]
    pub fn gone_after(self) -> Duration {
        self.time + self.interval * self.probes
    }

    /// Sets it for a TCP socket; what a listener accepts inherits it. A connection whose peer is gone then fails with
    /// `TimedOut`.
    ///
    /// # Errors
    /// The operating system's.
    pub fn set(self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        let keepalive = TcpKeepalive::new().with_time(self.time).with_interval(self.interval).with_retries(self.probes);
        socket.set_tcp_keepalive(&keepalive)?;
        // While something that was sent is not acknowledged, Linux sends no probes.
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(self.gone_after()))?;
        Ok(())
    }
}
