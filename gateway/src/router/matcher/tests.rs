use std::sync::Arc;

use proptest::prelude::*;
use weir_cluster::{Destination, Host, Route, Routes, ServiceName, Split, Tag, Tagged};

use super::*;
use crate::router::path::model_of_path;

fn service(name: &str) -> ServiceName {
    ServiceName::new("default", name).unwrap()
}

fn route(name: &str, since: u64) -> Route {
    let service = service(name);
    let mut hosts = service.inside_hosts(ServiceName::CLUSTER_DOMAIN).unwrap();
    hosts.push(service.host("example.com").unwrap());
    let tag = Tag::new("prev").unwrap();
    let tagged = Tagged {
        hosts: vec![service.tagged_host(&tag, "example.com").unwrap()],
        tag,
        revision: service.revision(1).unwrap(),
    };
    let newest = service.revision(2).unwrap();
    Route {
        since,
        hosts,
        model: Some(name.into()),
        tags: vec![tagged],
        ..Route::new(service, Destination::Split(Split::all(newest)))
    }
}

fn matcher(routes: Vec<Route>, scope: Scope) -> RouteMatcher {
    let routes = routes.into_iter().map(Arc::new).collect();
    RouteMatcher::new(&Routes::new(1, routes), scope, weir_serve::known_hosts::KnownHosts::Any)
}

fn chosen<'a>(found: &RouteMatch<'a>) -> &'a str {
    found.revision(None, None, || 0).unwrap().as_str()
}

#[test]
fn a_host_leads_to_its_service_in_every_spelling() {
    let matcher = matcher(vec![route("digits", 1)], Scope::Cluster);
    for host in [
        "digits-default.example.com",
        "Digits-Default.EXAMPLE.com:8080",
        "digits.default.",
        "digits.default.svc.cluster.local:80",
        "digits-predictor.default.svc",
    ] {
        let found = matcher.by_address(Some(host), "/v2").expect(host);
        assert_eq!(found.route.service, service("digits"));
        assert_eq!(found.prefix, 0);
        assert_eq!(chosen(&found), "digits-predictor-00002");
    }
    let tagged = matcher.by_address(Some("prev-digits-default.example.com"), "/").unwrap();
    assert_eq!(chosen(&tagged), "digits-predictor-00001");
    assert_eq!(matcher.by_address(Some("other.default"), "/v2"), None);
    assert_eq!(matcher.by_address(None, "/v2"), None);
}

#[test]
fn a_path_leads_to_its_service_and_loses_its_prefix() {
    let matcher = matcher(vec![route("digits", 1)], Scope::Cluster);
    for (path, rest) in [
        ("/serving/default/digits/v2/models/digits/infer", "/v2/models/digits/infer"),
        ("/serving/default/digits/", "/"),
        ("/serving/default/digits", ""),
    ] {
        let found = matcher.by_address(Some("localhost:8080"), path).expect(path);
        assert_eq!(&path[found.prefix..], rest);
    }
    for path in ["/serving/default", "/serving/default/digit/v2", "/serving/", "/serve"] {
        assert_eq!(matcher.by_address(None, path), None, "{path}");
    }
}

#[test]
fn a_model_leads_to_its_service_on_one_machine_only() {
    let name = |path| model_of_path(path).map(|name| name.into_owned());
    assert_eq!(name("/v2/models/digits/versions/1/infer").as_deref(), Some("digits"));
    assert_eq!(name("/v2/models/a%20b").as_deref(), Some("a b"));
    assert_eq!(name("/v1/models/digits:predict").as_deref(), Some("digits"));
    assert_eq!(name("/v1/models/digits%3Apredict").as_deref(), Some("digits"));
    assert_eq!(name("/v1/models/a%20b:predict").as_deref(), Some("a b"));
    assert_eq!(name("/v1/models/:predict"), None);
    assert_eq!(name("/v2/models/stats"), None);
    assert_eq!(name("/v2/models/"), None);
    assert_eq!(name("/v2"), None);
    let routes = || vec![route("digits", 1)];
    assert!(matcher(routes(), Scope::Local).by_model("digits", |_| true).is_ok());
    assert!(matcher(routes(), Scope::Cluster).by_model("digits", |_| true).is_err());
}

