//! Certificates of replicas that this gateway does not trust, for its reports.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{UpstreamError, UpstreamErrorKind};

/// Time after which a certificate that is still not trusted is reported. In less time gateways learn that an address
/// belongs to another replica now.
const REPORTED_AFTER: Duration = Duration::from_secs(5);

/// Time after the last failed handshake for which the certificate is reported. Without requests there are no
/// handshakes, and the certificate may have been replaced.
const REPORTED_FOR: Duration = Duration::from_secs(600);

/// Maximum length in bytes of the clause that is reported. Readers of reports refuse longer ones.
const MAX_CLAUSE: usize = 512;

/// Record of the handshakes with one replica.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    distrust: Mutex<Option<Distrust>>,
}

/// Handshakes that failed because of the replica's certificate, since the last one that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Distrust {
    first: Instant,
    last: Instant,
    /// The fault of the certificate, as a clause.
    because: Arc<str>,
}

impl Handshakes {
    /// Records the result of an attempt to connect. An attempt that failed for another reason says nothing about the
    /// certificate.
    pub(super) fn note<T>(&self, result: &Result<T, UpstreamError>, now: Instant) {
        let mut distrust = self.distrust.lock();
        match result {
            Ok(_) => *distrust = None,
            Err(error) if error.kind == UpstreamErrorKind::Untrusted => {
                *distrust = Some(Distrust::after(distrust.take(), &error.because, now));
            }
            Err(_) => {}
        }
    }

    /// Returns the reason why the certificate is not trusted; `None` if it is, if no handshake was tried recently, or if
    /// the address may belong to another replica.
    pub(super) fn distrust(&self, now: Instant) -> Option<Arc<str>> {
        let distrust = self.distrust.lock();
        distrust.as_ref().filter(|distrust| distrust.is_reported(now)).map(|distrust| distrust.because.clone())
    }
}

impl Distrust {
    fn after(before: Option<Self>, because: &str, now: Instant) -> Self {
        let before = before.filter(|before| !before.is_over(now));
        let first = before.map_or(now, |before| before.first);
        Self { first, last: now, because: shortened(because).into() }
    }

    fn is_reported(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.first) >= REPORTED_AFTER && !self.is_over(now)
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.last) >= REPORTED_FOR
    }
}

/// Returns the longest beginning that a report may have. The text may quote the other side's certificate.
fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_CLAUSE)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::now;

    fn untrusted(because: &str) -> Result<(), UpstreamError> {
        Err(UpstreamError { kind: UpstreamErrorKind::Untrusted, because: because.to_owned() })
    }

    /// Returns what is reported at each of these seconds, after a wrong certificate at the second 0.
    fn reported_at(handshakes: &Handshakes, begin: Instant, seconds: &[u64]) -> Vec<bool> {
        seconds.iter().map(|at| handshakes.distrust(begin + Duration::from_secs(*at)).is_some()).collect()
    }

    #[test]
    fn a_certificate_that_stays_wrong_is_reported_until_a_handshake_succeeds() {
        let (handshakes, begin) = (Handshakes::default(), now());
        assert_eq!(handshakes.distrust(begin), None);
        handshakes.note(&untrusted("it has expired"), begin);
        assert_eq!(reported_at(&handshakes, begin, &[0, 4, 5, 599, 600]), [false, false, true, true, false]);
        let later = begin + Duration::from_secs(599);
        handshakes.note(&untrusted("it is of another authority"), later);
        assert_eq!(handshakes.distrust(later).as_deref(), Some("it is of another authority"));
        handshakes.note::<()>(&Err(UpstreamError::connect_failed("refused".to_owned())), later);
        assert!(handshakes.distrust(later).is_some());
        handshakes.note(&Ok(()), later);
        assert_eq!(handshakes.distrust(later), None);
    }

    #[test]
    fn a_failure_long_after_the_last_one_counts_as_the_first() {
        let (handshakes, begin) = (Handshakes::default(), now());
        handshakes.note(&untrusted("it has expired"), begin);
        handshakes.note(&untrusted("it has expired"), begin + Duration::from_secs(600));
        assert_eq!(reported_at(&handshakes, begin, &[600, 604, 605]), [false, false, true]);
    }

    proptest! {
        #[test]
        fn a_clause_is_as_long_as_a_report_may_have(text in "(.|é|字){0,400}") {
            let short = shortened(&text);
            prop_assert!(text.starts_with(short) && short.len() <= MAX_CLAUSE);
            prop_assert!(short.len() == text.len() || short.len() > MAX_CLAUSE - 4);
        }
    }
}
