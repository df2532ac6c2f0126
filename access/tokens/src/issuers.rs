//! The configured issuers: their key sets, which are fetched in the background, and the tokens that they verified.

mod issuer;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::{Either, join_all, pending, select};
use tokio::sync::Notify;
use tokio::time::timeout;
use weir_access::{IssuerKind, IssuerSettings};

use crate::cache::VerifiedTokens;
use crate::clock::now;
use crate::error::{SettingsError, TokenError};
use crate::fingerprints::Fingerprints;
use crate::identity::TokenIdentity;
use crate::settings::IssuerPlan;
use crate::token::{MAX_TOKEN_BYTES, UnverifiedToken};
use crate::verify::verify;
pub use issuer::KeySetState;
use issuer::{Fetch, Issuer, Tokens};

/// Maximum number of issuers.
const MAX_ISSUERS: usize = 32;

/// Longest wait of a request for a fetch of keys that its token needs: the time between two fetches, and the fetch.
const MAX_WAIT: Duration = Duration::from_secs(7);

/// Maximum number of requests that wait for fetches. Others are refused at once.
const MAX_WAITING: usize = 256;

/// Verifies the tokens of all configured issuers.
#[derive(Debug, Default)]
pub struct Issuers {
    issuers: ArcSwap<Vec<Arc<Issuer>>>,
    cache: VerifiedTokens,
    fingerprints: Fingerprints,
    /// Notified when the issuers are replaced.
    changed: Notify,
    waiting: AtomicUsize,
}

impl Issuers {
    /// Replaces the issuers. An issuer whose settings stay the same keeps its keys and verified tokens.
    ///
    /// # Errors
    /// [`SettingsError`] if settings are wrong. The former issuers then stay.
    pub fn apply(&self, settings: &[IssuerSettings]) -> Result<(), SettingsError> {
        let plans = plans(settings)?;
        self.replace(plans);
        Ok(())
    }

    /// Validates the settings of all issuers together.
    ///
    /// # Errors
    /// [`SettingsError`] for the first settings that [`Self::apply`] would refuse.
    pub fn validate(settings: &[IssuerSettings]) -> Result<(), SettingsError> {
        plans(settings).map(drop)
    }

    /// Returns the state of each issuer's key set.
    pub fn key_sets(&self) -> Vec<KeySetState> {
        let now = now();
        self.issuers.load().iter().map(|issuer| issuer.state(now)).collect()
    }

    fn replace(&self, plans: Vec<IssuerPlan>) {
        let former = self.issuers.load_full();
        let issuer = |plan: IssuerPlan| match former.iter().find(|issuer| issuer.plan == plan) {
            Some(same) => Arc::clone(same),
            None => Arc::new(Issuer::new(plan)),
        };
        self.issuers.store(Arc::new(plans.into_iter().map(issuer).collect()));
        self.changed.notify_one();
    }

    /// Returns true if no issuer is configured, so that no token is accepted.
    pub fn is_empty(&self) -> bool {
        self.issuers.load().is_empty()
    }

