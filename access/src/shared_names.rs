//! Finds sources of clients that could give each other's names.

use crate::document::AccessDocument;
use crate::issuer::IssuerKind;

/// Returns document and index of each entry whose clients could have the same names as those of an earlier entry or of
/// an OpenID issuer. That is possible if one of the two prefixes begins with the other one. The names of Kubernetes are
/// reserved, so they need no prefix.
pub(crate) fn entries_with_shared_names(documents: &[AccessDocument]) -> Vec<(usize, usize)> {
    let issuers = documents.iter().flat_map(|document| &document.issuers);
    let issuers = issuers.filter(|issuer| issuer.kind == IssuerKind::OpenId);
    let mut prefixes: Vec<&str> = issuers.map(|issuer| &*issuer.client_prefix).collect();
    let mut shared = Vec::new();
    for (document, content) in documents.iter().enumerate() {
        for (at, entry) in content.client_certificates.iter().enumerate() {
            let own = &*entry.client_prefix;
            if prefixes.iter().any(|other| other.starts_with(own) || own.starts_with(other)) {
                shared.push((document, at));
            }
            prefixes.push(own);
        }
    }
    shared
}
