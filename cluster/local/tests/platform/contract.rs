//! The contract suite against the cluster of local processes.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::{Implementation, World};
use weir_cluster::{Gateway, Report, contract_tests};

use crate::platform::{DEADLINE, Platform};
use crate::pods;
use crate::server::Behaviour;

#[async_trait]
impl World for Platform {
    fn tested(&self) -> Implementation<'_> {
        let local = &self.cluster;
        Implementation { directory: local, apply: local, scale: local, reports: local, leases: local }
    }

    fn template(&self) -> PodTemplateSpec {
        pods::template(pods::server(Behaviour::Ready))
    }

    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send> {
        let membership = self.cluster.gateways().join(gateway);
        membership.publish(report);
        Box::new(membership)
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }
}

contract_tests!(Platform::start());
