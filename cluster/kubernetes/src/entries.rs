//! Entries of a Secret or ConfigMap: a watch of all of them, and a change of one that keeps the changes of other
//! writers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures_util::future;
use futures_util::stream::{BoxStream, Stream, StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use kube::api::{Api, PostParams};
use kube::core::ObjectMeta;
use kube::runtime::watcher::{self, Event, watcher};
use weir_cluster::ClusterError;

use crate::watch::retried_watch::{WATCH_SECONDS, retried};
use crate::{api, error};

/// Content of each entry by its name.
pub type Entries = BTreeMap<String, Vec<u8>>;

/// Maximum time of a read or change, with all attempts.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Most attempts of one change while other writers are faster. At least one writer succeeds in each round, so this many
/// writers may compete.
const ATTEMPTS: u32 = 32;

/// Kind of an object with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// A Secret, for content that only few may read.
    Secret,
    /// A ConfigMap, for content that is no secret.
    ConfigMap,
}

/// A Secret or ConfigMap of the cluster, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataObject {
    /// Kind of the object.
    pub kind: DataKind,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

/// One entry of a Secret, which need not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretEntry {
    /// Namespace of the Secret.
    pub namespace: String,
    /// Name of the Secret.
    pub name: String,
    /// Name of the entry in the Secret's data.
    pub entry: String,
}

impl fmt::Display for DataObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DataKind::Secret => "Secret",
            DataKind::ConfigMap => "ConfigMap",
        };
        write!(f, "{kind} {}/{}", self.namespace, self.name)
    }
}

/// Returns the entries of an object each time they change; an object that does not exist has none. `failed` is called
/// for each failure of the watch, which is logged and tried again. The watch needs the rights to list and watch this
/// object alone.
pub fn watch_entries(
    client: &Client,
    object: &DataObject,
    failed: impl Fn() + Send + 'static,
) -> BoxStream<'static, Entries> {
    let named = watcher::Config::default().fields(&format!("metadata.name={}", object.name)).timeout(WATCH_SECONDS);
    match object.kind {
        DataKind::Secret => {
            let api: Api<Secret> = Api::namespaced(client.clone(), &object.namespace);
            let watch = watcher(api, named).inspect_err(move |_| failed());
            contents(retried(watch, object.to_string()), of_secret).boxed()
        }
        DataKind::ConfigMap => {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), &object.namespace);
            let watch = watcher(api, named).inspect_err(move |_| failed());
            contents(retried(watch, object.to_string()), of_config_map).boxed()
        }
    }
}

/// Returns the state of a single object after each event of its watch.
fn contents<K>(
    events: impl Stream<Item = Event<K>> + Send,
    read: impl Fn(K) -> Entries + Send,
) -> impl Stream<Item = Entries> + Send {
    let states = events.scan(Entries::new(), move |listed, event| {
        let state = match event {
            Event::Init => {
                listed.clear();
                None
            }
            Event::InitApply(object) => {
                *listed = read(object);
                None
            }
            Event::InitDone => Some(std::mem::take(listed)),
            Event::Apply(object) => Some(read(object)),
            Event::Delete(_) => Some(Entries::new()),
        };
        future::ready(Some(state))
    });
    states.filter_map(future::ready)
}

fn of_secret(secret: Secret) -> Entries {
    secret.data.into_iter().flatten().map(|(name, content)| (name, content.0)).collect()
}

fn of_config_map(map: ConfigMap) -> Entries {
    let texts = map.data.into_iter().flatten().map(|(name, text)| (name, text.into_bytes()));
    let binary = map.binary_data.into_iter().flatten().map(|(name, content)| (name, content.0));
    texts.chain(binary).collect()
}

impl fmt::Display for SecretEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the Secret {}/{}", self.entry, self.namespace, self.name)
    }
}

impl SecretEntry {
    /// Returns the entry's text; empty if there is no such Secret or entry.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] without the right to read the Secret, [`ClusterError::Refused`] for an entry that is
    /// not text, [`ClusterError::Unavailable`] if the API server does not answer within 30 s.
    pub async fn read(&self, client: &Client) -> Result<String, ClusterError> {
        let api = self.api(client);
        let found = tokio::time::timeout(TIMEOUT, api::find(&api, &self.name)).await.map_err(late)??;
        found.map_or(Ok(String::new()), |secret| self.text(&secret))
    }

