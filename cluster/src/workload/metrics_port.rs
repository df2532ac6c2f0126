//! The port on which a container has its metrics, apart from its requests.

use std::collections::BTreeMap;

use super::ContainerPorts;

/// Annotations of a pod with the port of its metrics: KServe's, and the one that scrapers of Prometheus use.
const NAMES: [&str; 2] = ["prometheus.kserve.io/port", "prometheus.io/port"];

impl ContainerPorts {
    /// Returns the port of the metrics of a pod with these annotations; `None` if they name none, or a port of the
    /// container that serves requests. A value that is no port is left to the scraper to refuse.
    #[must_use]
    pub fn metrics(self, annotations: Option<&BTreeMap<String, String>>) -> Option<u16> {
        let named = NAMES.iter().find_map(|name| annotations?.get(*name));
        let port = named?.trim().parse().ok().filter(|port| *port > 0)?;
        (![self.http, self.grpc].contains(&Some(port))).then_some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(annotations: &[(&str, &str)]) -> Option<u16> {
        let ports = ContainerPorts { http: Some(8080), grpc: Some(9000) };
        let owned = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        ports.metrics(Some(&owned.collect()))
    }

    #[test]
    fn metrics_are_on_the_annotated_port_unless_requests_are_served_there() {
        assert_eq!(metrics(&[("prometheus.io/port", "8002")]), Some(8002));
        assert_eq!(metrics(&[("prometheus.io/port", "1"), ("prometheus.kserve.io/port", " 8082 ")]), Some(8082));
        assert_eq!(metrics(&[("prometheus.io/port", "8080")]), None);
        assert_eq!(metrics(&[("prometheus.io/scrape", "true")]), None);
        for wrong in ["", "0", "-1", "65536", "http"] {
            assert_eq!(metrics(&[("prometheus.io/port", wrong)]), None, "{wrong}");
        }
        assert_eq!(ContainerPorts { http: None, grpc: None }.metrics(None), None);
    }
}
