use std::num::{NonZeroU16, NonZeroU32};

use super::*;
use crate::issuer::IssuerKind;
use crate::rule::Rule;

fn key(id: &str) -> WrittenKey {
    WrittenKey {
        id: id.to_owned(),
        client: "team-a".to_owned(),
        sha256: "0".repeat(64),
        expires: None,
        scopes: Vec::new(),
        roles: Vec::new(),
    }
}

#[test]
fn every_error_of_every_file_is_reported() {
    let good = key("0123456789abcdef");
    let expired = WrittenKey { expires: Some("tomorrow".to_owned()), ..key("0000000000000001") };
    let nameless = WrittenKey { client: "a b".to_owned(), ..key("0000000000000002") };
    let short = WrittenKey { sha256: "00".to_owned(), ..key("0000000000000003") };
    let reserved = WrittenKey { client: "system:serviceaccount:a:b".to_owned(), ..key("0000000000000004") };
    let rule = Rule { clients: vec!["a".to_owned()], services: vec!["digits".to_owned()], ..Rule::default() };
    let first = AccessDocument { keys: vec![good.clone(), key("x"), expired], ..AccessDocument::default() };
    let second = AccessDocument {
        keys: vec![nameless, short, good, reserved],
        rules: vec![rule, Rule::default()],
        ..AccessDocument::default()
    };
    let errors = Policy::of(&[first, second]).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.document, &*error.field, error.problem)).collect();
    let expected = [
        (0, "keys[1].id", Problem::Id),
        (0, "keys[2].expires", Problem::Time),
        (1, "keys[0].client", Problem::Client),
        (1, "keys[1].sha256", Problem::Digest),
        (1, "keys[2].id", Problem::DuplicateId),
        (1, "keys[3].client", Problem::ReservedClient),
        (1, "rules[0].services[0]", Problem::Rule(RuleError::Service)),
        (1, "rules[1]", Problem::Rule(RuleError::NoCaller)),
    ];
    assert_eq!(found, expected);
}

#[test]
fn no_certificate_can_give_the_name_of_another_source() {
    let entry = |prefix: &str| ClientCertificates { client_prefix: prefix.to_owned(), ..ClientCertificates::default() };
    let issuer =
        |kind, prefix: &str| IssuerSettings { kind, client_prefix: prefix.to_owned(), ..IssuerSettings::default() };
    let problems = |issuers: Vec<IssuerSettings>, prefixes: &[&str]| {
        let certificates = prefixes.iter().map(|prefix| entry(prefix)).collect();
        let document = AccessDocument { issuers, client_certificates: certificates, ..AccessDocument::default() };
        let errors = Policy::of(&[AccessDocument::default(), document]).err().unwrap_or_default();
        errors.iter().map(|error| (error.field.clone(), error.problem)).collect::<Vec<_>>()
    };
    let shared = |at| vec![(format!("clientCertificates[{at}].clientPrefix"), Problem::SharedPrefix)];
    assert_eq!(problems(vec![], &[""]), []);
    assert_eq!(
        problems(vec![issuer(IssuerKind::OpenId, "sso:"), issuer(IssuerKind::Kubernetes, "")], &["a:", "b:"]),
        []
    );
    assert_eq!(problems(vec![], &["a:", "a:b"]), shared(1));
    assert_eq!(problems(vec![], &["a:", ""]), shared(1));
    assert_eq!(problems(vec![issuer(IssuerKind::OpenId, "")], &["a:"]), shared(0));
    assert_eq!(problems(vec![issuer(IssuerKind::OpenId, "sso:")], &["ss"]), shared(0));
    for prefix in ["system:", "a b", "(a", "a*", &"a".repeat(65)] {
        assert_eq!(problems(vec![], &[prefix])[0].1, Problem::Prefix, "{prefix}");
    }
    let prefixes: Vec<String> = (0..33).map(|number| format!("{number:02}:")).collect();
    let prefixes: Vec<&str> = prefixes.iter().map(String::as_str).collect();
    assert_eq!(problems(vec![], &prefixes), [("clientCertificates[32]".to_owned(), Problem::TooManyEntries)]);
}

