//! Rotation of certificates: keeps them valid, and trusted by those that verify them.
//!
//! ```text
//!   first ─► in use ─ its age is `renew_after` ─► next is stored ─► both are trusted ─ settled ─► next is in use
//! ```
//!
//! Every process uses the pair in the Secret. One process writes the Secret; if several do, the first write wins and
//! the others adopt it.

mod due;
mod newest;
mod options;
mod verifiers;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;

use self::due::{Due, due};
use self::newest::{newest, unless_conflict};
pub use self::options::CertificateOptions;
pub use self::verifiers::{ApiServers, SecretReaders, Verifiers};
use crate::certificate::ServingPair;
use crate::clock;
use crate::pairs::Pairs;
use crate::resolver::Resolver;
use crate::trust::{PortReference, Trust};

/// Bounds on the interval between checks of the clock: a certificate lives for days in production, and for seconds in
/// tests.
const TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Delay before a failed write is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// The known certificates of a Secret, and the steps that renew them.
pub struct Rotation<V> {
    secrets: Api<Secret>,
    options: CertificateOptions,
    resolver: Arc<Resolver>,
    secret: KnownSecret,
    /// The last pairs that could be parsed; None before the first.
    pairs: Option<Pairs>,
    verifiers: V,
    trust: Trust,
}

/// Last known state of the Secret.
enum KnownSecret {
    /// The Secret has not been read yet.
    Unknown,
    Missing,
    There(Box<Secret>),
}

impl<K: PortReference> Rotation<ApiServers<K>> {
    /// Creates the rotation for a port that serves with this resolver's certificate.
    #[must_use]
    pub fn of_port(client: Client, options: CertificateOptions, resolver: Arc<Resolver>) -> Self {
        let verifiers = ApiServers::new(client.clone(), &options);
        Self::new(client, options, resolver, verifiers)
    }
}

impl Rotation<SecretReaders> {
    /// Creates the rotation for peers that read the Secret.
    #[must_use]
    pub fn of_peers(client: Client, options: CertificateOptions) -> Self {
        Self::new(client, options, Arc::default(), SecretReaders)
    }
}

impl<V: Verifiers> Rotation<V> {
    fn new(client: Client, options: CertificateOptions, resolver: Arc<Resolver>, verifiers: V) -> Self {
        Self {
            secrets: Api::namespaced(client, &options.secret.0),
            options,
            resolver,
            secret: KnownSecret::Unknown,
            pairs: None,
            verifiers,
            trust: Trust::default(),
        }
    }

    /// Follows the Secret, and makes due changes while `role` equals `writer`. Never returns; dropping the future ends
    /// it.
    pub async fn run<R: PartialEq>(mut self, mut role: watch::Receiver<R>, writer: R) {
        let mut secrets = newest(self.secrets.clone(), &self.options.secret.1);
        let mut tick = tokio::time::interval((self.options.settle / 4).clamp(TICK.0, TICK.1));
        loop {
            tokio::select! {
                Some(secret) = secrets.next() => self.see(secret),
                () = self.verifiers.changed() => {}
                () = changed(&mut role) => {}
                _ = tick.tick() => {}
            }
            let writes = *role.borrow_and_update() == writer;
            if writes && let Err(error) = self.keep().await {
                let secret = &self.options.secret.1;
                tracing::warn!(%secret, %error, "cannot renew certificates or publish their authorities; retrying");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Records the state of the Secret. A Secret that cannot be parsed changes nothing: the last certificate stays in
    /// use.
    fn see(&mut self, secret: Option<Secret>) {
        let pairs = secret.as_ref().and_then(Pairs::read);
        if let Some(pairs) = pairs
            && self.resolver.serve_with(&pairs.current)
        {
            self.pairs = Some(pairs);
        }
        self.secret = match secret {
            Some(secret) => KnownSecret::There(Box::new(secret)),
            None => KnownSecret::Missing,
        };
    }

    /// Makes the changes that are due: first to the Secret, then to the objects in which verifiers read the
    /// authorities.
    async fn keep(&mut self) -> Result<(), kube::Error> {
        let secret = match &self.secret {
            KnownSecret::Unknown => return Ok(()),
            KnownSecret::Missing => Secret::default(),
            KnownSecret::There(secret) => Secret::clone(secret),
        };
        let known_for = self.known_for();
        let due = due(self.pairs.as_ref(), &self.options, wall_clock(), known_for);
        if let Some(pairs) = self.after(due) {
            let data = pairs.data(self.options.purpose).map_err(kube::Error::SerdeError)?;
            if secret.data.as_ref() != Some(&data) {
                self.store(Secret { data: Some(data), ..secret }).await?;
            }
        }
        match &self.pairs {
            Some(pairs) => self.verifiers.publish(&pairs.bundle()).await,
            None => Ok(()),
        }
    }

    /// Returns for how long every holder has been able to read these pairs, and every verifier their authorities;
    /// `None` if one of them cannot yet.
    fn known_for(&mut self) -> Option<Duration> {
        let pairs = self.pairs.as_ref()?;
        // A switch changes the pair in use, and leaves the bundle as it is.
        let (bundle, now) = (pairs.bundle(), clock::now());
        let state = format!("{}{bundle}", pairs.current.authority);
        self.trust.see(self.verifiers.can_read(&bundle).then_some(&state), now);
        self.trust.lasts(&state, now)
    }

    /// Returns the pairs after the due step.
    fn after(&self, due: Due) -> Option<Pairs> {
        let pairs = self.pairs.clone();
        match due {
            Due::Nothing => pairs,
            Due::Switch => pairs.map(Pairs::switched),
            Due::Create => Some(Pairs::of(self.made()?)),
            Due::Next => Some(pairs?.with_next(self.made()?)),
        }
    }

    fn made(&self) -> Option<ServingPair> {
        let CertificateOptions { purpose, names, lifetime, .. } = &self.options;
        let made = ServingPair::make(*purpose, names, wall_clock(), *lifetime);
        made.inspect_err(|error| tracing::error!(%error, "cannot make a certificate")).ok()
    }

    /// Stores the Secret. If another process changed it first, nothing is written, and the watch delivers its state
    /// next.
    async fn store(&mut self, mut secret: Secret) -> Result<(), kube::Error> {
        let name = self.options.secret.1.clone();
        let is_new = secret.metadata.resource_version.is_none();
        secret.metadata.name = Some(name.clone());
        let params = PostParams { field_manager: Some(self.options.manager.to_owned()), ..PostParams::default() };
        let stored = if is_new {
            self.secrets.create(&params, &secret).await
        } else {
            self.secrets.replace(&name, &params, &secret).await
        };
        if let Some(stored) = unless_conflict(stored)? {
            tracing::info!(secret = %name, "certificates were renewed");
            self.see(Some(stored));
        }
        Ok(())
    }
}

/// Waits for a change of the role; forever if its sender is gone.
async fn changed<R>(role: &mut watch::Receiver<R>) {
    if role.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the seconds since 1970, the time in which certificates' validity is expressed.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the certificates' clock")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
