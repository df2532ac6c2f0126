//! Keeps certificates valid, and API servers trusting them.
//!
//! ```text
//!   first ─► in use ─ two thirds of its life ─► next is stored ─► API servers trust both ─ settled ─► next is in use
//! ```
//!
//! Every process serves with what the Secret says. One writes it; where several do, the first wins and the others follow.

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
use tokio::time::Instant;

use self::due::{Due, due};
use crate::certificate::ServingPair;
use crate::pairs::Pairs;
use crate::resolver::Resolver;
use crate::trust::{CallsPort, Trust, patch};

/// Shortest and longest interval of looking at the clock: a certificate lives for weeks, and those of tests for seconds.
const TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Time before a write that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Life of a certificate. Its follower is made after two thirds, so that a cluster may be off for a month.
const LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);

/// Time from the moment that API servers are told of a certificate's authority until it is used: several hear of it each
/// by a watch of its own, in seconds even where they are busy.
const SETTLE: Duration = Duration::from_secs(60);

/// Settings of a port's certificates.
#[derive(Clone, Debug)]
pub struct CertificateOptions {
    /// Namespace and name of the Secret with the certificates.
    pub secret: (String, String),
    /// Names of the objects by which API servers call the port.
    pub called_by: Vec<String>,
    /// Names and addresses by which API servers call it.
    pub names: Vec<String>,
    /// Life of a certificate.
    pub lifetime: Duration,
    /// Time from the moment that API servers are told of a certificate's authority until it is used.
    pub settle: Duration,
    /// Field manager of what is written.
    pub manager: &'static str,
}

impl CertificateOptions {
    /// The settings of a Service in this namespace, whose Secret has its name.
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

/// The certificates as they are known, and the steps that renew them.
pub struct Rotation<K> {
    secrets: Api<Secret>,
    callers: Api<K>,
    options: CertificateOptions,
    resolver: Arc<Resolver>,
    secret: SeenSecret,
    /// The pairs that were readable last.
    pairs: Option<Pairs>,
    /// The objects by which API servers call the port, as far as they are there.
    found: BTreeMap<String, K>,
    trust: Trust,
}

/// The Secret as it was seen last.
enum SeenSecret {
    /// It was not looked for yet.
    Unknown,
    Missing,
    There(Box<Secret>),
}

impl<K: CallsPort> Rotation<K> {
    /// The certificates of a port that serves with what the resolver has.
    #[must_use]
    pub fn new(client: Client, options: CertificateOptions, resolver: Arc<Resolver>) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &options.secret.0),
            callers: Api::all(client),
            options,
            resolver,
            secret: SeenSecret::Unknown,
            pairs: None,
            found: BTreeMap::new(),
            trust: Trust::default(),
        }
    }

    /// Follows the Secret, and writes what is due while `role` is the one that writes. Ends with its caller.
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
                tracing::warn!(%secret, %error, "cannot renew a port's certificate, or tell the API server of it: trying again");
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

    /// Takes in the Secret. One that cannot be read changes nothing: what was served is served.
    fn see(&mut self, secret: Option<Secret>) {
        let pairs = secret.as_ref().and_then(Pairs::read);
        if let Some(pairs) = pairs
            && self.resolver.serve_with(&pairs.current)
        {
            self.pairs = Some(pairs);
        }
        self.secret = match secret {
            Some(secret) => SeenSecret::There(Box::new(secret)),
            None => SeenSecret::Missing,
        };
    }

    /// Writes what is due: the Secret first, and what is in it to the configuration.
    async fn keep(&mut self) -> Result<(), kube::Error> {
        let secret = match &self.secret {
            SeenSecret::Unknown => return Ok(()),
            SeenSecret::Missing => None,
            SeenSecret::There(secret) => Some(Secret::clone(secret)),
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
        self.tell().await
    }

    /// Time for which the API server has trusted all authorities of the pairs.
    fn trusted_for(&mut self) -> Option<Duration> {
        let (bundle, now) = (self.pairs.as_ref()?.bundle(), Instant::now());
        let mut found = self.found.values();
        let all_trust = found.all(|object| patch(object, &bundle).is_none());
        let is_trusted = all_trust && !self.found.is_empty();
        self.trust.see(is_trusted.then_some(&bundle), now);
        self.trust.lasts(&bundle, now)
    }

    /// The pairs once that is done which is due.
    fn after(&self, due: Due) -> Option<Pairs> {
        let pairs = self.pairs.clone();
        match due {
            Due::Nothing => pairs,
            Due::Switch => pairs.map(Pairs::switched),
            Due::Anew => Some(Pairs::of(self.made()?)),
            Due::Next => Some(pairs?.with_next(self.made()?)),
        }
    }

    fn made(&self) -> Option<ServingPair> {
        let made = ServingPair::make(&self.options.names, wall_clock(), self.options.lifetime);
        made.inspect_err(|error| tracing::error!(%error, "cannot make a certificate")).ok()
    }

    /// Stores the pairs, unless somebody else was faster: then that is seen next.
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

    /// Tells API servers of the authorities in the Secret.
    async fn tell(&mut self) -> Result<(), kube::Error> {
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

/// Waits for a change; for ever where there will be none.
async fn changed<R>(role: &mut watch::Receiver<R>) {
    if role.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The written object; `None` where the object had changed since it was seen, or is gone.
fn unless_conflict<K>(written: Result<K, kube::Error>) -> Result<Option<K>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The newest state of one object. While the API server does not answer, what was last seen stays.
fn newest<K>(api: Api<K>, name: &str) -> BoxStream<'static, Option<K>>
where
    K: Resource<DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let name = name.to_owned();
    let events = watch_object(api, &name).default_backoff();
    let good = events.filter_map(move |event| {
        let kind = K::kind(&());
        let told = event.inspect_err(|error| {
            tracing::warn!(%kind, %name, %error, "a watch of the API server failed: it is tried again");
        });
        std::future::ready(told.ok())
    });
    good.boxed()
}

/// Seconds since 1970, which certificates are valid by.
#[expect(clippy::disallowed_methods, reason = "this is the shell that owns the certificates' clock")]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
