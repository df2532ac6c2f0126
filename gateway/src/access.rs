//! Access control: the caller of each request, and the check of what it may do.
//!
//! ```text
//!   head ─► credentials: caller ─► router finds the service ─► check: keys' scopes, rules ─► control, revision, body …
//! ```
//!
//! The check follows routing by the head, and precedes the body and everything that wakes a service. A call whose body
//! names its model is authenticated before the body is read. A gateway without access control checks nothing.

mod audit;
mod credentials;
mod guard;
mod operation;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use weir_access::Policy;

use audit::Audit;
pub(crate) use guard::{Choice, Guard, Opened};

/// Keys and rules of a gateway with access control. They can be replaced while it serves.
pub struct AccessControl {
    policy: ArcSwap<Policy>,
    failed_reloads: AtomicU64,
    pub(crate) audit: Audit,
}

impl AccessControl {
    /// Creates access control by these keys and rules.
    #[must_use]
    pub fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            policy: ArcSwap::from_pointee(policy),
            failed_reloads: AtomicU64::new(0),
            audit: Audit::default(),
        })
    }

    /// Replaces the keys and rules. Requests that arrive from now on are checked by the new ones.
    pub fn replace(&self, policy: Policy) {
        self.policy.store(Arc::new(policy));
    }

    /// Counts a change of the access files that could not be read, so that the last keys and rules stay in use.
    pub fn count_failed_reload(&self) {
        self.failed_reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").field("policy", &*self.policy.load()).finish_non_exhaustive()
    }
}
