//! Certificates between gateways in the entries of a Secret.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{Stream, StreamExt};
use weir_cluster_kubernetes::Entries;
use weir_gateway::PeerTls;

use super::{log, replace};

/// Entries with certificate, key and authorities in PEM, as in Secrets of type `kubernetes.io/tls`.
const NAMES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Uses the certificates in each state of a Secret, which `object` names in errors. A state without any of the entries changes
/// nothing: the certificates are made later, or the Secret is made again.
pub(super) async fn follow(states: impl Stream<Item = Entries>, object: &str, tls: &PeerTls, is_read: &AtomicBool) {
    let mut used = None;
    let mut states = std::pin::pin!(states);
    while let Some(mut entries) = states.next().await {
        let found = NAMES.map(|name| entries.remove(name));
        if found.iter().all(Option::is_none) {
            tracing::warn!("the {object} has no certificate for other gateways yet");
        } else if used.as_ref() != Some(&found) {
            log(replace(tls, complete(&found, object)));
            used = Some(found);
        }
        is_read.store(true, Ordering::Release);
    }
}

fn complete(found: &[Option<Vec<u8>>; 3], object: &str) -> Result<[Vec<u8>; 3], String> {
    match found {
        [Some(certificate), Some(key), Some(ca)] => Ok([certificate.clone(), key.clone(), ca.clone()]),
        _ => Err(format!("the {object} needs the entries tls.crt, tls.key and ca.crt")),
    }
}
