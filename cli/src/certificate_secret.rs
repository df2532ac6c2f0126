//! Certificates of a gateway in the entries of a Secret.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::stream::{Stream, StreamExt};
use weir_cluster_kubernetes::Entries;

/// Entries with certificate, key and authorities in PEM, as in Secrets of type `kubernetes.io/tls`.
const NAMES: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

/// Certificate, key and authorities; the error is a sentence.
pub(crate) type Content = Result<[Vec<u8>; 3], String>;

/// Passes the certificates in each state of a Secret to `replace`; `object` names the Secret in errors. A state without
/// any of the entries changes nothing: the certificates are made later, or the Secret is made again.
pub(crate) async fn follow(
    states: impl Stream<Item = Entries>,
    object: &str,
    is_read: &AtomicBool,
    replace: impl Fn(Content),
) {
    let mut used = None;
    let mut states = std::pin::pin!(states);
    while let Some(mut entries) = states.next().await {
        let found = NAMES.map(|name| entries.remove(name));
        if found.iter().all(Option::is_none) {
            tracing::warn!("the {object} has no certificate yet");
        } else if used.as_ref() != Some(&found) {
            replace(complete(&found, object));
            used = Some(found);
        }
        is_read.store(true, Ordering::Release);
    }
}

fn complete(found: &[Option<Vec<u8>>; 3], object: &str) -> Content {
    match found {
        [Some(certificate), Some(key), Some(ca)] => Ok([certificate.clone(), key.clone(), ca.clone()]),
        _ => Err(format!("the {object} needs the entries tls.crt, tls.key and ca.crt")),
    }
}
