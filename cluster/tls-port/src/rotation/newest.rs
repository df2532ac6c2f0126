//! Watches of single objects, and results of writes.

use std::fmt::Debug;

use futures_util::stream::{BoxStream, StreamExt};
use kube::Resource;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use serde::de::DeserializeOwned;

/// Stream of the newest state of something.
pub(super) type Newest<T> = BoxStream<'static, T>;

/// Streams the newest state of one object; `None` if it does not exist. While the API server does not respond, the last
/// state stays valid.
pub(super) fn newest<K>(api: Api<K>, name: &str) -> Newest<Option<K>>
where
    K: Resource<DynamicType = ()>,
    K: Clone + Debug + DeserializeOwned + Send + 'static,
{
    let name = name.to_owned();
    let events = watch_object(api, &name).default_backoff();
    let good = events.filter_map(move |event| {
        let kind = K::kind(&());
        let object = event.inspect_err(|error| {
            tracing::warn!(%kind, %name, %error, "a watch of the API server failed; retrying");
        });
        std::future::ready(object.ok())
    });
    good.boxed()
}

/// Returns the written object; `None` if the object changed since it was read, or is gone.
pub(super) fn unless_conflict<K>(written: Result<K, kube::Error>) -> Result<Option<K>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}
