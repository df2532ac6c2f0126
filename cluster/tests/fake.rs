//! The contract suite against the cluster in memory.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::World;
use weir_cluster::{Apply, Directory, Fake, Gateway, Lease, Readiness, Report, Reports, Scale, contract_tests};

struct Memory(Fake);

#[async_trait]
impl World for Memory {
    fn directory(&self) -> &dyn Directory {
        &self.0
    }

    fn apply(&self) -> &dyn Apply {
        &self.0
    }

    fn scale(&self) -> &dyn Scale {
        &self.0
    }

    fn reports(&self) -> &dyn Reports {
        &self.0
    }

    fn leases(&self) -> &dyn Lease {
        &self.0
    }

    fn template(&self) -> PodTemplateSpec {
        PodTemplateSpec::default()
    }

    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send> {
        let membership = self.0.gateways().join(gateway);
        membership.publish(report);
        Box::new(membership)
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(5)
    }
}

contract_tests!(Memory(Fake::new(Readiness::Immediate)));
