use k8s_openapi::api::core::v1::PodTemplateSpec;
use proptest::prelude::*;

use super::*;
use crate::{Destination, Failure, FailureReason, Mirror, Phase, Replica, Split, Storage, Tag, Tagged};

/// A request to a ledger, as the property test generates it.
#[derive(Clone, Debug)]
enum LedgerCall {
    Apply { service: u8, numbers: Vec<u32>, replicas: u32 },
    Forget { service: u8 },
    Scale { service: u8, number: u32, replicas: u32 },
}

fn service(index: u8) -> ServiceName {
    ServiceName::new("default", &format!("s{index}")).unwrap()
}

fn workload(service: &ServiceName, number: u32, replicas: u32) -> Workload {
    Workload::new(service.revision(number).unwrap(), PodTemplateSpec::default(), replicas)
}

/// Returns the first revision of a service, with a model.
fn with_model(service: &ServiceName) -> Workload {
    let uri = "pvc://a/b".into();
    let model = Storage { uri, mount_path: Storage::MOUNT_PATH.into(), claims: None };
    Workload { storage: vec![model], ..workload(service, 1, 1) }
}

fn desired(service: &ServiceName, numbers: &[u32], replicas: u32) -> Desired {
    let workloads: Vec<_> = numbers.iter().map(|number| workload(service, *number, replicas)).collect();
    let split = workloads.last().map(|w| Split::all(w.revision.clone()));
    let route = split.map(|split| Route::new(service.clone(), Destination::Split(split)));
    Desired::new(service.clone(), workloads, route).unwrap()
}

fn ledger_call() -> impl Strategy<Value = LedgerCall> {
    let numbers = proptest::sample::subsequence(vec![1u32, 2, 3], 0..=3);
    prop_oneof![
        (0..3u8, numbers, 0..4u32).prop_map(|(service, numbers, replicas)| LedgerCall::Apply {
            service,
            numbers,
            replicas
        }),
        (0..3u8).prop_map(|service| LedgerCall::Forget { service }),
        (0..3u8, 1..4u32, 0..4u32).prop_map(|(service, number, replicas)| LedgerCall::Scale {
            service,
            number,
            replicas
        }),
    ]
}

/// The expected numbers of replicas, computed by a straightforward model.
fn model(counts: &mut BTreeMap<RevisionName, u32>, call: &LedgerCall) {
    match call {
        LedgerCall::Apply { service: index, numbers, replicas } => {
            let name = service(*index);
            counts.retain(|r, _| *r.service() != name || numbers.contains(&r.number()));
            for number in numbers {
                let revision = name.revision(*number).unwrap();
                counts.entry(revision).or_insert(*replicas);
            }
        }
        LedgerCall::Forget { service: index } => counts.retain(|r, _| *r.service() != service(*index)),
        LedgerCall::Scale { service: index, number, replicas } => {
            let revision = service(*index).revision(*number).unwrap();
            counts.entry(revision).and_modify(|count| *count = *replicas);
        }
    }
}

fn put(ledger: &mut Ledger, call: &LedgerCall) {
    match call {
        LedgerCall::Apply { service: index, numbers, replicas } => {
            ledger.apply(desired(&service(*index), numbers, *replicas)).unwrap();
        }
        LedgerCall::Forget { service: index } => {
            ledger.forget(&service(*index));
        }
        LedgerCall::Scale { service: index, number, replicas } => {
            let revision = service(*index).revision(*number).unwrap();
            let known = ledger.workload(&revision).is_some();
            assert_eq!(ledger.scale(&revision, *replicas).is_ok(), known);
        }
    }
}

