//! Who gets a copy.

use http::HeaderMap;
use weir_cluster::{Mirror, RevisionName};

use crate::headers;

/// Who chose the revision of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevisionChoice {
    /// The service's split: it is common traffic.
    Split,
    /// Its sender, who wants to see this revision and no other; another gateway, which made the copy; or it
    /// is a copy itself.
    Sender,
}

impl RevisionChoice {
    /// As the headers say, and the revision that a tagged host leads to.
    pub(super) fn of(headers: &HeaderMap, tagged: Option<&RevisionName>) -> Self {
        let telling = [
            headers::REVISION,
            headers::TAG,
            headers::HOP,
            headers::MIRROR,
        ];
        let is_told = telling.iter().any(|name| headers.contains_key(name));
        match (is_told, tagged) {
            (false, None) => Self::Split,
            (true, _) | (_, Some(_)) => Self::Sender,
        }
    }
}

/// Whether a request that goes to `chosen` gets a copy. `sample` is asked for only where it decides, so that
/// the share is one of those requests alone.
pub(super) fn is_mirrored(
    mirror: &Mirror,
    chosen: &RevisionName,
    choice: RevisionChoice,
    sample: impl FnOnce() -> u32,
) -> bool {
    match choice {
        RevisionChoice::Sender => false,
        // The revision gets it already.
        RevisionChoice::Split if *chosen == mirror.revision => false,
        RevisionChoice::Split => (u64::from(sample()) * 100) >> 32 < u64::from(mirror.percent),
    }
}
