//! Watches of an API server: what they cover, how they are retried, and a cache that they fill.

pub(crate) mod retried_watch;
pub(crate) mod watch_cache;