    /// Replaces the entry's text by what `change` returns for it, and creates the Secret if it does not exist. If
    /// another writer was faster, `change` is called again with the newer text.
    ///
    /// # Errors
    /// The error of `change`. Otherwise [`ClusterError::Denied`] without the rights to get, create and update the
    /// Secret, [`ClusterError::Refused`] for a text that the API server does not accept, such as one above 1 MiB, and
    /// [`ClusterError::Unavailable`] if the API server does not answer, or other writers are faster, for 30 s.
    pub async fn change<E: From<ClusterError>>(
        &self,
        client: &Client,
        change: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<(), E> {
        tokio::time::timeout(TIMEOUT, self.tried(client, change)).await.map_err(|elapsed| E::from(late(elapsed)))?
    }

    async fn tried<E: From<ClusterError>>(
        &self,
        client: &Client,
        mut change: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<(), E> {
        let api = self.api(client);
        for attempt in 1..=ATTEMPTS {
            let found = api::find(&api, &self.name).await?;
            let before = found.as_ref().map_or(Ok(String::new()), |secret| self.text(secret))?;
            let text = change(&before)?;
            match self.write(&api, found, text).await {
                Ok(()) => return Ok(()),
                Err(error) if is_lost_race(&error) => {
                    tokio::time::sleep(Duration::from_millis(10) * attempt).await;
                }
                Err(error) => return Err(error::of(self, error).into()),
            }
        }
        Err(ClusterError::denied(self.to_string(), "other writers change it all the time").into())
    }

    /// Writes the text into the Secret as it was read. The API server refuses it if the Secret has changed since.
    async fn write(&self, api: &Api<Secret>, found: Option<Secret>, text: String) -> Result<(), kube::Error> {
        let content = (self.entry.clone(), ByteString(text.into_bytes()));
        let params = PostParams { field_manager: Some("weir-key".to_owned()), ..PostParams::default() };
        if let Some(mut secret) = found {
            secret.data.get_or_insert_default().insert(content.0, content.1);
            api.replace(&self.name, &params, &secret).await?;
        } else {
            let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
            let secret = Secret { metadata, data: Some([content].into()), ..Secret::default() };
            api.create(&params, &secret).await?;
        }
        Ok(())
    }

    fn api(&self, client: &Client) -> Api<Secret> {
        Api::namespaced(client.clone(), &self.namespace)
    }

    fn text(&self, secret: &Secret) -> Result<String, ClusterError> {
        let content = secret.data.as_ref().and_then(|data| data.get(&self.entry));
        let text = content.map_or(Ok(String::new()), |content| String::from_utf8(content.0.clone()));
        text.map_err(|_| ClusterError::refused(self.to_string(), "is not text".to_owned()))
    }
}

/// Returns true if another writer has changed, created or deleted the Secret since it was read.
fn is_lost_race(error: &kube::Error) -> bool {
    error::is_conflict(error) || error::is_there_already(error) || is_deleted(error)
}

/// Returns true if the Secret itself was deleted; a namespace that does not exist is also a 404.
fn is_deleted(error: &kube::Error) -> bool {
    let is_secret = |details: &kube::core::response::StatusDetails| details.kind == "secrets";
    error::is_not_found(error)
        && matches!(error, kube::Error::Api(status) if status.details.as_ref().is_some_and(is_secret))
}

fn late(_: tokio::time::error::Elapsed) -> ClusterError {
    ClusterError::Unavailable {
        what: "the Kubernetes API server".to_owned(),
        source: format!("no answer within {} s", TIMEOUT.as_secs()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> ConfigMap {
        ConfigMap { data: Some([("rules.yaml".to_owned(), text.to_owned())].into()), ..ConfigMap::default() }
    }

    fn texts(entries: &Entries) -> Vec<&str> {
        entries.values().map(|content| std::str::from_utf8(content).unwrap()).collect()
    }

    #[tokio::test]
    async fn each_event_of_the_object_gives_its_state() {
        let events = [
            Event::Init,
            Event::InitDone,
            Event::Apply(map("a")),
            Event::Delete(map("a")),
            Event::Apply(map("b")),
            // A watch that starts again lists the object, or does not find it.
            Event::Init,
            Event::InitApply(map("c")),
            Event::InitDone,
            Event::Init,
            Event::InitDone,
        ];
        let states: Vec<_> = contents(futures_util::stream::iter(events), of_config_map).collect().await;
        let states: Vec<_> = states.iter().map(texts).collect();
        let none = Vec::<&str>::new();
        assert_eq!(states, [none.clone(), vec!["a"], none.clone(), vec!["b"], vec!["c"], none]);
    }
}
