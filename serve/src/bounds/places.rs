//! Places of a port: the permits for its connections. They limit the number of connections in total and per client, and
//! the number of HTTP/2 streams per client. A client is an address until a request names it.

pub(crate) mod reserved;
pub(crate) mod waiting;

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::ConnectionLimits;
use crate::bounds::shares::{HeldUnit, Holder, SharedLimit, is_within_share};

/// The places of a port. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct PortPlaces(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    free: Arc<Semaphore>,
    per_client: usize,
    streams_per_client: usize,
    clients: Mutex<HashMap<Client, ClientPlaces>>,
    /// Places of the connections whose clients' names are known.
    named: SharedLimit,
    freed: Notify,
}

/// Open connections and HTTP/2 streams of one client.
#[derive(Debug, Default)]
struct ClientPlaces {
    connections: usize,
    streams: Arc<AtomicUsize>,
}

/// HTTP/2 streams of one client, which all its connections share.
#[derive(Clone, Debug)]
pub(crate) struct ClientStreams {
    open: Arc<AtomicUsize>,
    limit: usize,
}

/// An open stream of a client; dropping it closes it.
#[derive(Debug)]
pub(crate) struct OpenStream(Arc<AtomicUsize>);

/// A place that has not been given to a client yet.
#[derive(Debug)]
pub(crate) struct FreePlace {
    _permit: OwnedSemaphorePermit,
}

/// A place that a client holds; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    places: PortPlaces,
    client: Client,
    streams: ClientStreams,
    /// Place in `named` that the connection's client holds; `None` until a request names the client.
    named: Option<HeldUnit>,
    _place: FreePlace,
}

