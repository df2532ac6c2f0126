//! State that all parts of the request path share.

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;
use weir_serve::SharedLimit;
use weir_serve::byte_budget::ByteBudget;

use crate::options::Options;
use crate::router::mirror::Mirrors;
use crate::state::State;
use crate::wire::counters::RequestCounters;

/// State and limits that all requests of one gateway share.
pub(crate) struct Context {
    pub(crate) options: Options,
    pub(crate) state: ArcSwap<State>,
    /// Byte budget for all buffered bodies together.
    pub(crate) budget: ByteBudget,
    /// Open requests of all clients, with access control.
    pub(crate) requests: SharedLimit,
    pub(crate) counters: RequestCounters,
    pub(crate) mirrors: Mirrors,
    /// Cancelled once clients should use another gateway, at the latest together with `shutdown`.
    pub(crate) leaving: CancellationToken,
    /// Cancelled once no new connections are accepted.
    pub(crate) shutdown: CancellationToken,
}

impl Context {
    pub(crate) fn new(options: Options, state: State) -> Self {
        Self {
            state: ArcSwap::from_pointee(state),
            budget: ByteBudget::new(options.all_buffers),
            requests: SharedLimit::new(options.connections.streams_per_client()),
            counters: RequestCounters::default(),
            mirrors: Mirrors::new(options.all_buffers),
            leaving: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            options,
        }
    }
}
