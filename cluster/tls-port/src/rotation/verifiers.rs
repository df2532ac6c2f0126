//! Processes that verify a Secret's certificates, and how they learn of the authorities.

use std::collections::BTreeMap;

use futures_util::stream::{SelectAll, StreamExt, select_all};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};

use super::newest::{Newest, newest, unless_conflict};
use super::options::CertificateOptions;
use crate::trust::{PortReference, patch};

/// Processes that verify the certificates of a Secret.
pub trait Verifiers: Send {
    /// Waits until the known state of the verifiers changes; waits forever if it cannot change.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Returns true if all verifiers can read these authorities, in PEM.
    fn can_read(&self, authorities: &str) -> bool;

    /// Writes these authorities to the objects in which the verifiers read them.
    ///
    /// # Errors
    /// [`kube::Error`] of a failed write.
    fn publish(&mut self, authorities: &str) -> impl Future<Output = Result<(), kube::Error>> + Send;
}

/// API servers, which read the authorities of a port in the objects by which they find it.
pub struct ApiServers<K> {
    references: Api<K>,
    manager: &'static str,
    events: SelectAll<Newest<(String, Option<K>)>>,
    /// The objects that exist, by their names.
    found: BTreeMap<String, K>,
}

/// Processes that read certificates and authorities in the Secret itself.
#[derive(Clone, Copy, Debug)]
pub struct SecretReaders;

impl<K: PortReference> ApiServers<K> {
    pub(super) fn new(client: Client, options: &CertificateOptions) -> Self {
        let references = Api::all(client);
        let named = options.called_by.iter().map(|name| {
            let own = name.clone();
            newest(references.clone(), name).map(move |found| (own.clone(), found)).boxed()
        });
        let events = select_all(named.collect::<Vec<_>>());
        Self { references, manager: options.manager, events, found: BTreeMap::new() }
    }
}

impl<K: PortReference> Verifiers for ApiServers<K> {
    async fn changed(&mut self) {
        match self.events.next().await {
            Some((name, Some(found))) => drop(self.found.insert(name, found)),
            Some((name, None)) => drop(self.found.remove(&name)),
            None => std::future::pending().await,
        }
    }

    fn can_read(&self, authorities: &str) -> bool {
        let mut found = self.found.values();
        !self.found.is_empty() && found.all(|object| patch(object, authorities).is_none())
    }

    async fn publish(&mut self, authorities: &str) -> Result<(), kube::Error> {
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        for (name, object) in &mut self.found {
            let Some(change) = patch(object, authorities) else {
                continue;
            };
            let patched = self.references.patch(name, &params, &Patch::Strategic(change)).await;
            if let Some(patched) = unless_conflict(patched)? {
                *object = patched;
            }
        }
        Ok(())
    }
}

impl Verifiers for SecretReaders {
    async fn changed(&mut self) {
        std::future::pending::<()>().await;
    }

    fn can_read(&self, _: &str) -> bool {
        true
    }

    async fn publish(&mut self, _: &str) -> Result<(), kube::Error> {
        Ok(())
    }
}
