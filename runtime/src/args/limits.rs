//! Flags for limits and shutdown.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::values;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits and shutdown")]
pub(super) struct LimitArgs {
    /// Longest queue of a model version, in requests, unless its configuration sets one
    #[arg(long, default_value = "4096", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_queue: NonZeroUsize,
    /// Longest run time of a batch; 0 means no limit. A batch that runs longer is stuck: its requests fail, and the
    /// liveness probe fails so that the process is restarted. The default is ten times the model's longest batch so
    /// far, and at least a minute
    #[arg(long, env = "WEIR_MAX_BATCH_SECONDS", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) max_batch_seconds: Option<Duration>,
    /// Connections at the same time, for HTTP and for gRPC
    #[arg(long, default_value = "10000", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_connections: NonZeroUsize,
    /// Connections at the same time from one IPv4 address or one IPv6 /64 network; further ones are closed. The default
    /// is a quarter of --max-connections
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_connections_per_address: Option<NonZeroUsize>,
    /// Memory for request bodies, HTTP and gRPC together; when it is full, requests are refused with 503 or
    /// RESOURCE_EXHAUSTED. Each body must leave room for 1024 others of its size, or an eighth of the memory if that is
    /// less, so that large bodies cannot crowd out small ones. The default holds three bodies of the largest size
    #[arg(long, default_value = "4294967296", value_name = "BYTES", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_inflight_bytes: NonZeroUsize,
    /// Time from SIGTERM until the process exits, even if requests are unanswered
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) exit_timeout_secs: Duration,
    /// Time from SIGTERM in which the server reports that it is not ready but still serves, so that load balancers stop
    /// sending requests
    #[arg(long, default_value = "0", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) drain_delay_secs: Duration,
    /// Let clients register shared memory of this machine
    #[arg(long, num_args = 0..=1, default_value = "false", default_missing_value = "true",
          value_name = "BOOL", value_parser = values::switch, action = clap::ArgAction::Set)]
    pub(super) allow_client_shm: bool,
    /// Shared-memory regions registered at the same time
    #[arg(long, default_value = "1024", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_shm_regions: NonZeroUsize,
}
