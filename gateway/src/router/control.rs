//! Calls that control a service's servers. They are refused unless the service opens them to its clients.

use http::request::Parts;
use prost::Message as _;
use weir_access::Operation;
use weir_cluster::{ControlRoutes, Route};
use weir_protocol::grpc::proto::ModelStatisticsRequest;
use weir_protocol::{is_control, is_control_without_model};

use super::Target;
use super::matcher::RouteMatch;
use crate::access::Guard;
use crate::body::BufferedBody;
use crate::codec::grpc::first_message;
use crate::error::GatewayError;
use crate::wire::headers::{self, GRPC_ENCODING};

/// Longest message, in bytes, that is searched for a model's name; the same limit as in the runtime.
const MAX_MESSAGE: usize = 64 << 10;

/// Checks that the path of a request is not a closed control call. `operation` is the call's, if access control has
/// already found it.
///
/// # Errors
/// [`GatewayError::ControlClosed`] for a control call of a service that does not open them.
pub(super) fn check_path(found: &RouteMatch<'_>, path: &str, operation: Option<Operation>) -> Result<(), GatewayError> {
    let call = path.get(found.prefix..).unwrap_or(path);
    let is_control = || operation.map_or_else(|| is_control(call), |operation| operation == Operation::Control);
    match found.route.control {
        ControlRoutes::Closed if is_control() => Err(closed(call, found.route)),
        ControlRoutes::Closed | ControlRoutes::Open => Ok(()),
    }
}

impl Target {
    /// Checks that a gRPC statistics call names its model. Without a name it would report all models of the server.
    ///
    /// # Errors
    /// [`GatewayError::ControlClosed`] if no model is named and the service does not open control calls; the errors of
    /// [`Guard::may`] if the sender may not control it.
    pub(crate) fn check_message(
        &self,
        parts: &Parts,
        body: &BufferedBody,
        guard: &Guard<'_>,
    ) -> Result<(), GatewayError> {
        let path = parts.uri.path();
        let call = path.get(self.prefix..).unwrap_or(path);
        if !is_control_without_model(call) || names_model(parts, body) {
            return Ok(());
        }
        guard.may(&self.route, Operation::Control, call)?;
        match self.route.control {
            ControlRoutes::Closed => Err(closed(call, &self.route)),
            ControlRoutes::Open => Ok(()),
        }
    }
}

/// True if a server would find a model's name in the message. The message is decoded whole, because the last value of a
/// repeated field counts.
fn names_model(parts: &Parts, body: &BufferedBody) -> bool {
    if !body.is_whole() || body.size() > MAX_MESSAGE {
        return false;
    }
    let encoding = headers::text(&parts.headers, &GRPC_ENCODING);
    let whole = body.head(MAX_MESSAGE);
    let message = first_message(&whole, encoding, MAX_MESSAGE);
    // A decompressed message that reaches the limit may have been cut off.
    let message = message.filter(|message| message.len() < MAX_MESSAGE);
    let decoded = message.and_then(|message| ModelStatisticsRequest::decode(&*message).ok());
    decoded.is_some_and(|request| !request.name.is_empty())
}

fn closed(call: &str, route: &Route) -> GatewayError {
    GatewayError::ControlClosed { call: call.to_owned(), service: route.service.to_string() }
}
