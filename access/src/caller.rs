//! The sender of a request, as the gateway authenticated it.

use std::sync::Arc;

use http::HeaderValue;

use crate::client_id::ClientId;
use crate::operation::{Operation, Operations};

/// The sender of a request: a client that a key or a token names, or an anonymous one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    client: Option<Client>,
    roles: Vec<Arc<str>>,
    scopes: Operations,
}

/// A client, with what each of its requests needs of its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    name: Arc<str>,
    id: ClientId,
    /// The name as the value of a header; `None` for a name that fits none.
    header: Option<HeaderValue>,
}

impl Caller {
    /// Returns the caller of a request without a key or token.
    #[must_use]
    pub const fn anonymous() -> Self {
        Self { client: None, roles: Vec::new(), scopes: Operations::ALL }
    }

    /// Returns a client with these roles. `scopes` are the operations to which its key or token is limited.
    #[must_use]
    pub fn named(client: Arc<str>, roles: Vec<Arc<str>>, scopes: Operations) -> Self {
        let (id, header) = (ClientId::of(&client), HeaderValue::from_str(&client).ok());
        Self { client: Some(Client { name: client, id, header }), roles, scopes }
    }

    /// Returns the client's name; `None` for an anonymous caller.
    #[must_use]
    pub fn client(&self) -> Option<&Arc<str>> {
        self.client.as_ref().map(|client| &client.name)
    }

    /// Returns the client's identity; [`ClientId::ANONYMOUS`] for an anonymous caller.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.client.as_ref().map_or(ClientId::ANONYMOUS, |client| client.id)
    }

    /// Returns the client's name as the value of a header; `None` for an anonymous caller.
    #[must_use]
    pub fn header(&self) -> Option<&HeaderValue> {
        self.client.as_ref()?.header.as_ref()
    }

    /// Returns the roles that rules may name.
    #[must_use]
    pub fn roles(&self) -> &[Arc<str>] {
        &self.roles
    }

    /// Returns true if the key or token may be used for this operation, as far as the rules allow it.
    #[must_use]
    pub const fn is_in_scope(&self, operation: Operation) -> bool {
        self.scopes.contains(operation)
    }
}
