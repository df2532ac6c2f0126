//! `weir up`: runs the platform on this machine, in one process.

mod announce;
mod components;
mod notes;
mod ports;
mod predictor_ports;
mod preflight;
mod progress;
mod runtime;
mod service_names;
mod status;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;
use weir_cluster::ServiceName;
use weir_cluster_local::{Gpu, Local, Options, PredictorAddresses};
use weir_controller::files::Files;
use weir_controller::{Declaration, Platform, Source, UrlScheme};
use weir_ops::drain::{Drain, Signals};
use weir_ops::telemetry::Levels;

use crate::args::UpArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::install_log;
use crate::output::print;
use crate::state::{self, AdminFile, StateLock};
use components::Components;
#[cfg(test)]
pub(crate) use components::registry;
use ports::Ports;
pub(crate) use preflight::Inspected;

/// File in the state directory that stores revision numbers and creation times of services.
const REVISIONS: &str = "revisions.json";

/// Serves the declared services until a signal stops the process.
///
/// # Errors
/// [`CliError`] when the platform cannot start.
pub(crate) async fn run(args: UpArgs) -> Result<Exit, CliError> {
    install_log(log_levels(args.verbose))?;
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let what = Served {
        files: &args.files,
        domain: &args.domain,
        scheme: match &args.tls_cert {
            Some(_) => UrlScheme::Https,
            None => UrlScheme::Http,
        },
        runtime: args.runtime.as_deref(),
    };
    let Survey { files, declaration, options, .. } = survey(&what, &state_dir)?.without_errors()?;
    let mut ports = Ports::bind(&args)?;
    let _lock = StateLock::acquire(&state_dir)?;
    let drain = Drain::new();
    let signals = Signals::install().map_err(|e| CliError::io("cannot install signal handlers", e))?;
    let _signals = AbortOnDropHandle::new(tokio::spawn(signals.run(drain.clone(), Duration::ZERO)));
    let predictors = options.predictors.clone();
    let cluster = Local::start(Options { max_models_bytes: args.max_model_cache_bytes, ..options })?;
    let files = files.numbered_in(state_dir.join(REVISIONS));
    let file = AdminFile {
        admin: ports.admin_at,
        serving: ports.serving_at,
        process: std::process::id(),
        certificate: certificate_file(&ports)?,
        admin_token_file: absolute(args.admin_token_file.as_deref())?,
    };
    file.write(&state_dir)?;
    print_greeting(&file, declaration.count());
    let exit = Components::start(files, (cluster, predictors), &mut ports, &drain).serve(ports, drain).await;
    file.remove(&state_dir);
    Ok(exit)
}

/// Flags that say what to serve; `weir up` and `weir check` share them.
pub(crate) struct Served<'a> {
    pub(crate) files: &'a [PathBuf],
    pub(crate) domain: &'a str,
    pub(crate) scheme: UrlScheme,
    pub(crate) runtime: Option<&'a Path>,
}

/// Result of reading the files: the declared services and the predictors that can run here. Nothing has been started.
pub(crate) struct Survey {
    files: Files,
    pub(crate) declaration: Arc<Declaration>,
    options: Options,
    /// Predictors that can run on this machine.
    pub(crate) inspected: Vec<Inspected>,
    /// Every error in every file, one sentence each, with its location.
    pub(crate) errors: Vec<String>,
}

impl Survey {
    /// Returns an error if any file has errors, so that nothing starts.
    fn without_errors(self) -> Result<Self, CliError> {
        if self.errors.is_empty() { Ok(self) } else { Err(CliError::Invalid(self.errors)) }
    }
}

/// Reads the files and checks whether each service can run on this machine.
///
/// # Errors
/// [`CliError::Usage`] for paths that cannot be read; [`CliError::RuntimeMissing`], or [`CliError::Invalid`] if the
/// files also have errors.
pub(crate) fn survey(what: &Served<'_>, state_dir: &Path) -> Result<Survey, CliError> {
    let platform = Platform {
        domain: what.domain.to_owned(),
        scheme: what.scheme,
        cluster_domain: ServiceName::CLUSTER_DOMAIN.to_owned(),
        routes_model_names: true,
    };
    let files = Files::reopen(what.files, platform, &state_dir.join(REVISIONS))?;
    let declaration = files.watch().borrow().clone();
    let mut errors = all_errors(&declaration);
    let runtime = match runtime::find(what.runtime, &declaration) {
        Ok(runtime) => runtime,
        Err(CliError::RuntimeMissing { .. }) if !errors.is_empty() => {
            return Err(CliError::Invalid(errors));
        }
        Err(error) => return Err(error),
    };
    let options = options(runtime, state_dir);
    let (inspected, refused) = preflight::inspect(&declaration, &options);
    errors.extend(refused);
    Ok(Survey { files, declaration, options, inspected, errors })
}

