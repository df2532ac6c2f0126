//! `weir controller`: turns InferenceServices into Deployments, routes and statuses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use weir_cluster_kubernetes::{CertificateSource, Client, FetchOptions, GpuNodes, Kubernetes, Options};
use weir_cluster_reports::RemoteReports;
use weir_controller::{Controller, Leadership, Platform, Source};
use weir_controller_kubernetes::{
    KubernetesSource, ReplicaCertificates, Webhook, gateway_certificates, keep_gateway_certificates,
    webhook_certificates,
};
use weir_ops::registry;

use super::connect::{self, Connected, connect, retried};
use super::process::Process;
use crate::args::{ControllerArgs, ProcessArgs};
use crate::error::CliError;
use crate::error::Exit;
use crate::ports;

/// Runs until a signal stops the process.
///
/// # Errors
/// [`CliError`] when the process cannot start.
pub(crate) async fn run(args: ControllerArgs) -> Result<Exit, CliError> {
    let listener = bound(&args, "--webhook-port", args.webhook_port)?;
    let replicas = bound(&args, "--replica-tls-port", args.replica_tls_port)?;
    // The controller serves no inference requests, so it can stop without a drain delay.
    let process = Process::start(&args.process, Duration::ZERO)?;
    let Some(certificates) = process.drain.begun().run_until_cancelled(certificates(&args)).await else {
        return Ok(process.end().await);
    };
    let certificates = certificates?;
    let options = options(&args, &process.name, certificates.as_ref());
    let Some(connected) = connect(options, &process.drain).await? else {
        return Ok(process.end().await);
    };
    let platform = Platform {
        domain: args.process.domain.clone(),
        scheme: args.url_scheme,
        cluster_domain: args.process.cluster_domain.clone(),
        routes_model_names: false,
    };
    let connecting = source(&connected, &platform, &process.name);
    let Some(source) = process.drain.begun().run_until_cancelled(connecting).await else {
        return Ok(process.end().await);
    };
    let webhook = listener.map(|listener| (listener, webhook(&connected.client, &source, &args.process, platform)));
    let (client, cluster) = (connected.client.clone(), connected.cluster.clone());
    let reports = RemoteReports::follow_with(cluster.gateways(), process.token_source());
    let controller = controller(source, connected, reports);
    let downloads = follow_downloads(cluster, controller.leadership());
    process.run_until_stopped(downloads);
    let mut metrics = registry::with_process_metrics();
    controller.register(&mut metrics);
    if let Some(secret) = &args.peer_secret {
        let certificates = gateway_certificates(secret, &args.process.namespace, &args.peer_name);
        process.run_until_stopped(keep_gateway_certificates(client, certificates, controller.leadership()));
    }
    if let (Some(listener), Some(certificates)) = (replicas, certificates) {
        certificates.authority_end().register(&mut metrics);
        process.run_until_stopped(certificates.clone().keep_gateways(controller.leadership()));
        process.tasks.spawn(certificates.serve(listener, process.stop.clone()));
    }
    if let Some((listener, webhook)) = webhook {
        webhook.metrics().register(&mut metrics);
        let answering = webhook.serve(listener, controller.leadership(), process.stop.clone());
        process.tasks.spawn(answering);
    }
    process.serve(process.admin(metrics, process.until_drained())?);
    process.tasks.spawn(controller.run(process.stop.clone()));
    process.drain.begun().cancelled().await;
    Ok(process.end().await)
}

/// Returns the certificates of replicas; `None` without a port for them.
async fn certificates(args: &ControllerArgs) -> Result<Option<ReplicaCertificates>, CliError> {
    if args.replica_tls_port.is_none() {
        return Ok(None);
    }
    let client = weir_cluster_kubernetes::client().await?;
    let ProcessArgs { namespace, cluster_domain, .. } = &args.process;
    let opening =
        retried("the authority of replicas", || ReplicaCertificates::open(client.clone(), namespace, cluster_domain));
    Ok(Some(opening.await))
}

fn options(args: &ControllerArgs, name: &str, certificates: Option<&ReplicaCertificates>) -> Options {
    let common = connect::options(&args.process, name);
    // The chart sets an empty variable if there is no value.
    let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
    let default = common.fetch.clone();
    let fetch = FetchOptions {
        resources: args.storage_initializer_resources.clone().unwrap_or(default.resources),
        env: args.storage_initializer_env.iter().cloned().collect(),
        ca_bundle: named(&args.storage_initializer_ca_bundle),
        node_cache: named(&args.model_cache_url),
    };
    Options {
        fetch,
        certificates: certificates.filter(|_| args.replica_tls).map(|certificates| CertificateSource {
            url: certificates.url(),
            authority: certificates.authorities().to_owned(),
        }),
        weir_image: named(&args.image).unwrap_or(common.weir_image),
        priority_class: named(&args.priority_class),
        gpu_nodes: if args.watch_gpu_nodes { GpuNodes::Watched } else { GpuNodes::Ignored },
        ..common
    }
}

/// Asks pods for the progress of their downloads while this process leads, because only the leader writes statuses.
async fn follow_downloads(cluster: Kubernetes, mut leadership: watch::Receiver<Leadership>) {
    while leadership.wait_for(|part| *part == Leadership::Leading).await.is_ok() {
        tokio::select! {
            () = cluster.follow_downloads() => {}
            _ = leadership.wait_for(|part| *part != Leadership::Leading) => {}
        }
    }
}

/// Binds a port, if it is set.
fn bound(args: &ControllerArgs, flag: &'static str, port: Option<u16>) -> Result<Option<TcpListener>, CliError> {
    let bind = |port| {
        let address = SocketAddr::new(args.process.address, port);
        ports::bind(flag, address).map(|(listener, _)| listener)
    };
    port.map(bind).transpose()
}

fn webhook(client: &Client, source: &KubernetesSource, args: &ProcessArgs, platform: Platform) -> Webhook {
    let options = webhook_certificates(&args.namespace);
    Webhook::new(client.clone(), source.watch(), platform, options)
}

async fn source(connected: &Connected, platform: &Platform, name: &str) -> KubernetesSource {
    retried("InferenceServices", || {
        let (client, cluster) = (connected.client.clone(), connected.cluster.clone());
        KubernetesSource::connect(client, cluster, platform.clone(), name)
    })
    .await
}

fn controller(source: KubernetesSource, connected: Connected, reports: RemoteReports) -> Controller {
    let cluster = Arc::new(connected.cluster);
    let (apply, directory) = (cluster.clone(), cluster.clone());
    Controller::new(Arc::new(source), apply, directory, Arc::new(reports), cluster)
}
