//! Downloads one file, and resumes after interruptions.

mod part;
mod redirect;
mod response;

use std::path::Path;
use std::time::Duration;

use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url, header};
use tokio::io::AsyncWriteExt;

use self::part::Part;
use self::response::{Head, Verdict, judge};
use crate::attempt::Attempt;
use crate::error::FetchError;
use crate::limits::Limits;
use crate::source::Source;

/// Maximum time to connect, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay after an attempt that made progress. It doubles with each consecutive attempt without progress.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);

/// Download of a URI to a file on disk.
pub(crate) struct Download<'a> {
    source: &'a Source,
    part: Part,
    limits: &'a Limits,
    client: Client,
}

/// Error that interrupted an attempt.
enum Interrupted {
    /// Error that another attempt may avoid.
    Retry(String),
    /// Error that every attempt would meet.
    Fatal(FetchError),
}

impl<'a> Download<'a> {
    /// Returns a download that resumes the partial file at `path`.
    pub(crate) fn new(source: &'a Source, path: &Path, limits: &'a Limits) -> Result<Self, FetchError> {
        // Fails if the process already has a crypto provider; any provider works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // reqwest takes the proxies from the environment.
        let client = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(limits.stall)
            .redirect(Policy::none())
            .build();
        Ok(Self {
            client: client.map_err(|error| gave_up(source, &error.to_string()))?,
            part: Part::at(path),
            source,
            limits,
        })
    }

    /// Downloads the whole file, and calls `observe` for each attempt. Only consecutive attempts without progress count
    /// towards [`Limits::attempts`].
    pub(crate) async fn run(&mut self, observe: &mut (dyn FnMut(Attempt) + Send)) -> Result<(), FetchError> {
        let mut failures = 0;
        loop {
            let before = self.part.length().await;
            let reason = match self.attempt(observe).await {
                Ok(()) => return Ok(()),
                Err(Interrupted::Fatal(error)) => return Err(error),
                Err(Interrupted::Retry(reason)) => reason,
            };
            let has_progress = self.part.length().await > before;
            failures = if has_progress { 0 } else { failures + 1 };
            if failures >= self.limits.attempts {
                return Err(gave_up(self.source, &reason));
            }
            tracing::warn!(uri = self.source.shown(), reason, "download interrupted; resuming");
            observe(Attempt::Failed(gave_up(self.source, &reason).to_string()));
            tokio::time::sleep(FIRST_BACKOFF * (1 << failures.min(6))).await;
        }
    }

    async fn attempt(&mut self, observe: &mut (dyn FnMut(Attempt) + Send)) -> Result<(), Interrupted> {
        let length = self.part.length().await;
        let response = self.request(length).await?;
        let head = Head::of(&response);
        match judge(&head, length) {
            Verdict::Append => {
                observe(Attempt::Began);
                self.write_body(response, &head, length).await
            }
            Verdict::Restart => {
                observe(Attempt::Began);
                let begun = self.part.restart(head.validator.as_deref()).await;
                begun.map_err(Interrupted::Fatal)?;
                self.write_body(response, &head, 0).await
            }
            Verdict::Discard => {
                self.part.restart(None).await.map_err(Interrupted::Fatal)?;
                let reason = "the file changed on the server during the download";
                Err(Interrupted::Retry(reason.to_owned()))
            }
            Verdict::Retry => Err(Interrupted::Retry(format!("status {}", head.status))),
            Verdict::Refused => {
                Err(Interrupted::Fatal(FetchError::Refused { uri: self.source.shown(), status: head.status }))
            }
        }
    }

    /// Requests the rest of the file if a validator can prove that it belongs to the partial file, otherwise the whole
    /// file.
    async fn request(&self, length: u64) -> Result<Response, Interrupted> {
        let mut url = self.source.url.clone();
        for _ in 0..=redirect::MAX_REDIRECTS {
            let response = self.request_from(&url, length).await?;
            match self.redirect(&url, &response).await? {
                Some(next) => url = next,
                None => return Ok(response),
            }
        }
        Err(self.refused_redirect(&url, "which exceeds the limit of 10 redirects"))
    }

