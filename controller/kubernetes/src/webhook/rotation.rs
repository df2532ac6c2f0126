//! Keeps certificates valid, and the API server trusting them.
//!
//! ```text
//!   first ─► in use ─ two thirds of its life ─► next is stored ─► the API server trusts both ─ settled ─► next is in use
//! ```
//!
//! Every process serves with what the Secret says; only the one that leads writes it.

mod due;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::stream::{BoxStream, StreamExt};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::time::Instant;
use weir_controller::Leadership;

use self::due::{Due, due};
use super::WebhookOptions;
use super::certificate::ServingPair;
use super::resolver::{Resolver, certified};
use super::secret::Pairs;
use super::trust::{Trust, patch};

pub(crate) use self::due::Schedule;

/// Shortest and longest interval of looking at the clock: a certificate lives for weeks, and those of tests for seconds.
const TICK: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Time before a write that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Field manager of what is written.
const CONTROLLER: &str = "weir-controller";

/// The certificates as they are known, and the steps that renew them.
pub(crate) struct Rotation {
    secrets: Api<Secret>,
    configurations: Api<ValidatingWebhookConfiguration>,
    options: WebhookOptions,
    schedule: Schedule,
    resolver: Arc<Resolver>,
    secret: SeenSecret,
    /// The pairs that were readable last.
    pairs: Option<Pairs>,
    configuration: Option<ValidatingWebhookConfiguration>,
    trust: Trust,
}

/// The Secret as it was seen last.
enum SeenSecret {
    /// It was not looked for yet.
    Unknown,
    Missing,
    There(Box<Secret>),
}

impl Rotation {
    pub(crate) fn new(
        client: Client,
        options: WebhookOptions,
        schedule: Schedule,
        resolver: Arc<Resolver>,
    ) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &options.secret.0),
            configurations: Api::all(client),
            options,
            schedule,
            resolver,
            secret: SeenSecret::Unknown,
            pairs: None,
            configuration: None,
            trust: Trust::default(),
        }
    }

    /// Follows the Secret, and writes what is due while this process leads.
    pub(crate) async fn run(mut self, mut leadership: watch::Receiver<Leadership>) {
        let mut secrets = newest(self.secrets.clone(), &self.options.secret.1);
        let mut configurations = newest(self.configurations.clone(), &self.options.configuration);
        let mut tick = tokio::time::interval((self.schedule.settle / 4).clamp(TICK.0, TICK.1));
        loop {
            tokio::select! {
                Some(secret) = secrets.next() => self.see(secret),
                Some(found) = configurations.next() => self.configuration = found,
                () = changed(&mut leadership) => {}
                _ = tick.tick() => {}
            }
            let leads = *leadership.borrow_and_update() == Leadership::Leading;
            if leads && let Err(error) = self.keep().await {
                tracing::warn!(%error, "cannot renew the webhook's certificate, or tell the API server of it: trying again");
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }

    /// Takes in the Secret. One that cannot be read changes nothing: what was served is served.
    fn see(&mut self, secret: Option<Secret>) {
        let pairs = secret.as_ref().and_then(Pairs::read);
        let key = pairs.as_ref().and_then(|pairs| certified(&pairs.current));
        if let Some(key) = key {
            self.resolver.serve_with(key);
            self.pairs = pairs;
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
        let due = due(
            self.pairs.as_ref(),
            names,
            wall_clock(),
            trusted_for,
            self.schedule,
        );
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
        self.trust.see(self.configuration.as_ref(), &bundle, now);
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
        let made = ServingPair::make(&self.options.names, wall_clock(), self.schedule.lifetime);
        made.inspect_err(
            |error| tracing::error!(%error, "cannot make a certificate for the webhook"),
        )
        .ok()
    }

    /// Stores the pairs, unless somebody else was faster: then that is seen next.
    async fn store(&mut self, secret: Secret, pairs: &Pairs) -> Result<(), kube::Error> {
        let name = self.options.secret.1.clone();
        let is_new = secret.metadata.resource_version.is_none();
        let mut written = pairs.write(secret).map_err(kube::Error::SerdeError)?;
        written.metadata.name = Some(name.clone());
        let params = PostParams {
            field_manager: Some(CONTROLLER.to_owned()),
            ..PostParams::default()
        };
        let stored = if is_new {
            self.secrets.create(&params, &written).await
        } else {
            self.secrets.replace(&name, &params, &written).await
        };
        if let Some(stored) = unless_conflict(stored)? {
            tracing::info!(secret = %name, "the webhook's certificates were renewed");
            self.see(Some(stored));
        }
        Ok(())
    }

    /// Tells the API server of the authorities in the Secret.
    async fn tell(&mut self) -> Result<(), kube::Error> {
        let (Some(pairs), Some(found)) = (&self.pairs, &self.configuration) else {
            return Ok(());
        };
        let Some(change) = patch(found, &pairs.bundle()) else {
            return Ok(());
        };
        let params = PatchParams {
            field_manager: Some(CONTROLLER.to_owned()),
            ..PatchParams::default()
        };
        let name = &self.options.configuration;
        let patched = self
            .configurations
            .patch(name, &params, &Patch::Strategic(&change))
            .await;
        if let Some(patched) = unless_conflict(patched)? {
            self.configuration = Some(patched);
        }
        Ok(())
    }
}

/// Waits for a change; for ever where there will be none.
async fn changed(leadership: &mut watch::Receiver<Leadership>) {
    if leadership.changed().await.is_err() {
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
#[expect(
    clippy::disallowed_methods,
    reason = "this is the shell that owns the certificates' clock"
)]
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
