//! The pool of ports for replicas.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;

/// First port and size of the range in which free ports are searched. The range is below the ephemeral ports (Linux:
/// from 32768, others: from 49152): the gateway opens many outgoing connections, and one of those could take a port
/// after it was found free and before the replica listens on it.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// The ports leased to replicas of this process. Clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct PortPool(Arc<Mutex<PoolState>>);

#[derive(Debug)]
struct PoolState {
    ports: BTreeSet<u16>,
    /// Offset at which the next search starts. A released port is reused last, because late requests to its previous
    /// owner may still arrive.
    next: u16,
}

/// Exclusive lease of a port; dropping it releases the port.
#[derive(Debug)]
pub(crate) struct PortLease {
    pool: PortPool,
    port: u16,
}

impl PortPool {
    /// Creates a pool without leased ports.
    pub(crate) fn new() -> Self {
        // The search starts at a random offset, so that another pool on this machine does not try the same ports in the
        // same order. The standard library seeds its hashers randomly.
        let seed = RandomState::new().hash_one(FIRST);
        Self(Arc::new(Mutex::new(PoolState {
            ports: BTreeSet::new(),
            // The remainder is smaller than COUNT, which fits a `u16`.
            next: (seed % u64::from(COUNT)) as u16,
        })))
    }

    /// Leases a port on which no process listens.
    ///
    /// # Errors
    /// A clause, when no port is free.
    pub(crate) fn any(&self) -> Result<PortLease, String> {
        let mut state = self.0.lock();
        for _ in 0..COUNT {
            let port = FIRST + state.next;
            state.next = (state.next + 1) % COUNT;
            if !state.ports.contains(&port) && listen(port).is_ok() {
                state.ports.insert(port);
                return Ok(self.lease(port));
            }
        }
        Err("no free port is left".to_owned())
    }

    /// Leases this port, for a command that always listens on it. If another process listened there, it would receive
    /// the replica's requests.
    ///
    /// # Errors
    /// A clause, when the port is in use or cannot be bound.
    pub(crate) fn this(&self, port: u16) -> Result<PortLease, String> {
        let taken = || {
            format!(
                "port {port} is in use; use $(PORT) in the command to get a free port. If the service's former revision \
                 has the port, delete the service and add it again"
            )
        };
        let mut state = self.0.lock();
        if state.ports.contains(&port) {
            return Err(taken());
        }
        match listen(port) {
            Ok(_) => {
                state.ports.insert(port);
                Ok(self.lease(port))
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(taken()),
            Err(error) => Err(format!("port {port} cannot be used: {error}")),
        }
    }

    fn lease(&self, port: u16) -> PortLease {
        PortLease { pool: self.clone(), port }
    }
}

impl PortLease {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for PortLease {
    fn drop(&mut self) {
        self.pool.0.lock().ports.remove(&self.port);
    }
}

/// Binds the port on all addresses, because a replica may listen on any of them.
fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::UNSPECIFIED, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_leased_once() {
        let pool = PortPool::new();
        let leases: Vec<_> = (0..200).map(|_| pool.clone().any().unwrap()).collect();
        let ports: BTreeSet<_> = leases.iter().map(PortLease::port).collect();
        assert_eq!(ports.len(), leases.len());
        let port = leases[7].port();
        assert!(pool.this(port).unwrap_err().contains("is in use"));
        drop(leases);
        assert!(pool.0.lock().ports.is_empty());
        assert_ne!(pool.any().unwrap().port(), port);
    }

    #[test]
    fn ports_in_use_are_skipped() {
        let pool = PortPool::new();
        let next = FIRST + pool.0.lock().next;
        // Binding may fail because another process has the port, which is the same for this test.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert_ne!(pool.any().unwrap().port(), next);
    }
}
