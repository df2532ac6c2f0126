//! Starts, serves and stops the gateway, the controller and the autoscaler together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_autoscaler::Autoscaler;
use weir_cluster::{Directory, Membership, Report, Reports, ServiceName};
use weir_cluster_local::{Local, PredictorAddresses};
use weir_controller::files::Files;
use weir_controller::{Controller, Source};
use weir_gateway::{Encryption, Gateway, Options, Port, Scope};
use weir_ops::admin::{Admin, Health, HealthCheck, Page};
use weir_ops::drain::Drain;
use weir_ops::registry::{self, Registry};

use super::ports::Ports;
use super::predictor_ports::PredictorPorts;
use super::status::StatusSources;
use super::{announce, progress, service_names};
use crate::authority::authority;
use crate::error::Exit;

/// Name of the gateway, the only one of a `weir up`.
const GATEWAY: &str = "local";

/// Time from the beginning of the drain for accepted requests to finish. A request may wait 55 s for a service to
/// start, and then needs the time of its inference.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for the controller and the autoscaler to finish their last step.
const CONTROL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for replicas to end in addition to their grace periods, for the steps before and after.
const REPLICAS_RESERVE: Duration = Duration::from_secs(5);

/// The platform's components, without the two ports.
pub(super) struct Components {
    cluster: Local,
    gateway: Arc<Gateway>,
    /// Stops everything except the serving port, which the drain closes.
    stop: CancellationToken,
    tasks: TaskTracker,
    status: Arc<StatusSources>,
    registry: Arc<Registry>,
}

impl Components {
    /// Starts everything that needs no port.
    pub(super) fn start(
        files: Files,
        (cluster, predictors): (Local, PredictorAddresses),
        ports: &mut Ports,
        drain: &Drain,
    ) -> Self {
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let declaration = files.watch();
        let statuses = files.statuses();
        let controller = controller(files, &cluster);
        let autoscaler = autoscaler(&cluster);
        let status = StatusSources {
            declaration: declaration.clone(),
            statuses: statuses.clone(),
            snapshots: Directory::watch(&cluster),
            reports: Reports::watch(&cluster),
            decisions: autoscaler.decisions(),
            base_url: format!("{}://{}", ports.scheme(), authority(ports.serving_at)),
        };
        let (sender, services) = watch::channel(service_names::of(&declaration.borrow()));
        tasks.spawn(until(&stop, service_names::follow(declaration.clone(), sender)));
        let gateway = gateway(&cluster, services, ports, &tasks, &stop);
        let announced = announce::Port::of(ports);
        if let Some(access) = ports.access.take() {
            tasks.spawn(until(&stop, access.follow(stream::empty().boxed())));
        }
        let predictor_ports = PredictorPorts {
            addresses: predictors,
            gateway: gateway.clone(),
            tasks: tasks.clone(),
            stop: stop.clone(),
        };
        predictor_ports.open(&declaration.borrow());
        tasks.spawn(until(&stop, predictor_ports.follow(declaration.clone())));
        let registry = Arc::new(registry(&gateway, &autoscaler, &controller));
        tasks.spawn(controller.run(stop.clone()));
        tasks.spawn(autoscaler.run(stop.clone()));
        // The shutdown stops all replicas; these changes are not printed.
        let begun = drain.begun();
        let printing = progress::run(Directory::watch(&cluster));
        tasks.spawn(until(begun, printing));
        let announcing = announce::run(declaration, statuses, announced);
        tasks.spawn(until(begun, announcing));
        Self { cluster, gateway, stop, tasks, status: Arc::new(status), registry }
    }

