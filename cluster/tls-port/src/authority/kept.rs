//! The Secret in which the authority is kept.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};

use super::Authority;

/// The Secret's entry with the authority.
const ENTRY: &str = "authority.json";

/// Attempts to store a new authority. Each one fails only if another controller has changed the Secret at the same time.
const ATTEMPTS: usize = 5;

/// Returns the authority in the Secret with this namespace and name, and makes it if the Secret is empty. If several
/// controllers make one, the first that stores it wins. A Secret whose entry cannot be read is never overwritten, because
/// replicas trust what it may have held.
///
/// # Errors
/// [`kube::Error`] if the Secret cannot be read or written, does not exist, or has an entry that is no authority.
pub async fn kept_authority(
    client: &Client,
    (namespace, name): (&str, &str),
    manager: &str,
    now: u64,
) -> Result<Authority, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for _ in 1..ATTEMPTS {
        match read_or_make(&secrets, name, manager, now).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => return result,
        }
    }
    read_or_make(&secrets, name, manager, now).await
}

async fn read_or_make(secrets: &Api<Secret>, name: &str, manager: &str, now: u64) -> Result<Authority, kube::Error> {
    let mut secret = secrets.get(name).await?;
    let entries = secret.data.get_or_insert_default();
    if let Some(entry) = entries.get(ENTRY) {
        return serde_json::from_slice(&entry.0).map_err(kube::Error::SerdeError);
    }
    let made = Authority::make(now).map_err(|error| kube::Error::Service(Box::new(error)))?;
    let entry = serde_json::to_vec(&made).map_err(kube::Error::SerdeError)?;
    entries.insert(ENTRY.to_owned(), ByteString(entry));
    let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
    secrets.replace(name, &params, &secret).await?;
    tracing::info!(secret = name, "the authority of replicas was made");
    Ok(made)
}
