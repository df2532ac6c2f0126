//! Decides which requests are mirrored.

use http::{HeaderMap, HeaderName};
use weir_cluster::{Mirror, RevisionName};
use weir_serve::header_names;

use crate::wire::headers;

/// Headers with which the sender of a request chose its revision.
static CHOICE_HEADERS: [HeaderName; 4] = [headers::REVISION, headers::TAG, headers::HOP, headers::MIRROR];

/// Chooser of a request's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevisionChoice {
    /// The split of the service's route.
    Split,
    /// The client, which pinned this revision, or another gateway, which chose the revision or made the copy.
    Sender,
}

impl RevisionChoice {
    /// Returns the chooser according to the headers and to the revision of a tagged host.
    pub(super) fn of(headers: &HeaderMap, tagged: Option<&RevisionName>) -> Self {
        match (header_names::has_any(headers, &CHOICE_HEADERS), tagged) {
            (false, None) => Self::Split,
            (true, _) | (_, Some(_)) => Self::Sender,
        }
    }
}

/// Returns true if a request that goes to `chosen` gets a copy. `sample` is called only for requests that the split
/// sends elsewhere, so that the percentage applies to them alone.
pub(super) fn is_mirrored(
    mirror: &Mirror,
    chosen: &RevisionName,
    choice: RevisionChoice,
    sample: impl FnOnce() -> u32,
) -> bool {
    match choice {
        RevisionChoice::Sender => false,
        // The mirroring revision gets the request already.
        RevisionChoice::Split if *chosen == mirror.revision => false,
        RevisionChoice::Split => (u64::from(sample()) * 100) >> 32 < u64::from(mirror.percent),
    }
}
