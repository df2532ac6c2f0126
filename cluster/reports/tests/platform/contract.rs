//! The contract's rule for reports, over sockets.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::{Implementation, World, reports_arrive_and_leave_with_their_gateway};
use weir_cluster::{Fake, Gateway, Readiness, Report};
use weir_cluster_reports::RemoteReports;

use crate::gateway::{AdminPort, DEADLINE};

/// A cluster in memory whose gateways' reports are sent over sockets.
struct Sockets {
    fake: Fake,
    reports: RemoteReports,
}

#[async_trait]
impl World for Sockets {
    fn tested(&self) -> Implementation<'_> {
        let fake = &self.fake;
        Implementation { directory: fake, apply: fake, scale: fake, reports: &self.reports, leases: fake }
    }

    fn template(&self) -> PodTemplateSpec {
        PodTemplateSpec::default()
    }

    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send> {
        let port = AdminPort::start(report).await;
        let admin = Some(port.address.into());
        let membership = self.fake.gateways().join(Gateway { admin, ..gateway });
        Box::new((membership, port))
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }
}

#[tokio::test]
async fn reports_keep_the_contract() {
    let fake = Fake::new(Readiness::Immediate);
    let reports = RemoteReports::follow(fake.gateways().members());
    let world = Sockets { fake, reports };
    reports_arrive_and_leave_with_their_gateway(&world).await;
}
