//! Places reserved for one kind of connection, in addition to the places of a port's other connections.

use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::ConnectionLimits;
use crate::bounds::places::{Place, PortPlaces};
use crate::bounds::shares::Holder;

/// Places for one kind of connection, which thereby leave the other places free. Clones share them.
#[derive(Clone, Debug)]
pub struct ReservedPlaces(PortPlaces);

/// The place of a connection, which may be exchanged for a reserved one. Clones share it; it is freed when the
/// connection ends.
#[derive(Clone, Debug)]
pub struct ConnectionPlace(Arc<Mutex<Place>>);

/// Handle by which a request counts its connection for its client. It keeps no place: a request may outlive its
/// connection.
#[derive(Clone, Debug)]
pub struct PlaceHandle(Weak<Mutex<Place>>);

impl PlaceHandle {
    /// Counts the connection for this client, and no longer for the client of an earlier request. Returns false if the
    /// client already uses its share of the port's connections.
    #[must_use]
    pub fn assign(&self, holder: Holder) -> bool {
        self.0.upgrade().is_none_or(|place| place.lock().assign(holder))
    }
}

impl ReservedPlaces {
    /// Returns as many places as `limits` allow, in total and per client.
    #[must_use]
    pub fn new(limits: &ConnectionLimits) -> Self {
        Self(PortPlaces::new(limits.total, limits))
    }
}

impl ConnectionPlace {
    pub(crate) fn new(place: Place) -> Self {
        Self(Arc::new(Mutex::new(place)))
    }

    /// Returns a handle for the requests of the connection.
    #[must_use]
    pub fn handle(&self) -> PlaceHandle {
        PlaceHandle(Arc::downgrade(&self.0))
    }

    /// Exchanges the place for a reserved one, unless it already is one. Returns false if none is available for this
    /// client.
    #[must_use]
    pub fn exchange(&self, reserved: &ReservedPlaces, client: IpAddr) -> bool {
        let mut place = self.0.lock();
        if place.is_of(&reserved.0) {
            return true;
        }
        match reserved.0.try_give(client) {
            Some(other) => {
                *place = other;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Pace;

    fn limits(total: usize) -> ConnectionLimits {
        ConnectionLimits {
            total,
            per_client: total,
            idle: Duration::ZERO,
            stall: Duration::ZERO,
            pace: Pace::default(),
        }
    }

    #[test]
    fn an_exchanged_place_becomes_free_on_the_port() {
        let client = "10.0.0.1".parse().unwrap();
        let (port, reserved) = (PortPlaces::new(1, &limits(1)), ReservedPlaces::new(&limits(1)));
        let first = ConnectionPlace::new(port.try_give(client).unwrap());
        assert!(port.try_give(client).is_none());
        assert!(first.exchange(&reserved, client) && first.exchange(&reserved, client));
        let second = ConnectionPlace::new(port.try_give(client).unwrap());
        assert!(!second.exchange(&reserved, client));
        drop(first);
        assert!(second.exchange(&reserved, client));
    }
}
