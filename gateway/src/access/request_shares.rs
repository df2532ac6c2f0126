//! The shares that one request takes of the gateway's limits, once its client is known and a rule allows the request.

use std::sync::OnceLock;
use std::time::Duration;

use weir_serve::{HeldUnit, PlaceHandle, SharedLimit};

use crate::error::{ClientLimit, GatewayError};
use crate::queue::ClientShare;

/// Shares of one request. Without access control, and for requests between parts of the platform, there are none.
#[derive(Debug)]
pub(crate) struct RequestShares<'a> {
    requests: &'a SharedLimit,
    /// Connection of the request; `None` for a connection from another gateway, which carries requests of many clients.
    place: Option<&'a PlaceHandle>,
    client: Option<ClientShare>,
    open: OnceLock<HeldUnit>,
    /// Set once the request turned out to come from another component of its service.
    is_internal: OnceLock<()>,
}

impl<'a> RequestShares<'a> {
    /// Returns the shares of a request on the connection with this place, without a client. `requests` is the limit on
    /// the open requests of all clients.
    pub(crate) fn new(requests: &'a SharedLimit, place: &'a PlaceHandle) -> Self {
        Self { requests, place: Some(place), client: None, open: OnceLock::new(), is_internal: OnceLock::new() }
    }

    /// Returns the shares of a request of this client; `None` if the request comes from the platform.
    pub(super) fn of(self, client: Option<ClientShare>) -> Self {
        Self { client, ..self }
    }

    /// Returns the shares of a request that another gateway has handed over.
    pub(super) fn handed_over(self) -> Self {
        Self { place: None, ..self }
    }

    /// Records that the request comes from another component of its service.
    pub(super) fn set_internal(&self) {
        self.is_internal.get_or_init(|| ());
    }

    /// Returns the client whose shares limit the request; `None` if none do.
    pub(super) fn client(&self) -> Option<ClientShare> {
        self.client.filter(|_| self.is_internal.get().is_none())
    }

    /// Counts the request's connection and the request itself for the client, unless they are counted already.
    ///
    /// # Errors
    /// [`GatewayError::OverLimit`] if the client already uses its share of the connections or of the open requests.
    pub(super) fn take(&self) -> Result<(), GatewayError> {
        let Some(client) = self.client().filter(|_| self.open.get().is_none()) else {
            return Ok(());
        };
        if self.place.is_some_and(|place| !place.assign(client.holder())) {
            return Err(over(ClientLimit::Connections));
        }
        let unit = self.requests.take(client.holder()).ok_or_else(|| over(ClientLimit::OpenRequests))?;
        self.open.get_or_init(|| unit);
        Ok(())
    }

    /// Returns the request's slot among the open requests, which it occupies until its response has ended.
    pub(super) fn take_unit(&mut self) -> Option<HeldUnit> {
        self.open.take()
    }
}

/// Returns the error for a client that already uses its share of a limit. Connections and requests end all the time, so
/// the client may try again after a second.
fn over(limit: ClientLimit) -> GatewayError {
    GatewayError::OverLimit { limit, after: Duration::from_secs(1) }
}
