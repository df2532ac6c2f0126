//! Decides whether a lease is held. Clocks of other machines are not trusted: a holder counts as gone when its lease
//! has not changed for the lease duration, measured by this process's clock.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;

use super::HELD_FOR;

/// Availability of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The lease has no holder, or the holder has not renewed it in time.
    Free,
    /// Another process holds the lease and has renewed it lately.
    Held,
}

/// Version of a lease and the time at which it was first seen.
#[derive(Debug, Default)]
pub(super) struct LeaseObservation {
    seen: Option<(String, Instant)>,
}

impl LeaseObservation {
    /// Returns whether the lease, as read at `now`, can be taken.
    pub(super) fn claim(&mut self, lease: &Lease, now: Instant) -> Claim {
        let Some(spec) = lease.spec.as_ref().filter(|spec| has_holder(spec.holder_identity.as_deref())) else {
            return Claim::Free;
        };
        let version = lease.resource_version().unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if *seen == version => *since,
            Some(_) | None => now,
        };
        self.seen = Some((version, since));
        let seconds = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok());
        let silent_for = seconds.map_or(HELD_FOR, Duration::from_secs);
        if now.duration_since(since) > silent_for { Claim::Free } else { Claim::Held }
    }
}

fn has_holder(identity: Option<&str>) -> bool {
    identity.is_some_and(|identity| !identity.is_empty())
}

/// Returns the lease as its holder writes it.
pub(super) fn claimed(mut lease: Lease, identity: &str) -> Lease {
    let now = MicroTime(Timestamp::now());
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(identity) {
        spec.acquire_time = Some(now.clone());
        spec.lease_transitions = Some(spec.lease_transitions.unwrap_or(0).saturating_add(1));
    }
    spec.holder_identity = Some(identity.to_owned());
    spec.lease_duration_seconds = i32::try_from(HELD_FOR.as_secs()).ok();
    spec.renew_time = Some(now);
    lease
}

/// Returns the lease as its holder releases it.
pub(super) fn released(mut lease: Lease) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    lease
}
