//! `weir status`: what a `weir up` serves, as a table.

mod table;

use std::io::IsTerminal;
use std::path::Path;
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

/// Between two looks of `--watch`: reports come as often.
const AGAIN: Duration = Duration::from_secs(1);

/// To the upper left corner, and nothing below it.
const CLEAR: &str = "\x1b[H\x1b[J";

/// Prints the table; [`Exit::Failed`] while a service is not ready.
///
/// # Errors
/// [`CliError::NotUp`] when nobody answers.
pub(crate) async fn run(args: StatusArgs) -> Result<Exit, CliError> {
    let state_dir = state::directory(args.state_dir.as_deref())?;
    let mut last = None;
    loop {
        let (board, json) = look(&state_dir).await?;
        let text = match args.json {
            true => json,
            false => table::table(&board).trim_end().to_owned(),
        };
        if last.as_ref() != Some(&text) {
            say(&(over(&args).to_owned() + &text));
            last = Some(text);
        }
        if !args.watch {
            return Ok(exit(&board));
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What is served now, and as it was told.
async fn look(state_dir: &Path) -> Result<(Board, String), CliError> {
    let file = AdminFile::read(state_dir)?;
    let url = format!("http://{}/status", file.admin);
    let answer = Ask::get(url.clone(), TIMEOUT).send().await;
    let answer = answer.map_err(|error| CliError::NotUp {
        state_dir: state_dir.to_owned(),
        because: error.to_string(),
    })?;
    let board = serde_json::from_slice(&answer.body).map_err(|error| CliError::Server {
        url,
        because: format!("not what a `weir up` of this version says: {error}"),
    })?;
    Ok((board, String::from_utf8_lossy(&answer.body).into_owned()))
}

/// What a table that is watched begins with: on a terminal each takes the place of the last.
fn over(args: &StatusArgs) -> &'static str {
    match args.watch && !args.json && std::io::stdout().is_terminal() {
        true => CLEAR,
        false => "",
    }
}

fn exit(board: &Board) -> Exit {
    let are_ready = board.services.iter().all(|service| service.ready == "True");
    match are_ready {
        true => Exit::Done,
        false => Exit::Failed,
    }
}
