//! `weir status`: what a `weir up` serves, as a table.

mod table;

use std::time::Duration;

use crate::args::StatusArgs;
use crate::board::Board;
use crate::client::Ask;
use crate::error::CliError;
use crate::exit::Exit;
use crate::say::say;
use crate::state::{self, AdminFile};

/// The admin port is on this machine and answers from memory.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Prints the table.
///
/// # Errors
/// [`CliError::NotUp`] when nobody answers.
pub(crate) async fn run(args: StatusArgs) -> Result<Exit, CliError> {
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let file = AdminFile::read(&state_dir)?;
    let url = format!("http://{}/status", file.admin);
    let answer = Ask::get(url.clone(), TIMEOUT).send().await;
    let answer = answer.map_err(|error| CliError::NotUp {
        state_dir,
        because: error.to_string(),
    })?;
    let board: Board = serde_json::from_slice(&answer.body).map_err(|error| CliError::Server {
        url,
        because: format!("not what a `weir up` of this version says: {error}"),
    })?;
    match args.json {
        true => say(&String::from_utf8_lossy(&answer.body)),
        false => say(table::table(&board).trim_end()),
    }
    Ok(Exit::Done)
}