/// Identity of a client, by its IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Client {
    Ipv4(Ipv4Addr),
    /// The first 64 bits of the address: one host may use every address of its /64 network.
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
    /// Creates `places` places. `limits` sets how many of them one client may hold.
    pub(crate) fn new(places: usize, limits: &ConnectionLimits) -> Self {
        Self(Arc::new(Shared {
            free: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            per_client: limits.per_client.max(1),
            streams_per_client: limits.streams_per_client(),
            clients: Mutex::default(),
            named: SharedLimit::new(places),
            freed: Notify::new(),
        }))
    }

    /// Waits until a place is free, and takes it.
    pub(crate) async fn free(&self) -> FreePlace {
        let place = Arc::clone(&self.0.free).acquire_owned().await;
        match place {
            Ok(permit) => FreePlace { _permit: permit },
            // Unreachable, because the semaphore is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives a place to the client at `address`. Returns `None` if the client already has connections and has reached
    /// its limit, or has more connections than there are free places. The second rule leaves a place for a new client
    /// even if several clients take as many as they can.
    pub(crate) fn give(&self, place: FreePlace, address: IpAddr) -> Option<Place> {
        let client = Client::of(address);
        let left = self.0.free.available_permits();
        let mut clients = self.0.clients.lock();
        let own = clients.entry(client).or_default();
        // A new entry without connections is never refused, so every entry that stays in the map has one.
        let count = own.connections;
        let is_over = count > 0 && (count >= self.0.per_client || !is_within_share(count, 1, left));
        if is_over {
            return None;
        }
        own.connections += 1;
        let streams = ClientStreams { open: Arc::clone(&own.streams), limit: self.0.streams_per_client };
        drop(clients);
        Some(Place { places: self.clone(), client, streams, named: None, _place: place })
    }

    /// Waits until a place has been freed since the last wait ended.
    pub(crate) async fn freed(&self) {
        self.0.freed.notified().await;
    }

    /// Takes a place at once. Returns `None` if none is free or the client at `address` may not have it.
    pub(crate) fn try_give(&self, address: IpAddr) -> Option<Place> {
        let permit = Arc::clone(&self.0.free).try_acquire_owned().ok()?;
        self.give(FreePlace { _permit: permit }, address)
    }
}

impl Place {
    /// Returns true if this place belongs to `places`.
    pub(crate) fn is_of(&self, places: &PortPlaces) -> bool {
        Arc::ptr_eq(&self.places.0, &places.0)
    }

    /// Counts the place for the client that a request names, and no longer for the client that an earlier request
    /// named. Returns false if the client already uses its share of the port's places.
    pub(crate) fn assign(&mut self, holder: Holder) -> bool {
        if self.named.as_ref().is_some_and(|unit| unit.is_of(holder)) {
            return true;
        }
        self.named = None;
        self.named = self.places.0.named.take(holder);
        self.named.is_some()
    }

    /// Returns the streams of the client that holds this place.
    pub(crate) fn streams(&self) -> ClientStreams {
        self.streams.clone()
    }
}

impl ClientStreams {
    /// Opens one more stream. Returns `None` if the client has as many as its limit allows.
    pub(crate) fn open(&self) -> Option<OpenStream> {
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let stream = OpenStream(Arc::clone(&self.open));
        (before < self.limit).then_some(stream)
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut clients = self.places.0.clients.lock();
        if let Some(own) = clients.get_mut(&self.client) {
            own.connections -= 1;
            if own.connections == 0 {
                clients.remove(&self.client);
            }
        }
        drop(clients);
        self.places.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::Pace;
    use crate::bounds::http2_limits::MAX_STREAMS;

    fn ports(places: usize, per_client: usize) -> PortPlaces {
        let limits = ConnectionLimits {
            total: places,
            per_client,
            idle: Duration::ZERO,
            stall: Duration::ZERO,
            pace: Pace::default(),
        };
        PortPlaces::new(places, &limits)
    }

    fn take(places: &PortPlaces, address: &str) -> Option<Place> {
        places.try_give(address.parse().unwrap())
    }

    #[test]
    fn streams_are_counted_over_all_connections_of_a_client() {
        let places = ports(10_000, 2_500);
        let (one, two) = (take(&places, "10.0.0.1").unwrap(), take(&places, "10.0.0.1").unwrap());
        let mut open: Vec<_> = std::iter::from_fn(|| one.streams().open()).collect();
        assert_eq!(open.len(), 10_000);
        assert!(two.streams().open().is_none());
        assert!(take(&places, "10.0.0.2").unwrap().streams().open().is_some());
        open.pop();
        assert!(two.streams().open().is_some());
    }

    #[test]
    fn one_connection_may_use_all_of_its_streams() {
        let streams = take(&ports(4, 1), "10.0.0.1").unwrap().streams();
        let open: Vec<_> = std::iter::from_fn(|| streams.open()).collect();
        assert_eq!(open.len(), MAX_STREAMS as usize);
    }

    fn take_all(places: &PortPlaces, address: &str) -> Vec<Place> {
        std::iter::from_fn(|| take(places, address)).collect()
    }

    #[test]
    fn one_client_holds_no_more_than_its_share() {
        let places = ports(100, 25);
        let mut held = take_all(&places, "10.0.0.1");
        assert_eq!(held.len(), 25);
        assert!(take(&places, "::ffff:10.0.0.1").is_none());
        assert!(take(&places, "10.0.0.2").is_some());
        held.pop();
        assert!(take(&places, "10.0.0.1").is_some());
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let places = ports(100, 2);
        let held = [take(&places, "2001:db8::1").unwrap(), take(&places, "2001:db8::2").unwrap()];
        assert!(take(&places, "2001:db8::ffff:1:2:3").is_none());
        assert!(take(&places, "2001:db8:0:1::1").is_some());
        drop(held);
        assert!(places.0.clients.lock().is_empty());
    }

    #[test]
    fn a_named_client_holds_no_more_than_its_share_from_any_number_of_addresses() {
        let places = ports(100, 100);
        let mut held: Vec<_> = (0..60).map(|n| take(&places, &format!("10.0.0.{n}")).unwrap()).collect();
        let holder = |id| Holder { id, weight: std::num::NonZeroU16::MIN };
        let assigned = held.iter_mut().filter_map(|place| place.assign(holder(1)).then_some(())).count();
        assert_eq!(assigned, 50);
        // A connection that the client has already stays its own, and may change its client.
        assert!(held[0].assign(holder(1)) && held[0].assign(holder(2)));
        assert!(!held[58].assign(holder(1)));
        held.swap_remove(1);
        assert!(held[58].assign(holder(1)));
        drop(held);
        assert_eq!(places.0.named.in_use(), 0);
    }

    #[test]
    fn a_port_with_one_place_gives_it_to_any_client() {
        let places = ports(1, 0);
        assert_eq!(take_all(&places, "10.0.0.1").len(), 1);
        assert_eq!(take_all(&places, "10.0.0.2").len(), 1);
    }

    proptest! {
        #[test]
        fn some_clients_leave_room_for_one_more(clients in 1..6_u8, per_client in 1..10_000_usize) {
            let places = ports(4096, per_client);
            let hostile: Vec<_> = (0..clients)
                .flat_map(|client| take_all(&places, &format!("10.0.0.{client}")))
                .collect();
            prop_assert!(hostile.len() < 4096);
            prop_assert!(take(&places, "10.0.1.0").is_some());
        }
    }
}
