//! Who gets a copy.

use http::HeaderMap;
use weir_cluster::{Mirror, RevisionName};

use crate::headers;

/// Who chose the revision of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// The service's split: it is common traffic.
    Split,
    /// Its sender, who wants to see this revision and no other; another gateway, which made the copy; or it
    /// is a copy itself.
    Sender,
}

impl Aim {
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

/// Whether a request that goes to `chosen` gets a copy. `luck` is asked for only where it decides, so that
/// the share is one of those requests alone.
pub(super) fn gets_copy(
    mirror: &Mirror,
    chosen: &RevisionName,
    aim: Aim,
    luck: impl FnOnce() -> u32,
) -> bool {
    match aim {
        Aim::Sender => false,
        // The revision gets it already.
        Aim::Split if *chosen == mirror.revision => false,
        Aim::Split => (u64::from(luck()) * 100) >> 32 < u64::from(mirror.percent),
    }
}
