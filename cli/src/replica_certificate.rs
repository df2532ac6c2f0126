//! Certificate of a gateway for its connections to replicas, from a Secret.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_cluster_kubernetes::{Client, DataKind, DataObject, watch_entries};
use weir_gateway::{CertificateFiles, ReplicaTls};

use crate::certificate_secret::{self, Content};

/// A gateway's certificate for replicas, and the TLS that follows it.
#[derive(Debug)]
pub(crate) struct ReplicaCertificate {
    pub(crate) tls: Arc<ReplicaTls>,
    object: DataObject,
    /// True once the Secret was read.
    is_read: Arc<AtomicBool>,
}

impl ReplicaCertificate {
    /// Returns the certificate in this Secret of Weir's namespace, which is not read yet.
    pub(crate) fn of_secret(name: &str, namespace: &str) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let object = DataObject { kind: DataKind::Secret, namespace, name };
        Self { tls: Arc::default(), object, is_read: Arc::default() }
    }

    /// Returns a flag that becomes true once the Secret was read, or it is known that it has no certificate yet.
    pub(crate) fn completeness(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_read)
    }

    /// Uses the certificate whenever it changes. Never returns.
    pub(crate) async fn follow(self, client: Client) {
        let entries = watch_entries(&client, &self.object, || ());
        let replace = |content| log(replace(&self.tls, content));
        certificate_secret::follow(entries, &self.object.to_string(), &self.is_read, replace).await;
    }
}

fn replace(tls: &ReplicaTls, content: Content) -> Result<(), String> {
    let [certificate, key, authorities] = &content?;
    tls.replace(CertificateFiles { certificate, key, authorities }).map_err(|error| error.to_string())
}

fn log(replaced: Result<(), String>) {
    match replaced {
        Ok(()) => tracing::info!("the new certificate for replicas is in use"),
        Err(reason) => tracing::error!("the last valid certificate for replicas stays in use: {reason}"),
    }
}
