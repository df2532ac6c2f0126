//! Watches of the API server, whose events become snapshots.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use futures_util::stream::{self, BoxStream, SelectAll, StreamExt, select_all};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::api::{Api, ListParams};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use weir_cluster::{ClusterError, Gateway, Snapshot};

use crate::objects::{MANAGED_BY, WEIR};
use crate::view::gpu_sharing::REPLICAS;
use crate::view::observed::{Change, Observed};
use crate::watch::retried_watch::{WATCH_SECONDS, WatchPauses, retried};
use crate::{GpuNodes, Options, WatchScope, error};

/// Most pending events that are combined into one snapshot. Many are pending at the start, when the watches list every
/// object.
const AT_ONCE: usize = 1024;

/// Period of the clock ticks. A failure that no event reports, such as a pod that no scheduler has looked at, is
/// noticed at most this much late.
const TICK: Duration = Duration::from_secs(5);

/// Channels for the snapshots and for the gateways in them.
pub(crate) struct Published {
    pub(crate) snapshots: watch::Sender<Arc<Snapshot>>,
    pub(crate) gateways: watch::Sender<Arc<[Gateway]>>,
}

/// Returns the API server's present resource version, with which the generations of routes begin. No earlier generation
/// is larger, even if its Service has been deleted since.
///
/// # Errors
/// [`ClusterError::Denied`] and [`ClusterError::Unavailable`] as the API server answers.
pub(crate) async fn newest_generation(client: &Client, options: &Options) -> Result<u64, ClusterError> {
    let services: Api<Service> = options.watched(client);
    let first = services.list_metadata(&ListParams::default().limit(1)).await;
    let version = first.map_err(|error| error::of("Services", error))?.metadata.resource_version;
    Ok(version.and_then(|version| version.parse().ok()).unwrap_or_default())
}

/// Publishes snapshots until all receivers are dropped.
pub(crate) async fn run(
    client: Client,
    options: Options,
    mut observed: Observed,
    writes: mpsc::Receiver<Change>,
    to: Published,
) {
    let writes = stream::unfold(writes, async |mut writes| Some((writes.recv().await?, writes)));
    let changes = stream::select(changes(&client, &options), writes);
    let mut changes = changes.ready_chunks(AT_ONCE).boxed();
    let closed = to.snapshots.clone();
    let follow = async {
        while let Some(some) = changes.next().await {
            some.into_iter().for_each(|change| observed.take(change));
            to.publish(&mut observed);
        }
    };
    tokio::select! {
        () = follow => {}
        () = closed.closed() => {}
    }
}

impl Published {
    fn publish(&self, observed: &mut Observed) {
        let Some(snapshot) = observed.snapshot() else {
            return;
        };
        self.gateways.send_if_modified(|gateways| {
            let is_other = **gateways != *snapshot.gateways;
            *gateways = snapshot.gateways.clone();
            is_other
        });
        self.snapshots.send_if_modified(|published| {
            let is_other = published.generation != snapshot.generation;
            *published = Arc::new(snapshot.clone());
            is_other
        });
    }
}

fn changes(client: &Client, options: &Options) -> SelectAll<BoxStream<'static, Change>> {
    let ours = || Config::default().labels(&format!("{MANAGED_BY}={WEIR}"));
    let of_gateways = format!("kubernetes.io/service-name={}", Options::GATEWAY);
    let slices = Api::namespaced(client.clone(), &options.namespace);
    let mut all = vec![
        events(options.watched(client), ours()).map(Change::Service).boxed(),
        events(slices, Config::default().labels(&of_gateways)).map(Change::Gateways).boxed(),
    ];
    match options.scope {
        // Kubernetes copies the labels of a Service to its EndpointSlices.
        WatchScope::Gateway => all.push(events(options.watched(client), ours()).map(Change::Endpoints).boxed()),
        WatchScope::Control => all.extend([
            clock(),
            events(options.watched(client), ours()).map(Change::Deployment).boxed(),
            events(options.watched(client), ours()).map(Change::Pod).boxed(),
            autoscalers(options.watched(client)),
        ]),
    }
    match options.gpu_nodes {
        GpuNodes::Watched => all.push(gpu_nodes(client)),
        GpuNodes::Ignored => {}
    }
    select_all(all)
}

/// Returns a stream of clock ticks, one every [`TICK`], for failures that no event reports.
fn clock() -> BoxStream<'static, Change> {
    let ticks = stream::unfold((), async |()| {
        tokio::time::sleep(TICK).await;
        let now = u64::try_from(Timestamp::now().as_second());
        Some((Change::Clock(now.unwrap_or_default()), ()))
    });
    ticks.boxed()
}

/// Watches the autoscalers that are not Weir's. If they cannot be watched, as without the right, none is assumed to
/// exist, and one log line says so.
fn autoscalers(api: Api<HorizontalPodAutoscaler>) -> BoxStream<'static, Change> {
    let config = Config::default().timeout(WATCH_SECONDS);
    let events = watcher(api, config).backoff(WatchPauses::default());
    let changes = events.scan(false, |is_logged, event| {
        let change = match event {
            Ok(event) => {
                *is_logged &= matches!(event, Event::Init);
                Change::Autoscaler(event)
            }
            Err(error) => {
                if !std::mem::replace(is_logged, true) {
                    tracing::warn!(%error, "cannot watch HorizontalPodAutoscalers: Weir's autoscaler may scale a service that another autoscaler scales too. Give Weir's ServiceAccount this right, as its chart does");
                }
                Change::NoAutoscalers
            }
        };
        future::ready(Some(change))
    });
    changes.boxed()
}

/// Watches the labels of nodes with NVIDIA GPUs.
fn gpu_nodes(client: &Client) -> BoxStream<'static, Change> {
    let config = Config::default().timeout(WATCH_SECONDS).labels(REPLICAS);
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    retried(watcher(nodes, config), "Node".to_owned()).map(Change::Node).boxed()
}

/// Returns the events of one watch. While the API server does not answer, the last known state stays.
fn events<K>(api: Api<K>, config: Config) -> BoxStream<'static, Event<K>>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + std::fmt::Debug + DeserializeOwned + Send + 'static,
{
    let watch = watcher(api, config.timeout(WATCH_SECONDS));
    retried(watch, K::kind(&()).into_owned())
}
