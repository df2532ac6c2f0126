//! Access control: the caller of each request, and the check of what it may do.
//!
//! ```text
//!   head ─► credentials: caller ─► router finds the service ─► check: keys' scopes, rules ─► control, revision, body …
//! ```
//!
//! The check follows routing by the head, and precedes the body and everything that wakes a service. A call whose body
//! names its model is authenticated before the body is read. A gateway without access control checks nothing.

mod audit;
mod credentials;
mod guard;
mod in_flight;
mod operation;
mod request_shares;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use http::request::Parts;
use weir_access::{Caller, IssuerSettings, Policy};
use weir_tokens::{Fingerprints, Issuers, KeySetState, SettingsError};

use crate::certificates::{Authorities, AuthorityError, ClientAuthority, ClientChain};
use crate::clock::seconds_since_1970;
use crate::rates::Rates;
use audit::Audit;
use credentials::AuthError;
pub(crate) use guard::{Choice, Guard, HeldLimits, Opened, RequestOrigin};
use in_flight::{HeldSlots, InFlight};
pub(crate) use request_shares::RequestShares;

/// Keys and rules of a gateway with access control. They can be replaced while it serves.
pub struct AccessControl {
    policy: ArcSwap<Policy>,
    issuers: Issuers,
    authorities: ArcSwap<Authorities>,
    /// Fingerprints of API keys; the issuers have those of tokens.
    fingerprints: Fingerprints,
    rates: Rates,
    gateways: GatewayCount,
    in_flight: InFlight,
    failed_reloads: AtomicU64,
    anonymous: Arc<Caller>,
    pub(crate) audit: Audit,
}

impl AccessControl {
    /// Creates access control with these keys and rules. Tokens are refused until [`Self::trust`] configures their
    /// issuers.
    #[must_use]
    pub fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            policy: ArcSwap::from_pointee(policy),
            issuers: Issuers::default(),
            authorities: ArcSwap::default(),
            fingerprints: Fingerprints::default(),
            rates: Rates::default(),
            gateways: GatewayCount::default(),
            in_flight: InFlight::default(),
            failed_reloads: AtomicU64::new(0),
            anonymous: Arc::new(Caller::anonymous()),
            audit: Audit::default(),
        })
    }

    /// Replaces the keys and rules for all requests that arrive from now on, and returns the previous ones. Requests
    /// that have begun still use the previous ones. The last of their holders frees them, which takes long if there are
    /// many keys.
    pub fn replace(&self, policy: Policy) -> Arc<Policy> {
        self.policy.swap(Arc::new(policy))
    }

    /// Replaces the issuers whose tokens are accepted. Issuers whose settings stay the same keep their keys.
    ///
    /// # Errors
    /// [`SettingsError`] if settings are wrong. The previous issuers then stay in use.
    pub fn trust(&self, issuers: &[IssuerSettings]) -> Result<(), SettingsError> {
        self.issuers.apply(issuers)
    }

    /// Replaces the authorities whose certificates name clients, on ports with TLS. A certificate that only a removed
    /// authority has signed names no client from now on, even on an open connection.
    ///
    /// # Errors
    /// [`AuthorityError`] if certificates cannot be verified by them. The previous authorities then stay in use.
    pub fn accept_certificates(&self, authorities: Vec<ClientAuthority>) -> Result<(), AuthorityError> {
        self.authorities.store(Arc::new(Authorities::new(authorities)?));
        Ok(())
    }

    /// Returns the authorities whose certificates name clients.
    pub(crate) fn authorities(&self) -> Arc<Authorities> {
        self.authorities.load_full()
    }

    /// Validates the settings of all issuers together.
    ///
    /// # Errors
    /// [`SettingsError`] for the first settings that [`Self::trust`] would refuse.
    pub fn check_issuers(issuers: &[IssuerSettings]) -> Result<(), SettingsError> {
        Issuers::validate(issuers)
    }

    /// Returns the state of each issuer's key set.
    pub(crate) fn key_sets(&self) -> Vec<KeySetState> {
        self.issuers.key_sets()
    }

    /// Fetches the keys of issuers, until the future is dropped. Without this, no token is accepted.
    pub async fn fetch_keys(&self) {
        self.issuers.run(std::future::pending()).await;
    }

    /// Returns the caller that a key or token identifies now. Waits for the keys of a token's issuer if necessary.
    async fn caller(&self, policy: &Policy, credential: &str) -> Result<Arc<Caller>, AuthError> {
        if credentials::is_api_key(credential) || self.issuers.is_empty() {
            let fingerprint = |secret: &str| self.fingerprints.of(secret);
            let caller = policy.keys.caller(credential, seconds_since_1970, fingerprint);
            return caller.cloned().map_err(AuthError::Key);
        }
        let identity = self.issuers.authenticate(credential, seconds_since_1970()).await.map_err(AuthError::Token)?;
        without_keys(policy, Arc::clone(&identity.caller))
    }

    /// Returns the client that the certificate of the request's connection names now; `None` without a certificate.
    fn client_of_connection(&self, policy: &Policy, parts: &Parts) -> Option<Result<Arc<Caller>, AuthError>> {
        let chain = parts.extensions.get::<ClientChain>()?;
        let client = chain.client(&self.authorities.load(), seconds_since_1970())?;
        Some(client.map_err(AuthError::Certificate).and_then(|caller| without_keys(policy, caller)))
    }

    /// Counts a change of the access files that could not be read. The last valid keys and rules stay in use.
    pub fn count_failed_reload(&self) {
        self.failed_reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed_reloads(&self) -> u64 {
        self.failed_reloads.load(Ordering::Relaxed)
    }

    /// Divides the limits of clients by the number of gateways that share them, this one included.
    pub(crate) fn divide(&self, gateways: u32) {
        self.gateways.set(gateways);
    }

    /// Returns the caller of all requests without a key or token.
    fn anonymous(&self) -> Arc<Caller> {
        Arc::clone(&self.anonymous)
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }
}

/// Returns the caller that a token or certificate names. A name that clients with keys have is refused, because an
/// issuer must not give the name of such a client.
fn without_keys(policy: &Policy, caller: Arc<Caller>) -> Result<Arc<Caller>, AuthError> {
    let has_keys = caller.client().is_some_and(|name| policy.keys.have_client(name));
    if has_keys { Err(AuthError::NameOfKeys) } else { Ok(caller) }
}

impl fmt::Debug for AccessControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessControl").field("policy", &*self.policy.load()).finish_non_exhaustive()
    }
}

/// Number of gateways that are up, this one included. A gateway that knows no other is alone.
#[derive(Debug)]
struct GatewayCount(AtomicU32);

impl Default for GatewayCount {
    fn default() -> Self {
        Self(AtomicU32::new(1))
    }
}

impl GatewayCount {
    fn set(&self, gateways: u32) {
        self.0.store(gateways, Ordering::Relaxed);
    }

    fn get(&self) -> NonZeroU32 {
        NonZeroU32::new(self.0.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }
}
