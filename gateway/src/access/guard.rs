//! The check of one request.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header::{HeaderMap, HeaderValue};
use http::request::Parts;
use weir_access::{Caller, ClientId, KeyError, Operation, Policy, ServiceId, Verdict};
use weir_cluster::Route;
use weir_serve::{HeldUnit, header_names};
use weir_tokens::TokenError;

use super::credentials::{self, AuthError, Credential};
use super::{AccessControl, HeldSlots, RequestShares, operation};
use crate::clock::now;
use crate::error::{ClientLimit, GatewayError, Refusal, Refused};
use crate::port::PortHost;
use crate::queue::ClientShare;
use crate::rates::{self, Meter, UsedUp};
use crate::wire::headers::{self, GatewayHeaders};
use crate::wire::protocol::Protocol;

/// The access check of one request, whose sender has been identified.
pub(crate) struct Guard<'a> {
    /// `None` in a gateway without access control.
    check: Option<Check<'a>>,
    /// The client that is charged for the request.
    share: ClientShare,
    shares: RequestShares<'a>,
}

/// Slots in limits that a request occupies until its response, or the connection of its WebSocket, has ended.
#[derive(Debug)]
pub(crate) struct HeldLimits {
    /// Slot among the client's requests in flight; `None` if they are not limited.
    _slots: Option<HeldSlots>,
    /// Slot among the open requests of all clients.
    _unit: Option<HeldUnit>,
}

/// Connection from which a request came, and its protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestOrigin {
    /// Address of the sender; `None` if the connection has already ended.
    pub(crate) address: Option<IpAddr>,
    /// Headers that only a gateway may set.
    pub(crate) marks: GatewayHeaders,
    pub(crate) protocol: Protocol,
}

struct Check<'a> {
    control: &'a AccessControl,
    policy: Arc<Policy>,
    sender: Sender,
    from: Option<IpAddr>,
    protocol: Protocol,
    /// The request's slot among the client's requests in flight; set once the request is allowed.
    slots: OnceLock<HeldSlots>,
    /// The meter of a request that is allowed and whose bytes or tokens are limited.
    meter: OnceLock<Meter>,
}

/// Time after which a client with too many requests in flight may try again. It is short, because requests end all the
/// time.
const CONCURRENCY_RETRY: Duration = Duration::from_secs(1);

/// Sender of a request.
enum Sender {
    Client(Result<Arc<Caller>, AuthError>),
    /// Another gateway, which has checked the request before it handed it over, and the client's name in its header.
    Gateway(Option<HeaderValue>),
    /// A component of a service, on the port that leads only to that service's predictor.
    OwnPort,
}

impl<'a> Guard<'a> {
    /// Identifies the sender of a request. With access control, removes the headers with keys, and sets the header with
    /// the client's name. [`trusted_headers`](crate::pipeline::forward::trusted_headers) has removed such a header of a
    /// client before. `shares` are the request's shares as long as its client is not known.
    pub(crate) async fn new(
        control: Option<&'a AccessControl>,
        parts: &mut Parts,
        origin: RequestOrigin,
        shares: RequestShares<'a>,
    ) -> Self {
        let Some(control) = control else {
            let share = match origin.marks {
                GatewayHeaders::Absent | GatewayHeaders::Outdated => ClientShare::ANONYMOUS,
                GatewayHeaders::Trusted => share(None, &parts.headers),
            };
            return Self { check: None, share, shares };
        };
        let policy = control.policy();
        let credential = credentials::take(&mut parts.headers);
        let is_marked = origin.marks == GatewayHeaders::Trusted;
        let sender = if is_marked && header_names::has(&parts.headers, &headers::HOP) {
            Sender::Gateway(header_names::first(&parts.headers, &headers::CLIENT).cloned())
        } else if parts.extensions.get::<PortHost>().is_some() {
            Sender::OwnPort
        } else {
            Sender::Client(authenticate(control, &policy, &credential, parts).await)
        };
        if let Sender::Client(Ok(caller)) = &sender
            && let Some(name) = caller.header()
        {
            parts.headers.insert(headers::CLIENT, name.clone());
        }
        let share = match &sender {
            Sender::Client(Ok(caller)) if caller.client().is_some() => share_of(&policy, caller),
            Sender::Client(_) | Sender::Gateway(_) | Sender::OwnPort => share(Some(&policy), &parts.headers),
        };
        let shares = match sender {
            Sender::Client(_) => shares.of(Some(share)),
            Sender::Gateway(_) => shares.of(Some(share)).handed_over(),
            Sender::OwnPort => shares.of(None),
        };
        let RequestOrigin { address: from, protocol, .. } = origin;
        let check = Check { control, policy, sender, from, protocol, slots: OnceLock::new(), meter: OnceLock::new() };
        Self { check: Some(check), share, shares }
    }

