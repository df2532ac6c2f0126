//! Watches that fail: the pauses between their tries, and what the log says of them.

use std::time::Duration;

use futures_util::future;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use kube::core::Status;
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff, Event};

/// Kube's pauses, which become short again only after a try that got somewhere. Each try begins with an event of its own,
/// before the API server has said anything; by kube's rule every try would be the first.
#[derive(Default)]
pub(crate) struct Patience {
    pauses: DefaultBackoff,
    /// Events since the last pause.
    events: u32,
}

impl Iterator for Patience {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if std::mem::take(&mut self.events) > 1 {
            self.pauses.reset();
        }
        self.pauses.next()
    }
}

impl Backoff for Patience {
    fn reset(&mut self) {
        self.events = self.events.saturating_add(1);
    }
}

/// The events of a watch of these objects, tried again with growing pauses. The log has each error once, however often it
/// comes in a row.
pub fn patient<K: Send + 'static>(
    watch: impl Stream<Item = watcher::Result<Event<K>>> + Send + 'static,
    objects: String,
) -> BoxStream<'static, Event<K>> {
    let mut told = None;
    let good = watch
        .backoff(Patience::default())
        .filter_map(move |event| future::ready(seen(event, &objects, &mut told)));
    good.boxed()
}

fn seen<K>(
    event: watcher::Result<Event<K>>,
    objects: &str,
    told: &mut Option<String>,
) -> Option<Event<K>> {
    match event {
        Ok(event) => {
            if !matches!(event, Event::Init) {
                *told = None;
            }
            Some(event)
        }
        Err(error) => {
            let text = error.to_string();
            if told.as_ref() != Some(&text) {
                let advice = advice(&error);
                tracing::warn!(%objects, error = text, advice, "a watch of the API server failed: it is tried again");
                *told = Some(text);
            }
            None
        }
    }
}

fn advice(error: &watcher::Error) -> &'static str {
    use watcher::Error::{
        InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed,
    };
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
    fn pauses_grow_until_a_try_gets_somewhere() {
        let mut patience = Patience::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            patience.reset();
            pauses.push(patience.next().unwrap());
        }
        assert!(pauses[7] > Duration::from_secs(10), "{pauses:?}");
        patience.reset();
        patience.reset();
        assert!(patience.next().unwrap() < Duration::from_secs(3));
    }
}
