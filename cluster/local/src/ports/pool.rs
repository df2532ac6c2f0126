//! Which ports are given out.

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
pub(crate) struct Pool(Arc<Mutex<Given>>);

#[derive(Debug)]
struct Given {
    ports: BTreeSet<u16>,
    /// Where the search goes on: a port that was just given back is taken last, because what was meant
    /// for its last owner may still be under way.
    next: u16,
}

/// A port that nobody else gets. Dropped, it is given back.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: Pool,
    port: u16,
}

impl Pool {
    /// Nothing is given out.
    pub(crate) fn new() -> Self {
        // Anywhere: another pool on this machine should not look at the same ports in the same order. The
        // standard library seeds its hashers by chance.
        let chance = RandomState::new().hash_one(FIRST);
        Self(Arc::new(Mutex::new(Given {
            ports: BTreeSet::new(),
            // Smaller than COUNT.
            next: (chance % u64::from(COUNT)) as u16,
        })))
    }

    /// A port that nobody has and nobody listens on.
    ///
    /// # Errors
    /// A clause: there is none.
    pub(crate) fn any(&self) -> Result<Lease, String> {
        let mut given = self.0.lock();
        for _ in 0..COUNT {
            let port = FIRST + given.next;
            given.next = (given.next + 1) % COUNT;
            if !given.ports.contains(&port) && listen(port).is_ok() {
                given.ports.insert(port);
                return Ok(self.lease(port));
            }
        }
        Err("there is no free port".to_owned())
    }

    /// This port, for a command that always serves there: if somebody else had it, they would answer for
    /// the replica.
    ///
    /// # Errors
    /// A clause: it is taken.
    pub(crate) fn this(&self, port: u16) -> Result<Lease, String> {
        let taken = || format!("port {port} is taken; a command that uses $(PORT) gets a free one");
        let mut given = self.0.lock();
        if given.ports.contains(&port) {
            return Err(taken());
        }
        match listen(port) {
            Ok(_) => {
                given.ports.insert(port);
                Ok(self.lease(port))
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(taken()),
            Err(error) => Err(format!("port {port} cannot be used: {error}")),
        }
    }

    fn lease(&self, port: u16) -> Lease {
        Lease {
            pool: self.clone(),
            port,
        }
    }
}

impl Lease {
    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Lease {
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
    fn nobody_gets_a_port_that_another_has() {
        let pool = Pool::new();
        let leases: Vec<_> = (0..200).map(|_| pool.clone().any().unwrap()).collect();
        let ports: BTreeSet<_> = leases.iter().map(Lease::port).collect();
        assert_eq!(ports.len(), leases.len());
        let port = leases[7].port();
        assert!(pool.this(port).unwrap_err().contains("is taken"));
        drop(leases);
        assert!(pool.0.lock().ports.is_empty());
        assert_ne!(pool.any().unwrap().port(), port);
    }

    #[test]
    fn what_others_listen_on_is_passed_over() {
        let pool = Pool::new();
        let next = FIRST + pool.0.lock().next;
        // Somebody else may have it, which is the same.
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, next));
        assert_ne!(pool.any().unwrap().port(), next);
    }
}