    /// Returns the share of the request's client. The client was authenticated by this gateway, or by the gateway that
    /// handed the request over.
    pub(crate) fn share(&self) -> ClientShare {
        self.share
    }

    /// Checks a request to a service: its operation, and the choice of a revision if it makes one. Returns the operation;
    /// `None` without access control. `is_component` returns true for the address of a pod of another component that
    /// calls this one; such a pod has no key.
    ///
    /// # Errors
    /// [`GatewayError::Refused`], the same for the client as for a service that does not exist;
    /// [`GatewayError::OverLimit`] for a client that has used up a limit or a share.
    pub(crate) fn check(
        &self,
        parts: &Parts,
        route: &Route,
        choice: Choice,
        is_component: impl Fn(IpAddr) -> bool,
    ) -> Result<Option<Operation>, GatewayError> {
        let Some(check) = &self.check else {
            return Ok(None);
        };
        let path = parts.uri.path();
        let call = path.get(choice.prefix..).unwrap_or(path);
        let operation = operation::of_call(check.protocol, parts, call);
        check.may(route, operation, call, &is_component)?;
        if check.is_anonymous() && check.from.is_some_and(|from| is_component(from.to_canonical())) {
            self.shares.set_internal();
        }
        let is_pinned = choice.is_tagged
            || header_names::has(&parts.headers, &headers::REVISION)
            || header_names::has(&parts.headers, &headers::TAG);
        if is_pinned {
            check.may(route, Operation::Pin, call, |_| false)?;
        }
        self.shares.take()?;
        check.spend(route)?;
        Ok(Some(operation))
    }

    /// Returns the client whose shares of the gateway's limits the request takes; `None` without access control and for
    /// requests between parts of the platform.
    pub(crate) fn client(&self) -> Option<ClientShare> {
        self.shares.client()
    }

    /// Returns the meter of a request that is allowed and whose bytes or tokens are limited.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.check.as_ref()?.meter.get()
    }

    /// Takes the slots that the request occupies in the client's limits; `None` if no limit counts it.
    pub(crate) fn take_held(&mut self) -> Option<Box<HeldLimits>> {
        // Without access control, no limit counts a request.
        let slots = self.check.as_mut()?.slots.take().filter(|slots| !slots.is_empty());
        let unit = self.shares.take_unit();
        (slots.is_some() || unit.is_some()).then(|| Box::new(HeldLimits { _slots: slots, _unit: unit }))
    }

    /// Checks that the sender may do this operation at a service, by a call with this path there.
    ///
    /// # Errors
    /// The same as for [`Self::check`].
    pub(crate) fn may(&self, route: &Route, operation: Operation, call: &str) -> Result<(), GatewayError> {
        self.check.as_ref().map_or(Ok(()), |check| check.may(route, operation, call, |_| false))
    }

    /// Checks that the rules allow some request of the sender. This comes before the body is read, and before an answer
    /// that is about no single service. `opened` shows if a service allows requests without a key.
    ///
    /// # Errors
    /// [`GatewayError::Refused`] without a valid key, unless anyone may use some service; [`GatewayError::OverLimit`]
    /// for a client that already uses its share of the open requests.
    pub(crate) fn admit(&self, opened: Opened) -> Result<(), GatewayError> {
        let Some(check) = &self.check else {
            return Ok(());
        };
        match &check.sender {
            Sender::Gateway(_) | Sender::OwnPort => self.shares.take(),
            Sender::Client(Err(error)) => Err(refuse_key(None, "", error)),
            Sender::Client(Ok(caller)) => match (caller.client(), opened) {
                (Some(_), _) | (None, Opened::ToAnyone) => self.shares.take(),
                (None, Opened::ToClients) if check.policy.rules.admit_anyone() => self.shares.take(),
                (None, Opened::ToClients) => Err(refuse(caller, None, "")),
            },
        }
    }

    /// Returns true if the sender may learn that this service exists.
    pub(crate) fn sees(&self, route: &Route) -> bool {
        let Some(check) = &self.check else {
            return true;
        };
        match &check.sender {
            Sender::Gateway(_) | Sender::OwnPort => true,
            Sender::Client(Err(_)) => false,
            Sender::Client(Ok(caller)) => [Operation::Metadata, Operation::Infer]
                .into_iter()
                .any(|operation| matches!(check.decide(caller, route, operation), Verdict::Allowed(_))),
        }
    }

    /// Returns the error that the sender gets if a request leads to no service. Only a caller that may use every
    /// service learns that this one does not exist; all others get the same error as for a service that they may not
    /// use.
    pub(crate) fn conceal(&self, error: GatewayError) -> GatewayError {
        let Some(check) = &self.check else {
            return error;
        };
        match &check.sender {
            Sender::Gateway(_) | Sender::OwnPort => error,
            Sender::Client(_) if matches!(error, GatewayError::Refused(_)) => error,
            Sender::Client(Err(reason)) => refuse_key(None, "", reason),
            Sender::Client(Ok(caller)) => {
                let is_concealed = match caller.client() {
                    None => is_about_existence(&error) || is_general(&error),
                    Some(_) => is_about_existence(&error),
                };
                if is_concealed && !check.policy.rules.sees_all(caller) { refuse(caller, None, "") } else { error }
            }
        }
    }

    /// Records the error that ends a request, if it is a refusal.
    pub(crate) fn record(&self, error: &GatewayError) {
        let Some(check) = &self.check else {
            return;
        };
        if let GatewayError::Refused(refused) = error {
            check.control.audit.refused(refused);
        } else if let GatewayError::OverLimit { limit, .. } = error {
            check.control.audit.limited(check.client(), *limit);
        }
    }
}

