//! `weir status`: prints the services of a running `weir up` as a table.

mod render;

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use crate::args::{OutputFormat, StatusArgs};
use crate::client::Client;
use crate::commands::status_table::StatusTable;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::{Reader, plain, print_result};
use crate::ports;
use crate::state::{self, AdminFile};
use render::Width;

/// Timeout of the admin port, which is on this machine and answers from memory.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of `--watch`, the same as that of the gateway's reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Reason of the condition `Ready` of a service that its annotation stops.
const STOPPED: &str = "Stopped";

/// Terminal sequence that moves the cursor to the upper left corner and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints the table; returns [`Exit::Failed`] if a service is not ready. With `--watch`, refreshes it until standard
/// output is closed.
///
/// # Errors
/// [`CliError::NotUp`] when no `weir up` runs, [`CliError::Server`] when it does not answer.
pub(crate) async fn run(args: StatusArgs) -> Result<Exit, CliError> {
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let mut last = None;
    loop {
        let (table, json) = fetch(&state_dir).await?;
        let text = match args.format() {
            OutputFormat::Table => render::text(&table, Width::Narrow),
            OutputFormat::Wide => render::text(&table, Width::Wide),
            OutputFormat::Json => json,
        };
        let text = text.trim_end().to_owned();
        let mut reader = Reader::Present;
        if last.as_ref() != Some(&text) {
            reader = print_result(&format!("{}{}", prefix(&args), plain(&text)))?;
            last = Some(text);
        }
        if !args.watch || reader == Reader::Gone {
            return Ok(exit(&table));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Fetches the status, and returns it together with its JSON.
///
/// # Errors
/// [`CliError::NotUp`] when no `weir up` runs, [`CliError::Server`] when it does not answer.
pub(crate) async fn fetch(state_dir: &Path) -> Result<(StatusTable, String), CliError> {
    let file = AdminFile::read(state_dir)?;
    let url = format!("http://{}/status", file.admin);
    let client = Client::new(&url, None, TIMEOUT)?;
    let client = match ports::token(file.admin_token_file.as_deref())?.and_then(|tokens| tokens.first()) {
        Some(token) => client.with_bearer(&token)?,
        None => client,
    };
    let response = client.get(&url).await;
    let response = response.map_err(|error| match error {
        CliError::NothingListens { address } => CliError::NotUp {
            state_dir: state_dir.to_owned(),
            reason: format!("nothing listens on its admin port {address}, so it was killed"),
        },
        // Any other error means that the process runs but does not answer, for instance because it is suspended or
        // busy.
        error => error,
    })?;
    let json = String::from_utf8_lossy(response.body()).into_owned();
    let table = serde_json::from_str(&json).map_err(|error| CliError::Server {
        url,
        reason: format!("not the status page of this version of weir: {error}"),
    })?;
    Ok((table, json))
}

/// Returns the text before each table. On a terminal, a watched table replaces the previous one.
fn prefix(args: &StatusArgs) -> &'static str {
    if args.watch && args.format() != OutputFormat::Json && std::io::stdout().is_terminal() { CLEAR } else { "" }
}

/// Returns success if every service is ready or stopped on purpose, and no revision with desired replicas fails.
fn exit(table: &StatusTable) -> Exit {
    let are_well = table.services.iter().all(|service| {
        let mut revisions = service.revisions.iter();
        let fails = revisions.any(|revision| revision.wanted > 0 && revision.failure.is_some());
        let is_stopped = service.reason.as_deref() == Some(STOPPED);
        (service.ready == "True" || is_stopped) && !fails
    });
    if are_well { Exit::Done } else { Exit::Failed }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::commands::status_table::ServiceRow;

    #[tokio::test]
    async fn a_weir_up_that_does_not_answer_is_not_reported_as_down() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let folder = tempfile::tempdir().unwrap();
        let address = listener.local_addr().unwrap();
        let file =
            AdminFile { admin: address, serving: address, process: 1, certificate: None, admin_token_file: None };
        file.write(folder.path()).unwrap();
        let hangs_up = std::thread::spawn(move || drop(listener.accept()));
        let error = fetch(folder.path()).await.err().unwrap();
        hangs_up.join().unwrap();
        assert!(matches!(error, CliError::Server { .. }), "{error}");
        let error = fetch(folder.path()).await.err().unwrap();
        assert!(matches!(error, CliError::NotUp { .. }), "{error}");
    }

    #[test]
    fn a_service_that_is_stopped_on_purpose_is_no_failure() {
        let table = |ready: &str, reason: Option<&str>| StatusTable {
            services: vec![ServiceRow {
                namespace: "default".to_owned(),
                name: "digits".to_owned(),
                ready: ready.to_owned(),
                reason: reason.map(str::to_owned),
                message: None,
                url: "http://localhost:8080/serving/default/digits".to_owned(),
                host_url: None,
                notes: Vec::new(),
                revisions: Vec::new(),
            }],
            problems: Vec::new(),
        };
        assert_eq!(exit(&table("True", None)), Exit::Done);
        assert_eq!(exit(&table("False", Some(STOPPED))), Exit::Done);
        assert_eq!(exit(&table("False", Some("Unscheduled"))), Exit::Failed);
    }
}
