//! [`Lease`] over the Leases of the coordination API.

mod claim;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use kube::api::{Api, PostParams};
use tokio_util::sync::{CancellationToken, DropGuard};
use weir_cluster::{ClusterError, HeldLease, Lease};

use self::claim::{Claim, LeaseObservation, claimed, released};
use crate::operations::clock;
use crate::{Kubernetes, error};

/// Time after which another process may take the lease of a holder that does not renew it: client-go's default, enough
/// for a restart of the API server.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(15);

/// Time between two renewals. A failed renewal is repeated every [`LOOK_EVERY`] until [`LOST_AFTER`].
const RENEW_EVERY: Duration = Duration::from_secs(3);

/// Time without renewal after which a holder stops leading; it is shorter than [`HELD_FOR`], so that the holder stops
/// before another process may begin.
const LOST_AFTER: Duration = Duration::from_secs(12);

/// Time between two checks of a lease that another process holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Timeout of one request. A connection whose peer vanished, as with a node of the control plane, costs one attempt;
/// the next uses another connection before the lease is lost.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Counter that distinguishes the tasks of one process.
static ASKED: AtomicU64 = AtomicU64::new(0);

#[async_trait]
impl Lease for Kubernetes {
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError> {
        let holder = Holder {
            leases: Api::namespaced(self.client.clone(), &self.options.namespace),
            name: name.to_owned(),
            identity: self.identity(),
        };
        let mut observation = LeaseObservation::default();
        loop {
            if let Some(held) = holder.try_acquire(&mut observation).await? {
                return Ok(holder.hold(held));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Kubernetes {
    fn identity(&self) -> String {
        let number = ASKED.fetch_add(1, Ordering::Relaxed);
        let process = &self.options.process;
        format!("{process}-{}-{number}", std::process::id())
    }
}

/// Candidate for a lease, and its holder once acquired.
struct Holder {
    leases: Api<LeaseObject>,
    name: String,
    identity: String,
}

impl Holder {
    /// Takes the lease if it is free.
    async fn try_acquire(&self, observation: &mut LeaseObservation) -> Result<Option<LeaseObject>, ClusterError> {
        let existing = answered(self.leases.get_opt(&self.name)).await;
        let existing = existing.map_err(|e| error::of(&self.name, e))?;
        let now = clock::now().into_std();
        let claim = match existing {
            Some(existing) => match observation.claim(&existing, now) {
                Claim::Free => self.replace(&claimed(existing, &self.identity)).await,
                Claim::Held => return Ok(None),
            },
            None => {
                let mut first = LeaseObject::default();
                first.metadata.name = Some(self.name.clone());
                let first = claimed(first, &self.identity);
                answered(self.leases.create(&PostParams::default(), &first)).await
            }
        };
        match claim {
            Ok(held) => Ok(Some(held)),
            // Another process took the lease first.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error::of(&self.name, error)),
        }
    }

    /// Renews the lease in the background until the returned value is dropped, then releases it.
    fn hold(self, held: LeaseObject) -> HeldLease {
        let (lost, release) = (CancellationToken::new(), CancellationToken::new());
        let renewing = self.renew(held, lost.clone(), release.clone());
        tokio::spawn(renewing);
        HeldLease::new(lost, release.drop_guard())
    }

    async fn renew(self, mut held: LeaseObject, lost: CancellationToken, release: CancellationToken) {
        let _lost_at_the_end: DropGuard = lost.drop_guard();
        let mut renewed = clock::now();
        while release.run_until_cancelled(tokio::time::sleep(RENEW_EVERY)).await.is_some() {
            let asked = clock::now();
            let renewal = tokio::time::timeout_at(renewed + LOST_AFTER, self.renewed(&held)).await;
            let Ok(Some(stored)) = renewal else {
                return;
            };
            (held, renewed) = (stored, asked);
        }
        // A released lease spares the next holder the wait until it expires. If the release fails, the next holder
        // waits.
        let _ = self.replace(&released(held)).await;
    }

    /// Renews the lease with as many attempts as needed; None when another holder has taken it.
    async fn renewed(&self, held: &LeaseObject) -> Option<LeaseObject> {
        let mut held = held.clone();
        loop {
            match self.replace(&claimed(held.clone(), &self.identity)).await {
                Ok(stored) => return Some(stored),
                Err(kube::Error::Api(status)) if status.code == 404 => return None,
                // The stored lease is newer than the known one: an earlier renewal was stored although its answer was
                // lost, or another writer changed the lease without taking it.
                Err(kube::Error::Api(status)) if status.code == 409 => match self.own().await {
                    Ok(own) => held = own?,
                    Err(_) => tokio::time::sleep(LOOK_EVERY).await,
                },
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Returns the lease as it is now; `None` if another holder has it.
    async fn own(&self) -> Result<Option<LeaseObject>, kube::Error> {
        let found = answered(self.leases.get_opt(&self.name)).await?;
        Ok(found.filter(|found| {
            let spec = found.spec.as_ref();
            spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(&self.identity)
        }))
    }

    async fn replace(&self, lease: &LeaseObject) -> Result<LeaseObject, kube::Error> {
        let params = PostParams::default();
        answered(self.leases.replace(&self.name, &params, lease)).await
    }
}

/// Waits for an answer for at most [`ANSWERED_WITHIN`].
async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match tokio::time::timeout(ANSWERED_WITHIN, request).await {
        Ok(answer) => answer,
        Err(elapsed) => Err(kube::Error::Service(elapsed.into())),
    }
}
