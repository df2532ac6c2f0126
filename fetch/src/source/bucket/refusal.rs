//! Explains why a service refused a request, and what to do.

use std::time::Duration;

use super::Login;
use crate::error::FetchError;
use crate::store::StoreError;
use crate::web::may_succeed_later;

/// A response that is an error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {status}")]
pub(super) struct Refusal {
    pub(super) status: u16,
    /// The service's word for the error, such as `NoSuchBucket`; `None` for a response to HEAD.
    pub(super) code: Option<String>,
    /// Region of the bucket; `None` if the service does not say it.
    pub(super) region: Option<String>,
    /// Delay that the service asks for; `None` if it does not.
    pub(super) after: Option<Duration>,
}

/// A request without a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub(super) struct Unanswered {
    pub(super) reason: String,
    /// True if the request went to the metadata service of the machine.
    pub(super) is_metadata: bool,
    /// True if another attempt would fail in the same way, for example because the server's certificate is not trusted.
    pub(super) is_final: bool,
}

/// A whole object in place of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the service ignored the range")]
pub(super) struct IgnoredRange;

/// Cause of a failed request.
#[derive(Debug)]
pub(super) enum Cause {
    Refused(Refusal),
    Unanswered(Unanswered),
    IgnoredRange,
    /// An error of the library, such as an answer that cannot be parsed, or credentials that cannot be read.
    Other(String),
}

/// A failed request, as a message describes it.
pub(super) struct FailedRequest<'a> {
    pub(super) uri: &'a str,
    pub(super) bucket: &'a str,
    pub(super) login: Login,
}

impl Cause {
    /// Finds the cause in the chain of an error.
    pub(super) fn of(error: object_store::Error) -> Self {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        let mut last = String::new();
        while let Some(inner) = cause {
            if let Some(refusal) = inner.downcast_ref::<Refusal>() {
                return Self::Refused(refusal.clone());
            }
            if let Some(unanswered) = inner.downcast_ref::<Unanswered>() {
                return Self::Unanswered(unanswered.clone());
            }
            if inner.is::<IgnoredRange>() {
                return Self::IgnoredRange;
            }
            if inner.is::<object_store::path::Error>() {
                return Self::Other(format!(
                    "the bucket has an object whose key is no path of a file; rename it: {inner}"
                ));
            }
            last = inner.to_string();
            cause = inner.source();
        }
        Self::Other(last)
    }

    /// Returns the cause if there is no way to log in.
    pub(super) fn nothing() -> Self {
        Self::Other("no way to log in is left".to_owned())
    }

    fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => refusal.code.as_deref(),
            Self::Unanswered(_) | Self::IgnoredRange | Self::Other(_) => None,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.status),
            Self::Unanswered(_) | Self::IgnoredRange | Self::Other(_) => None,
        }
    }

    /// Returns the region that the service names in place of the requested one.
    pub(super) fn other_region(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) if matches!(refusal.status, 300..=400) => refusal.region.as_deref(),
            Self::Refused(_) | Self::Unanswered(_) | Self::IgnoredRange | Self::Other(_) => None,
        }
    }

    /// Returns true if a key without an object may be a prefix of others. A refusal of HEAD has no code: the refusal of
    /// the list, which follows, says the cause, for example that the credentials have expired.
    pub(super) fn may_be_prefix(&self) -> bool {
        match self.status() {
            Some(404) => true,
            Some(400..=403) => self.code().is_none(),
            Some(_) | None => false,
        }
    }

    pub(super) fn is_denied(&self) -> bool {
        matches!(self.status(), Some(401 | 403)) || self.code() == Some("PublicAccessNotPermitted")
    }

    /// Returns true if the machine has no identity of its own.
    pub(super) fn is_without_identity(&self) -> bool {
        match self {
            Self::Unanswered(unanswered) => unanswered.is_metadata,
            Self::Other(_) => true,
            Self::Refused(_) | Self::IgnoredRange => false,
        }
    }

    /// Returns the error for bytes that did not arrive.
    pub(super) fn interrupted(self) -> StoreError {
        match self {
            Self::Unanswered(Unanswered { reason, .. }) | Self::Other(reason) => StoreError::retry(reason),
            Self::Refused(refusal) => StoreError::retry(refusal.to_string()),
            Self::IgnoredRange => StoreError::retry(IgnoredRange.to_string()),
        }
    }

    /// Returns the error of a read. An object that is gone or has another version was changed since the list.
    pub(super) fn judge_read(self, subject: &FailedRequest<'_>) -> StoreError {
        match self.status() {
            Some(404 | 412 | 416) => StoreError::Changed,
            Some(_) | None => self.judge(subject),
        }
    }

    /// Returns the error of a request about the bucket.
    pub(super) fn judge(self, subject: &FailedRequest<'_>) -> StoreError {
        let refusal = match self {
            Self::Refused(refusal) => refusal,
            Self::Unanswered(unanswered) if unanswered.is_final => {
                return StoreError::Fatal(unavailable(subject, unanswered.reason));
            }
            Self::Unanswered(unanswered) => return StoreError::retry(unanswered.reason),
            Self::IgnoredRange => return StoreError::retry(IgnoredRange.to_string()),
            Self::Other(reason) => return StoreError::Fatal(unavailable(subject, reason)),
        };
        let code = refusal.code.as_deref().unwrap_or_default();
        let is_busy = matches!(code, "SlowDown" | "RequestTimeout" | "InternalError" | "ServerBusy");
        if is_busy || may_succeed_later(refusal.status) {
            let reason = format!("status {}{}", refusal.status, in_brackets(code));
            return StoreError::Retry { reason, after: refusal.after };
        }
        StoreError::Fatal(unavailable(subject, sentence(&refusal, code, subject)))
    }
}