    /// Returns the URL that a response redirects to; `None` if it is not a redirect.
    async fn redirect(&self, from: &Url, response: &Response) -> Result<Option<Url>, Interrupted> {
        let location = response.headers().get(header::LOCATION);
        let Some(location) = location.filter(|_| response.status().is_redirection()) else {
            return Ok(None);
        };
        let location = location.to_str().unwrap_or_default();
        let Ok(to) = from.join(location) else {
            return Err(self.refused_redirect(from, "which sent an invalid Location header"));
        };
        if let Some(reason) = redirect::refusal(from, &to) {
            return Err(self.refused_redirect(&to, reason));
        }
        // A redirect to the host of the original URI is allowed even if that is this machine.
        if to.host_str() != self.source.url.host_str()
            && let Some(reason) = inner_host(&to).await
        {
            return Err(self.refused_redirect(&to, reason));
        }
        Ok(Some(to))
    }

    fn refused_redirect(&self, to: &Url, reason: &'static str) -> Interrupted {
        Interrupted::Fatal(FetchError::Redirect { uri: self.source.shown(), to: redirect::shown(to), reason })
    }

    async fn request_from(&self, url: &Url, length: u64) -> Result<Response, Interrupted> {
        let mut request = self.client.get(url.clone());
        // A content encoding would change the sizes and make resuming impossible.
        request = request.header(header::ACCEPT_ENCODING, "identity");
        let validator = self.part.validator().await.filter(|_| length > 0);
        if let Some(validator) = validator {
            request = request.header(header::RANGE, format!("bytes={length}-"));
            request = request.header(header::IF_RANGE, validator);
        }
        let sent = request.send().await;
        sent.map_err(|error| Interrupted::Retry(self.unreachable(&error)))
    }

    /// Describes why a request got no response: the host, and the cause in the operating system's words.
    fn unreachable(&self, error: &reqwest::Error) -> String {
        let host = self.source.url.host_str().unwrap_or_default();
        let text = causes(error);
        if error.is_timeout() {
            return format!("the host {host} did not answer in time");
        }
        if error.is_connect() {
            let cause = text.rsplit(": ").next().unwrap_or(&text);
            return format!("the host {host} cannot be reached ({cause})");
        }
        text
    }

    async fn write_body(&self, mut response: Response, head: &Head, mut length: u64) -> Result<(), Interrupted> {
        self.check_size(head.total.unwrap_or(0))?;
        let mut file = self.part.append().await.map_err(Interrupted::Fatal)?;
        let failed = |error| Interrupted::Fatal(FetchError::file(self.part.path())(error));
        loop {
            let chunk = response.chunk().await;
            let Ok(Some(bytes)) = &chunk else {
                // Bytes received before an interruption are kept.
                file.flush().await.map_err(failed)?;
                chunk.map_err(|error| retry(&error))?;
                break;
            };
            length += bytes.len() as u64;
            self.check_size(length)?;
            file.write_all(bytes).await.map_err(failed)?;
        }
        if head.total.is_none_or(|total| total == length) {
            return Ok(());
        }
        let reason = "the connection was closed early";
        Err(Interrupted::Retry(reason.to_owned()))
    }

    fn check_size(&self, size: u64) -> Result<(), Interrupted> {
        if size <= self.limits.download {
            return Ok(());
        }
        Err(Interrupted::Fatal(FetchError::TooLarge { what: self.source.shown(), limit: self.limits.download }))
    }
}

/// Resolves the host of a redirect, and returns why the redirect is refused; `None` if it may be followed. A host
/// without an address cannot be reached and needs no refusal.
async fn inner_host(url: &Url) -> Option<&'static str> {
    let (host, port) = (url.host_str()?, url.port_or_known_default()?);
    let host = host.trim_matches(['[', ']']);
    let mut addresses = tokio::net::lookup_host((host, port)).await.ok()?;
    addresses.find_map(|address| redirect::address_refusal(address.ip()))
}

fn retry(error: &reqwest::Error) -> Interrupted {
    Interrupted::Retry(causes(error))
}

/// Formats the chain of causes without the outermost error, whose URI may contain a secret.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}{}{inner}", if text.is_empty() { "" } else { ": " });
        cause = inner.source();
    }
    if text.is_empty() && error.is_timeout() {
        "timed out waiting for data from the server".clone_into(&mut text);
    }
    text
}

fn gave_up(source: &Source, reason: &str) -> FetchError {
    FetchError::GaveUp { uri: source.shown(), reason: reason.to_owned() }
}
