//! Contract tests of a gateway's view of the cluster, with no more rights than the chart gives a gateway.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::Client;
use kube::api::{Api, ListParams};
use weir_cluster::contract::{self, Implementation, World};
use weir_cluster::{
    Apply, Desired, Directory, Failure, FailureReason, FailureReport, Gateway, Outlook, Report, Scale, ScalingPolicy,
    ServiceName, Workload,
};
use weir_cluster_kubernetes::{Kubernetes, WatchScope};
use weir_cluster_reports::RemoteReports;

use crate::gateway::GatewayPod;
use crate::server;

/// Namespace of the suite's services here.
const NAMESPACE: &str = "contract-of-gateways";

/// View that a gateway has of the work of a controller and an autoscaler.
struct GatewayView {
    admin: Client,
    gateway: Kubernetes,
    control: Kubernetes,
    reports: RemoteReports,
}

/// Returns the rights of the chart's gateway.
fn rights() -> Vec<PolicyRule> {
    let read = |group: &str, resource: &str| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(vec![resource.to_owned()]),
        verbs: ["get", "list", "watch"].map(str::to_owned).into(),
        ..PolicyRule::default()
    };
    vec![read("", "services"), read("discovery.k8s.io", "endpointslices")]
}

impl GatewayView {
    async fn connect() -> Self {
        let admin = server::client().await;
        server::namespace(&admin, NAMESPACE).await;
        let client = server::client_with("test-gateway", rights()).await;
        let deployments: Api<Deployment> = Api::all(client.clone());
        let not_ours = deployments.list(&ListParams::default()).await;
        assert!(not_ours.is_err(), "a gateway reads no Deployments");
        let control = server::cluster().await;
        Self {
            admin,
            gateway: server::connect(client, WatchScope::Gateway).await,
            reports: RemoteReports::follow(control.gateways()),
            control,
        }
    }
}

#[async_trait]
impl World for GatewayView {
    fn tested(&self) -> Implementation<'_> {
        let control = &self.control;
        Implementation {
            directory: &self.gateway,
            apply: control,
            scale: control,
            reports: &self.reports,
            leases: control,
        }
    }

    fn template(&self) -> PodTemplateSpec {
        server::template()
    }

    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send> {
        Box::new(GatewayPod::start(&self.admin, &gateway.name, report).await)
    }

    fn deadline(&self) -> Duration {
        server::DEADLINE
    }

    fn namespace(&self) -> &'static str {
        NAMESPACE
    }
}

/// Rules of the contract about what snapshots show.
macro_rules! rules {
    ($($rule:ident)*) => {
        $(
            #[tokio::test]
            async fn $rule() {
                contract::$rule(&GatewayView::connect().await).await;
            }
        )*
    };
}

rules! {
    applying_makes_replicas_run
    applying_again_keeps_the_count
    a_changed_scaling_policy_moves_no_replica
    a_retired_revision_ends
    a_forgotten_service_leaves
    the_route_is_there_as_soon_as_it_is_applied
    counts_follow_scale
    generations_only_grow
    a_late_watcher_sees_the_present
}

/// A request for a revision at zero must wake it, so a gateway must see that the revision is at zero.
#[tokio::test]
async fn a_revision_that_may_scale_to_zero_and_has_no_endpoints_is_at_zero() {
    let seen = GatewayView::connect().await;
    let service = ServiceName::new(NAMESPACE, "may-sleep").unwrap();
    let policy = ScalingPolicy { min: 0, max: Some(2), ..ScalingPolicy::default() };
    let workload = Workload {
        scaling: Some(Arc::new(policy)),
        ..Workload::new(service.revision(1).unwrap(), server::template(), 0)
    };
    let name = workload.revision.clone();
    let desired = Desired::new(service.clone(), vec![workload], None).unwrap();
    seen.control.apply(desired).await.unwrap();
    let mut snapshots = seen.gateway.watch();
    for replicas in [0, 1, 0] {
        seen.control.scale(&name, replicas).await.unwrap();
        let is_seen = snapshots.wait_for(|snapshot| {
            let revision = snapshot.revision(&name);
            revision.is_some_and(|r| r.is_at_zero() == (replicas == 0) && r.ready().count() == replicas as usize)
        });
        let waited = tokio::time::timeout(server::DEADLINE, is_seen).await;
        waited.unwrap().unwrap();
    }
    seen.control.forget(&service).await.unwrap();
}

/// Gateways do not read pods: the controller publishes the failures.
#[tokio::test]
async fn why_a_revision_cannot_start_reaches_gateways_and_is_no_drift() {
    let seen = GatewayView::connect().await;
    let service = ServiceName::new(NAMESPACE, "cannot-start").unwrap();
    let workload = Workload {
        scaling: Some(Arc::new(ScalingPolicy { min: 0, ..ScalingPolicy::default() })),
        ..Workload::new(service.revision(1).unwrap(), server::template(), 0)
    };
    let name = workload.revision.clone();
    let desired = Desired::new(service.clone(), vec![workload], None).unwrap();
    seen.control.apply(desired.clone()).await.unwrap();
    let cause = Failure::new(FailureReason::NotStarted, "the image cannot be pulled");
    let mut snapshots = seen.gateway.watch();
    for (outlook, failure) in [(Outlook::Fails, Some(cause)), (Outlook::Starts, None)] {
        let revision = name.clone();
        let report = FailureReport { revision, outlook, failure: failure.clone(), exits: Vec::new() };
        seen.control.report_failures(&[report]).await.unwrap();
        // Applying the service again keeps the report.
        seen.control.apply(desired.clone()).await.unwrap();
        let is_seen = snapshots.wait_for(|snapshot| {
            let revision = snapshot.revision(&name);
            revision.is_some_and(|revision| revision.outlook() == outlook && revision.failure == failure)
        });
        tokio::time::timeout(server::DEADLINE, is_seen).await.unwrap().unwrap();
        assert!(!seen.control.watch().borrow().drifted.contains(&service));
    }
    seen.control.forget(&service).await.unwrap();
}
