//! `weir infer`: one request, and its answer for people.

mod form;
mod npy;
mod picture;
mod request;
mod result;
mod signature;

use std::num::NonZeroU32;
use std::path::Path;
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
    let model = model_url(&args)?;
    let body = body(&args, &model).await?;
    let url = format!("{model}/infer");
    let timeout = Duration::from_secs(args.timeout);
    let answer = ask(url.clone(), body, timeout).send().await?;
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
fn model_url(args: &InferArgs) -> Result<String, CliError> {
    let (namespace, name) = args
        .service
        .split_once('/')
        .unwrap_or((DEFAULT_NAMESPACE, &args.service));
    let base = base(args)?;
    Ok(format!(
        "{base}/serving/{namespace}/{name}/v2/models/{name}"
    ))
}

/// The request. The model is asked what it takes only where that is not given.
async fn body(args: &InferArgs, model: &str) -> Result<Body, CliError> {
    if let Some(file) = &args.json {
        return request::json(file);
    }
    let inputs = request::arrays(&args.npy)?;
    if args.image.is_none() && args.top.is_none() {
        return Ok(request::tensors(inputs, &[]));
    }
    let timeout = Duration::from_secs(args.timeout);
    let signature = Signature::ask(model.to_owned(), timeout).await?;
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
fn base(args: &InferArgs) -> Result<String, CliError> {
    if let Some(url) = &args.url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let state_dir = state::directory(args.state_dir.as_deref())?;
    match (AdminFile::read(&state_dir), &args.state_dir) {
        (Ok(file), _) => Ok(format!("http://localhost:{}", file.serving.port())),
        // Whoever names a directory means it.
        (Err(error), Some(_)) => Err(error),
        (Err(_), None) => Ok(DEFAULT_URL.to_owned()),
    }
}

fn ask(url: String, body: Body, timeout: Duration) -> Ask {
    Ask {
        method: Method::POST,
        url,
        headers: HeaderMap::from_iter(body.headers),
        body: body.bytes,
        timeout,
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
