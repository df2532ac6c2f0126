use proptest::prelude::*;

use super::*;

fn service(name: &str) -> ServiceName {
    ServiceName::new("default", name).unwrap()
}

#[track_caller]
fn refused(namespace: &str, name: &str, text: &str) {
    let error = ServiceName::new(namespace, name).unwrap_err().to_string();
    assert!(error.contains(text), "{error}");
}

#[test]
fn service_names_are_labels_that_leave_room_for_a_revision() {
    let longest = "a".repeat(47);
    assert_eq!(service(&longest).revision(99_999).unwrap().as_str().len(), 63);
    refused("default", &"a".repeat(48), "at most 47 characters, has 48");
    refused("default", "9lives", "start with a letter");
    refused("default", "a-", "not end with '-'");
    refused("default", "Digits", "lower case");
    refused("default", "", "service name \"\"");
    refused("a.b", "digits", "namespace \"a.b\"");
    assert!(ServiceName::new("9", "digits").is_ok());
}

#[test]
fn a_service_answers_to_these_hosts() {
    let digits = service("digits");
    let tag = Tag::new("prev").unwrap();
    let host = |host: Result<Host, crate::ClusterError>| host.unwrap().to_string();
    assert_eq!(host(digits.host("example.com")), "digits-default.example.com");
    assert_eq!(host(digits.component_host("example.com")), "digits-predictor-default.example.com");
    assert_eq!(host(digits.tagged_host(&tag, "Example.com.")), "prev-digits-default.example.com");
    let inside: Vec<_> = digits.inside_hosts("cluster.local").unwrap();
    let inside: Vec<_> = inside.iter().map(Host::as_str).collect();
    assert_eq!(
        inside,
        [
            "digits.default",
            "digits.default.svc",
            "digits.default.svc.cluster.local",
            "digits-predictor.default",
            "digits-predictor.default.svc",
            "digits-predictor.default.svc.cluster.local",
        ]
    );
    assert_eq!(digits.path_prefix(), "/serving/default/digits");
}

#[test]
fn a_host_label_longer_than_dns_allows_is_refused() {
    let name = ServiceName::new(&"n".repeat(30), &"a".repeat(40)).unwrap();
    let error = name.host("example.com").unwrap_err().to_string();
    assert!(error.contains("at most 63 characters, has 71"), "{error}");
}

#[test]
fn a_revision_reads_back() {
    let revision = service("digits").revision(7).unwrap();
    assert_eq!(revision.as_str(), "digits-predictor-00007");
    assert_eq!(revision.to_string(), "default/digits-predictor-00007");
    for wrong in [
        "digits",
        "digits-predictor-",
        "digits-predictor-7",
        "digits-predictor-+0007",
        "digits-predictor-00000",
        "digits-predictor-100000",
        "-predictor-00001",
    ] {
        assert!(RevisionName::parse("default", wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_component_has_names_of_its_own() {
    let digits = service("digits");
    let transformer = digits.of_component(ComponentKind::Transformer).unwrap();
    assert_eq!(transformer.to_string(), "default/digits/transformer");
    assert_eq!((transformer.name(), &*transformer.full_name()), ("digits", "digits-transformer"));
    assert_eq!(transformer.whole(), digits);
    let revision = transformer.revision(7).unwrap();
    assert_eq!(revision.as_str(), "digits-transformer-00007");
    assert_eq!(RevisionName::parse("default", revision.as_str()).unwrap(), revision);
    let hosts = transformer.component_hosts("cluster.local").unwrap();
    assert_eq!(hosts[0].as_str(), "digits-transformer.default");
    let of_other = service("digits-transformer").revision(7).unwrap();
    assert_ne!(RevisionName::parse("default", of_other.as_str()).unwrap(), revision);
}

#[test]
fn the_longest_revision_of_a_component_is_a_label() {
    for (component, longest) in [(ComponentKind::Predictor, 47), (ComponentKind::Transformer, 45)] {
        let fits = service(&"a".repeat(longest)).of_component(component).unwrap();
        assert_eq!(fits.revision(99_999).unwrap().as_str().len(), 63);
    }
    let error = service(&"a".repeat(46)).of_component(ComponentKind::Transformer).unwrap_err().to_string();
    assert!(error.contains("at most 45 characters, has 46"), "{error}");
}

#[test]
fn hosts_lose_port_case_and_last_dot() {
    let parse = |text: &str| Host::parse(text).unwrap().to_string();
    assert_eq!(parse("A.Example.COM:8080"), "a.example.com");
    assert_eq!(parse("a.example.com."), "a.example.com");
    assert_eq!(parse("[::1]:8080"), "[::1]");
    assert_eq!(parse("[::1]"), "[::1]");
    for wrong in ["", ":80", "a/b", "a b", "ä.example.com"] {
        assert!(Host::parse(wrong).is_err(), "{wrong}");
    }
}

proptest! {
    #[test]
    fn every_valid_name_makes_valid_names(name in "[a-z]([-a-z0-9]{0,45}[a-z0-9])?", number in 1u32..=99_999) {
        let service = service(&name);
        prop_assert_eq!(service.inside_hosts(ServiceName::CLUSTER_DOMAIN).unwrap().len(), 6);
        let revision = service.revision(number).unwrap();
        prop_assert_eq!(RevisionName::parse("default", revision.as_str()).unwrap(), revision);
    }

    #[test]
    fn hosts_parse_to_themselves(text in "\\PC{0,40}") {
        if let Ok(host) = Host::parse(&text) {
            prop_assert_eq!(Host::parse(host.as_str()).unwrap(), host);
        }
    }
}
