//! The contract's rule for reports, over sockets.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::contract::{World, reports_arrive_and_leave_with_their_gateway};
use weir_cluster::{Apply, Directory, Fake, Gateway, Lease, Readiness, Report, Reports, Scale};
use weir_cluster_reports::RemoteReports;

use crate::gateway::{AdminPort, DEADLINE};

/// A cluster in memory whose gateways' reports are sent over sockets.
struct Sockets {
    fake: Fake,
    reports: RemoteReports,
}

#[async_trait]
impl World for Sockets {
    fn directory(&self) -> &dyn Directory {
        &self.fake
    }

    fn apply(&self) -> &dyn Apply {
        &self.fake
    }

    fn scale(&self) -> &dyn Scale {
        &self.fake
    }

    fn reports(&self) -> &dyn Reports {
        &self.reports
    }

    fn leases(&self) -> &dyn Lease {
        &self.fake
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
