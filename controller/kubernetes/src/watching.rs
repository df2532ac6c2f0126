//! Watches of the declared objects, whose events become declarations.

use std::sync::Arc;

use futures_util::future;
use futures_util::stream::{BoxStream, SelectAll, StreamExt, select_all};
use kube::api::{Api, ApiResource};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Config, Event, watcher};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::watch;
use weir_cluster_kubernetes::{WATCH_SECONDS, WatchPauses, retried};
use weir_controller::Declaration;
use weir_crds::{ClusterServingRuntime, ClusterStorageContainer, InferenceService, ServingRuntime};

use crate::objects::{Change, Objects};
use crate::orphans::Orphans;
use crate::runtime::Kind;
use crate::statuses::Statuses;

/// Most pending events that are combined into one declaration. Many are pending at the start, when the watches list
/// every object.
const AT_ONCE: usize = 1024;

/// Channel for declarations, with the statuses and orphans that belong to them.
pub(crate) struct Published {
    pub(crate) declaration: watch::Sender<Arc<Declaration>>,
    pub(crate) statuses: Arc<Mutex<Statuses>>,
    pub(crate) orphans: Arc<Mutex<Orphans>>,
}

/// Publishes declarations until all receivers are dropped.
pub(crate) async fn run(client: Client, namespace: Option<String>, mut objects: Objects, to: Published) {
    let mut changes = changes(&client, namespace.as_deref()).ready_chunks(AT_ONCE);
    let closed = to.declaration.clone();
    let follow = async {
        while let Some(some) = changes.next().await {
            some.into_iter().for_each(|change| objects.take(change));
            to.publish(&mut objects);
        }
    };
    tokio::select! {
        () = follow => {}
        () = closed.closed() => {}
    }
}

impl Published {
    fn publish(&self, objects: &mut Objects) {
        objects.publish_statuses(&mut self.statuses.lock());
        objects.publish_orphans(&mut self.orphans.lock());
        let Some(declaration) = objects.declaration() else {
            return;
        };
        self.declaration.send_if_modified(|published| {
            log_new(&published.problems, &declaration.problems);
            let is_other = !published.is(&declaration) || published.services.is_empty();
            *published = Arc::new(declaration);
            is_other
        });
    }
}

/// Logs new problems: a runtime has no status that could show its errors.
fn log_new(before: &[String], now: &[String]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        tracing::warn!("{problem}; its last valid version stays in use, if there was one");
    }
}

/// Returns the events of services and runtimes, of one namespace or of all.
fn changes(client: &Client, namespace: Option<&str>) -> SelectAll<BoxStream<'static, Change>> {
    let services = events(of::<InferenceService>(client, namespace)).map(Change::Service);
    let runtimes = events(of::<ServingRuntime>(client, namespace));
    let runtimes = runtimes.map(|event| Change::Runtime(Kind::ServingRuntime, event));
    let shared = events(of::<ClusterServingRuntime>(client, None));
    let shared = shared.map(|event| Change::Runtime(Kind::ClusterServingRuntime, event));
    let containers = storage_containers(of::<ClusterStorageContainer>(client, None));
    select_all([services.boxed(), runtimes.boxed(), shared.boxed(), containers])
}

/// Watches the ClusterStorageContainers. Without the right, or without their definition, which Helm does not add to an
/// installation, none is assumed to exist, and one log line says so.
fn storage_containers(api: Api<DynamicObject>) -> BoxStream<'static, Change> {
    let config = Config::default().timeout(WATCH_SECONDS);
    let events = watcher(api, config).backoff(WatchPauses::default());
    let mut is_logged = false;
    let changes = events.filter_map(move |event| {
        let change = match event {
            Ok(event) => {
                is_logged &= matches!(event, Event::Init);
                Some(Change::StorageContainer(event))
            }
            Err(error) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::warn!(%error, "cannot watch ClusterStorageContainers, so none is used: apply the CRDs of Weir's chart, and allow Weir's ServiceAccount to list and watch them, as the chart does");
                }
                is_missing(&error).then_some(Change::NoStorageContainers)
            }
        };
        future::ready(change)
    });
    changes.boxed()
}

/// Returns true if the API server has no such kind, or does not let this process read it.
fn is_missing(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => matches!(status.code, 403 | 404),
        watcher::Error::InitialListFailed(_)
        | watcher::Error::WatchStartFailed(_)
        | watcher::Error::WatchFailed(_)
        | watcher::Error::NoResourceVersion => false,
    }
}

/// Returns the untyped API of one kind, so that an invalid object does not spoil the list.
fn of<K: Resource<DynamicType = ()>>(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let kind = ApiResource::erase::<K>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    }
}

/// Returns the events of one kind of object. While the API server does not answer, the last known state stays.
fn events(api: Api<DynamicObject>) -> BoxStream<'static, Event<DynamicObject>> {
    let objects = api.resource_url().to_owned();
    let config = Config::default().timeout(WATCH_SECONDS);
    retried(watcher(api, config), objects)
}
