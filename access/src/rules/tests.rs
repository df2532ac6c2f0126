use proptest::prelude::*;

use super::*;
use crate::operation::Operations;

const NAMES: [&str; 3] = ["a", "b", "ab"];

fn caller() -> impl Strategy<Value = Caller> {
    let client = prop::option::of(prop::sample::select(&NAMES[..]));
    let roles = prop::collection::vec(prop::sample::select(&NAMES[..]), 0..2);
    let scopes = prop::collection::vec(operation(), 0..4);
    (client, roles, scopes).prop_map(|(client, roles, scopes)| match client {
        Some(client) => {
            let roles = roles.into_iter().map(Into::into).collect();
            Caller::named(client.into(), roles, scopes.into_iter().collect())
        }
        None => Caller::anonymous(),
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop::sample::select(&Operation::ALL[..])
}

fn rule() -> impl Strategy<Value = Rule> {
    let names = || prop::collection::vec(prop::sample::select(&["a", "b", "ab", "a*", "*"][..]), 0..3);
    let services = prop::collection::vec(prop::sample::select(&["*", "a/*", "*/a", "a/b", "b/ab", "a*/a*"][..]), 1..3);
    let operations = prop::collection::vec(operation(), 0..3);
    let texts = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    (names(), names(), prop::bool::weighted(0.1), services, operations).prop_map(
        move |(clients, roles, anyone, services, operations)| Rule {
            clients: texts(clients),
            roles: texts(roles),
            anyone,
            services: texts(services),
            operations,
        },
    )
}

fn service() -> impl Strategy<Value = ServiceId<'static>> {
    let name = || prop::sample::select(&NAMES[..]);
    (name(), name()).prop_map(|(namespace, name)| ServiceId { namespace, name })
}

/// Matches a pattern without the code under test.
fn fits(pattern: &str, text: &str) -> bool {
    pattern == text || (pattern.ends_with('*') && text.starts_with(&pattern[..pattern.len() - 1]))
}

/// Decides by the rules as they are documented, without an index.
fn allows(rule: &Rule, caller: &Caller, service: ServiceId<'_>, operation: Operation) -> bool {
    let by_client = caller.client().is_some_and(|client| rule.clients.iter().any(|pattern| fits(pattern, client)));
    let by_role = caller.roles().iter().any(|role| rule.roles.iter().any(|pattern| fits(pattern, role)));
    let at = rule.services.iter().any(|pattern| match pattern.split_once('/') {
        Some((namespace, name)) => fits(namespace, service.namespace) && fits(name, service.name),
        None => true,
    });
    let does = if rule.operations.is_empty() {
        matches!(operation, Operation::Infer | Operation::Metadata)
    } else {
        rule.operations.contains(&operation)
    };
    (rule.anyone || by_client || by_role) && at && does && caller.is_in_scope(operation)
}

proptest! {
    /// A request is allowed only by a rule, and the verdict names a rule that allows it.
    #[test]
    fn a_request_is_allowed_exactly_if_a_rule_allows_it(
        rules in prop::collection::vec(rule(), 0..6),
        caller in caller(),
        service in service(),
        operation in operation(),
    ) {
        let verdict = Rules::new(rules.clone()).decide(&ServiceRules::default(), &caller, service, operation);
        let expected = rules.iter().any(|rule| allows(rule, &caller, service, operation));
        match verdict {
            Verdict::Allowed(Grant::File(number)) => {
                prop_assert!(allows(&rules[number as usize - 1], &caller, service, operation));
            }
            Verdict::Allowed(Grant::Service(_)) => prop_assert!(false),
            Verdict::Unauthenticated => prop_assert!(!expected && caller.client().is_none()),
            Verdict::Forbidden => prop_assert!(!expected && caller.client().is_some()),
        }
    }

    /// Rules only add: no rule takes away what another one allows.
    #[test]
    fn more_rules_never_allow_less(
        rules in prop::collection::vec(rule(), 1..6),
        caller in caller(),
        service in service(),
        operation in operation(),
    ) {
        let none = ServiceRules::default();
        let is_allowed = |rules: &[Rule]| {
            matches!(Rules::new(rules.to_vec()).decide(&none, &caller, service, operation), Verdict::Allowed(_))
        };
        prop_assert!(!is_allowed(&rules[1..]) || is_allowed(&rules));
    }

    /// A caller that may learn of every service may use every service.
    #[test]
    fn a_caller_that_sees_all_services_may_use_all(
        rules in prop::collection::vec(rule(), 0..6),
        caller in caller(),
        service in service(),
    ) {
        let rules = Rules::new(rules);
        let may = |operation| {
            matches!(rules.decide(&ServiceRules::default(), &caller, service, operation), Verdict::Allowed(_))
        };
        let uses = may(Operation::Infer) || may(Operation::Metadata);
        // A rule for other operations than those of the key shows nothing, so this holds for keys without scopes.
        let is_unlimited = Operation::ALL.into_iter().all(|operation| caller.is_in_scope(operation));
        prop_assert!(!is_unlimited || !rules.sees_all(&caller) || uses);
    }
}

#[test]
fn a_service_can_open_itself_alone() {
    let rule = Rule { clients: vec!["b".to_owned()], ..Rule::default() };
    let own = ServiceRules::new(vec![rule]).unwrap();
    let client = |name: &str| Caller::named(name.into(), Vec::new(), Operations::ALL);
    let service = ServiceId { namespace: "a", name: "a" };
    let decide =
        |own: &ServiceRules, caller: &Caller, operation| Rules::default().decide(own, caller, service, operation);
    let granted = Verdict::Allowed(Grant::Service(1));
    assert_eq!(decide(&own, &client("b"), Operation::Infer), granted);
    assert_eq!(decide(&own, &client("b"), Operation::Control), Verdict::Forbidden);
    assert_eq!(decide(&own, &client("a"), Operation::Infer), Verdict::Forbidden);
    assert_eq!(decide(&own, &Caller::anonymous(), Operation::Infer), Verdict::Unauthenticated);
    assert_eq!(decide(&ServiceRules::default(), &client("b"), Operation::Infer), Verdict::Forbidden);
    let other = Rule { anyone: true, services: vec!["*".to_owned()], ..Rule::default() };
    let refused = ServiceRules::new(vec![other]).unwrap_err();
    assert_eq!(refused, ("[0].services".to_owned(), RuleError::ForeignService));
}

#[test]
fn a_key_is_limited_to_its_scopes() {
    let rule = Rule { clients: vec!["a".to_owned()], services: vec!["*".to_owned()], ..Rule::default() };
    let rules = Rules::new(vec![rule]);
    let caller = Caller::named("a".into(), Vec::new(), [Operation::Metadata].into_iter().collect());
    let service = ServiceId { namespace: "n", name: "s" };
    let decide = |operation| rules.decide(&ServiceRules::default(), &caller, service, operation);
    assert_eq!(decide(Operation::Metadata), Verdict::Allowed(Grant::File(1)));
    assert_eq!(decide(Operation::Infer), Verdict::Forbidden);
}
