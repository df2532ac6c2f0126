//! Rotation of certificates: keeps them valid, and API servers trusting them.
//!
//! ```text
//!   first ─► in use ─ two thirds of its life ─► next is stored ─► API servers trust both ─ settled ─► next is in use
//! ```
//!
//! Every process serves with the pair in the Secret. One process writes the Secret; if several do, the first write wins
//! and the others adopt it.

mod due;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{BoxStream, StreamExt, select_all};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use self::due::{Due, due};
use crate::certificate::ServingPair;
use crate::clock;
use crate::pairs::Pairs;
use crate::resolver::Resolver;
use crate::trust::{PortReference, Trust, patch};

/// Bounds on the interval between checks of the clock: a certificate lives for weeks in production, and for seconds in
/// tests.
const TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Delay before a failed write is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Lifetime of a certificate. The successor is created after two thirds of it, so that a cluster may be switched off
/// for a month.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Time between publishing a certificate's authority and using the certificate. Each API server learns of the authority
/// by its own watch, which takes seconds even under load.
const SETTLE: Duration = Duration::from_secs(60);

/// Settings of a port's certificates.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// Namespace and name of the Secret with the certificates.
    pub secret: (String, String),
    /// Names of the objects by which API servers find the port.
    pub called_by: Vec<String>,
    /// DNS names and IP addresses by which API servers call the port.
    pub names: Vec<String>,
    /// Lifetime of a certificate.
    pub lifetime: Duration,
    /// Time between publishing a certificate's authority and using the certificate.
    pub settle: Duration,
    /// Field manager of all writes.
    pub manager: &'static str,
}

impl CertificateOptions {
    /// Returns the settings for a Service in this namespace, whose Secret has the same name.
    #[must_use]
    pub fn of_service(name: &str, namespace: &str, manager: &'static str) -> Self {
        Self {
            secret: (namespace.to_owned(), name.to_owned()),
            called_by: vec![name.to_owned()],
            names: vec![format!("{name}.{namespace}.svc")],
            lifetime: LIFETIME,
            settle: SETTLE,
            manager,
        }
    }
}

/// The known certificates of a port, and the steps that renew them.
pub struct Rotation<K> {
    secrets: Api<Secret>,
    callers: Api<K>,
    options: CertificateOptions,
    resolver: Arc<Resolver>,
    secret: KnownSecret,
    /// The last pairs that could be parsed; None before the first.
    pairs: Option<Pairs>,
    /// The existing objects by which API servers find the port.
    found: BTreeMap<String, K>,
    trust: Trust,
}

/// Last known state of the Secret.
enum KnownSecret {
    /// The Secret has not been read yet.
    Unknown,
    Missing,
    There(Box<Secret>),
}

