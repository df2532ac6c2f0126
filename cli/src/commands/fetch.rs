//! `weir fetch`: downloads a model into a directory.

mod display;
mod progress_port;
mod termination_message;

use std::fs;
use std::io;
use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use weir_fetch::node_cache::NodeCache;
use weir_fetch::{Access, DownloadReport, Fetch, Limits};

use self::display::Display;
use crate::args::FetchArgs;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::print_note;

/// Working directory inside the target. The target may be a mounted volume, so nothing outside it may be writable.
const STAGING: &str = ".weir-fetch";

/// Downloads the model. Files of the same names in the directory are replaced.
///
/// # Errors
/// [`CliError::Fetch`] when the download fails, [`CliError::Io`] when the directory cannot be written.
pub(crate) async fn run(args: FetchArgs) -> Result<Exit, CliError> {
    // Process 1 of a container ignores SIGTERM unless it installs a handler.
    let terminated = signal(SignalKind::terminate());
    let mut terminated = terminated.map_err(|e| CliError::io("cannot wait for signals", e))?;
    let (reports, latest) = watch::channel(DownloadReport::default());
    let ended = tokio::select! {
        fetched = fetch(&args, &reports) => fetched.map(|()| Exit::Done),
        () = report(&args, latest) => Ok(Exit::Failed),
        _ = terminated.recv() => Ok(Exit::Failed),
    };
    ended.inspect_err(|error| explain(&args.termination_log, error))
}

/// Serves the progress, if a port is given. Never returns: a download does not fail because its port is taken.
async fn report(args: &FetchArgs, reports: watch::Receiver<DownloadReport>) {
    if let Some(port) = args.progress_port {
        match progress_port::bind(port).await {
            Ok(listener) => progress_port::serve(listener, reports).await,
            Err(error) => print_note(&format!("warning: the progress is not served on port {port}: {error}")),
        }
    }
    std::future::pending::<()>().await;
}

/// Writes the error for the kubelet.
fn explain(path: &Path, error: &CliError) {
    if let Err(unwritten) = termination_message::write(path, &error.report()) {
        print_note(&format!("warning: cannot write {}: {unwritten}", path.display()));
    }
}

async fn fetch(args: &FetchArgs, reports: &watch::Sender<DownloadReport>) -> Result<(), CliError> {
    let directory = &args.directory;
    let staging = directory.join(STAGING);
    fs::create_dir_all(&staging).map_err(cannot_write(&staging))?;
    let content = staging.join("content");
    let (access, cache, limits) = (access(args)?, cache(args)?, Limits::default());
    let fetch = Fetch { access: &access, limits: &limits, cache: cache.as_ref() };
    let mut display = Display::new();
    let fetched = fetch
        .run(&args.uri, &content, &mut |attempt| {
            reports.send_modify(|report| report.observe(attempt.clone()));
            display.show(attempt);
        })
        .await;
    display.clear();
    fetched.inspect_err(|error| remove_unused(&staging, error))?;
    let entries = fs::read_dir(&content).map_err(cannot_write(&content))?;
    for entry in entries {
        let entry = entry.map_err(cannot_write(&content))?;
        let target = directory.join(entry.file_name());
        replace(&entry.path(), &target).map_err(cannot_write(&target))?;
    }
    fs::remove_dir_all(&staging).map_err(cannot_write(&staging))
}

/// Returns the credentials of the environment and of the mounted Secrets.
fn access(args: &FetchArgs) -> Result<Access, CliError> {
    let mut access = Access::from_environment();
    // An optional volume of a pod is an empty directory, or none.
    if let Some(directory) = args.credentials.as_deref().filter(|directory| directory.exists()) {
        access = access.with_directory(directory)?;
    }
    access.ambiguities().iter().for_each(|warning| print_note(&format!("warning: {warning}")));
    Ok(access)
}

/// Returns the cache of this node; `None` if no flag names one.
fn cache(args: &FetchArgs) -> Result<Option<NodeCache>, CliError> {
    let cache = |url: &String| NodeCache::new(url, &args.cache_token, print_note);
    args.cache.as_ref().map(cache).transpose().map_err(|reason| CliError::Usage(format!("--cache: {reason}")))
}

/// Removes the staging directory of a download that never began. Otherwise its content lets the next run resume.
fn remove_unused(staging: &Path, error: &weir_fetch::FetchError) {
    if matches!(error, weir_fetch::FetchError::Address { .. }) {
        let _ = fs::remove_dir_all(staging);
    }
}

fn replace(from: &Path, to: &Path) -> io::Result<()> {
    let former = match fs::symlink_metadata(to) {
        Ok(former) if former.is_dir() => fs::remove_dir_all(to),
        Ok(_) => fs::remove_file(to),
        Err(_) => Ok(()),
    };
    former?;
    fs::rename(from, to)
}

fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> CliError {
    let what = format!("cannot write {}", path.display());
    move |error| CliError::io(what, error)
}
