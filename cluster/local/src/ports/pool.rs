//! The pool of ports that replicas get.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use parking_lot::Mutex;

/// Free ports are looked for here: below those that systems give to the near end of connections
/// (Linux: from 32768, others: from 49152), of which the gateway makes many. One of these could take a
/// port between the moment it was found free and the moment a replica listens on it.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// The ports that replicas of this process have. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PortPool(Arc<Mutex<PoolState>>);

#[derive(Debug)]
struct PoolState {
    ports: BTreeSet<u16>,
    /// Where the search goes on: a port that was just given back is taken last, because what was meant
    /// for its last owner may still be under way.
    next: u16,
}

/// A port that no other replica gets. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct PortLease {
    pool: PortPool,
    port: u16,
}

impl PortPool {
    /// A pool of which no port is leased.
    pub(crate) fn new() -> Self {
        // Anywhere: another pool on this machine should not look at the same ports in the same order. The
        // standard library seeds its hashers by chance.
        let seed = RandomState::new().hash_one(FIRST);
        Self(Arc::new(Mutex::new(PoolState {
            ports: BTreeSet::new(),
            // Smaller than COUNT.
            next: (seed % u64::from(COUNT)) as u16,
        })))
    }

    /// Leases a port on which nothing listens.
    ///
    /// # Errors
    /// A clause: there is none.
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

    /// This port, for a command that always serves there: another process that had it would answer for
    /// the replica.
    ///
    /// # Errors
    /// A clause: it is taken.
    pub(crate) fn this(&self, port: u16) -> Result<PortLease, String> {
        let taken = || format!("port {port} is in use; use $(PORT) in the command to get a free port");
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

/// On all addresses: a replica may choose any.
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
    fn what_others_listen_on_is_passed_over() {
        let pool = PortPool::new();
        let next = FIRST + pool.0.lock().next;
        // Somebody else may have it, which is the same.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert_ne!(pool.any().unwrap().port(), next);
    }
}
