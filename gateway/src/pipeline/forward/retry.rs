//! Decides whether a request may be sent again, without any IO.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::lost::{LostAttempt, ReplicaStatus};
use super::request::ProxyRequest;
use crate::body::BufferedBody;
use crate::clock::now;
use crate::error::GatewayError;
use crate::queue::{Credit, EndpointId, Outcome, Verdict};
use crate::upstream::UpstreamErrorKind;

/// Maximum number of retries after a replica was lost. A request that loses four replicas in a row is probably the
/// cause.
const MAX_RETRIES: u32 = 3;

/// Maximum number of replicas that may end while they have the request, if they were ended from outside or the cause
/// was not reported in time. After one more, the request is not retried. Users and nodes end programs, but rarely twice
/// during one request. The kernel also ends programs when memory runs out, which a request may cause and not every
/// platform reports.
const MAX_ENDED: u32 = 1;

/// A request is not retried if the lost replica had it for longer than this. A batch that runs for a minute may be
/// stuck, so that `weir-runtime` is restarted because of it; the request would block the next replica as well.
const MAX_TIME_AT_REPLICA: Duration = Duration::from_secs(60);

/// Maximum time for which a request is retried at replicas whose certificates are not the expected ones. Gateways learn
/// within a second or two that an address belongs to another replica now. A wrong authority or an expired certificate
/// stays.
const MAX_TIME_UNTRUSTED: Duration = Duration::from_secs(5);

/// Maximum number of refusals by replicas that are retried; the next refusal is sent to the client. Each refusal ejects
/// its replica for 50 ms.
const MAX_REFUSALS: u32 = 8;

/// Maximum number of hand-overs to gateways that turn out not to own the queue. They are 20 ms apart, and all gateways
/// agree within a second or two.
const MAX_HANDOVERS: u32 = 100;

/// Failure of an attempt that may be retried.
pub(super) enum Failure {
    /// The replica was full and did not work on the request.
    Refused,
    /// The gateway does not own the queue and did not work on the request.
    Unserved,
    /// The replica or gateway did not answer.
    Lost(LostAttempt),
    InvalidResponse(InvalidResponse),
}

/// Invalid response of a replica, which may have done the work.
pub(super) struct InvalidResponse {
    pub(super) replica: Arc<str>,
    pub(super) endpoint: EndpointId,
    pub(super) because: String,
    /// True if another replica takes requests.
    pub(super) has_others: bool,
}

/// Treatment of a replica's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnRefusal {
    Retry,
    /// The refusal is the response to the client.
    Relay,
}

/// Earlier attempts of one request.
pub(super) struct RetryState<'a> {
    request: &'a ProxyRequest,
    sequence: Option<u64>,
    lost: u32,
    /// Replicas that had the request when their programs were ended from outside or for an unknown reason.
    ended: u32,
    refused: u32,
    handed_over: u32,
    /// The first invalid response. There is no retry after a second one.
    invalid: Option<InvalidResponse>,
    /// Time of the first failure to connect.
    first_connect_failure: Option<Instant>,
    /// Time of the first failure because of a certificate.
    first_untrusted: Option<Instant>,
}

impl<'a> RetryState<'a> {
    pub(super) fn new(request: &'a ProxyRequest) -> Self {
        Self {
            request,
            sequence: None,
            lost: 0,
            ended: request.ended,
            refused: 0,
            handed_over: 0,
            invalid: None,
            first_connect_failure: None,
            first_untrusted: None,
        }
    }

