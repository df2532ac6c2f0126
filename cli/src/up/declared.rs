//! From what is declared to the services that the gateway waits for before it says that it is ready.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_controller::Declaration;

/// Names the services of each declaration, until nobody declares or reads them.
pub(super) async fn follow(
    mut declaration: watch::Receiver<Arc<Declaration>>,
    names: watch::Sender<Arc<BTreeSet<ServiceName>>>,
) {
    loop {
        let next = services(&declaration.borrow_and_update());
        names.send_replace(next);
        tokio::select! {
            changed = declaration.changed() => if changed.is_err() { return },
            () = names.closed() => return,
        }
    }
}

/// The services of a declaration.
pub(super) fn services(declaration: &Declaration) -> Arc<BTreeSet<ServiceName>> {
    Arc::new(declaration.services.keys().cloned().collect())
}