#[test]
fn the_older_of_two_services_keeps_a_common_host() {
    let shared = Host::parse("models.example.com").unwrap();
    let (mut old, mut young) = (route("old", 1), route("young", 2));
    old.hosts.push(shared.clone());
    young.hosts.push(shared);
    let matcher = matcher(vec![young, old], Scope::Cluster);
    let found = matcher.by_address(Some("models.example.com"), "/").unwrap();
    assert_eq!(found.route.service, service("old"));
}

#[test]
fn a_services_own_host_precedes_the_tag_of_an_older_service() {
    let matcher = matcher(vec![route("digits", 1), route("prev-digits", 2)], Scope::Cluster);
    let host = "prev-digits-default.example.com";
    let found = matcher.by_address(Some(host), "/").unwrap();
    assert_eq!(found.route.service, service("prev-digits"));
    assert_eq!(found.revision, None);
}

#[test]
fn headers_choose_a_revision_and_errors_list_the_known_ones() {
    let matcher = matcher(vec![route("digits", 1)], Scope::Local);
    let found = matcher.by_address(Some("digits.default"), "/").unwrap();
    let tagged = found.revision(None, Some("prev"), || 0).unwrap();
    assert_eq!(tagged.number(), 1);
    let pinned = found.revision(Some("digits-predictor-00001"), None, || 0).unwrap();
    assert_eq!(pinned.number(), 1);
    let error = found.revision(Some("digits-predictor-00009"), None, || 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "service default/digits has no revision \"digits-predictor-00009\"; there are: \
         digits-predictor-00001, digits-predictor-00002"
    );
    let error = found.revision(None, Some("next"), || 0).unwrap_err();
    assert_eq!(error.to_string(), "service default/digits has no tag \"next\"; there are: prev");
}

#[test]
fn not_found_errors_list_names_on_one_machine_only() {
    let mut digits = route("digits", 1);
    digits.hosts.truncate(1);
    let local = matcher(vec![digits.clone()], Scope::Local);
    assert_eq!(
        local.no_address(Some("x"), "/").to_string(),
        "no service answers to host \"x\", path \"/\"; known services: default/digits"
    );
    assert_eq!(
        local.no_model("digit").to_string(),
        "no service answers to model \"digit\"; did you mean \"digits\"? known services: default/digits"
    );
    let mistyped = local.no_address(Some("localhost"), "/serving/default/digts/v2");
    assert!(mistyped.to_string().contains("did you mean \"default/digits\"?"), "{mistyped}");
    let mistyped = local.no_address(Some("digit.default:80"), "/");
    assert!(mistyped.to_string().contains("did you mean \"digits.default\"?"), "{mistyped}");
    let shared = matcher(vec![digits], Scope::Cluster).no_address(Some("x"), "/");
    assert!(!shared.to_string().contains("digits"));
}

#[test]
fn a_model_of_several_namespaces_leads_to_the_one_that_the_sender_sees() {
    let of_team = |team: &str, since: u64| Route {
        since,
        model: Some("digits".into()),
        ..Route::new(ServiceName::new(team, "digits").unwrap(), Destination::Nowhere("stopped".into()))
    };
    let matcher = matcher(vec![of_team("red", 1), of_team("blue", 2)], Scope::Local);
    let of = |sees: fn(&Route) -> bool| matcher.by_model("digits", sees).map(|found| found.route.service.namespace());
    assert_eq!(of(|route| route.service.namespace() == "blue"), Ok("blue"));
    let refused = of(|_| true).unwrap_err().to_string();
    for part in ["several services", "/serving/red/digits", "/serving/blue/digits"] {
        assert!(refused.contains(part), "{refused}");
    }
    // Nothing is said of services that the sender does not see: the check of the first one refuses the request.
    assert_eq!(of(|_| false), Ok("red"));
}

