//! Detects peers that disappear without closing the connection, for example by a power failure or a network failure.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};

/// TCP keep-alive settings, by which a connection detects that its peer is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time without data after which the first probe is sent.
    pub time: Duration,
    /// Time between two probes.
    pub interval: Duration,
    /// Number of consecutive unanswered probes after which the peer counts as gone.
    pub probes: u32,
}

impl Keepalive {
    /// Returns the time after which a peer that answers no probe counts as gone. The same time applies to a peer that
    /// acknowledges no sent data or keeps its receive window closed.
    #[must_use]
    pub fn gone_after(self) -> Duration {
        self.time + self.interval * self.probes
    }

    /// Sets the options of a TCP socket; connections accepted from a listener inherit them. A connection whose peer is
    /// gone fails with `TimedOut`.
    ///
    /// # Errors
    /// Fails with the operating system's error.
    pub fn set(self, socket: &impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(socket);
        let keepalive = TcpKeepalive::new().with_time(self.time).with_interval(self.interval).with_retries(self.probes);
        socket.set_tcp_keepalive(&keepalive)?;
        // Linux sends no keep-alive probes while sent data is unacknowledged, so TCP_USER_TIMEOUT covers that case.
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(self.gone_after()))?;
        Ok(())
    }
}
