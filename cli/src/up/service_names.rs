//! The declared services, which the gateway waits for before it is ready.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_controller::Declaration;

/// Publishes the names of the services of each declaration, until either channel closes.
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

/// Names of the services of a declaration.
pub(super) fn of(declaration: &Declaration) -> Arc<BTreeSet<ServiceName>> {
    Arc::new(declaration.services.keys().cloned().collect())
}
