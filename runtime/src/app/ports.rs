//! The HTTP, gRPC and metrics ports, which are bound together and served together.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_ops::admin::{Admin, CallerCheck, Health, HealthCheck};
use weir_ops::registry;
use weir_serve::PortUse;
use weir_serve::byte_budget::ByteBudget;
use weir_serve::known_hosts::KnownHosts;

use super::metrics;
use crate::api::grpc::{self, Grpc, GrpcListenOptions, GrpcOptions};
use crate::api::http::{self, Http, HttpOptions};
use crate::args::{Config, Exit, GrpcConfig, HttpConfig, TlsConfig};
use crate::error::ServeError;
use crate::incoming::restriction::{self, ApiGroup, Restriction};
use crate::server::Server;

/// Ports that are bound but not yet served.
pub(super) struct Ports {
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    metrics: Option<TcpListener>,
}

/// Failure to bind a port.
#[derive(Debug, thiserror::Error)]
pub(super) enum PortError {
    #[error("port {} is taken ({flag}): another process listens on it. Choose another port with {flag}, or find the process with `ss -ltnp 'sport = :{}'`", .address.port(), .address.port())]
    Taken { flag: &'static str, address: SocketAddr },
    #[error("cannot listen on {address} ({flag}): {source}{}", weir_serve::advice(.source))]
    Other { flag: &'static str, address: SocketAddr, source: io::Error },
}

impl PortError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Taken { .. } => Exit::PortTaken,
            Self::Other { .. } => Exit::Failed,
        }
    }
}

impl Ports {
    pub(super) fn bind(config: &Config) -> Result<Self, PortError> {
        let http = config.http.as_ref().map(|http| bind("--http-port", http.address, port_use(http.reuse_port)));
        let grpc = config.grpc.as_ref().map(|grpc| bind("--grpc-port", grpc.address, port_use(grpc.reuse_port)));
        let metrics =
            config.metrics.as_ref().map(|metrics| bind("--metrics-port", metrics.address, PortUse::Exclusive));
        Ok(Self { http: http.transpose()?, grpc: grpc.transpose()?, metrics: metrics.transpose()? })
    }

    /// Serves every port until `stop`.
    pub(super) fn spawn(self, config: &Config, server: &Arc<Server>, tasks: &TaskTracker, stop: &CancellationToken) {
        let mut registry = registry::with_process_metrics();
        let optional = config.metrics.as_ref().map(|metrics| metrics.options).unwrap_or_default();
        let body_budget = server.memory().budget().clone();
        let shared = Arc::clone(server);
        let requests = metrics::register(&mut registry, shared, body_budget.clone(), optional);
        if let (Some(listener), Some(http)) = (self.http, &config.http) {
            let http = Http::new(Arc::clone(server), http_options(http, config, body_budget.clone()), requests.clone());
            tasks.spawn(http::serve(listener, Arc::new(http), stop.clone()));
        }
        if let (Some(listener), Some(grpc)) = (self.grpc, &config.grpc) {
            let front = Grpc::new(Arc::clone(server), grpc_options(grpc, config, body_budget));
            let options = listen_options(grpc, config);
            tasks.spawn(grpc::serve(listener, front, requests, options, stop.clone()));
        }
        if let Some(tls) = config.tls.clone() {
            let stop = stop.clone();
            tasks.spawn(async move { stop.run_until_cancelled(tls.follow()).await });
        }
        if let Some(listener) = self.metrics {
            let rules = config.http.as_ref().map(|http| http.restricted.clone());
            let admin = Admin::new(listener, Arc::new(registry), health(server))
                .with_readiness(readiness(server, config.tls.as_ref()))
                .with_token(config.metrics.as_ref().and_then(|metrics| metrics.token.clone()))
                .with_metrics_for(metrics_callers(rules.unwrap_or_default()));
            tasks.spawn(admin.serve(stop.clone()));
        }
    }
}

fn bind(flag: &'static str, address: SocketAddr, port: PortUse) -> Result<TcpListener, PortError> {
    let listener = weir_serve::bind(address, port).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => PortError::Taken { flag, address },
        _ => PortError::Other { flag, address, source },
    })?;
    // The actual port, which differs from the requested one if that was 0.
    let bound = listener.local_addr().unwrap_or(address);
    tracing::info!(%bound, "listening ({flag})");
    Ok(listener)
}

fn port_use(reuse: bool) -> PortUse {
    if reuse { PortUse::Shared } else { PortUse::Exclusive }
}

fn health(server: &Arc<Server>) -> HealthCheck {
    let server = Arc::clone(server);
    Arc::new(move || match server.live() {
        Ok(()) => Health::Serving,
        Err(ServeError::Stuck(_)) => Health::Stuck,
        Err(_) => Health::Draining,
    })
}

/// Returns the readiness of the server as the metrics port reports it: that of the ports for requests, which a kubelet
/// cannot call if they require a certificate.
fn readiness(server: &Arc<Server>, tls: Option<&TlsConfig>) -> HealthCheck {
    let (server, tls) = (Arc::clone(server), tls.map(|tls| Arc::clone(&tls.requests)));
    let has_certificate = move || tls.as_ref().is_none_or(|tls| tls.has_certificate());
    Arc::new(move || if server.ready() && has_certificate() { Health::Serving } else { Health::Starting })
}

/// Returns the check of the metrics port's callers. If a rule of `--http-restricted-api` covers the metrics, callers
/// must send the rule's header.
fn metrics_callers(rules: Vec<Restriction>) -> CallerCheck {
    Arc::new(move |headers| {
        let given = |name: &str| headers.get(name)?.to_str().ok();
        restriction::missing_key(&rules, ApiGroup::Metrics, given).is_none()
    })
}

fn http_options(http: &HttpConfig, config: &Config, body_budget: ByteBudget) -> HttpOptions {
    HttpOptions {
        body_budget,
        max_input: http.max_input,
        max_body: http.max_body,
        connections: config.connections,
        forward: http.forward.clone(),
        hosts: KnownHosts::of(http.address.ip(), &[]),
        control: config.control_routes,
        restricted: http.restricted.clone(),
        tls: config.tls.as_ref().map(|tls| Arc::clone(&tls.requests)),
    }
}

fn grpc_options(grpc: &GrpcConfig, config: &Config, body_budget: ByteBudget) -> GrpcOptions {
    GrpcOptions {
        stream_grace: stream_grace(config),
        body_budget,
        forward: grpc.forward.clone(),
        control: config.control_routes,
        restricted: grpc.restricted.clone(),
        tls: config.tls.as_ref().map(|tls| Arc::clone(&tls.requests)),
    }
}

/// Time after which streams end: four fifths of the time between the closing of the ports and the exit. The last fifth
/// is for the requests that streams are still working on.
fn stream_grace(config: &Config) -> Duration {
    config.exit_timeout.saturating_sub(config.drain_delay) * 4 / 5
}

fn listen_options(grpc: &GrpcConfig, config: &Config) -> GrpcListenOptions {
    GrpcListenOptions {
        keepalive_time: Some(grpc.keepalive_time),
        keepalive_timeout: grpc.keepalive_timeout,
        max_connection_age: grpc.max_age,
        max_connection_age_grace: grpc.max_age_grace,
        connections: config.connections,
        max_message: MAX_MESSAGE,
        max_decompressed: grpc.max_decompressed,
        gzip_responses: grpc.gzip_responses,
    }
}

/// Limit on a gRPC message, in bytes: Triton's limit, and the largest length that a signed 32-bit integer can hold.
const MAX_MESSAGE: usize = i32::MAX as usize;
