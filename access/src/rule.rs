//! One rule, as written in an access file or in a service's annotation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::caller::Caller;
use crate::operation::{Operation, Operations};
use crate::pattern;
use crate::pattern::{EVERY_SERVICE, ServiceId};

/// Maximum number of rules in an annotation. A request to the service may be compared with all of them, which takes
/// time of a gateway that other services share.
pub(crate) const MAX_RULES: usize = 64;

/// Maximum number of clients and of roles in a rule of an annotation, for the same reason.
const MAX_NAMES: usize = 64;

/// A rule: the callers that it names may do its operations at its services.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Names of clients. A final `*` stands for any text, so `*` alone is every client with a valid key or token.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<String>,
    /// Roles; the caller must have one of them. A final `*` stands for any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Set to allow callers without a key or token as well.
    #[serde(default, skip_serializing_if = "is_false")]
    pub anyone: bool,
    /// Services as `NAMESPACE/NAME`, each with an optional final `*`, or `*` for all. A rule in a service's annotation
    /// has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Operations; `infer` and `metadata` if it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<Operation>,
}

/// Error in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The rule names no caller.
    #[error("the rule allows no caller: set `clients`, `roles` or `anyone: true`")]
    NoCaller,
    /// The rule names no service.
    #[error("the rule names no service: set `services`, such as [team-a/*] or [\"*\"]")]
    NoService,
    /// The rule of an annotation names a service.
    #[error("a rule of an annotation is for its own service: leave out `services`")]
    ForeignService,
    /// A name with a `*` that is not its last character, an empty name, or one that is too long.
    #[error("a name has 1 to 253 characters, and `*` only at its end")]
    Pattern,
    /// A rule of an annotation with too many names.
    #[error("more than {} names", MAX_NAMES)]
    TooManyNames,
    /// An annotation with too many rules.
    #[error("more than {} rules", MAX_RULES)]
    TooManyRules,
    /// A service without a namespace.
    #[error("a service is NAMESPACE/NAME, each with an optional final `*`, or `*` for all")]
    Service,
}

impl Rule {
    /// Checks a rule for all services. The error has the path of the field within the rule.
    ///
    /// # Errors
    /// The first [`RuleError`] of the rule.
    pub fn check(&self) -> Result<(), (String, RuleError)> {
        self.check_callers()?;
        if self.services.is_empty() {
            return Err((String::new(), RuleError::NoService));
        }
        let is_wrong = |service: &String| !is_service_pattern(service);
        match self.services.iter().position(is_wrong) {
            Some(at) => Err((format!("services[{at}]"), RuleError::Service)),
            None => Ok(()),
        }
    }

    /// Checks a rule of a service's annotation.
    ///
    /// # Errors
    /// The first [`RuleError`] of the rule, with the path of its field.
    pub fn check_of_service(&self) -> Result<(), (String, RuleError)> {
        self.check_callers()?;
        if self.clients.len() + self.roles.len() > MAX_NAMES {
            return Err((String::new(), RuleError::TooManyNames));
        }
        if self.services.is_empty() { Ok(()) } else { Err(("services".to_owned(), RuleError::ForeignService)) }
    }

    fn check_callers(&self) -> Result<(), (String, RuleError)> {
        if self.clients.is_empty() && self.roles.is_empty() && !self.anyone {
            return Err((String::new(), RuleError::NoCaller));
        }
        for (field, names) in [("clients", &self.clients), ("roles", &self.roles)] {
            if let Some(at) = names.iter().position(|name| !pattern::is_valid(name)) {
                return Err((format!("{field}[{at}]"), RuleError::Pattern));
            }
        }
        Ok(())
    }

    /// Returns true if the rule names this caller.
    pub(crate) fn names(&self, caller: &Caller) -> bool {
        let is_client = |client: &str| self.clients.iter().any(|pattern| pattern::matches(pattern, client));
        let has_role = |role: &str| self.roles.iter().any(|pattern| pattern::matches(pattern, role));
        self.anyone
            || caller.client().is_some_and(|client| is_client(client))
            || caller.roles().iter().any(|role| has_role(role))
    }

    /// Returns true if the rule is about this service, for a rule of an access file.
    pub(crate) fn covers(&self, service: ServiceId<'_>) -> bool {
        self.services.iter().any(|pattern| service.matches(pattern))
    }

    /// Returns true if the rule is about all services, those that do not exist yet included.
    pub(crate) fn covers_all(&self) -> bool {
        self.services.iter().any(|pattern| matches!(&**pattern, EVERY_SERVICE | "*/*"))
    }

    /// Returns true if the rule allows this operation.
    pub(crate) fn permits(&self, operation: Operation) -> bool {
        if self.operations.is_empty() {
            return Operations::USE.contains(operation);
        }
        self.operations.contains(&operation)
    }

    /// Returns the clients of a rule that names each of them exactly; `None` for a rule that may allow others.
    pub(crate) fn exact_clients(&self) -> Option<&[String]> {
        let is_exact =
            self.roles.is_empty() && !self.anyone && !self.clients.iter().any(|name| pattern::is_prefix(name));
        is_exact.then_some(&self.clients)
    }
}

/// Returns the path of a field below another one.
pub(crate) fn below(path: &str, field: &str) -> String {
    if field.is_empty() { path.to_owned() } else { format!("{path}.{field}") }
}

/// Returns true for a pattern of services that a rule or a limit may have.
pub(crate) fn is_service_pattern(text: &str) -> bool {
    match text.split_once('/') {
        Some((namespace, name)) => pattern::is_valid(namespace) && pattern::is_valid(name) && !name.contains('/'),
        None => text == EVERY_SERVICE,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}
