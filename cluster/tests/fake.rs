//! The contract suite against the cluster in memory.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::{Implementation, World};
use weir_cluster::{Fake, Gateway, Readiness, Report, contract_tests};

struct Memory(Fake);

#[async_trait]
impl World for Memory {
    fn tested(&self) -> Implementation<'_> {
        let fake = &self.0;
        Implementation { directory: fake, apply: fake, scale: fake, reports: fake, leases: fake }
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