    /// Fetches key sets until `stop` ends. Without this, no token is accepted. A change of the issuers ends the fetches
    /// of those that leave, and no others.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let (mut stop, mut loops) = (pin!(stop), Vec::new());
        loop {
            let issuers = self.issuers.load_full();
            loops.retain(|(issuer, _)| issuers.iter().any(|other| Arc::ptr_eq(issuer, other)));
            for issuer in issuers.iter() {
                if !loops.iter().any(|(other, _)| Arc::ptr_eq(issuer, other)) {
                    loops.push((Arc::clone(issuer), Box::pin(Arc::clone(issuer).keep_fresh())));
                }
            }
            let fetching = pin!(async {
                join_all(loops.iter_mut().map(|(_, fetches)| fetches)).await;
                pending::<()>().await;
            });
            let changed = pin!(self.changed.notified());
            match select(&mut stop, select(changed, fetching)).await {
                Either::Left(_) => return,
                Either::Right(_) => {}
            }
        }
    }

    /// Verifies a token by the keys that are known now. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`TokenError`] with the first reason against the token.
    pub fn check(&self, token: &str, now: u64) -> Result<Arc<TokenIdentity>, TokenError> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(TokenError::TooLong);
        }
        let fingerprint = self.fingerprints.of(token);
        if let Some(identity) = fingerprint.and_then(|fingerprint| self.cache.get(&fingerprint, now)) {
            return Ok(identity);
        }
        let token = UnverifiedToken::parse(token)?;
        let issuers = self.issuers.load();
        let loaded = match find(&issuers, token.issuer()?) {
            Some((_, Tokens::Accepted(loaded))) => loaded,
            Some((_, Tokens::NoKeys)) => return Err(TokenError::KeysUnavailable),
            Some((_, Tokens::OtherIssuer)) | None => return Err(TokenError::UnknownIssuer),
        };
        let (identity, key) = verify(&token, &loaded.keys, &loaded.config, now)?;
        let identity = Arc::new(identity);
        if let Some(fingerprint) = fingerprint {
            self.cache.insert(fingerprint, key, &identity);
        }
        Ok(identity)
    }

    /// Verifies a token, and lets the request wait for a fetch if the token's key is not known. `now` is in seconds
    /// since 1970.
    ///
    /// # Errors
    /// [`TokenError`] with the first reason against the token.
    pub async fn authenticate(&self, token: &str, now: u64) -> Result<Arc<TokenIdentity>, TokenError> {
        match self.check(token, now) {
            // Boxed, so that the future of a request whose token is known stays small.
            Err(error) if error.depends_on_keys() => Box::pin(self.check_with_new_keys(token, now, error)).await,
            result => result,
        }
    }

    /// Verifies a token whose key is not known, after the fetch that is in progress has ended, and once more after a
    /// further fetch.
    async fn check_with_new_keys(
        &self,
        token: &str,
        now: u64,
        mut error: TokenError,
    ) -> Result<Arc<TokenIdentity>, TokenError> {
        let Some(_place) = WaitingPlace::new(&self.waiting) else {
            return Err(error);
        };
        for _ in 0..2 {
            let fetch = self.wait_for_keys(token).await;
            match self.check(token, now) {
                Err(other) if other.depends_on_keys() && fetch == Some(Fetch::Joined) => error = other,
                result => return result,
            }
        }
        Err(error)
    }

    /// Waits until the keys of the token's issuer were fetched; `None` if that takes too long.
    async fn wait_for_keys(&self, token: &str) -> Option<Fetch> {
        let issuers = self.issuers.load_full();
        let parsed = UnverifiedToken::parse(token);
        let (issuer, _) = find(&issuers, parsed.as_ref().ok()?.issuer().ok()?)?;
        timeout(MAX_WAIT, issuer.fetched()).await.ok()
    }
}

/// One of the places for requests that wait for a fetch.
struct WaitingPlace<'a>(&'a AtomicUsize);

impl<'a> WaitingPlace<'a> {
    fn new(waiting: &'a AtomicUsize) -> Option<Self> {
        let place = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(place)
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the issuer with this URL. An issuer whose URL is not known yet may be the one.
fn find<'a>(issuers: &'a [Arc<Issuer>], url: &str) -> Option<(&'a Arc<Issuer>, Tokens)> {
    let mut unknown = None;
    for issuer in issuers {
        match issuer.tokens_of(url) {
            Tokens::OtherIssuer => {}
            Tokens::NoKeys => unknown = Some((issuer, Tokens::NoKeys)),
            found @ Tokens::Accepted(_) => return Some((issuer, found)),
        }
    }
    unknown
}

/// Validates the settings of all issuers.
fn plans(settings: &[IssuerSettings]) -> Result<Vec<IssuerPlan>, SettingsError> {
    if settings.len() > MAX_ISSUERS {
        return Err(SettingsError::TooMany(MAX_ISSUERS));
    }
    let mut plans: Vec<IssuerPlan> = Vec::new();
    for (index, settings) in settings.iter().enumerate() {
        let plan = IssuerPlan::of(settings, index + 1)?;
        plans.iter().try_for_each(|other| check_difference(other, &plan, index))?;
        plans.push(plan);
    }
    Ok(plans)
}

/// Checks that two issuers cannot give the same names. The names of Kubernetes are reserved and have no prefix. `at` is
/// the place of the other one.
fn check_difference(one: &IssuerPlan, other: &IssuerPlan, at: usize) -> Result<(), SettingsError> {
    let same = |field, value: &str| Err(SettingsError::Same { at, field, value: value.to_owned() });
    if one.issuer == other.issuer {
        return same("issuer", one.issuer.as_deref().unwrap_or("kubernetes"));
    }
    match (one.config.kind, other.config.kind) {
        (IssuerKind::OpenId, IssuerKind::Kubernetes) | (IssuerKind::Kubernetes, IssuerKind::OpenId) => return Ok(()),
        (IssuerKind::Kubernetes, IssuerKind::Kubernetes) => return same("kind", "kubernetes"),
        (IssuerKind::OpenId, IssuerKind::OpenId) => {}
    }
    let (former, own) = (&one.config.client_prefix, &other.config.client_prefix);
    if own.starts_with(former.as_str()) || former.starts_with(own.as_str()) {
        return Err(SettingsError::SharedNames { at, own: own.clone(), other: former.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
