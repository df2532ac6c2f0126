//! Check that a route claims only hosts derived from its service's name.

use super::Route;
use crate::{Host, ServiceName, Tag};

/// Domains under which services have their hosts.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    /// Domain of the hosts for clients outside the cluster: `{name}-{namespace}.{domain}`.
    pub external: String,
    /// DNS domain of the cluster, for clients inside it.
    pub cluster: String,
}

impl Domains {
    /// Removes every host that does not follow from the service's name, and records it in `refused_hosts`. An editor of
    /// one namespace may write the route, and must not receive the requests of another namespace.
    pub fn refuse_foreign_hosts(&self, route: &mut Route) {
        let service = &route.service;
        let own = self.hosts(service);
        let mut refused: Vec<_> = route.hosts.extract_if(.., |host| !own.contains(host)).collect();
        for tagged in &mut route.tags {
            let own = self.tagged_host(service, &tagged.tag);
            let foreign = tagged.hosts.extract_if(.., |host| own.as_ref() != Some(host));
            refused.extend(foreign);
        }
        route.refused_hosts = refused;
    }

    /// Hosts of a service, without those of its tags.
    fn hosts(&self, service: &ServiceName) -> Vec<Host> {
        let inside = service.inside_hosts(&self.cluster).unwrap_or_default();
        let outside = [service.host(&self.external), service.component_host(&self.external)];
        inside.into_iter().chain(outside.into_iter().flatten()).collect()
    }

    fn tagged_host(&self, service: &ServiceName, tag: &Tag) -> Option<Host> {
        service.tagged_host(tag, &self.external).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Destination, Tagged};

    fn domains() -> Domains {
        Domains { external: "example.com".to_owned(), cluster: "cluster.local".to_owned() }
    }

    fn host(text: &str) -> Host {
        Host::parse(text).unwrap()
    }

    /// Returns a route of team-b/roll that claims `hosts` for the service and `tagged` for its tag `next`.
    fn claiming(hosts: &[&str], tagged: &[&str]) -> Route {
        let service = ServiceName::new("team-b", "roll").unwrap();
        let revision = service.revision(1).unwrap();
        let mut route = Route::new(service, Destination::Nowhere("stopped".into()));
        route.hosts = hosts.iter().map(|text| host(text)).collect();
        route.tags = vec![Tagged {
            tag: Tag::new("next").unwrap(),
            hosts: tagged.iter().map(|text| host(text)).collect(),
            revision,
        }];
        domains().refuse_foreign_hosts(&mut route);
        route
    }

    #[test]
    fn every_host_that_a_controller_assigns_is_accepted() {
        let hosts = [
            "roll.team-b",
            "roll.team-b.svc",
            "roll.team-b.svc.cluster.local",
            "roll-predictor.team-b",
            "roll-predictor.team-b.svc",
            "roll-predictor.team-b.svc.cluster.local",
            "roll-team-b.example.com",
            "roll-predictor-team-b.example.com",
        ];
        let route = claiming(&hosts, &["next-roll-team-b.example.com"]);
        assert_eq!(route.hosts, hosts.map(host));
        assert_eq!(route.tags[0].hosts.len(), 1);
        assert!(route.refused_hosts.is_empty());
    }

    #[test]
    fn a_host_of_another_name_namespace_or_domain_is_refused() {
        let foreign = [
            "roll.team-a",
            "other.team-b",
            "roll-team-a.example.com",
            "roll-team-b.example.org",
            // The same label under another domain could be another service's name inside the cluster.
            "roll-team-b.team-a",
            "next-roll-team-b.example.com",
            "example.com",
        ];
        let mut route = claiming(&foreign, &["prev-roll-team-b.example.com", "roll.team-b"]);
        assert_eq!(route.all_hosts().count(), 0);
        let refused = route.refused_hosts.split_off(foreign.len());
        assert_eq!(route.refused_hosts, foreign.map(host));
        let of_tag = ["prev-roll-team-b.example.com", "roll.team-b"].map(host);
        assert_eq!(refused, of_tag);
    }

    #[test]
    fn a_transformer_has_the_hosts_of_its_service_in_its_own_namespace() {
        let service = ServiceName::new("team-b", "roll").unwrap();
        let transformer = service.of_component(crate::ComponentKind::Transformer).unwrap();
        let mut route = Route::new(transformer, Destination::Nowhere("stopped".into()));
        let own = ["roll.team-b", "roll-transformer.team-b.svc", "roll-team-b.example.com"];
        let foreign = ["roll.team-a", "roll-predictor.team-b", "roll-transformer.team-a.svc", "other.team-b"];
        route.hosts = own.iter().chain(&foreign).map(|text| host(text)).collect();
        domains().refuse_foreign_hosts(&mut route);
        assert_eq!(route.hosts, own.map(host));
        assert_eq!(route.refused_hosts, foreign.map(host));
    }

    #[test]
    fn a_name_too_long_for_an_outside_host_keeps_its_inside_ones() {
        let namespace = "n".repeat(40);
        let service = ServiceName::new(&namespace, &"s".repeat(40)).unwrap();
        let mut route = Route::new(service.clone(), Destination::Nowhere("stopped".into()));
        route.hosts = service.inside_hosts("cluster.local").unwrap();
        domains().refuse_foreign_hosts(&mut route);
        assert_eq!(route.hosts.len(), 6);
    }
}
