//! One file from a server, in as many attempts as it needs.

mod part;
mod response;

use std::path::Path;
use std::time::Duration;

use reqwest::{Client, Response, header};
use tokio::io::AsyncWriteExt;

use self::part::Part;
use self::response::{Head, Verdict, judge};
use crate::source::Source;
use crate::{FetchError, Limits};

/// Time to connect, TLS included.
const CONNECT: Duration = Duration::from_secs(10);

/// The wait before the second attempt; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(500);

/// A download to a file.
pub(crate) struct Download<'a> {
    source: &'a Source,
    part: Part,
    limits: &'a Limits,
    client: Client,
}

/// Why an attempt ended before its end.
enum Interrupted {
    /// Trying again may help.
    Retry(String),
    /// It will not.
    Fatal(FetchError),
}

impl<'a> Download<'a> {
    /// A download that goes on with what lies at `path`.
    pub(crate) fn new(
        source: &'a Source,
        path: &Path,
        limits: &'a Limits,
    ) -> Result<Self, FetchError> {
        // Another part of the process may have chosen one; any will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Proxies are taken from the environment, as every client of the kind does.
        let client = Client::builder()
            .connect_timeout(CONNECT)
            .read_timeout(limits.stall)
            .build();
        Ok(Self {
            client: client.map_err(|error| gave_up(source, &error.to_string()))?,
            part: Part::at(path),
            source,
            limits,
        })
    }

    /// Downloads to the end. Attempts that brought something do not count.
    pub(crate) async fn run(&mut self) -> Result<(), FetchError> {
        let mut failures = 0;
        loop {
            let before = self.part.length().await;
            let because = match self.attempt().await {
                Ok(()) => return Ok(()),
                Err(Interrupted::Fatal(error)) => return Err(error),
                Err(Interrupted::Retry(because)) => because,
            };
            failures = match self.part.length().await > before {
                true => 0,
                false => failures + 1,
            };
            if failures >= self.limits.attempts {
                return Err(gave_up(self.source, &because));
            }
            tracing::warn!(uri = self.source.shown(), because, "download interrupted");
            tokio::time::sleep(FIRST_WAIT * (1 << failures.min(6))).await;
        }
    }

    async fn attempt(&mut self) -> Result<(), Interrupted> {
        let length = self.part.length().await;
        let response = self.request(length).await?;
        let head = Head::of(&response);
        match judge(&head, length) {
            Verdict::Append => self.receive(response, &head, length).await,
            Verdict::Restart => {
                let begun = self.part.restart(head.validator.as_deref()).await;
                begun.map_err(Interrupted::Fatal)?;
                self.receive(response, &head, 0).await
            }
            Verdict::Discard => {
                self.part.restart(None).await.map_err(Interrupted::Fatal)?;
                let because = "what was downloaded does not fit any more";
                Err(Interrupted::Retry(because.to_owned()))
            }
            Verdict::Retry => Err(Interrupted::Retry(format!("status {}", head.status))),
            Verdict::Refused => Err(Interrupted::Fatal(FetchError::Refused {
                uri: self.source.shown(),
                status: head.status,
            })),
        }
    }

    /// Asks for what is missing, if the server can tell that the rest belongs to what is there.
    async fn request(&self, length: u64) -> Result<Response, Interrupted> {
        let mut request = self.client.get(self.source.url.clone());
        // Bytes as they are: a server that packs them on the way would break sizes and resuming.
        request = request.header(header::ACCEPT_ENCODING, "identity");
        let validator = self.part.validator().await.filter(|_| length > 0);
        if let Some(validator) = validator {
            request = request.header(header::RANGE, format!("bytes={length}-"));
            request = request.header(header::IF_RANGE, validator);
        }
        request.send().await.map_err(|error| retry(&error))
    }

    async fn receive(
        &self,
        mut response: Response,
        head: &Head,
        mut length: u64,
    ) -> Result<(), Interrupted> {
        self.check_size(head.total.unwrap_or(0))?;
        let mut file = self.part.append().await.map_err(Interrupted::Fatal)?;
        let failed = |error| Interrupted::Fatal(FetchError::file(self.part.path())(error));
        loop {
            let chunk = response.chunk().await;
            let Ok(Some(bytes)) = &chunk else {
                // What came before an interruption is kept.
                file.flush().await.map_err(failed)?;
                chunk.map_err(|error| retry(&error))?;
                break;
            };
            length += bytes.len() as u64;
            self.check_size(length)?;
            file.write_all(bytes).await.map_err(failed)?;
        }
        match head.total.is_none_or(|total| total == length) {
            true => Ok(()),
            false => Err(Interrupted::Retry(
                "the connection was closed early".to_owned(),
            )),
        }
    }

    fn check_size(&self, size: u64) -> Result<(), Interrupted> {
        if size <= self.limits.download {
            return Ok(());
        }
        Err(Interrupted::Fatal(FetchError::TooLarge {
            what: self.source.shown(),
            limit: self.limits.download,
        }))
    }
}

/// The whole chain of causes, without the address: that may hold a secret.
fn retry(error: &reqwest::Error) -> Interrupted {
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}{}{inner}", if text.is_empty() { "" } else { ": " });
        cause = inner.source();
    }
    match text.is_empty() && error.is_timeout() {
        true => Interrupted::Retry("the server sent nothing for too long".to_owned()),
        false => Interrupted::Retry(text),
    }
}

fn gave_up(source: &Source, because: &str) -> FetchError {
    FetchError::GaveUp {
        uri: source.shown(),
        because: because.to_owned(),
    }
}
