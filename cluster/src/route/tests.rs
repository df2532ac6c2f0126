use super::*;

fn revision(service: &str, number: u32) -> RevisionName {
    let service = ServiceName::new("default", service).unwrap();
    service.revision(number).unwrap()
}

fn route(service: &str, since: u64, hosts: &[&str]) -> Arc<Route> {
    let first = revision(service, 1);
    let split = Destination::Split(Split::all(first.clone()));
    let mut route = Route::new(first.service().clone(), split);
    route.since = since;
    route.hosts = hosts.iter().map(|host| Host::parse(host).unwrap()).collect();
    Arc::new(route)
}

#[test]
fn the_older_service_keeps_the_host() {
    let young = route("a", 20, &["x.example.com", "a.example.com"]);
    let old = route("b", 10, &["x.example.com"]);
    let routes = Routes::new(1, vec![young.clone(), old.clone()]);
    assert_eq!(routes.as_slice(), [old.clone(), young.clone()]);
    assert_eq!(
        routes.conflicts(),
        [Conflict {
            host: Host::parse("x.example.com").unwrap(),
            holder: old.service.clone(),
            loser: young.service.clone(),
        }]
    );
    assert_eq!(routes.of(&young.service), Some(&young));
}

#[test]
fn a_tag_does_not_get_the_host_of_a_service() {
    let host = Host::parse("prev-a.example.com").unwrap();
    let mut old = Route::clone(&route("a", 10, &["a.example.com"]));
    old.tags = vec![Tagged { tag: Tag::new("prev").unwrap(), hosts: vec![host.clone()], revision: revision("a", 1) }];
    let young = route("prev-a", 20, &["prev-a.example.com"]);
    let routes = Routes::new(1, vec![Arc::new(old.clone()), young.clone()]);
    let conflict = Conflict { host, holder: young.service.clone(), loser: old.service };
    assert_eq!(routes.conflicts(), [conflict]);
}

#[test]
fn a_service_of_another_namespace_does_not_get_the_host_of_a_tag() {
    let host = Host::parse("prev-a-team-b.example.com").unwrap();
    let of = |namespace: &str, name: &str, since| {
        let service = ServiceName::new(namespace, name).unwrap();
        let mut route = Route::new(service, Destination::Nowhere("stopped".into()));
        route.since = since;
        route
    };
    let mut old = of("team-b", "a", 10);
    old.tags = vec![Tagged {
        tag: Tag::new("prev").unwrap(),
        hosts: vec![host.clone()],
        revision: old.service.revision(1).unwrap(),
    }];
    let mut young = of("b", "prev-a-team", 20);
    young.hosts = vec![host.clone()];
    let routes = Routes::new(1, vec![Arc::new(old.clone()), Arc::new(young.clone())]);
    let [conflict] = &routes.conflicts()[..] else {
        panic!("{:?}", routes.conflicts());
    };
    assert_eq!((&conflict.holder, &conflict.loser), (&old.service, &young.service));
    assert_eq!(routes.holders()[&host].tag, Some(0));
}

#[test]
fn a_split_needs_a_share_and_no_revision_twice() {
    let target = |number, weight| Target { revision: revision("a", number), weight };
    let split = Split::new(vec![target(1, 80), target(2, 20), target(3, 0)]).unwrap();
    assert_eq!(split.total(), 100);
    for wrong in [vec![], vec![target(1, 0)], vec![target(1, 1), target(1, 2)], vec![target(1, u32::MAX), target(2, 1)]]
    {
        assert!(Split::new(wrong).is_err());
    }
}
