//! Replicas that gateways do not connect to because of their certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Reasons why the certificates of replicas are not trusted, as clauses, by replica name; a replica that is not listed
/// is trusted, or was not connected to.
pub type UntrustedReplicas = BTreeMap<Arc<str>, Arc<str>>;

/// Adds the replicas that another gateway does not trust. A replica with two reasons keeps the first one.
pub(crate) fn add(to: &mut UntrustedReplicas, other: &UntrustedReplicas) {
    for (name, because) in other {
        to.entry(name.clone()).or_insert_with(|| because.clone());
    }
}