#[test]
fn a_service_that_serves_nothing_says_why() {
    let nowhere = Destination::Nowhere("the service is stopped".into());
    let mut stopped = route("digits", 1);
    stopped.destination = nowhere;
    let matcher = matcher(vec![stopped], Scope::Local);
    let found = matcher.by_model("digits", |_| true).unwrap();
    let error = found.revision(None, None, || 0).unwrap_err();
    assert_eq!(error.to_string(), "the service is stopped");
}

proptest! {
    #[test]
    fn no_text_breaks_the_table(host in ".{0,40}", path in "(/serving)?[/a-z%0-9:é]{0,40}") {
        let matcher = matcher(vec![route("digits", 1)], Scope::Local);
        if let Some(found) = matcher.by_address(Some(&host), &path) {
            prop_assert!(path.is_char_boundary(found.prefix));
        }
        let _ = model_of_path(&path);
    }

    #[test]
    fn every_claimed_host_is_found(names in proptest::collection::btree_set("[a-z]{1,8}", 1..6)) {
        let routes: Vec<Route> = names.iter().map(|name| route(name, 1)).collect();
        let matcher = matcher(routes.clone(), Scope::Cluster);
        for route in &routes {
            for host in route.all_hosts() {
                let found = matcher.by_address(Some(host.as_str()), "/").unwrap();
                prop_assert_eq!(&found.route.service, &route.service);
            }
        }
    }
}

fn component(name: &str, kind: ComponentKind, entrance: Entrance) -> Route {
    let service = service(name).of_component(kind).unwrap();
    let newest = service.revision(1).unwrap();
    Route {
        hosts: service.component_hosts(ServiceName::CLUSTER_DOMAIN).unwrap(),
        model: (entrance == Entrance::Service).then(|| name.into()),
        entrance,
        ..Route::new(service, Destination::Split(Split::all(newest)))
    }
}

/// Returns a matcher of `digits`, a service with all three components.
fn of_components() -> RouteMatcher {
    let all = [
        component("digits", ComponentKind::Predictor, Entrance::Component),
        component("digits", ComponentKind::Transformer, Entrance::Service),
        component("digits", ComponentKind::Explainer, Entrance::Component),
    ];
    matcher(all.into(), Scope::Local)
}

#[test]
fn path_and_model_lead_to_the_transformer_and_the_predictors_host_to_the_predictor() {
    let matcher = of_components();
    let by_path = matcher.by_address(None, "/serving/default/digits/v1/models/digits:predict").unwrap();
    let by_model = matcher.by_model("digits", |_| true).unwrap();
    for found in [by_path, by_model] {
        assert_eq!(chosen(&found), "digits-transformer-00001");
        let same = matcher.component(&found, "/v1/models/digits:predict");
        assert_eq!(chosen(&same), "digits-transformer-00001");
    }
    let predictor = matcher.by_address(Some("digits-predictor.default"), "/v1/models/digits:predict").unwrap();
    assert_eq!(chosen(&predictor), "digits-predictor-00001");
    assert_eq!(matcher.by_address(None, "/serving/default/digits-predictor/v2"), None);
}

#[test]
fn explanations_lead_to_the_explainer_unless_the_host_is_a_components() {
    let matcher = of_components();
    let path = "/v1/models/digits:explain";
    let found = matcher.by_model("digits", |_| true).unwrap();
    assert_eq!(chosen(&matcher.component(&found, path)), "digits-explainer-00001");
    let of_predictor = matcher.by_address(Some("digits-predictor.default"), path).unwrap();
    assert_eq!(chosen(&matcher.component(&of_predictor, path)), "digits-predictor-00001");
    let without = super::tests::matcher(vec![route("digits", 1)], Scope::Local);
    let found = without.by_model("digits", |_| true).unwrap();
    assert_eq!(chosen(&without.component(&found, path)), "digits-predictor-00002");
}

#[test]
fn only_v1s_call_is_an_explanation() {
    assert!(is_explanation("/serving/default/digits/v1/models/digits:explain"));
    for path in ["/v1/models/digits:predict", "/v1/models/:explain", "/v1/models/a/b:explain", "/x:explain"] {
        assert!(!is_explanation(path), "{path}");
    }
}
