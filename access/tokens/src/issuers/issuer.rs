//! One issuer: its keys, and the loop that fetches them.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::clock::now;
use crate::fetch::{FetchedKeys, fetch};
use crate::identity::IssuerConfig;
use crate::key_set::KeySet;
use crate::schedule::FetchHistory;
use crate::settings::IssuerPlan;

/// An issuer with its keys.
#[derive(Debug)]
pub(super) struct Issuer {
    pub(super) plan: IssuerPlan,
    /// The keys of the last fetch that succeeded; `None` before it, and when they are too old.
    keys: ArcSwapOption<LoadedKeys>,
    history: Mutex<FetchHistory>,
    /// Time at which the issuer was configured.
    created: Instant,
    /// Notified when a token has a key that is not known.
    fetch_requested: Notify,
    /// Number of fetches that ended.
    ended: watch::Sender<u64>,
}

/// Keys of an issuer, with the rules for its tokens.
#[derive(Debug)]
pub(super) struct LoadedKeys {
    pub(super) keys: KeySet,
    pub(super) config: IssuerConfig,
    since: Instant,
}

/// State of an issuer's key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySetState {
    /// The issuer's URL as in the settings, or `kubernetes` if the API server provides it.
    pub issuer: String,
    /// Time since the last fetch that succeeded; before the first one, since the issuer was configured.
    pub age: Duration,
    /// Number of fetches that failed.
    pub failed_fetches: u64,
    /// True while the issuer's tokens can be verified; false before the first fetch, and once the set is too old.
    pub is_usable: bool,
}

/// Relation of an issuer to tokens with a certain claim `iss`.
#[derive(Debug)]
pub(super) enum Tokens {
    /// The tokens are this issuer's, and these are its keys.
    Accepted(Arc<LoadedKeys>),
    /// The tokens are this issuer's, or may be, and it has no keys.
    NoKeys,
    /// The tokens are another issuer's.
    OtherIssuer,
}

/// Fetch for which a request has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// The fetch had begun before, so that the server may have answered before it published a new key.
    Joined,
    /// The fetch was started for this request.
    Asked,
}

impl Issuer {
    pub(super) fn new(plan: IssuerPlan) -> Self {
        Self {
            plan,
            keys: ArcSwapOption::empty(),
            history: Mutex::default(),
            created: now(),
            fetch_requested: Notify::new(),
            ended: watch::Sender::new(0),
        }
    }

    /// Returns how the issuer relates to tokens of the issuer with this URL.
    pub(super) fn tokens_of(&self, url: &str) -> Tokens {
        let keys = self.keys.load_full();
        match (keys, &self.plan.issuer) {
            (Some(keys), _) if keys.config.issuer == url => Tokens::Accepted(keys),
            (None, Some(issuer)) if issuer == url => Tokens::NoKeys,
            (None, None) => Tokens::NoKeys,
            (Some(_), _) | (None, Some(_)) => Tokens::OtherIssuer,
        }
    }

    /// Returns the state of the key set at this time.
    pub(super) fn state(&self, now: Instant) -> KeySetState {
        let history = *self.history.lock();
        KeySetState {
            issuer: self.name().to_owned(),
            age: now.saturating_duration_since(history.succeeded.unwrap_or(self.created)),
            failed_fetches: history.failed,
            is_usable: self.keys.load().is_some(),
        }
    }

    /// Waits for the end of the fetch that is in progress, or requests a fetch and waits for its end.
    pub(super) async fn fetched(&self) -> Fetch {
        let started = self.history.lock().started;
        let mut ended = self.ended.subscribe();
        let (fetch, number) = if *ended.borrow() < started {
            (Fetch::Joined, started)
        } else {
            self.fetch_requested.notify_one();
            (Fetch::Asked, started + 1)
        };
        // The sender lives as long as the issuer.
        let _ = ended.wait_for(|ended| *ended >= number).await;
        fetch
    }

    /// Fetches the keys again and again.
    pub(super) async fn keep_fresh(self: Arc<Self>) {
        loop {
            self.wait().await;
            self.forget_stale();
            self.refresh().await;
        }
    }

    /// Waits until a fetch is due, or until a token needs one and it may start.
    async fn wait(&self) {
        let (due, earliest) = {
            let history = self.history.lock();
            (history.due(self.plan.timing), history.earliest(self.plan.timing))
        };
        tokio::select! {
            () = sleep(due) => {}
            () = self.fetch_requested.notified() => sleep(earliest).await,
        }
    }

    async fn refresh(&self) {
        let started = {
            let mut history = self.history.lock();
            history.started += 1;
            history.failures = history.failures.saturating_add(1);
            history.last = Some(now());
            history.started
        };
        match fetch(&self.plan).await {
            Ok(fetched) => {
                let mut history = self.history.lock();
                (history.failures, history.succeeded) = (0, Some(now()));
                drop(history);
                self.store(fetched);
            }
            Err(reason) => {
                let mut history = self.history.lock();
                history.failed += 1;
                let failures = history.failures;
                drop(history);
                self.log_failure(failures, &reason);
            }
        }
        self.forget_stale();
        self.ended.send_replace(started);
    }

    fn store(&self, FetchedKeys { issuer, keys }: FetchedKeys) {
        let former = self.keys.load_full();
        let config = IssuerConfig { issuer, ..self.plan.config.clone() };
        let is_same = former.as_ref().is_some_and(|former| former.config == config);
        let keys = match &former {
            Some(former) if is_same => keys.keeping(&former.keys),
            Some(_) | None => keys,
        };
        if !former.is_some_and(|former| is_same && former.keys == keys) {
            tracing::info!(issuer = config.issuer, keys = keys.len(), "the issuer's keys have changed");
        }
        self.keys.store(Some(Arc::new(LoadedKeys { keys, config, since: now() })));
    }

    /// Drops keys that are too old. They then verify no token, not even one in the cache.
    fn forget_stale(&self) {
        let limit = self.plan.timing.stale;
        let is_stale = |keys: &Arc<LoadedKeys>| now().saturating_duration_since(keys.since) >= limit;
        if self.keys.load().as_ref().is_some_and(is_stale) {
            tracing::error!(issuer = self.name(), "the issuer's keys are too old, its tokens are refused");
            self.keys.store(None);
        }
    }

    /// Logs the first failure of several, and then each sixteenth, which is about one in a quarter of an hour.
    fn log_failure(&self, failures: u32, reason: &str) {
        if failures % 16 == 1 {
            tracing::warn!(issuer = self.name(), failures, reason, "the keys of an issuer cannot be fetched");
        }
    }

    fn name(&self) -> &str {
        self.plan.issuer.as_deref().unwrap_or("kubernetes")
    }
}

async fn sleep(until: Option<Instant>) {
    if let Some(until) = until {
        sleep_until(until).await;
    }
}
