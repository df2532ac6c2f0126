//! Serialized form of the parts of a workload that are not in its pods.

use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use weir_cluster::{OtherAutoscaler, ReadyCall, ScalingPolicy, Transport, Workload};

use super::scaling::WrittenScaling;
use crate::entry::entry;

/// Parts of a workload that are not in its pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WrittenRevision {
    /// Hash of everything that shapes its pods.
    pub(crate) identity: String,
    /// True if a replica's readiness is probed by the V2 ready call.
    pub(crate) v2_ready: bool,
    /// True if a replica serves requests by TLS, to clients with a certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) tls: bool,
    /// Maximum concurrent requests per replica; None if the manifest sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) concurrency: Option<NonZeroU32>,
    /// Bounds and targets for Weir's autoscaler; None if another autoscaler sets the replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scaling: Option<WrittenScaling>,
}

/// Path of the V2 ready call.
const V2_READY: &str = "/v2/health/ready";

impl WrittenRevision {
    /// Returns the serialized form of a workload with these pods, which are reached by this protocol.
    pub(crate) fn of(workload: &Workload, pod: &PodTemplateSpec, transport: Transport) -> Self {
        let tls = transport == Transport::Tls;
        Self {
            identity: workload.identity().as_str().to_owned(),
            // With TLS, the kubelet probes another port, but a gateway still makes the V2 call.
            v2_ready: tls || is_probed_by_v2(pod),
            tls,
            concurrency: workload.concurrency,
            scaling: workload.scaling.as_deref().map(WrittenScaling::of),
        }
    }

    /// Returns the policy for Weir's autoscaler, restricted to what another autoscaler leaves to it; None if that is
    /// nothing.
    pub(crate) fn left_by(&self, other: Option<&OtherAutoscaler>) -> Option<ScalingPolicy> {
        let policy = self.scaling.as_ref()?.policy();
        match other {
            Some(other) => other.restrict(policy),
            None => Some(policy),
        }
    }

    /// Returns the protocol of the connections to a replica.
    pub(crate) fn transport(&self) -> Transport {
        if self.tls { Transport::Tls } else { Transport::Plain }
    }

    /// Returns the readiness check of a replica.
    pub(crate) fn ready_call(&self) -> ReadyCall {
        if self.v2_ready { ReadyCall::V2 } else { ReadyCall::Platform }
    }
}

fn is_probed_by_v2(pod: &PodTemplateSpec) -> bool {
    let probe = pod.spec.as_ref().and_then(entry).and_then(|container| container.readiness_probe.as_ref());
    let call = probe.and_then(|probe| probe.http_get.as_ref());
    call.is_some_and(|call| call.path.as_deref() == Some(V2_READY))
}
