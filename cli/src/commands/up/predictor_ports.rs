//! Ports of this machine that lead to the predictors of services with a transformer or an explainer.
//!
//! In a cluster such a component reaches its predictor by a host name that resolves to the gateway. Here no name
//! resolves, so the gateway has one more port on the loopback address for each such predictor.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_cluster::{ComponentKind, Host, ServiceName};
use weir_cluster_local::PredictorAddresses;
use weir_controller::Declaration;
use weir_gateway::{Gateway, Port};

/// Opener of the ports. A port stays open until the process ends, so that an edited service keeps its address.
pub(super) struct PredictorPorts {
    pub(super) addresses: PredictorAddresses,
    pub(super) gateway: Arc<Gateway>,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

impl PredictorPorts {
    /// Opens the ports of each declaration, until the channel closes.
    pub(super) async fn follow(self, mut declaration: watch::Receiver<Arc<Declaration>>) {
        loop {
            let now = declaration.borrow_and_update().clone();
            self.open(&now);
            if declaration.changed().await.is_err() {
                return;
            }
        }
    }

    /// Opens a port for each predictor that another component calls and that has none yet.
    pub(super) fn open(&self, declaration: &Declaration) {
        let callers = declaration.services.keys().filter(|name| name.component() != ComponentKind::Predictor);
        for service in callers.map(ServiceName::whole) {
            if self.addresses.contains(&service) {
                continue;
            }
            if let Err(error) = self.open_for(&service) {
                tracing::error!(%service, %error, "cannot open a port to the predictor; its transformer cannot start");
            }
        }
    }

    fn open_for(&self, service: &ServiceName) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let port = Port::of_host(TcpListener::from_std(listener)?, host(service)?);
        self.tasks.spawn(Arc::clone(&self.gateway).serve(vec![port], self.stop.clone()));
        self.addresses.add(service.clone(), address);
        Ok(())
    }
}

/// Returns the first host of a predictor.
fn host(service: &ServiceName) -> Result<Host, Box<dyn std::error::Error + Send + Sync>> {
    let hosts = service.component_hosts(ServiceName::CLUSTER_DOMAIN)?;
    hosts.into_iter().next().ok_or_else(|| "the predictor has no host".into())
}
