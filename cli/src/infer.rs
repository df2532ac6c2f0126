//! `weir infer`: one request, and its answer for people.

mod npy;
mod request;
mod result;

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderMap, Method};

use crate::args::InferArgs;
use crate::client::{Answer, Ask};
use crate::error::CliError;
use crate::exit::Exit;
use crate::say::say;
use crate::state::{self, AdminFile};

/// Where a `weir up` without flags takes requests.
const DEFAULT_URL: &str = "http://localhost:8080";

/// The namespace of a service that is named without one.
const DEFAULT_NAMESPACE: &str = weir_controller::files::DEFAULT_NAMESPACE;

/// Sends the request and prints the answer.
///
/// # Errors
/// [`CliError::Input`] for an input that cannot be sent, [`CliError::Server`] for an answer that is an
/// error.
pub(crate) async fn run(args: InferArgs) -> Result<Exit, CliError> {
    let body = match &args.json {
        Some(file) => request::json(file)?,
        None => request::tensors(&args.npy)?,
    };
    let (namespace, name) = args
        .service
        .split_once('/')
        .unwrap_or((DEFAULT_NAMESPACE, &args.service));
    let Base { url, trusted } = base(&args)?;
    let url = format!("{url}/serving/{namespace}/{name}/v2/models/{name}/infer");
    let timeout = Duration::from_secs(args.timeout);
    let ask = Ask {
        method: Method::POST,
        url: url.clone(),
        trusted,
        headers: HeaderMap::from_iter(body.headers),
        body: body.bytes,
        timeout,
    };
    let answer = ask.send().await?;
    match answer.status.is_success() {
        true => {
            say(result::text(&answer).trim_end());
            Ok(Exit::Done)
        }
        false => Err(CliError::Server {
            url,
            because: refusal(&answer),
        }),
    }
}

/// Where the gateway is.
struct Base {
    url: String,
    /// The certificates it may show.
    trusted: Option<PathBuf>,
}

fn base(args: &InferArgs) -> Result<Base, CliError> {
    let at = |url: &str, own: Option<PathBuf>| Base {
        url: url.to_owned(),
        trusted: args.cacert.clone().or(own),
    };
    if let Some(url) = &args.url {
        return Ok(at(url.trim_end_matches('/'), None));
    }
    let state_dir = state::directory(args.state_dir.as_deref())?;
    match (AdminFile::read(&state_dir), &args.state_dir) {
        (Ok(file), _) => {
            let url = format!("{}://localhost:{}", file.scheme(), file.serving.port());
            Ok(at(&url, file.certificate))
        }
        // Whoever names a directory means it.
        (Err(error), Some(_)) => Err(error),
        (Err(_), None) => Ok(at(DEFAULT_URL, None)),
    }
}

/// The server's own sentence where it gave one.
fn refusal(answer: &Answer) -> String {
    let value: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
    let sentence = value
        .as_ref()
        .and_then(|value| value.get("error")?.as_str());
    let text = sentence.map_or_else(
        || String::from_utf8_lossy(&answer.body).trim().to_owned(),
        str::to_owned,
    );
    format!("{}: {text}", answer.status)
}
