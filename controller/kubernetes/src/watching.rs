//! The watches of declared objects, whose events make declarations.

use std::sync::Arc;

use futures_util::stream::{BoxStream, SelectAll, StreamExt, select_all};
use kube::api::{Api, ApiResource};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::watch;
use weir_controller::Declaration;
use weir_crds::{ClusterServingRuntime, InferenceService, ServingRuntime};

use crate::declared::{Change, Declared, Statuses};
use crate::runtime::Kind;

/// Events that make one declaration together when they are there at once, as at the start.
const AT_ONCE: usize = 1024;

/// Where declarations and statuses go.
pub(crate) struct Published {
    pub(crate) declaration: watch::Sender<Arc<Declaration>>,
    pub(crate) statuses: Arc<Mutex<Statuses>>,
}

/// Publishes declarations until nobody reads them.
pub(crate) async fn run(client: Client, mut declared: Declared, to: Published) {
    let mut changes = changes(&client).ready_chunks(AT_ONCE);
    let closed = to.declaration.clone();
    let follow = async {
        while let Some(some) = changes.next().await {
            some.into_iter().for_each(|change| declared.take(change));
            to.publish(&mut declared);
        }
    };
    tokio::select! {
        () = follow => {}
        () = closed.closed() => {}
    }
}

impl Published {
    fn publish(&self, declared: &mut Declared) {
        let Some(declaration) = declared.declaration() else {
            return;
        };
        *self.statuses.lock() = declared.statuses();
        self.declaration.send_if_modified(|published| {
            let is_other = **published != declaration || published.services.is_empty();
            *published = Arc::new(declaration);
            is_other
        });
    }
}

fn changes(client: &Client) -> SelectAll<BoxStream<'static, Change>> {
    let services = events::<InferenceService>(client).map(Change::Service);
    let runtimes =
        events::<ServingRuntime>(client).map(|event| Change::Runtime(Kind::ServingRuntime, event));
    let cluster_runtimes = events::<ClusterServingRuntime>(client)
        .map(|event| Change::Runtime(Kind::ClusterServingRuntime, event));
    select_all([services.boxed(), runtimes.boxed(), cluster_runtimes.boxed()])
}

/// The events of one kind of object, untyped: one that cannot be read must not spoil the list. While the API server does
/// not answer, what was last seen stays.
fn events<K: Resource<DynamicType = ()>>(
    client: &Client,
) -> BoxStream<'static, Event<DynamicObject>> {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let events = watcher(api, Config::default()).default_backoff();
    let good = events.filter_map(move |event| {
        let kind = kind.kind.clone();
        async move {
            let told = event.inspect_err(|error| {
                tracing::warn!(%kind, %error, "a watch of the API server failed: it is tried again");
            });
            told.ok()
        }
    });
    good.boxed()
}