proptest! {
    #[test]
    fn only_scale_changes_a_count(calls in proptest::collection::vec(ledger_call(), 0..40)) {
        let (mut ledger, mut counts) = (Ledger::new(), BTreeMap::new());
        for call in &calls {
            let before = ledger.routes().clone();
            put(&mut ledger, call);
            model(&mut counts, call);
            let recorded: BTreeMap<_, _> = ledger
                .workloads()
                .map(|(workload, replicas)| (workload.revision.clone(), replicas))
                .collect();
            prop_assert_eq!(&recorded, &counts);
            let same = before.as_slice() == ledger.routes().as_slice();
            prop_assert_eq!(before.generation == ledger.routes().generation, same);
        }
    }
}

#[test]
fn an_existing_revision_cannot_change() {
    let (mut ledger, name) = (Ledger::new(), service(0));
    ledger.apply(desired(&name, &[1], 1)).unwrap();
    let changed = Desired::new(name.clone(), vec![with_model(&name)], None).unwrap();
    assert!(ledger.apply(changed).is_err());
    assert_eq!(ledger.routes().as_slice().len(), 1);
}

#[test]
fn a_service_that_is_made_again_while_its_former_replicas_end_is_the_new_one() {
    let (mut ledger, name, mut revisions) = (Ledger::new(), service(0), Revisions::new());
    let first = name.revision(1).unwrap();
    ledger.apply(desired(&name, &[1], 1)).unwrap();
    ledger.refresh(&mut revisions);
    let running = Arc::make_mut(revisions.get_mut(&first).unwrap());
    running.replicas.push(Replica::new("ends", Phase::Terminating));
    running.failure = Some(Failure::new(FailureReason::Exited, "it ended"));
    ledger.forget(&name);
    ledger.refresh(&mut revisions);
    let again = with_model(&name);
    let expected = Revision { replicas: revisions[&first].replicas.clone(), ..Revision::new(&again, 1) };
    ledger.apply(Desired::new(name, vec![again], None).unwrap()).unwrap();
    ledger.refresh(&mut revisions);
    assert_eq!(*revisions[&first], expected);
    let kept = revisions.clone();
    ledger.refresh(&mut revisions);
    assert!(Arc::ptr_eq(&kept[&first], &revisions[&first]));
}

#[test]
fn the_error_for_an_unknown_revision_names_it() {
    let mut ledger = Ledger::new();
    let asked = service(1).revision(1).unwrap();
    ledger.apply(desired(&service(0), &[1, 2], 0)).unwrap();
    let error = ledger.scale(&asked, 1).unwrap_err().to_string();
    assert_eq!(error, "unknown revision default/s1-predictor-00001");
}

#[test]
fn inconsistent_services_and_routes_are_refused() {
    let (a, b) = (service(0), service(1));
    let route = |service: &ServiceName, number| {
        let split = Split::all(service.revision(number).unwrap());
        Some(Route::new(service.clone(), Destination::Split(split)))
    };
    let refused = |workloads: &[Workload], route| {
        let error = Desired::new(a.clone(), workloads.to_vec(), route).unwrap_err();
        error.to_string()
    };
    let first = workload(&a, 1, 1);
    assert!(refused(&[workload(&b, 1, 1)], None).contains("not a revision of default/s0"));
    assert!(refused(&[first.clone(), first.clone()], None).contains("twice"));
    assert!(refused(std::slice::from_ref(&first), route(&a, 2)).contains("not one of its revisions"));
    let mut odd = route(&a, 1).unwrap();
    odd.mirror = Some(Mirror { revision: a.revision(1).unwrap(), percent: 0 });
    assert!(refused(std::slice::from_ref(&first), Some(odd.clone())).contains("0 %"));
    odd.mirror = None;
    let tagged = Tagged { tag: Tag::new("prev").unwrap(), hosts: Vec::new(), revision: a.revision(1).unwrap() };
    odd.tags = vec![tagged.clone(), tagged];
    assert!(refused(std::slice::from_ref(&first), Some(odd)).contains("a tag is used twice"));
    assert!(refused(&[first], route(&b, 1)).contains("the route belongs to default/s1"));
}
