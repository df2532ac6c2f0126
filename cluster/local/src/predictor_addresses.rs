//! Addresses of this machine at which transformers and explainers reach their predictors.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::{ComponentKind, ServiceName};

/// Maximum time that a process waits for the address before its start fails. The port is bound when the service is
/// declared, so it is there within milliseconds.
const WAIT: Duration = Duration::from_secs(5);

/// Addresses of the predictors by the name of the service. Clones share them.
#[derive(Clone, Debug)]
pub struct PredictorAddresses(Arc<watch::Sender<BTreeMap<ServiceName, SocketAddr>>>);

/// Address that the processes of one component need.
#[derive(Clone, Debug)]
pub(crate) struct PredictorAddress {
    service: ServiceName,
    all: PredictorAddresses,
}

impl Default for PredictorAddresses {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }
}

impl PredictorAddresses {
    /// Adds the address of a service's predictor.
    pub fn add(&self, service: ServiceName, address: SocketAddr) {
        self.0.send_modify(|all| {
            all.insert(service, address);
        });
    }

    /// Returns true if a service's predictor has an address.
    #[must_use]
    pub fn contains(&self, service: &ServiceName) -> bool {
        self.0.borrow().contains_key(service)
    }

    /// Returns the address that a component needs; `None` for a predictor, which needs none.
    pub(crate) fn of(&self, component: &ServiceName) -> Option<PredictorAddress> {
        match component.component() {
            ComponentKind::Predictor => None,
            ComponentKind::Transformer | ComponentKind::Explainer => {
                Some(PredictorAddress { service: component.whole(), all: self.clone() })
            }
        }
    }
}

impl PredictorAddress {
    /// Returns the address if it is known.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        self.all.0.borrow().get(&self.service).copied()
    }

    /// Waits until the address is known.
    ///
    /// # Errors
    /// A clause, when the predictor gets no address in time.
    pub(crate) async fn wait(&self) -> Result<(), String> {
        let mut all = self.all.0.subscribe();
        let known = all.wait_for(|all| all.contains_key(&self.service));
        match tokio::time::timeout(WAIT, known).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(format!("no port leads to the predictor of {}", self.service)),
        }
    }
}

/// Equal if both lead to the same service, because all processes of a cluster share the addresses.
impl PartialEq for PredictorAddress {
    fn eq(&self, other: &Self) -> bool {
        self.service == other.service
    }
}
