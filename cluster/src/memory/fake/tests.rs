use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::*;
use crate::{FailureReason, Phase, Workload};

fn workload() -> Workload {
    let service = ServiceName::new("default", "digits").unwrap();
    Workload::new(service.revision(1).unwrap(), PodTemplateSpec::default(), 1)
}

#[tokio::test]
async fn with_manual_readiness_no_replica_starts_by_itself() {
    let fake = Fake::new(Readiness::Manual);
    let workload = workload();
    let revision = workload.revision.clone();
    let service = revision.service().clone();
    let desired = Desired::new(service.clone(), vec![workload], None).unwrap();
    fake.apply(desired).await.unwrap();
    let failure = Failure::new(FailureReason::NotReady, "it hangs");
    fake.fail(&revision, failure.clone()).unwrap();
    let current = fake.snapshot().revision(&revision).unwrap().clone();
    assert_eq!((current.desired, current.replicas.len(), current.failure.clone()), (1, 0, Some(failure)));

    let replica = Replica::new("one", Phase::Ready);
    fake.put(&revision, replica.clone()).unwrap();
    let current = fake.snapshot().revision(&revision).unwrap().clone();
    assert_eq!((current.replicas.clone(), current.failure.clone()), (vec![replica], None));

    fake.forget(&service).await.unwrap();
    assert_eq!(fake.snapshot().revision(&revision).unwrap().desired, 0);
    fake.take(&revision, "one");
    assert!(fake.snapshot().revisions.is_empty());
}
