//! `weir gateway`: routes requests to pods.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_cluster::Directory;
use weir_cluster_kubernetes::WatchScope;
use weir_gateway::{Encryption, Gateway, Options, Port, Scope};
use weir_ops::admin::{Health, HealthCheck};
use weir_ops::registry;

use super::connect::{self, connect};
use super::process::Process;
use crate::access::{AccessSources, named_objects};
use crate::args::GatewayArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::peers::PeerCertificates;
use crate::ports;
use crate::replica_certificate::ReplicaCertificate;
use crate::tls::Tls;

/// Time for which the gateway still accepts requests after SIGTERM. Meanwhile load balancers, other gateways and
/// kube-proxy learn that it ends.
const DRAIN_DELAY: Duration = Duration::from_secs(5);

/// Time from the beginning of the drain for accepted requests to finish: [`DRAIN_DELAY`], then up to 55 s in which a
/// request waits for a service to start, and the time of its inference.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(65);

/// Runs until a signal stops the process.
///
/// # Errors
/// [`CliError`] when the process cannot start.
pub(crate) async fn run(args: GatewayArgs) -> Result<Exit, CliError> {
    let objects = named_objects(&args.process.namespace, &args.access_secrets, &args.access_config_maps);
    let access = AccessSources::read(&args.access_files, objects)?;
    let peers = PeerCertificates::read(&args.peers, &args.process.namespace)?;
    let replicas = args.replica_secret.as_ref();
    let replicas = replicas.map(|name| ReplicaCertificate::of_secret(name, &args.process.namespace));
    let of_access = access.as_ref().map(AccessSources::completeness);
    let of_peers = peers.as_ref().map(PeerCertificates::completeness);
    let of_replicas = replicas.as_ref().map(ReplicaCertificate::completeness);
    let read = of_access.into_iter().chain(of_peers).chain(of_replicas).collect();
    let (ports, tls) = bind(&args)?;
    access.as_ref().map_or(Ok(()), |access| access.check_port(tls.as_ref()))?;
    let process = Process::start(&args.process, DRAIN_DELAY)?;
    let options = weir_cluster_kubernetes::Options {
        scope: WatchScope::Gateway,
        ..connect::options(&args.process, &process.name)
    };
    let Some(connected) = connect(options, &process.drain).await? else {
        return Ok(process.end().await);
    };
    let mut options = Options::new(&process.name, Scope::Cluster);
    args.limits.apply(&mut options);
    options.access = access.as_ref().map(|sources| Arc::clone(&sources.control));
    options.peers = peers.as_ref().map(|peers| Arc::clone(&peers.tls));
    options.replicas = replicas.as_ref().map(|replicas| Arc::clone(&replicas.tls));
    let gateway = Gateway::new(options);
    let snapshots = Directory::watch(&connected.cluster);
    let follow = Arc::clone(&gateway).follow(snapshots, process.stop.clone());
    process.tasks.spawn(follow);
    let report = Arc::clone(&gateway).report(process.stop.clone());
    process.tasks.spawn(report);
    serve_admin(&process, &gateway, read)?;
    leave_with_drain(&process, &gateway);
    let closed = process.drain.closed().clone();
    if let Some(tls) = tls {
        process.run_until_stopped(tls.pair.follow());
    }
    if let Some(access) = access {
        let changes = access.watch(&connected.client);
        process.run_until_stopped(async move { access.follow(changes).await });
    }
    if let Some(peers) = peers {
        process.run_until_stopped(peers.follow(connected.client.clone()));
    }
    if let Some(replicas) = replicas {
        process.run_until_stopped(replicas.follow(connected.client.clone()));
    }
    let serving = gateway.serve(ports, closed);
    let answered = process.drain.serve(ANSWER_TIMEOUT, serving).await;
    if let Err(error) = &answered {
        tracing::error!("{error}: stopping without answering them");
    }
    let ended = process.end().await;
    Ok(if answered.is_ok() { ended } else { Exit::Failed })
}

/// Binds the plain port, and the TLS port if there is a certificate.
fn bind(args: &GatewayArgs) -> Result<(Vec<Port>, Option<Tls>), CliError> {
    let tls = Tls::read(args.tls_cert.as_deref(), args.tls_key.as_deref())?;
    let listen = |flag, port| {
        let address = SocketAddr::new(args.process.address, port);
        ports::bind(flag, address).map(|(listener, _)| listener)
    };
    let mut ports = vec![Port::plain(listen("--port", args.port)?)];
    if let Some(tls) = &tls {
        ports.push(Port {
            listener: listen("--tls-port", args.tls_port)?,
            encryption: Encryption::Tls(tls.server.clone()),
            host: None,
        });
    }
    Ok((ports, tls))
}

/// Asks clients to reconnect elsewhere as soon as the drain begins, because a request that arrives while its connection
/// closes is lost.
fn leave_with_drain(process: &Process, gateway: &Arc<Gateway>) {
    let (begun, gateway) = (process.drain.begun().clone(), Arc::clone(gateway));
    process.tasks.spawn(async move {
        begun.cancelled().await;
        gateway.leave();
    });
}

fn serve_admin(process: &Process, gateway: &Arc<Gateway>, read: Vec<Arc<AtomicBool>>) -> Result<(), CliError> {
    let mut metrics = registry::with_process_metrics();
    gateway.register(&mut metrics);
    let reports = weir_cluster_reports::service(gateway.reports());
    let described = Arc::clone(gateway);
    let admin = process
        .admin(metrics, readiness(process, gateway, read))?
        .with_page("/routes", Arc::new(move || described.describe()))
        .with_service(weir_cluster_reports::PATH, reports);
    process.serve(admin);
    Ok(())
}

/// Returns the readiness check: ready once the gateway knows the routes and every flag of `read` shows that keys, rules
/// and certificates were read, until the gateway drains.
fn readiness(process: &Process, gateway: &Arc<Gateway>, read: Vec<Arc<AtomicBool>>) -> HealthCheck {
    let (drained, gateway) = (process.until_drained(), Arc::clone(gateway));
    let has_read = move || read.iter().all(|is_read| is_read.load(Ordering::Acquire));
    Arc::new(move || if gateway.is_ready() && has_read() { drained() } else { Health::Starting })
}
