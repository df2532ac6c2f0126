//! Permission to fetch the files of an entry for the whole node.

use tokio::task::JoinHandle;

use super::RENEWAL;
use super::key::EntryKey;

/// Permission to fetch the files of an entry, while other clients wait. It expires unless it is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) key: EntryKey,
    /// Text by which the cache recognises the lease.
    pub(super) id: String,
}

/// Task that renews a lease. It ends when this value is dropped.
#[derive(Debug)]
pub(crate) struct Renewals(JoinHandle<()>);

impl Renewals {
    /// Calls `renew` once in each [`RENEWAL`].
    pub(super) fn start<F: Future<Output = ()> + Send>(renew: impl Fn() -> F + Send + 'static) -> Self {
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(RENEWAL).await;
                renew().await;
            }
        }))
    }
}

impl Drop for Renewals {
    fn drop(&mut self) {
        self.0.abort();
    }
}
