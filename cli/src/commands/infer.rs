//! `weir infer`: sends one request and prints the response.

mod image_input;
mod npy;
mod picture;
mod request;
mod result;
mod signature;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use serde_json::{Value, json};

use crate::args::{InferArgs, Range};
use crate::client::Client;
use crate::error::CliError;
use crate::error::Exit;
use crate::output::{print_note, print_result};
use crate::service_name;
use crate::state::{self, AdminFile};
use image_input::ImageInput;
use npy::Array;
use request::InferRequest;
use result::Format;
use signature::Signature;

/// URL of a `weir up` that runs with default flags.
const DEFAULT_URL: &str = "http://localhost:8080";

/// Sends the request and prints the response.
///
/// # Errors
/// [`CliError::Input`] for an input that cannot be sent, [`CliError::Server`] for an error response.
pub(crate) async fn run(args: InferArgs) -> Result<Exit, CliError> {
    let model = Model::of(&args)?;
    let InferRequest { headers, body } = request(&args, &model).await?;
    let url = format!("{}/infer", model.url);
    let headers = HeaderMap::from_iter(headers);
    let response = model.client.post(&url, headers, body).await;
    let response = response.map_err(say_what_to_do)?;
    if !response.status().is_success() {
        let reason = error_message(&response);
        return Err(CliError::Server { url, reason });
    }
    let format = match args.top {
        Some(_) => Format::Classes,
        None => Format::Elements,
    };
    print_result(result::text(&response, format).trim_end())?;
    Ok(Exit::Done)
}

/// Adds advice to a timeout, because a gateway holds requests while no replica is ready.
fn say_what_to_do(error: CliError) -> CliError {
    match error {
        CliError::NoAnswer { url, seconds } => CliError::Server {
            url,
            reason: format!(
                "no answer within {seconds} s. `weir status` says what the service waits for, and --timeout waits \
                 longer"
            ),
        },
        other => other,
    }
}

/// The model behind a service, and the client that reaches it.
struct Model {
    client: Client,
    /// URL of the model, without a slash at the end.
    url: String,
}

impl Model {
    /// Finds the model, which has the same name as the service.
    fn of(args: &InferArgs) -> Result<Self, CliError> {
        // Text that is not a service name could change the URL's path and address something else.
        let service = service_name::parse(&args.service)?;
        let (gateway, certificate) = gateway(args)?;
        let path = service.path_prefix();
        let url = format!("{gateway}{path}/v2/models/{}", service.name());
        let timeout = Duration::from_secs(args.timeout);
        let client = Client::new(&url, certificate.as_deref(), timeout)?;
        let client = match &args.api_key {
            Some(key) => client.with_key(key)?,
            None => client,
        };
        Ok(Self { client, url })
    }
}

/// Returns the gateway's URL and the file of certificates to trust, if any.
fn gateway(args: &InferArgs) -> Result<(String, Option<PathBuf>), CliError> {
    let cacert = args.cacert.clone();
    if let Some(url) = &args.url {
        check_scheme(url)?;
        return Ok((url.trim_end_matches('/').to_owned(), cacert));
    }
    let state_dir = state::directory(args.state_dir.as_deref())?;
    match (AdminFile::read(&state_dir), &args.state_dir) {
        (Ok(file), _) => Ok((file.serving_url(), cacert.or(file.certificate))),
        // A state directory set by a flag must belong to a running `weir up`.
        (Err(error), Some(_)) => Err(error),
        (Err(_), None) => Ok((DEFAULT_URL.to_owned(), cacert)),
    }
}

/// Refuses a URL without a scheme and suggests one with it.
fn check_scheme(url: &str) -> Result<(), CliError> {
    if url.starts_with("http://") || url.starts_with("https://") {
        return Ok(());
    }
    let address = url.split_once("://").map_or(url, |(_, rest)| rest);
    Err(CliError::Usage(format!("--url {url} needs the scheme http or https: write --url http://{address}")))
}

/// Builds the request. The model's metadata is read only if the flags do not describe the request fully.
async fn request(args: &InferArgs, model: &Model) -> Result<InferRequest, CliError> {
    if let Some(file) = &args.json {
        return request::json(file);
    }
    let inputs = request::arrays(&args.npy)?;
    if args.image.is_none() && args.top.is_none() {
        return Ok(request::tensors(inputs, &[]));
    }
    let signature = Signature::read(model).await?;
    let inputs = match &args.image {
        Some(file) => vec![image_tensor(file, &signature, args.range)?],
        None => inputs,
    };
    let outputs = args.top.map(|top| top_classes(&signature, top)).transpose()?;
    Ok(request::tensors(inputs, &outputs.unwrap_or_default()))
}

/// Converts the image file to a tensor for the model's only input; also returns the input's name.
fn image_tensor(file: &Path, signature: &Signature, range: Option<Range>) -> Result<(String, Array), CliError> {
    let invalid = |reason| request::invalid(file, reason);
    let input = ImageInput::of(signature).map_err(invalid)?;
    let image = picture::open(file).map_err(invalid)?;
    if let Some(resizing) = picture::resizing(&image, &input) {
        // Standard output is for the response only.
        print_note(&format!("{}: {resizing}", file.display()));
    }
    if let Some(assumption) = picture::assumed_range(&input).filter(|_| range.is_none()) {
        print_note(&format!("{}: {assumption}", file.display()));
    }
    let range = range.unwrap_or(picture::default_range(&input));
    let array = picture::tensor(&image, &input, range).map_err(invalid)?;
    Ok((input.name, array))
}

/// Requests the top `top` classes of every output that holds scores.
fn top_classes(signature: &Signature, top: NonZeroU32) -> Result<Vec<Value>, CliError> {
    let outputs = signature.scores();
    let outputs: Vec<_> =
        outputs.map(|output| json!({"name": output.name, "parameters": {"classification": top}})).collect();
    if outputs.is_empty() {
        return Err(CliError::Usage(
            "--top needs an output of scores: a floating-point type, more than one element in its last dimension"
                .to_owned(),
        ));
    }
    Ok(outputs)
}

/// Returns the status and the message of an error response: its V2 `error` field, else its body.
fn error_message(response: &Response<Bytes>) -> String {
    let value: Option<Value> = serde_json::from_slice(response.body()).ok();
    let sentence = value.as_ref().and_then(|value| value.get("error")?.as_str());
    let text = sentence.map_or_else(|| String::from_utf8_lossy(response.body()).trim().to_owned(), str::to_owned);
    format!("{}: {text}", response.status())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Args, Command};

    fn model(service: &str) -> Result<Model, CliError> {
        let words = ["weir", "infer", service, "--json", "a.json", "--url", "http://gateway/"];
        let Command::Infer(args) = Args::try_parse_from(words).unwrap().command else {
            panic!("another command");
        };
        Model::of(&args)
    }

    #[test]
    fn a_service_is_reached_by_its_path() {
        let url = |service: &str| model(service).map(|model| model.url).ok();
        assert_eq!(url("digits").as_deref(), Some("http://gateway/serving/default/digits/v2/models/digits"));
        assert_eq!(url("team/digits").as_deref(), Some("http://gateway/serving/team/digits/v2/models/digits"));
    }

    #[test]
    fn an_invalid_service_name_is_refused_before_anything_is_sent() {
        for wrong in ["", "team/", "a/b/c", "../digits", "digits?x", "two words"] {
            let error = model(wrong).err().unwrap().to_string();
            let expected = "is not a service name; write NAME or NAMESPACE/NAME";
            assert!(error.contains(expected), "{error}");
        }
    }
}
