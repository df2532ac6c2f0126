//! Samples the requests that are mirrored.

use http::{HeaderMap, HeaderName};
use weir_cluster::{Mirror, RevisionName};
use weir_ops::header_names;

use crate::headers;

/// Headers by which a request's sender chose its revision.
static TELLING: [HeaderName; 4] = [headers::REVISION, headers::TAG, headers::HOP, headers::MIRROR];

/// Chooser of a request's revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RevisionChoice {
    /// The split of the service's route.
    Split,
    /// The client, who pins this revision; or another gateway, which chose it or made the copy.
    Sender,
}

impl RevisionChoice {
    /// The chooser by the headers, and by the revision of a tagged host.
    pub(super) fn of(headers: &HeaderMap, tagged: Option<&RevisionName>) -> Self {
        match (header_names::has_any(headers, &TELLING), tagged) {
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
