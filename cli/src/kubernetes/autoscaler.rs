//! `weir autoscaler`: from the gateways' reports to numbers of pods.

use std::sync::Arc;
use std::time::Duration;

use weir_autoscaler::Autoscaler;
use weir_autoscaler_kubernetes::{self as others, Loads};
use weir_cluster::{Directory, Reports};
use weir_cluster_reports::RemoteReports;
use weir_ops::registry;

use super::connect::{self, connect};
use super::process::Process;
use crate::args::AutoscalerArgs;
use crate::error::CliError;
use crate::exit::Exit;

/// Calls that KEDA keeps open: one for each ScaledObject, on one connection.
const SCALED_OBJECTS: u32 = 4096;

/// Runs until a signal ends it.
///
/// # Errors
/// [`CliError`] when it cannot start.
pub(crate) async fn run(args: AutoscalerArgs) -> Result<Exit, CliError> {
    // It takes no requests, so nothing has to hear that it ends.
    let process = Process::start(&args.process, Duration::ZERO)?;
    let options = connect::options(&args.process, &process.name);
    let Some(connected) = connect(options, &process.drain).await? else {
        return Ok(process.end().await);
    };
    let reports = Arc::new(RemoteReports::follow(connected.cluster.gateways()));
    let cluster = Arc::new(connected.cluster);
    let loads = Loads::follow(reports.watch(), cluster.watch());
    let scaler = others::external_scaler(loads.clone());
    let autoscaler = Autoscaler::new(cluster.clone(), reports, cluster.clone(), cluster);
    let mut metrics = registry::with_process_metrics();
    autoscaler.register(&mut metrics);
    let admin = process.admin(metrics, process.until_drained())?;
    process.serve(
        admin
            .with_streams(SCALED_OBJECTS)
            .with_service(others::PATH, scaler),
    );
    process.tasks.spawn(autoscaler.run(process.stop.clone()));
    process.drain.begun().cancelled().await;
    Ok(process.end().await)
}
