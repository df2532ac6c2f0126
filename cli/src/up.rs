//! `weir up`: the platform on this machine, in one process.

mod board;
mod declared;
mod parts;
mod ports;
mod progress;
mod ready;
mod runnable;
mod runtime;
mod tls;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use weir_cluster_local::{Local, Options};
use weir_controller::files::Files;
use weir_controller::{ModelNames, Platform, Source};
use weir_ops::drain::{Drain, Signals};
use weir_ops::telemetry::{self, Levels, Settings};

use crate::args::UpArgs;
use crate::error::CliError;
use crate::exit::Exit;
use crate::say::say;
use crate::state::{self, AdminFile, Hold};
use parts::Parts;
#[cfg(test)]
pub(crate) use parts::registry;
use ports::Ports;

/// The file of the state directory that keeps the numbers of revisions.
const NUMBERS: &str = "revisions.json";

/// Serves what the files declare until a signal ends it.
///
/// # Errors
/// [`CliError`] for all that keeps it from starting.
pub(crate) async fn run(args: UpArgs) -> Result<Exit, CliError> {
    listen_to_logs(args.verbose)?;
    let platform = Platform {
        domain: args.domain.clone(),
        model_names: ModelNames::Lead,
    };
    let files = open(&args, &platform)?;
    let declaration = files.watch().borrow().clone();
    let runtime = runtime::find(args.runtime.as_deref(), &declaration, &platform)?;
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let options = options(runtime, &state_dir);
    let faults = runnable::faults(&declaration, &platform, &options);
    if !faults.is_empty() {
        return Err(CliError::Mistakes(faults));
    }
    let ports = Ports::bind(&args)?;
    let _hold = Hold::take(&state_dir)?;
    let drain = Drain::new();
    let signals = Signals::install().map_err(|e| CliError::io("cannot catch signals", e))?;
    let _signals = AbortOnDropHandle::new(tokio::spawn(signals.run(drain.clone(), Duration::ZERO)));
    let cluster = Local::start(options)?;
    let files = files.numbered_in(state_dir.join(NUMBERS));
    let file = AdminFile {
        admin: ports.admin_at,
        serving: ports.serving_at,
        process: std::process::id(),
        certificate: certificate(&ports)?,
    };
    file.write(&state_dir)?;
    greet(&file, declaration.services.len());
    let exit = Parts::start(files, cluster, platform, &ports, &drain)
        .serve(ports, drain)
        .await;
    file.remove(&state_dir);
    Ok(exit)
}

/// Warnings always; what the parts do, when asked for.
fn listen_to_logs(verbose: u8) -> Result<(), CliError> {
    let settings = Settings {
        levels: Levels {
            info: verbose > 0,
            verbose: u32::from(verbose.saturating_sub(1)),
            ..Levels::default()
        },
        ..Settings::default()
    };
    let installed = telemetry::install(&settings);
    installed.map_err(|error| CliError::Usage(error.to_string()))?;
    Ok(())
}

/// Reads the files; nothing starts while anything in them is wrong.
fn open(args: &UpArgs, platform: &Platform) -> Result<Files, CliError> {
    let files = Files::open(&args.files)?;
    let declaration = files.watch().borrow().clone();
    let faults = declaration.faults(platform);
    match faults.is_empty() {
        true => Ok(files),
        false => Err(CliError::Mistakes(faults)),
    }
}

fn options(runtime: Option<PathBuf>, state_dir: &Path) -> Options {
    // A variable that is no text cannot be handed on as one; commands do without.
    let variables = std::env::vars_os();
    let environment: BTreeMap<String, String> = variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Options {
        runtime,
        state_dir: state_dir.to_owned(),
        environment: environment.into(),
        fetch: weir_fetch::Limits::default(),
    }
}

/// Where a client on this machine finds what our port shows.
fn certificate(ports: &Ports) -> Result<Option<PathBuf>, CliError> {
    let certificate = ports.tls.as_ref().map(|tls| tls.pair.certificate());
    let absolute = certificate.map(std::path::absolute).transpose();
    absolute.map_err(|error| CliError::io("the working directory is gone", error))
}

fn greet(file: &AdminFile, services: usize) {
    let (admin, serving) = (file.admin, file.serving);
    let scheme = file.scheme();
    let noun = match services {
        1 => "service",
        _ => "services",
    };
    say(&format!(
        "weir serves {services} {noun} on {scheme}://{serving} (HTTP and gRPC); status and metrics are on \
         http://{admin}; Ctrl-C ends it"
    ));
    if services == 0 {
        say(
            "there is no InferenceService in what -f names yet; one that is written there is served at once",
        );
    }
}
