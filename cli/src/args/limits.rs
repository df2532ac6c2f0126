//! Flags that limit the serving port, named like those of `weir-runtime`.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use weir_gateway::Options;
use weir_serve::ConnectionLimits;

/// Limits of the serving port.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LimitArgs {
    /// Most concurrent connections to the serving port; further ones wait until one closes.
    #[arg(long, value_name = "N", default_value = "16384", help_heading = "Limits")]
    pub(crate) max_connections: NonZeroUsize,

    /// Most concurrent connections from one IPv4 address or one IPv6 /64 network; further ones are closed [default: a
    /// quarter of --max-connections].
    #[arg(long, value_name = "N", help_heading = "Limits")]
    pub(crate) max_connections_per_address: Option<NonZeroUsize>,

    /// Largest request body, in bytes, that the gateway buffers so that the request can be retried. A longer body is
    /// streamed to a replica and cannot be retried.
    #[arg(long, value_name = "BYTES", default_value = "67108864", help_heading = "Limits")]
    pub(crate) request_buffer: NonZeroUsize,

    /// Memory in bytes for buffered request bodies; one revision may use half, mirrored requests an eighth. When it is
    /// full, bodies are streamed and cannot be retried. A body is buffered only if 1024 times its size, or an eighth of
    /// the memory if that is less, stays free, so that long bodies cannot crowd out short ones.
    #[arg(long, value_name = "BYTES", default_value = "1073741824", help_heading = "Limits")]
    pub(crate) max_inflight_bytes: NonZeroUsize,

    /// Time in seconds that a client has to send a request's head, including the idle time before it. An HTTP/2
    /// connection without requests is closed after the same time.
    #[arg(long, value_name = "SECONDS", default_value = "75", help_heading = "Limits")]
    pub(crate) http_header_timeout_secs: NonZeroU32,

    /// Longest pause in seconds of a client that sends a request's body or reads a response. A body or response that
    /// takes longer than this in total must average at least 1 KiB/s.
    #[arg(long, value_name = "SECONDS", default_value = "30", help_heading = "Limits")]
    pub(crate) http_body_timeout_secs: NonZeroU32,
}

impl LimitArgs {
    /// Sets these limits in a gateway's options.
    pub(crate) fn apply(self, options: &mut Options) {
        let total = self.max_connections.get();
        let per_client = self.max_connections_per_address.map(NonZeroUsize::get);
        let stall = seconds(self.http_body_timeout_secs);
        options.request_buffer = self.request_buffer.get();
        options.all_buffers = self.max_inflight_bytes.get();
        options.queue_bytes = self.max_inflight_bytes.get() / 2;
        options.connections.total = total;
        options.connections.per_client = per_client.unwrap_or(ConnectionLimits::share_of(total));
        options.connections.idle = seconds(self.http_header_timeout_secs);
        options.connections.stall = stall;
        options.connections.pace.grace = stall;
    }
}

fn seconds(count: NonZeroU32) -> Duration {
    Duration::from_secs(count.get().into())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weir_gateway::Scope;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        limits: LimitArgs,
    }

    fn options(flags: &[&str]) -> Options {
        let flags = std::iter::once("weir").chain(flags.iter().copied());
        let mut options = Options::new("gateway", Scope::Cluster);
        Program::parse_from(flags).limits.apply(&mut options);
        options
    }

    #[test]
    fn without_flags_the_gateway_keeps_its_default_limits() {
        let defaults = Options::new("gateway", Scope::Cluster);
        assert_eq!(format!("{:?}", options(&[])), format!("{defaults:?}"));
    }

    #[test]
    fn flags_set_the_limits() {
        let flags = [
            "--max-connections=100",
            "--max-inflight-bytes=1000",
            "--request-buffer=10",
            "--http-header-timeout-secs=3",
            "--http-body-timeout-secs=4",
        ];
        let set = options(&flags);
        assert_eq!((set.connections.total, set.connections.per_client), (100, 25));
        assert_eq!((set.all_buffers, set.queue_bytes, set.request_buffer), (1000, 500, 10));
        assert_eq!(set.connections.idle, Duration::from_secs(3));
        assert_eq!(set.connections.stall, Duration::from_secs(4));
        assert_eq!(set.connections.pace.grace, Duration::from_secs(4));
        let set = options(&["--max-connections-per-address=7"]);
        assert_eq!(set.connections.per_client, 7);
    }
}