impl<K: PortReference> Rotation<K> {
    /// Creates the rotation for a port that serves with this resolver's certificate.
    #[must_use]
    pub fn new(client: Client, options: CertificateOptions, resolver: Arc<Resolver>) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &options.secret.0),
            callers: Api::all(client),
            options,
            resolver,
            secret: KnownSecret::Unknown,
            pairs: None,
            found: BTreeMap::new(),
            trust: Trust::default(),
        }
    }

    /// Follows the Secret, and makes due changes while `role` equals `writer`. Never returns; dropping the future ends
    /// it.
    pub async fn run<R: PartialEq>(mut self, mut role: watch::Receiver<R>, writer: R) {
        let mut secrets = newest(self.secrets.clone(), &self.options.secret.1);
        let named = self.options.called_by.iter().map(|name| {
            let own = name.clone();
            newest(self.callers.clone(), name).map(move |found| (own.clone(), found))
        });
        let mut callers = select_all(named.collect::<Vec<_>>());
        let mut tick = tokio::time::interval((self.options.settle / 4).clamp(TICK.0, TICK.1));
        loop {
            tokio::select! {
                Some(secret) = secrets.next() => self.see(secret),
                Some((name, found)) = callers.next() => self.find(name, found),
                () = changed(&mut role) => {}
                _ = tick.tick() => {}
            }
            let writes = *role.borrow_and_update() == writer;
            if writes && let Err(error) = self.keep().await {
                let secret = &self.options.secret.1;
                tracing::warn!(%secret, %error, "cannot renew a port's certificate or update its CA bundle; retrying");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    fn find(&mut self, name: String, found: Option<K>) {
        match found {
            Some(found) => self.found.insert(name, found),
            None => self.found.remove(&name),
        };
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

    /// Makes the changes that are due: first to the Secret, then to the CA bundles of the objects.
    async fn keep(&mut self) -> Result<(), kube::Error> {
        let secret = match &self.secret {
            KnownSecret::Unknown => return Ok(()),
            KnownSecret::Missing => None,
            KnownSecret::There(secret) => Some(Secret::clone(secret)),
        };
        let trusted_for = self.trusted_for();
        let names = &self.options.names;
        let due = due(self.pairs.as_ref(), names, wall_clock(), trusted_for, self.options.settle);
        let stored = secret.as_ref().and_then(Pairs::read);
        if let Some(pairs) = self.after(due)
            && stored.as_ref() != Some(&pairs)
        {
            self.store(secret.unwrap_or_default(), &pairs).await?;
        }
        self.publish_authorities().await
    }

    /// Returns the time for which all objects have contained all authorities of the pairs; `None` if they do not.
    fn trusted_for(&mut self) -> Option<Duration> {
        let (bundle, now) = (self.pairs.as_ref()?.bundle(), clock::now());
        let mut found = self.found.values();
        let all_trust = found.all(|object| patch(object, &bundle).is_none());
        let is_trusted = all_trust && !self.found.is_empty();
        self.trust.see(is_trusted.then_some(&bundle), now);
        self.trust.lasts(&bundle, now)
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
        let made = ServingPair::make(&self.options.names, wall_clock(), self.options.lifetime);
        made.inspect_err(|error| tracing::error!(%error, "cannot make a certificate")).ok()
    }

    /// Stores the pairs. If another process changed the Secret first, nothing is written, and the watch delivers its
    /// state next.
    async fn store(&mut self, secret: Secret, pairs: &Pairs) -> Result<(), kube::Error> {
        let name = self.options.secret.1.clone();
        let is_new = secret.metadata.resource_version.is_none();
        let mut written = pairs.write(secret).map_err(kube::Error::SerdeError)?;
        written.metadata.name = Some(name.clone());
        let params = PostParams { field_manager: Some(self.options.manager.to_owned()), ..PostParams::default() };
        let stored = if is_new {
            self.secrets.create(&params, &written).await
        } else {
            self.secrets.replace(&name, &params, &written).await
        };
        if let Some(stored) = unless_conflict(stored)? {
            tracing::info!(secret = %name, "a port's certificates were renewed");
            self.see(Some(stored));
        }
        Ok(())
    }

    /// Writes the authorities in the Secret to the CA bundles of the objects.
    async fn publish_authorities(&mut self) -> Result<(), kube::Error> {
        let Some(bundle) = self.pairs.as_ref().map(Pairs::bundle) else {
            return Ok(());
        };
        let params = PatchParams { field_manager: Some(self.options.manager.to_owned()), ..PatchParams::default() };
        for (name, object) in &mut self.found {
            let Some(change) = patch(object, &bundle) else {
                continue;
            };
            let change = Patch::Strategic(change);
            let patched = self.callers.patch(name, &params, &change).await;
            if let Some(patched) = unless_conflict(patched)? {
                *object = patched;
            }
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

/// Returns the written object; `None` if the object changed since it was read, or is gone.
fn unless_conflict<K>(written: Result<K, kube::Error>) -> Result<Option<K>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Streams the newest state of one object; `None` if it does not exist. While the API server does not respond, the last
/// state stays valid.
fn newest<K>(api: Api<K>, name: &str) -> BoxStream<'static, Option<K>>
where
    K: Resource<DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let name = name.to_owned();
    let events = watch_object(api, &name).default_backoff();
    let good = events.filter_map(move |event| {
        let kind = K::kind(&());
        let object = event.inspect_err(|error| {
            tracing::warn!(%kind, %name, %error, "a watch of the API server failed; retrying");
        });
        std::future::ready(object.ok())
    });
    good.boxed()
}

/// Returns the seconds since 1970, the time in which certificates' validity is expressed.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the certificates' clock")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
