//! The contract suite against the cluster of local processes.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::World;
use weir_cluster::{Apply, Directory, Gateway, Lease, Report, Reports, Scale, contract_tests};

use crate::platform::{DEADLINE, Platform};
use crate::pods;
use crate::server::Behaviour;

#[async_trait]
impl World for Platform {
    fn directory(&self) -> &dyn Directory {
        &self.cluster
    }

    fn apply(&self) -> &dyn Apply {
        &self.cluster
    }

    fn scale(&self) -> &dyn Scale {
        &self.cluster
    }

    fn reports(&self) -> &dyn Reports {
        &self.cluster
    }

    fn leases(&self) -> &dyn Lease {
        &self.cluster
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
