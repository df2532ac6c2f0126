//! The namespaces of clients, by their tokens.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::clock;
use crate::error::CacheError;

/// Audience of the tokens. A token for another audience, such as the API server's, is not accepted.
pub const AUDIENCE: &str = "weir-model-cache";

/// Time for which a valid token counts as valid, and so the longest use of one that was revoked.
const VALID: Duration = Duration::from_secs(60);

/// Time for which a refused token stays refused without another review.
const REFUSED: Duration = Duration::from_secs(5);

/// Maximum number of tokens that are remembered: more than pods start on a node in a minute.
const MAX_KNOWN: usize = 1024;

/// Maximum number of concurrent token reviews at the API server.
const REVIEWS: usize = 8;

/// Maximum length of a token in bytes.
const MAX_TOKEN: usize = 16 << 10;

/// Name of a namespace, which can be the name of a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

impl Namespace {
    /// Parses the name of a namespace: a DNS label (RFC 1123). Returns `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        let bytes = text.as_bytes();
        let ends = [bytes.first()?, bytes.last()?];
        let is_name = text.len() <= 63 && bytes.iter().all(|c| is_inner(*c)) && ends.iter().all(|c| **c != b'-');
        is_name.then(|| Self(text.to_owned()))
    }

    /// Returns the namespace of a user of the form `system:serviceaccount:NAMESPACE:NAME`; `None` for other users.
    #[must_use]
    pub fn of_user(user: &str) -> Option<Self> {
        let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        Self::parse(namespace).filter(|_| !name.is_empty())
    }

    /// Returns the name of the namespace.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Failure of a review, as a clause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// The authority on tokens: an API server.
#[async_trait]
pub trait TokenReviewer: Send + Sync {
    /// Returns the namespace of the ServiceAccount that a token proves for [`AUDIENCE`]; `None` if the token is not valid,
    /// or not that of a ServiceAccount.
    ///
    /// # Errors
    /// [`ReviewError`] if the authority does not answer.
    async fn review(&self, token: &str) -> Result<Option<Namespace>, ReviewError>;
}

/// Digest of a token. The tokens themselves are not kept.
type TokenDigest = [u8; 32];

/// Tokens that were reviewed a short time ago.
pub(crate) struct Accounts {
    reviewer: Arc<dyn TokenReviewer>,
    known: Mutex<HashMap<TokenDigest, Known>>,
    reviews: Semaphore,
}

/// Result of a review.
#[derive(Clone, Debug)]
struct Known {
    /// Namespace of the token; `None` if the token was refused.
    namespace: Option<Namespace>,
    until: Instant,
}

impl Accounts {
    pub(crate) fn new(reviewer: Arc<dyn TokenReviewer>) -> Self {
        Self { reviewer, known: Mutex::default(), reviews: Semaphore::new(REVIEWS) }
    }

    /// Returns the namespace that a token proves.
    ///
    /// # Errors
    /// [`CacheError::Unauthenticated`] if it proves none, [`CacheError::Unchecked`] if the API server does not answer.
    pub(crate) async fn namespace(&self, token: &str) -> Result<Namespace, CacheError> {
        if token.is_empty() || token.len() > MAX_TOKEN {
            return Err(CacheError::Unauthenticated);
        }
        let digest = Sha256::digest(token).into();
        if let Some(known) = self.known(&digest) {
            return known.namespace.ok_or(CacheError::Unauthenticated);
        }
        let _permit = self.reviews.acquire().await.map_err(|_| CacheError::Busy)?;
        // Another request of the same pod may have had the token reviewed meanwhile.
        if let Some(known) = self.known(&digest) {
            return known.namespace.ok_or(CacheError::Unauthenticated);
        }
        let reviewed = self.reviewer.review(token).await;
        let namespace = reviewed.map_err(|error| CacheError::Unchecked(error.to_string()))?;
        self.remember(digest, namespace.clone());
        namespace.ok_or(CacheError::Unauthenticated)
    }

    /// Returns the result of a review; `None` without a recent one.
    fn known(&self, digest: &TokenDigest) -> Option<Known> {
        let known = self.known.lock();
        known.get(digest).filter(|found| found.until > clock::now()).cloned()
    }

    fn remember(&self, digest: TokenDigest, namespace: Option<Namespace>) {
        let now = clock::now();
        let until = now + if namespace.is_some() { VALID } else { REFUSED };
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, known| known.until > now);
        }
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(digest, Known { namespace, until });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Reviewer that accepts `token-of-NAMESPACE`, and counts its reviews.
    #[derive(Default)]
    struct Fake(AtomicUsize);

    #[async_trait]
    impl TokenReviewer for Fake {
        async fn review(&self, token: &str) -> Result<Option<Namespace>, ReviewError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            if token == "down" {
                return Err(ReviewError("no answer".to_owned()));
            }
            Ok(token.strip_prefix("token-of-").and_then(Namespace::parse))
        }
    }

    #[test]
    fn only_service_accounts_have_a_namespace() {
        let of = |user: &str| Namespace::of_user(user).map(|namespace| namespace.to_string());
        assert_eq!(of("system:serviceaccount:team-a:default").as_deref(), Some("team-a"));
        for user in [
            "system:serviceaccount::default",
            "system:serviceaccount:..:x",
            "system:serviceaccount:a/b:x",
            "system:serviceaccount:team-a",
            "system:serviceaccount:team-a:",
            "system:node:team-a:x",
            "admin",
            "",
        ] {
            assert_eq!(of(user), None, "{user}");
        }
        for name in ["-a", "a-", "A", "a.b", "", &"a".repeat(64)] {
            assert_eq!(Namespace::parse(name), None, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_counts_for_a_short_time() {
        let fake = Arc::new(Fake::default());
        let accounts = Accounts::new(fake.clone());
        for _ in 0..3 {
            assert_eq!(accounts.namespace("token-of-a").await.unwrap().as_str(), "a");
            assert!(matches!(accounts.namespace("guess").await, Err(CacheError::Unauthenticated)));
        }
        assert_eq!(fake.0.load(Ordering::Relaxed), 2);
        tokio::time::advance(VALID).await;
        assert_eq!(accounts.namespace("token-of-a").await.unwrap().as_str(), "a");
        assert_eq!(fake.0.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn an_outage_is_no_refusal_and_is_not_remembered() {
        let fake = Arc::new(Fake::default());
        let accounts = Accounts::new(fake.clone());
        for _ in 0..2 {
            assert!(matches!(accounts.namespace("down").await, Err(CacheError::Unchecked(_))));
        }
        assert_eq!(fake.0.load(Ordering::Relaxed), 2);
        assert!(matches!(accounts.namespace("").await, Err(CacheError::Unauthenticated)));
        assert!(matches!(accounts.namespace(&"x".repeat(MAX_TOKEN + 1)).await, Err(CacheError::Unauthenticated)));
        assert_eq!(fake.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn the_number_of_remembered_tokens_is_bounded() {
        let accounts = Accounts::new(Arc::new(Fake::default()));
        for number in 0..3 * MAX_KNOWN {
            let _ = accounts.namespace(&format!("guess-{number}")).await;
        }
        assert!(accounts.known.lock().len() <= MAX_KNOWN);
    }
}
