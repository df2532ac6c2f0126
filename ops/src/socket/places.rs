//! Places of a port: how many connections it has at once, and how many of them are one client's.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of a port. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct PortPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    per_client: usize,
    held: Mutex<HashMap<Client, usize>>,
}

/// A place that no client holds yet.
#[derive(Debug)]
pub(super) struct FreePlace {
    _permit: OwnedSemaphorePermit,
}

/// A client's place, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: PortPlaces,
    client: Client,
    _place: FreePlace,
}

/// What counts as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Ipv4(Ipv4Addr),
    /// The first 64 bits: every host has as many addresses of such a network as it likes.
    Ipv6([u16; 4]),
}

impl Client {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Ipv4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::Ipv6([a, b, c, d])
            }
        }
    }
}

impl PortPlaces {
    /// So many places, and so many of them for one client.
    pub(super) fn new(places: usize, per_client: usize) -> Self {
        Self(Arc::new(Shared {
            free: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            per_client: per_client.max(1),
            held: Mutex::default(),
        }))
    }

    /// Waits for a place.
    pub(super) async fn free(&self) -> FreePlace {
        let place = Arc::clone(&self.0.free).acquire_owned().await;
        match place {
            Ok(permit) => FreePlace { _permit: permit },
            // Nobody closes it.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives a place to the client at that address; `None` if it holds as many as it may, or as are left for all
    /// others: some clients together leave room for one more, too.
    pub(super) fn give(&self, place: FreePlace, address: IpAddr) -> Option<Place> {
        let client = Client::of(address);
        let left = self.0.free.available_permits();
        let mut held = self.0.held.lock();
        let count = held.entry(client).or_default();
        // The count of one that holds none stays for no longer than its others.
        let is_over = *count > 0 && (*count >= self.0.per_client || *count > left);
        if is_over {
            return None;
        }
        *count += 1;
        drop(held);
        Some(Place {
            places: self.clone(),
            client,
            _place: place,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.0.held.lock();
        if let Some(count) = held.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(places: &PortPlaces, address: &str) -> Option<Place> {
        let permit = Arc::clone(&places.0.free).try_acquire_owned().ok()?;
        places.give(FreePlace { _permit: permit }, address.parse().unwrap())
    }

    fn take_all(places: &PortPlaces, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| take(places, address)).collect()
    }

    #[test]
    fn one_client_holds_no_more_than_its_share() {
        let places = PortPlaces::new(100, 25);
        let mut held = take_all(&places, "10.0.0.1");
        assert_eq!(held.len(), 25);
        assert!(take(&places, "::ffff:10.0.0.1").is_none());
        assert!(take(&places, "10.0.0.2").is_some());
        held.pop();
        assert!(take(&places, "10.0.0.1").is_some());
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let places = PortPlaces::new(100, 2);
        let held = [
            take(&places, "2001:db8::1").unwrap(),
            take(&places, "2001:db8::2").unwrap(),
        ];
        assert!(take(&places, "2001:db8::ffff:1:2:3").is_none());
        assert!(take(&places, "2001:db8:0:1::1").is_some());
        drop(held);
        assert!(places.0.held.lock().is_empty());
    }

    #[test]
    fn a_port_with_one_place_has_it_for_anybody() {
        let places = PortPlaces::new(1, 0);
        assert_eq!(take_all(&places, "10.0.0.1").len(), 1);
        assert_eq!(take_all(&places, "10.0.0.2").len(), 1);
    }

    proptest! {
        #[test]
        fn some_clients_leave_room_for_one_more(clients in 1..6_u8, per_client in 1..10_000_usize) {
            let places = PortPlaces::new(4096, per_client);
            let hostile: Vec<_> = (0..clients)
                .flat_map(|client| take_all(&places, &format!("10.0.0.{client}")))
                .collect();
            prop_assert!(hostile.len() < 4096);
            prop_assert!(take(&places, "10.0.1.0").is_some());
        }
    }
}
