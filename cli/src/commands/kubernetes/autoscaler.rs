//! `weir autoscaler`: scales pods by the gateways' reports.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use weir_autoscaler::Autoscaler;
use weir_autoscaler_kubernetes::{self as others, Loads, ProvidedApi};
use weir_cluster::{Directory, Reports};
use weir_cluster_reports::RemoteReports;
use weir_ops::registry;

use super::connect::{self, connect};
use super::process::Process;
use crate::args::{AutoscalerArgs, MetricsApi};
use crate::error::CliError;
use crate::error::Exit;
use crate::ports;

/// Most streams on one connection: KEDA keeps one call open for each ScaledObject.
const SCALED_OBJECTS: u32 = 4096;

/// Runs until a signal stops the process.
///
/// # Errors
/// [`CliError`] when the process cannot start.
pub(crate) async fn run(args: AutoscalerArgs) -> Result<Exit, CliError> {
    let listener = metrics_port(&args)?;
    // The autoscaler serves no inference requests, so it can stop without a drain delay.
    let process = Process::start(&args.process, Duration::ZERO)?;
    let options = connect::options(&args.process, &process.name);
    let Some(connected) = connect(options, &process.drain).await? else {
        return Ok(process.end().await);
    };
    let reports = Arc::new(RemoteReports::follow_with(connected.cluster.gateways(), process.token_source()));
    let cluster = Arc::new(connected.cluster.scaling_in_by(reports.watch()));
    let loads = Loads::follow(reports.watch(), cluster.watch());
    let scaler = others::external_scaler(loads.clone());
    if let Some(listener) = listener {
        let certificates = others::metrics_certificates(&args.process.namespace, &provided(&args.metrics_api));
        let stop = process.stop.clone();
        let metrics = others::serve_metrics(connected.client, loads, certificates, listener, stop);
        process.tasks.spawn(metrics);
    }
    let autoscaler = Autoscaler::new(cluster.clone(), reports, cluster.clone(), cluster);
    let mut metrics = registry::with_process_metrics();
    autoscaler.register(&mut metrics);
    if let Some(price) = args.gpu_price {
        Autoscaler::register_price(price, &mut metrics);
    }
    let admin = process.admin(metrics, process.until_drained())?;
    process.serve(admin.with_streams(SCALED_OBJECTS).with_service(others::PATH, scaler));
    process.tasks.spawn(autoscaler.run(process.stop.clone()));
    process.drain.begun().cancelled().await;
    Ok(process.end().await)
}

/// Binds the port of the metrics APIs, if any is provided.
fn metrics_port(args: &AutoscalerArgs) -> Result<Option<TcpListener>, CliError> {
    if args.metrics_api.is_empty() {
        return Ok(None);
    }
    let address = SocketAddr::new(args.process.address, args.metrics_port);
    ports::bind("--metrics-port", address).map(|(listener, _)| Some(listener))
}

fn provided(apis: &[MetricsApi]) -> Vec<ProvidedApi> {
    let provided = apis.iter().map(|api| match api {
        MetricsApi::Custom => ProvidedApi::Custom,
        MetricsApi::External => ProvidedApi::External,
    });
    provided.collect()
}