    /// Returns the request's sequence number in the queue; `None` before its first admission.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    pub(super) fn note_sequence(&mut self, sequence: u64) {
        self.sequence = Some(sequence);
    }

    /// Returns the treatment of a refusal of the next attempt, which sends this body.
    pub(super) fn on_refusal(&self, buffered: &BufferedBody) -> OnRefusal {
        if buffered.is_whole() && self.refused < MAX_REFUSALS { OnRefusal::Retry } else { OnRefusal::Relay }
    }

    /// Records a failure; returns an error if the request must not be retried after it. A body that was streamed can be
    /// sent only once, but is still there after a failure to connect.
    pub(super) fn retry_after(&mut self, failure: Failure, buffered: &BufferedBody) -> Result<(), GatewayError> {
        match failure {
            Failure::Refused => {
                self.refused += 1;
                Ok(())
            }
            Failure::Unserved => self.retry_handover(buffered),
            Failure::Lost(lost) => self.retry_lost(lost, buffered),
            Failure::InvalidResponse(invalid) => self.retry_invalid(invalid, buffered),
        }
    }

    fn retry_handover(&mut self, buffered: &BufferedBody) -> Result<(), GatewayError> {
        self.handed_over += 1;
        if self.handed_over > MAX_HANDOVERS || !buffered.can_be_sent() {
            return Err(GatewayError::NoOwner(self.request.queue.name.to_string()));
        }
        Ok(())
    }

    fn retry_lost(&mut self, lost: LostAttempt, buffered: &BufferedBody) -> Result<(), GatewayError> {
        self.ended += match lost.status {
            ReplicaStatus::Ended | ReplicaStatus::Unreported => 1,
            ReplicaStatus::Runs | ReplicaStatus::Removed | ReplicaStatus::Failed(_) => 0,
        };
        let may_retry = self.may_outlive(&lost.status) && self.may_retry_lost(&lost);
        if !lost.error.kind.is_unconnected() {
            self.lost += 1;
        }
        if may_retry && buffered.can_be_sent() { Ok(()) } else { Err(self.lost_error(lost)) }
    }

    /// A failure to connect uses up no retry, but is retried only for the activation timeout, the time that a replica
    /// has to start, or shorter if a certificate is the cause.
    fn may_retry_lost(&mut self, lost: &LostAttempt) -> bool {
        match lost.error.kind {
            UpstreamErrorKind::ConnectFailed => lasts(&mut self.first_connect_failure) < self.request.activation,
            UpstreamErrorKind::Untrusted => {
                lasts(&mut self.first_untrusted) < self.request.activation.min(MAX_TIME_UNTRUSTED)
            }
            UpstreamErrorKind::StaleConnection | UpstreamErrorKind::Broken | UpstreamErrorKind::RequestBodyFailed => {
                self.lost < MAX_RETRIES && lost.time_at_replica < MAX_TIME_AT_REPLICA
            }
            // The invalid response came from a gateway, and the replica behind it may have done the work.
            UpstreamErrorKind::InvalidResponse => self.lost == 0,
        }
    }

    /// Returns false if the request may have ended a replica's program. This is so if the program crashed, or was
    /// killed because it hung or ran out of memory. It is also so if a second program was ended from outside or for an
    /// unknown reason.
    fn may_outlive(&self, status: &ReplicaStatus) -> bool {
        match status {
            ReplicaStatus::Runs | ReplicaStatus::Removed => true,
            ReplicaStatus::Ended | ReplicaStatus::Unreported => self.ended <= MAX_ENDED,
            ReplicaStatus::Failed(_) => false,
        }
    }

    fn lost_error(&self, lost: LostAttempt) -> GatewayError {
        let LostAttempt { name, error, status, .. } = lost;
        let revision = self.request.queue.name.to_string();
        let because = match status {
            ReplicaStatus::Failed(because) => because.to_string(),
            ReplicaStatus::Ended | ReplicaStatus::Unreported if self.ended > MAX_ENDED => {
                format!("{}, as another one had before", error.because)
            }
            ReplicaStatus::Runs | ReplicaStatus::Removed | ReplicaStatus::Unreported | ReplicaStatus::Ended => {
                return GatewayError::Lost {
                    revision,
                    tries: self.lost,
                    replica: name,
                    because: error.because,
                    failure: self.request.queue.failure_clause(),
                };
            }
        };
        GatewayError::ReplicaEnded { revision, replica: name, because }
    }

    /// Allows one retry at another replica. The replica may have done the work, and the responses of every replica may
    /// be invalid.
    fn retry_invalid(&mut self, invalid: InvalidResponse, buffered: &BufferedBody) -> Result<(), GatewayError> {
        let may_retry = self.invalid.is_none() && buffered.can_be_sent() && invalid.has_others;
        self.lost += 1;
        self.invalid = Some(invalid);
        if may_retry { Ok(()) } else { Err(self.invalid_response()) }
    }

    /// True if the credit belongs to the replica whose response was invalid.
    pub(super) fn must_avoid(&self, credit: &Credit) -> bool {
        let invalid = self.invalid.as_ref();
        invalid.is_some_and(|invalid| invalid.endpoint == credit.endpoint())
    }

    /// Gives back a credit of the replica whose response was invalid. The replica got the credit because the others
    /// were busy until its ejection ended; another ejection gives one of them time to become free.
    pub(super) fn decline(&mut self, credit: Credit) -> Result<(), GatewayError> {
        let has_others = credit.has_others();
        credit.settle(Outcome::Declined, Verdict::Open);
        if has_others { Ok(()) } else { Err(self.invalid_response()) }
    }

    fn invalid_response(&mut self) -> GatewayError {
        let revision = self.request.queue.name.to_string();
        match self.invalid.take() {
            Some(invalid) => GatewayError::InvalidResponse {
                revision,
                tries: self.lost,
                replica: invalid.replica,
                because: invalid.because,
            },
            None => GatewayError::Gone(revision),
        }
    }
}

/// Returns the time since the first failure of a kind, which is now if there was none.
fn lasts(first: &mut Option<Instant>) -> Duration {
    now().saturating_duration_since(*first.get_or_insert_with(now))
}
