//! Names of the declared services; the gateway is not ready before it has routes for all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_controller::Declaration;

/// Publishes the service names of each declaration, until either channel closes.
pub(super) async fn follow(
    mut declaration: watch::Receiver<Arc<Declaration>>,
    names: watch::Sender<Arc<BTreeSet<ServiceName>>>,
) {
    loop {
        let next = of(&declaration.borrow_and_update());
        names.send_replace(next);
        tokio::select! {
            changed = declaration.changed() => if changed.is_err() { return },
            () = names.closed() => return,
        }
    }
}

/// Returns the service names of a declaration.
pub(super) fn of(declaration: &Declaration) -> Arc<BTreeSet<ServiceName>> {
    Arc::new(declaration.services.keys().cloned().collect())
}