/// Choice of a revision by a request's address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Length of the path prefix that leads to the service, in bytes.
    pub(crate) prefix: usize,
    /// True for the host of a tag.
    pub(crate) is_tagged: bool,
}

/// Access of requests without a key to a gateway's services, by the rules in the services' annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// At least one service allows requests without a key.
    ToAnyone,
    /// No service allows requests without a key; the rules of the access files may still allow them.
    ToClients,
}

impl Check<'_> {
    fn is_anonymous(&self) -> bool {
        matches!(&self.sender, Sender::Client(Ok(caller)) if caller.client().is_none())
    }

    /// Returns the name of the client; `None` for a client without one, and for components of a service.
    fn client(&self) -> Option<&str> {
        match &self.sender {
            Sender::Client(Ok(caller)) => caller.client().map(|name| &**name),
            Sender::Gateway(name) => name.as_ref().and_then(|name| name.to_str().ok()),
            Sender::Client(Err(_)) | Sender::OwnPort => None,
        }
    }

    /// Counts a request that the rules allow against the limits of its client.
    fn spend(&self, route: &Route) -> Result<(), GatewayError> {
        let Sender::Client(Ok(caller)) = &self.sender else {
            return Ok(());
        };
        let Some(client) = caller.client() else {
            return Ok(());
        };
        let limits = rates::limits_of(&self.policy, client, &route.service);
        if limits.is_empty() {
            return Ok(());
        }
        let full = GatewayError::OverLimit { limit: ClientLimit::Concurrency, after: CONCURRENCY_RETRY };
        let gateways = self.control.gateways.get();
        let slots = self.control.in_flight.begin(&limits, gateways).ok_or(full)?;
        let begun = self.control.rates.begin(&limits, gateways, now());
        let over = |UsedUp { unit, after }| GatewayError::OverLimit { limit: ClientLimit::Rate(unit), after };
        let meter = begun.map_err(over)?;
        // A request is checked once, so the cell is still empty.
        let _ = self.slots.set(slots);
        meter.map(|meter| self.meter.set(meter));
        Ok(())
    }

    fn may(
        &self,
        route: &Route,
        operation: Operation,
        call: &str,
        is_component: impl Fn(IpAddr) -> bool,
    ) -> Result<(), GatewayError> {
        let caller = match &self.sender {
            Sender::Gateway(_) | Sender::OwnPort => return Ok(()),
            Sender::Client(Ok(caller)) => caller,
            Sender::Client(Err(error)) => return Err(refuse_key(Some(route), operation.label(), error)),
        };
        match self.decide(caller, route, operation) {
            Verdict::Allowed(grant) => {
                if operation == Operation::Control {
                    let client = caller.client().map(|name| &**name);
                    self.control.audit.controlled(client, &route.service, call, grant);
                }
                Ok(())
            }
            Verdict::Unauthenticated | Verdict::Forbidden
                if is_use(operation) && self.from.is_some_and(|from| is_component(from.to_canonical())) =>
            {
                Ok(())
            }
            Verdict::Unauthenticated | Verdict::Forbidden => Err(refuse(caller, Some(route), operation.label())),
        }
    }

    fn decide(&self, caller: &Caller, route: &Route, operation: Operation) -> Verdict {
        let service = ServiceId { namespace: route.service.namespace(), name: route.service.name() };
        self.policy.rules.decide(&route.access, caller, service, operation)
    }
}

