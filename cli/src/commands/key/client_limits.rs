//! Limits of the clients that have keys in a file or Secret.

use serde_json::Value;
use weir_access::{AccessDocument, ClientLimits, Policy};

use crate::args::ClientLimitArgs;
use crate::error::CliError;

/// Sets the limits of a client that the flags name. All other limits of the client stay.
///
/// # Errors
/// [`CliError::Invalid`] if a gateway would refuse the document.
pub(super) fn set(document: &mut AccessDocument, client: &str, args: &ClientLimitArgs) -> Result<(), CliError> {
    let ClientLimitArgs { requests_per_minute, burst, bytes_per_minute, tokens_per_minute, concurrency, weight } =
        *args;
    let given = ClientLimits {
        clients: vec![client.to_owned()],
        services: Vec::new(),
        requests_per_minute,
        burst,
        bytes_per_minute,
        tokens_per_minute,
        concurrency,
        weight,
    };
    if given == (ClientLimits { clients: given.clients.clone(), ..ClientLimits::default() }) {
        return Ok(());
    }
    match document.limits.iter_mut().find(|limits| limits.clients == given.clients) {
        Some(limits) => *limits = merged(limits, given),
        None => document.limits.push(given),
    }
    match Policy::of(std::slice::from_ref(document)) {
        Ok(_) => Ok(()),
        Err(errors) => {
            let line = |error: &weir_access::PolicyError| format!("{}: {}", error.field, error.problem);
            Err(CliError::Invalid(errors.iter().map(line).collect()))
        }
    }
}

fn merged(former: &ClientLimits, given: ClientLimits) -> ClientLimits {
    ClientLimits {
        requests_per_minute: given.requests_per_minute.or(former.requests_per_minute),
        burst: given.burst.or(former.burst),
        bytes_per_minute: given.bytes_per_minute.or(former.bytes_per_minute),
        tokens_per_minute: given.tokens_per_minute.or(former.tokens_per_minute),
        concurrency: given.concurrency.or(former.concurrency),
        weight: given.weight.or(former.weight),
        clients: given.clients,
        services: given.services,
    }
}

/// Removes the limits of a client that has no key any more.
pub(super) fn remove_unused(document: &mut AccessDocument, client: &str) {
    if document.keys.iter().all(|key| key.client != client) {
        document.limits.retain(|limits| limits.clients != [client]);
    }
}

/// Returns the limits of a client as the end of its line in a list; empty without limits.
pub(super) fn shown(document: &AccessDocument, client: &str) -> String {
    let Some(limits) = document.limits.iter().find(|limits| limits.clients.iter().any(|name| name == client)) else {
        return String::new();
    };
    // Limits are an object of numbers beside the lists of names.
    let Ok(Value::Object(fields)) = serde_json::to_value(limits) else {
        return String::new();
    };
    let numbers = fields.iter().filter(|(_, value)| value.is_number());
    let words: Vec<_> = numbers.map(|(name, value)| format!("{name}={value}")).collect();
    format!("  limits {}", words.join(","))
}
