//! `weir infer`: one request, and its answer for people.

mod form;
mod npy;
mod picture;
mod request;
mod result;
mod signature;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::args::{InferArgs, Range};
use crate::client::{Answer, Ask};
use crate::error::CliError;
use crate::exit::Exit;
use crate::say::say;
use crate::state::{self, AdminFile};
use form::Form;
use npy::Array;
use request::Body;
use result::Holding;
use signature::Signature;

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
    let model = model(&args)?;
    let body = body(&args, &model).await?;
    let Base { url, trusted } = model;
    let url = format!("{url}/infer");
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
            let holding = match args.top {
                Some(_) => Holding::Classes,
                None => Holding::Elements,
            };
            say(result::text(&answer, holding).trim_end());
            Ok(Exit::Done)
        }
        false => Err(CliError::Server {
            url,
            because: refusal(&answer),
        }),
    }
}

/// The model behind the service, which bears its name.
fn model(args: &InferArgs) -> Result<Base, CliError> {
    let (namespace, name) = args
        .service
        .split_once('/')
        .unwrap_or((DEFAULT_NAMESPACE, &args.service));
    let Base { url, trusted } = base(args)?;
    let url = format!("{url}/serving/{namespace}/{name}/v2/models/{name}");
    Ok(Base { url, trusted })
}

/// The request. The model is asked what it takes only where that is not given.
async fn body(args: &InferArgs, model: &Base) -> Result<Body, CliError> {
    if let Some(file) = &args.json {
        return request::json(file);
    }
    let inputs = request::arrays(&args.npy)?;
    if args.image.is_none() && args.top.is_none() {
        return Ok(request::tensors(inputs, &[]));
    }
    let timeout = Duration::from_secs(args.timeout);
    let signature = Signature::ask(model, timeout).await?;
    let inputs = match &args.image {
        Some(file) => vec![drawn(file, &signature, args.range)?],
        None => inputs,
    };
    let outputs = args.top.map(|top| best(&signature, top)).transpose()?;
    Ok(request::tensors(inputs, &outputs.unwrap_or_default()))
}

/// The picture as the model's one input.
fn drawn(
    file: &Path,
    signature: &Signature,
    range: Option<Range>,
) -> Result<(String, Array), CliError> {
    let fault = |because| request::fault(file, because);
    let form = Form::of(signature).map_err(fault)?;
    let image = picture::open(file).map_err(fault)?;
    if let Some(resizing) = picture::resizing(&image, &form) {
        // The answer is for whoever reads standard output; this is about the question.
        eprintln!("{}: {resizing}", file.display());
    }
    let range = range.unwrap_or(picture::usual_range(&form));
    let array = picture::tensor(&image, &form, range).map_err(fault)?;
    Ok((form.name, array))
}

/// The outputs with scores, each as its best classes.
fn best(signature: &Signature, top: NonZeroU32) -> Result<Vec<Value>, CliError> {
    let outputs = signature.scores();
    let outputs: Vec<_> = outputs
        .map(|output| json!({"name": output.name, "parameters": {"classification": top}}))
        .collect();
    match outputs.is_empty() {
        true => Err(CliError::Usage(
            "--top: the model has no output of floats, several in a row, that could be scores"
                .into(),
        )),
        false => Ok(outputs),
    }
}

/// Where the gateway is.
#[derive(Clone)]
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
    let value: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let sentence = value
        .as_ref()
        .and_then(|value| value.get("error")?.as_str());
    let text = sentence.map_or_else(
        || String::from_utf8_lossy(&answer.body).trim().to_owned(),
        str::to_owned,
    );
    format!("{}: {text}", answer.status)
}