/// Returns the caller that the key or token of a request names, or else the certificate of its connection.
async fn authenticate(
    control: &AccessControl,
    policy: &Policy,
    credential: &Result<Option<Credential>, AuthError>,
    parts: &Parts,
) -> Result<Arc<Caller>, AuthError> {
    match credential {
        Ok(Some(credential)) => control.caller(policy, credential.text()?).await,
        Ok(None) => control.client_of_connection(policy, parts).unwrap_or_else(|| Ok(control.anonymous())),
        Err(error) => Err(error.clone()),
    }
}

/// Returns the share of a client that this gateway has authenticated, with the weight of its limits.
fn share_of(policy: &Policy, caller: &Caller) -> ClientShare {
    let weight = caller.client().map_or(NonZeroU16::MIN, |name| weight(policy, name));
    ClientShare { client: caller.id(), weight }
}

/// Returns the share of the client that the header names, with the weight of its limits.
fn share(policy: Option<&Policy>, head: &HeaderMap) -> ClientShare {
    let Some(name) = headers::text(head, &headers::CLIENT) else {
        return ClientShare::ANONYMOUS;
    };
    let weight = policy.map_or(NonZeroU16::MIN, |policy| weight(policy, name));
    ClientShare { client: ClientId::of(name), weight }
}

fn weight(policy: &Policy, client: &str) -> NonZeroU16 {
    policy.limits_of(client).and_then(|limits| limits.weight).unwrap_or(NonZeroU16::MIN)
}

/// Returns the refusal of a caller without a key, or of a client to which no rule allows the request.
fn refuse(caller: &Caller, route: Option<&Route>, operation: &'static str) -> GatewayError {
    let (refusal, because) = match (caller.client(), route) {
        (None, _) => (Refusal::NoCredential, "it has no key"),
        (Some(_), Some(_)) => (Refusal::Forbidden, "no rule allows it"),
        (Some(_), None) => (Refusal::Forbidden, "it leads to no service"),
    };
    GatewayError::Refused(Box::new(Refused {
        refusal,
        client: caller.client().cloned(),
        service: route.map(|route| route.service.to_string()),
        operation,
        because: because.to_owned(),
    }))
}

/// Returns the refusal of an invalid key. It names the client only if the secret is right.
fn refuse_key(route: Option<&Route>, operation: &'static str, error: &AuthError) -> GatewayError {
    let client = match error {
        AuthError::Key(KeyError::Expired(caller)) => caller.client().cloned(),
        AuthError::Token(TokenError::KeysUnavailable) => return GatewayError::IssuerAway,
        AuthError::Key(KeyError::Malformed | KeyError::Unknown | KeyError::WrongSecret)
        | AuthError::Token(_)
        | AuthError::Certificate(_)
        | AuthError::NameOfKeys
        | AuthError::Several => None,
    };
    GatewayError::Refused(Box::new(Refused {
        refusal: match error {
            AuthError::Several => Refusal::SeveralCredentials,
            AuthError::Key(_) | AuthError::Token(_) | AuthError::Certificate(_) | AuthError::NameOfKeys => {
                Refusal::InvalidCredential
            }
        },
        client,
        service: route.map(|route| route.service.to_string()),
        operation,
        because: error.to_string(),
    }))
}

/// Returns true for an operation that a component of a service may do at the service's other components.
fn is_use(operation: Operation) -> bool {
    matches!(operation, Operation::Infer | Operation::Metadata)
}

/// Returns true for an error from which a client could learn which services exist.
fn is_about_existence(error: &GatewayError) -> bool {
    matches!(
        error,
        GatewayError::NoRoute { .. }
            | GatewayError::NoMethod { .. }
            | GatewayError::OneRuntime(_)
            | GatewayError::Foreign(_)
    )
}

/// Returns true for an error of a call that is about no service.
fn is_general(error: &GatewayError) -> bool {
    matches!(error, GatewayError::MethodNotAllowed { .. })
}