#[test]
fn files_add_up() {
    let rule = Rule { anyone: true, services: vec!["*".to_owned()], ..Rule::default() };
    let keys = AccessDocument { keys: vec![key("0000000000000001")], ..AccessDocument::default() };
    let rules = AccessDocument { rules: vec![rule], ..AccessDocument::default() };
    let policy = Policy::of(&[keys, rules]).unwrap();
    assert_eq!(policy.keys.len(), 1);
    assert!(policy.rules.admit_anyone());
    assert_eq!(policy.client_names().collect::<Vec<_>>(), ["team-a"]);
}

#[test]
fn wrong_limits_are_reported_and_the_first_that_name_a_client_count() {
    let limits = |clients: &[&str], weight| ClientLimits {
        clients: clients.iter().map(|name| (*name).to_owned()).collect(),
        weight: NonZeroU16::new(weight),
        ..ClientLimits::default()
    };
    let of = |limits| Policy::of(&[AccessDocument { limits, ..AccessDocument::default() }]);
    let policy = of(vec![limits(&["a"], 3), limits(&["a", "b*"], 2)]).unwrap();
    let weight = |name| policy.limits_of(name).and_then(|limits| limits.weight).map(NonZeroU16::get);
    assert_eq!([weight("a"), weight("b1"), weight("c")], [Some(3), Some(2), None]);
    let errors = of(vec![limits(&[], 1), limits(&["*a"], 1)]).unwrap_err();
    let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
    assert_eq!(fields, ["limits[0].clients", "limits[1].clients"]);
    let of_services = |services: &[&str], weight| ClientLimits {
        services: services.iter().map(|name| (*name).to_owned()).collect(),
        ..limits(&["a"], weight)
    };
    let errors = of(vec![of_services(&["n/*", "digits"], 0), of_services(&["*"], 1)]).unwrap_err();
    let found: Vec<_> = errors.iter().map(|error| (error.field.as_str(), error.problem)).collect();
    let expected =
        [("limits[0].services[1]", Problem::Rule(RuleError::Service)), ("limits[1].weight", Problem::ServiceWeight)];
    assert_eq!(found, expected);
    let burst = ClientLimits { burst: NonZeroU32::new(5), ..limits(&["a"], 0) };
    let error = of(vec![burst]).unwrap_err().remove(0);
    assert_eq!((&*error.field, error.problem), ("limits[0].burst", Problem::BurstWithoutRate));
    assert_eq!(of(vec![limits(&["a"], 1); 257]).unwrap_err()[0].problem, Problem::TooManyLimits);
}

#[test]
fn limits_of_single_services_and_of_all_together_apply_side_by_side() {
    let limits = |services: &[&str], concurrency| ClientLimits {
        clients: vec!["a*".to_owned()],
        services: services.iter().map(|name| (*name).to_owned()).collect(),
        concurrency: NonZeroU32::new(concurrency),
        ..ClientLimits::default()
    };
    let all = vec![limits(&["shop/fraud"], 1), limits(&[], 2), limits(&["shop/*", "x/y"], 3), limits(&[], 4)];
    let policy = Policy::of(&[AccessDocument { limits: all, ..AccessDocument::default() }]).unwrap();
    let concurrency = |limits: Option<&ClientLimits>| limits.and_then(|limits| limits.concurrency).map(NonZeroU32::get);
    assert_eq!(concurrency(policy.limits_of("a1")), Some(2));
    let at = |namespace, name| concurrency(policy.limits_at("a1", ServiceId { namespace, name }));
    assert_eq!(
        [at("shop", "fraud"), at("shop", "other"), at("x", "y"), at("x", "z")],
        [Some(1), Some(3), Some(3), None]
    );
    assert_eq!(policy.limits_at("b", ServiceId { namespace: "shop", name: "fraud" }), None);
}
