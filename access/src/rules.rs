//! The rules of all access files, and the decision about one request.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;

use foldhash::fast::RandomState;

use crate::caller::Caller;
use crate::operation::Operation;
use crate::pattern::ServiceId;
use crate::rule::{MAX_RULES, Rule, RuleError, below};

/// The rules of all access files, with an index: the cost of a decision does not grow with the rules for other clients.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    all: Vec<Rule>,
    /// Rules that name a client by its exact name and no other caller.
    by_client: HashMap<String, Vec<u32>, RandomState>,
    /// Indices of all other rules.
    shared: Vec<u32>,
}

/// Rules of one service's annotation, for that service alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRules(Box<[Rule]>);

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A rule allows the request.
    Allowed(Grant),
    /// No rule allows the request to anyone, and the caller sent no key or token.
    Unauthenticated,
    /// No rule allows the request to this client, or its key is limited to other operations.
    Forbidden,
}

/// The rule that allows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// Rule of the access files with this number, counted from 1 through all files in their order.
    File(u32),
    /// Rule of the service's annotation with this number, counted from 1.
    Service(u32),
}

impl Rules {
    /// Indexes rules that [`Rule::check`] accepts.
    #[must_use]
    pub fn new(all: Vec<Rule>) -> Self {
        let mut rules = Self { all, ..Self::default() };
        for (number, rule) in (0_u32..).zip(&rules.all) {
            match rule.exact_clients() {
                Some(clients) => {
                    for client in clients {
                        rules.by_client.entry(client.clone()).or_default().push(number);
                    }
                }
                None => rules.shared.push(number),
            }
        }
        rules
    }

    /// Decides about a request of `caller`; `own` are the rules of the service's annotation.
    #[must_use]
    pub fn decide(&self, own: &ServiceRules, caller: &Caller, service: ServiceId<'_>, operation: Operation) -> Verdict {
        let mut allowed = None;
        if caller.is_in_scope(operation) {
            let permits = |rule: &Rule| rule.covers(service) && rule.permits(operation);
            let found = self.of_caller(caller).find(|(_, rule)| permits(rule));
            allowed = found.map(|(number, _)| Grant::File(number + 1));
            allowed = allowed.or_else(|| own.permitting(caller, operation));
        }
        match (allowed, caller.client()) {
            (Some(grant), _) => Verdict::Allowed(grant),
            (None, None) => Verdict::Unauthenticated,
            (None, Some(_)) => Verdict::Forbidden,
        }
    }

    /// Returns true if the caller may use every service, so that it may learn which services do not exist.
    #[must_use]
    pub fn sees_all(&self, caller: &Caller) -> bool {
        let is_in_scope = caller.is_in_scope(Operation::Infer) || caller.is_in_scope(Operation::Metadata);
        let permits = |rule: &Rule| rule.permits(Operation::Infer) || rule.permits(Operation::Metadata);
        is_in_scope && self.of_caller(caller).any(|(_, rule)| rule.covers_all() && permits(rule))
    }

    /// Returns true if some rule allows requests without a key or token.
    #[must_use]
    pub fn admit_anyone(&self) -> bool {
        self.all.iter().any(|rule| rule.anyone)
    }

    /// Iterates over the clients that rules name exactly.
    pub fn client_names(&self) -> impl Iterator<Item = &str> {
        self.by_client.keys().map(String::as_str)
    }

    /// Iterates over the rules that name the caller, with their numbers from 0.
    fn of_caller<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = (u32, &'a Rule)> {
        let own = caller.client().and_then(|client| self.by_client.get(&**client));
        let own = own.into_iter().flatten().map(|number| (*number, &self.all[*number as usize]));
        let shared = self.shared.iter().map(|number| (*number, &self.all[*number as usize]));
        own.chain(shared.filter(|(_, rule)| rule.names(caller)))
    }
}

impl ServiceRules {
    /// Creates the rules of one service's annotation.
    ///
    /// # Errors
    /// The first [`RuleError`], with the path of its field.
    pub fn new(rules: Vec<Rule>) -> Result<Self, (String, RuleError)> {
        if rules.len() > MAX_RULES {
            return Err((String::new(), RuleError::TooManyRules));
        }
        for (at, rule) in rules.iter().enumerate() {
            rule.check_of_service().map_err(|(field, error)| (below(&format!("[{at}]"), &field), error))?;
        }
        Ok(Self(rules.into()))
    }

    /// Returns the rules as written.
    #[must_use]
    pub fn as_slice(&self) -> &[Rule] {
        &self.0
    }

    /// Returns true if some rule allows requests without a key or token.
    #[must_use]
    pub fn admit_anyone(&self) -> bool {
        self.0.iter().any(|rule| rule.anyone)
    }

    fn permitting(&self, caller: &Caller, operation: Operation) -> Option<Grant> {
        let mut rules = (1_u32..).zip(&self.0);
        rules.find(|(_, rule)| rule.names(caller) && rule.permits(operation)).map(|(number, _)| Grant::Service(number))
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(number) => write!(f, "rule {number}"),
            Self::Service(number) => write!(f, "rule {number} of the service"),
        }
    }
}
