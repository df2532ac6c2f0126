//! Contract tests of the cluster over an API server.

use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::Client;
use weir_cluster::contract::{Implementation, World};
use weir_cluster::{Gateway, Report, contract_tests};
use weir_cluster_kubernetes::Kubernetes;
use weir_cluster_reports::RemoteReports;

use crate::gateway::GatewayPod;
use crate::server;

/// Cluster and the reports of its gateways.
struct Server {
    client: Client,
    cluster: Kubernetes,
    reports: RemoteReports,
}

impl Server {
    async fn connect() -> Self {
        let client = server::client().await;
        // The suite's services are in this namespace.
        server::namespace(&client, "contract").await;
        let cluster = server::cluster().await;
        let reports = RemoteReports::follow(cluster.gateways());
        Self { client, cluster, reports }
    }
}

#[async_trait]
impl World for Server {
    fn tested(&self) -> Implementation<'_> {
        let kubernetes = &self.cluster;
        Implementation {
            directory: kubernetes,
            apply: kubernetes,
            scale: kubernetes,
            reports: &self.reports,
            leases: kubernetes,
        }
    }

    fn template(&self) -> PodTemplateSpec {
        server::template()
    }

    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send> {
        Box::new(GatewayPod::start(&self.client, &gateway.name, report).await)
    }

    fn deadline(&self) -> Duration {
        server::DEADLINE
    }
}

contract_tests!(Server::connect().await);
