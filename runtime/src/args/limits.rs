//! Flags for limits and shutdown.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::values;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits and shutdown")]
pub(super) struct LimitArgs {
    /// Requests that may wait per model version, where its configuration does not say
    #[arg(long, default_value = "4096", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_queue: NonZeroUsize,
    /// Time a batch may run; 0 is any. A longer one is stuck: its requests are answered with an error, and the
    /// process is not live, so that it is restarted. The default is ten times the model's longest batch so far,
    /// and at least a minute
    #[arg(long, env = "WEIR_MAX_BATCH_SECONDS", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) max_batch_seconds: Option<Duration>,
    /// Connections at the same time, HTTP and gRPC each
    #[arg(long, default_value = "10000", value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_connections: NonZeroUsize,
    /// Connections at the same time from one address, or from one IPv6 network of 64 bits; more are closed. The
    /// default is a quarter of --max-connections
    #[arg(long, value_name = "N", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_connections_per_address: Option<NonZeroUsize>,
    /// Bytes that request bodies may hold together, HTTP and gRPC; more are refused with 503 or
    /// RESOURCE_EXHAUSTED. Each leaves room for 1024 of its size, or an eighth of all, so that short ones find some
    /// beside long ones. The default holds three of the largest bodies
    #[arg(long, default_value = "4294967296", value_name = "BYTES", value_parser = values::count::<NonZeroUsize>)]
    pub(super) max_inflight_bytes: NonZeroUsize,
    /// Time from SIGTERM until the process ends, whatever is still under way
    #[arg(long, default_value = "30", value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) exit_timeout_secs: Duration,
    /// Time from SIGTERM during which the server is not ready but still serves, so that load balancers
    /// can learn of it
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