/// Reads the declared services without checking whether they can run on this machine.
///
/// # Errors
/// [`CliError::Invalid`] with every error in the files, [`CliError::Usage`] for paths that cannot be read.
pub(crate) fn declared(files: &[PathBuf]) -> Result<Arc<Declaration>, CliError> {
    let declaration = declaration(files, platform("example.com"))?;
    match all_errors(&declaration) {
        errors if errors.is_empty() => Ok(declaration),
        errors => Err(CliError::Invalid(errors)),
    }
}

/// Reads the services that the files declare for a cluster, with the errors in each.
///
/// # Errors
/// [`CliError::Usage`] for paths that cannot be read.
pub(crate) fn read(files: &[PathBuf], domain: &str) -> Result<Arc<Declaration>, CliError> {
    declaration(files, Platform { routes_model_names: false, ..platform(domain) })
}

fn declaration(files: &[PathBuf], platform: Platform) -> Result<Arc<Declaration>, CliError> {
    Ok(Files::open(files, platform)?.watch().borrow().clone())
}

fn platform(domain: &str) -> Platform {
    Platform { routes_model_names: true, ..Platform::new(domain) }
}

/// Levels of the log: warnings always, and information with `-v`. Each further `-v` adds debug messages.
fn log_levels(verbose: u8) -> Levels {
    Levels { info: verbose > 0, verbose: u32::from(verbose.saturating_sub(1)), ..Levels::default() }
}

/// Collects every error in the files: of objects that cannot be read, and of services that are invalid.
fn all_errors(declaration: &Declaration) -> Vec<String> {
    [declaration.problems.clone(), declaration.errors()].concat()
}

fn options(runtime: Option<PathBuf>, state_dir: &Path) -> Options {
    // Environment variables that are not UTF-8 are not passed on to replicas.
    let variables = std::env::vars_os();
    let mut environment: BTreeMap<String, String> =
        variables.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect();
    // Replicas refuse control calls (loading models, shared memory, trace and log settings), unless the service sets
    // this variable.
    let control = environment.entry("WEIR_CONTROL_ROUTES".to_owned());
    control.or_insert_with(|| "closed".to_owned());
    Options {
        runtime,
        state_dir: state_dir.to_owned(),
        environment: environment.into(),
        fetch: weir_fetch::Limits::default(),
        max_models_bytes: Options::MAX_MODELS_BYTES,
        gpu: Gpu::detect(),
        predictors: PredictorAddresses::default(),
    }
}

/// Returns the absolute path of the serving port's certificate, for clients on this machine.
fn certificate_file(ports: &Ports) -> Result<Option<PathBuf>, CliError> {
    absolute(ports.tls.as_ref().map(|tls| tls.pair.certificate()))
}

fn absolute(file: Option<&Path>) -> Result<Option<PathBuf>, CliError> {
    let absolute = file.map(std::path::absolute).transpose();
    absolute.map_err(|error| CliError::io("the working directory does not exist any more", error))
}

fn print_greeting(file: &AdminFile, services: usize) {
    let (admin, serving) = (file.admin, file.serving);
    let scheme = file.scheme();
    let noun = match services {
        1 => "service",
        _ => "services",
    };
    print(&format!(
        "weir serves {services} {noun} on {scheme}://{serving} (HTTP and gRPC); status and metrics are on \
         http://{admin}. Press Ctrl-C to stop."
    ));
    if services == 0 {
        print(
            "no InferenceService found in the -f paths; Weir serves one as soon as it is added. In a folder, only its own \
             .yaml, .yml and .json files are read, not those in subfolders",
        );
    }
}