    /// Serves both ports until the drain, then stops the gateway, the controller and the autoscaler, and the replicas,
    /// in this order: an accepted request may still need a replica to start.
    pub(super) async fn serve(self, ports: Ports, drain: Drain) -> Exit {
        let admin = self.admin(ports.admin, &drain).with_hosts(ports.admin_hosts).with_token(ports.admin_token);
        self.tasks.spawn(admin.serve(self.stop.clone()));
        let port = Port {
            listener: ports.serving,
            encryption: match ports.tls {
                Some(tls) => Encryption::Tls(tls.server),
                None => Encryption::Plain,
            },
            host: None,
        };
        let serving = self.gateway.serve(vec![port], drain.closed().clone());
        let answered = drain.serve(ANSWER_TIMEOUT, serving).await;
        if let Err(error) = &answered {
            tracing::error!("{error}: stopping without answering them");
        }
        self.stop.cancel();
        self.tasks.close();
        let ended = tokio::time::timeout(CONTROL_TIMEOUT, self.tasks.wait()).await;
        let stopped = self.cluster.stop(REPLICAS_RESERVE).await;
        if let Err(error) = &stopped {
            tracing::error!("{error}");
        }
        if answered.is_ok() && ended.is_ok() && stopped.is_ok() { Exit::Done } else { Exit::Failed }
    }

    fn admin(&self, listener: tokio::net::TcpListener, drain: &Drain) -> Admin {
        let begun = drain.begun().clone();
        let health: HealthCheck =
            Arc::new(move || if begun.is_cancelled() { Health::Draining } else { Health::Serving });
        let sources = Arc::clone(&self.status);
        let status: Page = Arc::new(move || {
            // Serializing strings, numbers and lists to JSON cannot fail.
            serde_json::to_string(&sources.table()).unwrap_or_default()
        });
        let gateway = Arc::clone(&self.gateway);
        let reports = weir_cluster_reports::service(gateway.reports());
        Admin::new(listener, Arc::clone(&self.registry), health)
            .with_page("/status", status)
            .with_page("/routes", Arc::new(move || gateway.describe()))
            .with_service(weir_cluster_reports::PATH, reports)
    }
}

/// Creates the registry of all metrics of this process.
pub(crate) fn registry(gateway: &Arc<Gateway>, autoscaler: &Autoscaler, controller: &Controller) -> Registry {
    let mut registry = registry::with_process_metrics();
    gateway.register(&mut registry);
    autoscaler.register(&mut registry);
    controller.register(&mut registry);
    registry
}

fn controller(files: Files, cluster: &Local) -> Controller {
    let cluster = Arc::new(cluster.clone());
    let (apply, directory, reports) = (cluster.clone(), cluster.clone(), cluster.clone());
    Controller::new(Arc::new(files), apply, directory, reports, cluster)
}

fn autoscaler(cluster: &Local) -> Autoscaler {
    let cluster = Arc::new(cluster.clone());
    Autoscaler::new(cluster.clone(), cluster.clone(), cluster.clone(), cluster)
}

/// Starts the gateway, which follows the cluster's snapshots and publishes its reports there.
fn gateway(
    cluster: &Local,
    services: watch::Receiver<Arc<BTreeSet<ServiceName>>>,
    ports: &Ports,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> Arc<Gateway> {
    let mut options = Options::new(GATEWAY, Scope::Local);
    options.declared = Some(services);
    options.hosts = ports.serving_hosts.clone();
    ports.limits.apply(&mut options);
    options.access = ports.access.as_ref().map(|sources| Arc::clone(&sources.control));
    if let Some(tls) = &ports.tls {
        tasks.spawn(until(stop, Arc::clone(&tls.pair).follow()));
    }
    let gateway = Gateway::new(options);
    let membership = cluster.gateways().join(weir_cluster::Gateway {
        name: GATEWAY.into(),
        serving: ports.serving_at.into(),
        admin: Some(ports.admin_at.into()),
    });
    let snapshots = Directory::watch(cluster);
    tasks.spawn(Arc::clone(&gateway).follow(snapshots, stop.clone()));
    tasks.spawn(until(stop, publish(gateway.reports(), membership)));
    tasks.spawn(Arc::clone(&gateway).report(stop.clone()));
    gateway
}

/// Publishes each report until the channel closes.
async fn publish(mut reports: watch::Receiver<Arc<Report>>, membership: Membership) {
    loop {
        let report = reports.borrow_and_update().clone();
        membership.publish((*report).clone());
        if reports.changed().await.is_err() {
            return;
        }
    }
}

/// Runs `work` until `stop` is cancelled.
fn until<F>(stop: &CancellationToken, work: F) -> impl Future<Output = ()> + use<F>
where
    F: Future<Output = ()>,
{
    let stop = stop.clone();
    async move {
        stop.run_until_cancelled(work).await;
    }
}
