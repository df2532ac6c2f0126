//! The Secret in which the authorities are kept.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::{Api, PostParams};

use super::{Authorities, Authority};

/// The Secret's entry with the authority that signs.
const CURRENT: &str = "authority.json";

/// The entry of the next authority, which is made if an administrator has added it without content.
const NEXT: &str = "next-authority.json";

/// The entry of the former authority.
const FORMER: &str = "former-authority.json";

/// Attempts to store a new authority. Each one fails only if another controller has changed the Secret at the same
/// time.
const ATTEMPTS: usize = 5;

/// Returns the authorities in the Secret with this namespace and name, and makes the one that is missing. If several
/// controllers make one, the first that stores it wins. A Secret with an entry that cannot be read is never
/// overwritten, because replicas may trust the authority in it.
///
/// # Errors
/// [`kube::Error`] if the Secret cannot be read or written, does not exist, or has an entry that is no authority.
pub async fn kept_authorities(
    client: &Client,
    (namespace, name): (&str, &str),
    manager: &str,
    now: u64,
) -> Result<Authorities, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    for _ in 1..ATTEMPTS {
        match read_or_make(&secrets, name, manager, now).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            result => return result,
        }
    }
    read_or_make(&secrets, name, manager, now).await
}

async fn read_or_make(secrets: &Api<Secret>, name: &str, manager: &str, now: u64) -> Result<Authorities, kube::Error> {
    let mut secret = secrets.get(name).await?;
    let entries = secret.data.get_or_insert_default();
    let missing = missing(entries);
    for entry in &missing {
        entries.insert((*entry).to_owned(), made(now)?);
    }
    let authorities = read(entries).map_err(kube::Error::SerdeError)?;
    if !missing.is_empty() {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        secrets.replace(name, &params, &secret).await?;
        tracing::info!(secret = name, entries = ?missing, "an authority of replicas was made");
    }
    Ok(authorities)
}

/// Returns the entries whose authorities have to be made.
fn missing(entries: &BTreeMap<String, ByteString>) -> Vec<&'static str> {
    let current = (!entries.contains_key(CURRENT)).then_some(CURRENT);
    let next = entries.get(NEXT).filter(|entry| entry.0.is_empty()).map(|_| NEXT);
    current.into_iter().chain(next).collect()
}

fn made(now: u64) -> Result<ByteString, kube::Error> {
    let made = Authority::make(now).map_err(|error| kube::Error::Service(Box::new(error)))?;
    serde_json::to_vec(&made).map(ByteString).map_err(kube::Error::SerdeError)
}

fn read(entries: &BTreeMap<String, ByteString>) -> Result<Authorities, serde_json::Error> {
    let entry = |name| entries.get(name).map(|entry| serde_json::from_slice(&entry.0)).transpose();
    let current = entries.get(CURRENT).map_or(&[][..], |entry| &entry.0);
    Ok(Authorities { current: serde_json::from_slice(current)?, next: entry(NEXT)?, former: entry(FORMER)? })
}