fn unavailable(subject: &FailedRequest<'_>, reason: String) -> FetchError {
    FetchError::Unavailable { uri: subject.uri.to_owned(), reason }
}

fn in_brackets(code: &str) -> String {
    if code.is_empty() { String::new() } else { format!(" ({code})") }
}

/// Returns what to do about a refusal.
fn sentence(refusal: &Refusal, code: &str, subject: &FailedRequest<'_>) -> String {
    let (status, bucket) = (refusal.status, subject.bucket);
    let shown = in_brackets(code);
    match (code, status) {
        ("NoSuchBucket" | "ContainerNotFound" | "notFound", _) => {
            format!("the bucket {bucket} does not exist; check its name, and the endpoint and account it is in")
        }
        ("ExpiredToken" | "ExpiredTokenException" | "TokenRefreshRequired" | "invalid_grant", _) => {
            format!("the credentials have expired{shown}; get new ones, and start again")
        }
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "AuthenticationFailed", _) => {
            format!("the service does not know these credentials{shown}; check the access key and its secret")
        }
        ("InvalidObjectState" | "BlobArchived", _) => {
            format!("the object is archived{shown}; restore it, and start again")
        }
        ("RequestTimeTooSkewed", _) => {
            "the clock of this machine differs from the service's by more than 15 minutes; set it".to_owned()
        }
        ("AuthorizationHeaderMalformed" | "IllegalLocationConstraintException" | "IncorrectEndpoint", _) => {
            in_another_region(refusal.region.as_deref())
        }
        (_, 401 | 403) if subject.login == Login::Anonymous => {
            format!(
                "access is denied{shown}, and no credentials are given; see `weir fetch --help` for ways to give them"
            )
        }
        (_, 401 | 403) => {
            format!("the credentials have no right to read it{shown}; grant reading and listing of the bucket {bucket}")
        }
        (_, 404) => format!("not found{shown}; check the names of the bucket {bucket} and of the path"),
        (_, 300..=399) => in_another_region(refusal.region.as_deref()),
        _ => format!("the service answered {status}{shown}"),
    }
}

fn in_another_region(region: Option<&str>) -> String {
    match region {
        Some(region) => format!("the bucket is in the region {region}; set AWS_REGION to it"),
        None => "the bucket is in another region; set AWS_REGION to it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(status: u16, code: &str, login: Login) -> String {
        let code = (!code.is_empty()).then(|| code.to_owned());
        let refusal = Refusal { status, code, region: None, after: Some(Duration::from_secs(9)) };
        let subject = FailedRequest { uri: "s3://b/k", bucket: "b", login };
        match Cause::Refused(refusal).judge(&subject) {
            StoreError::Retry { reason, after } => format!("retry after {after:?}: {reason}"),
            StoreError::Fatal(error) => error.to_string(),
            StoreError::Changed => "changed".to_owned(),
        }
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let expected = [
            (404, "NoSuchBucket", "the bucket b does not exist; check its name"),
            (403, "AccessDenied", "the credentials have no right to read it (AccessDenied); grant reading"),
            (403, "", "the credentials have no right to read it; grant reading"),
            (400, "ExpiredToken", "the credentials have expired (ExpiredToken); get new ones"),
            (403, "InvalidAccessKeyId", "does not know these credentials (InvalidAccessKeyId)"),
            (403, "RequestTimeTooSkewed", "the clock of this machine"),
            (403, "InvalidObjectState", "the object is archived (InvalidObjectState); restore it"),
            (404, "", "not found; check the names"),
            (301, "PermanentRedirect", "another region; set AWS_REGION"),
            (400, "AuthorizationHeaderMalformed", "another region; set AWS_REGION"),
            (418, "Teapot", "the service answered 418 (Teapot)"),
        ];
        for (status, code, text) in expected {
            let error = judged(status, code, Login::Given);
            assert!(error.starts_with("s3://b/k: ") && error.contains(text), "{error}");
        }
        let error = judged(403, "AccessDenied", Login::Anonymous);
        assert!(error.contains("no credentials are given"), "{error}");
    }

    #[test]
    fn a_refused_head_is_followed_by_a_list_that_has_the_code() {
        let cause = |status: u16, code: Option<&str>| {
            let code = code.map(str::to_owned);
            Cause::Refused(Refusal { status, code, region: None, after: None })
        };
        for status in [400, 401, 403, 404] {
            assert!(cause(status, None).may_be_prefix(), "{status}");
        }
        assert!(cause(404, Some("NoSuchKey")).may_be_prefix());
        for (status, code) in [(400, Some("ExpiredToken")), (403, Some("AccessDenied")), (500, None), (301, None)] {
            assert!(!cause(status, code).may_be_prefix(), "{status}");
        }
    }

    #[test]
    fn a_key_that_no_file_can_have_is_named() {
        let source = object_store::path::Path::parse("m/a//b").unwrap_err();
        let Cause::Other(reason) = Cause::of(source.into()) else { panic!("another cause") };
        assert!(reason.contains("rename it") && reason.contains("m/a//b"), "{reason}");
    }

    #[test]
    fn a_busy_service_is_asked_again_when_it_says() {
        let expected = "retry after Some(9s): status 503 (SlowDown)";
        assert_eq!(judged(503, "SlowDown", Login::Given), expected);
        assert_eq!(judged(400, "RequestTimeout", Login::Given), "retry after Some(9s): status 400 (RequestTimeout)");
        assert_eq!(judged(429, "", Login::Given), "retry after Some(9s): status 429");
    }
}
