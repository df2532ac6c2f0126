//! Downloads all objects of a store into a directory: 16 ranges at once, resumed at the byte after an interruption, in
//! this process or a later one.

mod disk;
mod journal;
mod observer;
mod plan;
mod read;
mod request_size;
mod round;

use std::path::Path;
use std::time::Duration;

pub(crate) use self::disk::{FILES, blocking};
pub(crate) use self::journal::first_missing;
use self::observer::Observer;
use self::round::{Interrupted, Round};
use crate::error::FetchError;
use crate::limits::Limits;
use crate::progress::attempt::Attempt;
use crate::store::{Object, Store, StoreError};

/// Bytes of one read: large enough that the start of a request costs little, small enough that sixteen of them share
/// one file.
pub(crate) const PIECE: u64 = 8 << 20;

/// Delay after an attempt that made progress. It doubles with each consecutive attempt without progress.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);

/// Maximum delay that a server may ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);

/// A download of one source.
pub(crate) struct Transfer<'a, S> {
    pub(crate) store: &'a S,
    /// Directory of the journal and of the files, which are in [`FILES`] below it.
    pub(crate) folder: &'a Path,
    pub(crate) limits: &'a Limits,
    /// The URI without secrets, for messages.
    pub(crate) uri: &'a str,
}

/// The objects of a source before the download.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The list, which a download can begin with.
    Listed(Vec<Object>),
    /// The objects as far as the server describes them without sending their bytes.
    Head(Vec<Object>),
}

impl Identity {
    /// Returns the objects with their versions.
    pub(crate) fn objects(&self) -> &[Object] {
        match self {
            Self::Listed(objects) | Self::Head(objects) => objects,
        }
    }

    /// Returns the list that a download can begin with; `None` if it must list the objects.
    pub(crate) fn into_list(self) -> Option<Vec<Object>> {
        match self {
            Self::Listed(objects) => Some(objects),
            Self::Head(_) => None,
        }
    }
}

impl<S: Store> Transfer<'_, S> {
    /// Returns the objects and their versions, with the credentials of the fetch.
    ///
    /// # Errors
    /// Fails if the source cannot be listed.
    pub(crate) async fn identify(&self, observe: &mut (dyn FnMut(Attempt) + Send)) -> Result<Identity, FetchError> {
        match self.store.head().await {
            Some(objects) => Ok(Identity::Head(objects)),
            None => self.list(&mut Observer::new(observe)).await.map(Identity::Listed),
        }
    }

    /// Downloads all objects, and returns them; the first list is `listed`, if there is one. Both consecutive attempts
    /// without progress and changes of the source during the download are limited to [`Limits::attempts`].
    pub(crate) async fn run(
        &self,
        mut listed: Option<Vec<Object>>,
        observe: &mut (dyn FnMut(Attempt) + Send),
    ) -> Result<Vec<Object>, FetchError> {
        let mut observer = Observer::new(observe);
        let mut changes = 0;
        loop {
            let objects = match listed.take() {
                Some(objects) => objects,
                None => self.list(&mut observer).await?,
            };
            check(&objects, self.limits, self.uri)?;
            let downloaded = Round::begin(self, &objects).await?.run(&mut observer).await;
            match downloaded {
                Ok(()) => return Ok(objects),
                Err(Interrupted::Fatal(error)) => return Err(error),
                Err(Interrupted::Changed(reason)) => {
                    changes += 1;
                    if changes >= self.limits.attempts {
                        return Err(self.gave_up(&reason));
                    }
                    observer.failed(&self.gave_up(&reason));
                }
            }
        }
    }

    async fn list(&self, observer: &mut Observer<'_>) -> Result<Vec<Object>, FetchError> {
        let mut failures = 0;
        loop {
            let (reason, after) = match self.store.list(self.limits).await {
                Ok(objects) => return Ok(objects),
                Err(StoreError::Fatal(error)) => return Err(error),
                Err(StoreError::Changed) => (CHANGED.to_owned(), None),
                Err(StoreError::Retry { reason, after }) => (reason, after),
            };
            failures += 1;
            if failures >= self.limits.attempts {
                return Err(self.gave_up(&reason));
            }
            observer.failed(&self.gave_up(&reason));
            tokio::time::sleep(delay(failures, after)).await;
        }
    }

    fn gave_up(&self, reason: &str) -> FetchError {
        FetchError::GaveUp { uri: self.uri.to_owned(), reason: reason.to_owned() }
    }
}

/// Clause about an object with a new version.
const CHANGED: &str = "the file changed on the server during the download";

/// Returns the delay before the next attempt after a number of consecutive failures: the time that the server asks for,
/// but at least the backoff.
fn delay(failures: u32, after: Option<Duration>) -> Duration {
    let backoff = FIRST_BACKOFF * (1 << failures.min(6));
    after.map_or(backoff, |after| after.min(MAX_RETRY_AFTER).max(backoff))
}

/// Checks that the objects are within the limits, and that one directory can hold them all.
pub(crate) fn check(objects: &[Object], limits: &Limits, uri: &str) -> Result<(), FetchError> {
    if objects.len() as u64 > limits.entries {
        return Err(FetchError::TooLarge { what: format!("the number of files of {uri}"), limit: limits.entries });
    }
    let size = objects.iter().filter_map(|object| object.size).fold(0, u64::saturating_add);
    if size > limits.download {
        return Err(FetchError::TooLarge { what: uri.to_owned(), limit: limits.download });
    }
    match plan::conflict(objects) {
        Some(path) => Err(FetchError::Unavailable {
            uri: uri.to_owned(),
            reason: format!("{path:?} is both a file and a directory, or is there twice; rename one of them"),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_sets_the_delay_within_limits() {
        let seconds = Duration::from_secs;
        assert_eq!(delay(0, None), Duration::from_millis(500));
        assert_eq!(delay(1, None), seconds(1));
        assert_eq!(delay(100, None), seconds(32));
        assert_eq!(delay(1, Some(seconds(7))), seconds(7));
        assert_eq!(delay(1, Some(Duration::ZERO)), seconds(1));
        assert_eq!(delay(1, Some(seconds(100_000))), seconds(300));
    }
}
