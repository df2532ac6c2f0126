//! Retries of failed watches: the pauses between attempts, and what is logged.

use std::time::Duration;

use futures_util::future;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};

/// First and longest pause. A recovered API server is noticed within seconds, and one that denies a right for days gets
/// six requests a minute.
const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(10);

/// Seconds after which the API server ends a watch, and the client starts the next from where it ended. A watch that
/// stays silent for five seconds more is given up: a peer that vanished, as with a node of the control plane, never
/// closes its connection.
pub const WATCH_SECONDS: u32 = 60;

/// Growing pauses that become short again only after an attempt that made progress. kube resets a backoff at each
/// event, and every attempt begins with an event before the API server has answered, so kube's rule would never let
/// pauses grow.
pub struct WatchPauses {
    next: Duration,
    /// Events since the last pause.
    events: u32,
}

impl Default for WatchPauses {
    fn default() -> Self {
        Self { next: FIRST, events: 0 }
    }
}

impl Iterator for WatchPauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if std::mem::take(&mut self.events) > 1 {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (2 * pause).min(LONGEST);
        Some(pause)
    }
}

impl Backoff for WatchPauses {
    fn reset(&mut self) {
        self.events = self.events.saturating_add(1);
    }
}

/// Returns the events of a watch of these objects, which is retried with growing pauses. An error that repeats is
/// logged once.
pub fn retried<K: Send + 'static>(
    watch: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    objects: String,
) -> BoxStream<'static, Event<K>> {
    let mut last_error = None;
    let good = watch
        .backoff(WatchPauses::default())
        .filter_map(move |event| future::ready(seen(event, &objects, &mut last_error)));
    good.boxed()
}

fn seen<K>(event: watcher::Result<Event<K>>, objects: &str, last_error: &mut Option<String>) -> Option<Event<K>> {
    match event {
        Ok(event) => {
            if !matches!(event, Event::Init) {
                *last_error = None;
            }
            Some(event)
        }
        Err(error) => {
            if is_new_error(&error, last_error) {
                let advice = advice(&error);
                tracing::warn!(%objects, %error, advice, "a watch of the API server failed; retrying");
            }
            None
        }
    }
}

/// Returns true if the error differs from the last one that was logged, and remembers it.
fn is_new_error(error: &watcher::Error, last_error: &mut Option<String>) -> bool {
    let last = last_error.replace(error.to_string());
    last != *last_error
}

fn advice(error: &watcher::Error) -> &'static str {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    let code = |status: &Status| status.code;
    let code = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status))
        | WatchError(status) => code(status),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => 0,
    };
    match code {
        403 => "give Weir's ServiceAccount this right, as its chart does",
        404 => "apply the CustomResourceDefinitions of Weir's chart",
        _ => "see whether the API server answers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeated_error_is_logged_once() {
        let forbidden = || {
            let status = Status::failure("no right to list pods", "Forbidden").with_code(403);
            watcher::Error::WatchError(status.boxed())
        };
        let mut last_error = None;
        assert!(is_new_error(&forbidden(), &mut last_error));
        assert!(!is_new_error(&forbidden(), &mut last_error));
        assert!(is_new_error(&watcher::Error::NoResourceVersion, &mut last_error));
        // A restarted watch has received nothing yet, so the same error is not logged again.
        seen::<()>(Ok(Event::Init), "pods", &mut last_error);
        assert!(!is_new_error(&watcher::Error::NoResourceVersion, &mut last_error));
        seen(Ok(Event::Apply(())), "pods", &mut last_error);
        assert!(is_new_error(&watcher::Error::NoResourceVersion, &mut last_error));
    }

    #[test]
    fn pauses_grow_until_an_attempt_makes_progress() {
        let mut pauses = WatchPauses::default();
        let mut tried = || {
            pauses.reset();
            pauses.next().unwrap()
        };
        let seconds: Vec<f64> = (0..6).map(|_| tried().as_secs_f64()).collect();
        assert_eq!(seconds, [0.8, 1.6, 3.2, 6.4, 10.0, 10.0]);
        pauses.reset();
        pauses.reset();
        assert_eq!(pauses.next(), Some(FIRST));
    }
}
