use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::json;
use weir_cluster::{Destination, Split, Storage};

use super::*;
use crate::stored::StoredRevision;

fn workload(storage: &[(&str, &str)]) -> Workload {
    let template: PodTemplateSpec = serde_json::from_value(json!({
        "metadata": { "labels": { "team": "vision" } },
        "spec": { "containers": [
            { "name": "proxy", "image": "example/proxy" },
            { "name": "kserve-container", "image": "example/server" },
        ] },
    }))
    .unwrap();
    let place = |(uri, mount_path): &(&str, &str)| Storage {
        uri: (*uri).into(),
        mount_path: (*mount_path).into(),
        claims: None,
    };
    Workload {
        storage: storage.iter().map(place).collect(),
        ..Workload::new(ServiceName::new("vision", "digits").unwrap().revision(3).unwrap(), template, 2)
    }
}

fn completed(workload: &Workload) -> Result<PodTemplateSpec, ClusterError> {
    complete(&StoredRevision::of(workload), &Options::default(), &PodContext::default())
}

fn objects(workload: &Workload, owner: Option<&OwnerReference>) -> RevisionObjects {
    RevisionObjects::of(workload, completed(workload).unwrap(), owner).unwrap()
}

#[test]
fn a_deployment_has_no_number_of_replicas() {
    let objects = objects(&workload(&[]), None);
    let spec = objects.deployment.spec.unwrap();
    assert_eq!(spec.replicas, None);
    let labels = spec.template.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["team"], "vision");
    assert_eq!(labels["serving.kserve.io/inferenceservice"], "digits");
    for (key, value) in spec.selector.match_labels.unwrap() {
        assert_eq!(labels[&key], value);
    }
    assert_eq!(revision_of(&objects.service), Some(workload(&[]).revision));
}

#[test]
fn every_object_is_owned_by_the_inference_service() {
    let owner = OwnerReference { uid: "1".to_owned(), ..OwnerReference::default() };
    let workload = workload(&[]);
    let owned = objects(&workload, Some(&owner));
    let destination = Destination::Split(Split::all(workload.revision.clone()));
    let route = Route::new(workload.revision.service().clone(), destination);
    let service = workload.revision.service();
    let aliases = aliases(service, &route, &Options::default(), Some(&owner)).unwrap();
    for metadata in [&owned.deployment.metadata, &owned.service.metadata, &aliases[0].metadata, &aliases[1].metadata] {
        assert_eq!(metadata.owner_references, Some(vec![owner.clone()]));
    }
}

#[test]
fn the_headless_service_names_the_ports_of_the_serving_container() {
    let mut workload = workload(&[]);
    let ports = |workload: &Workload| {
        let spec = objects(workload, None).service.spec.unwrap();
        let ports = spec.ports.unwrap().into_iter();
        ports.map(|p| (p.name.unwrap(), p.target_port.unwrap())).collect::<Vec<_>>()
    };
    let named = |http, grpc| [("http", http), ("grpc", grpc)].map(|(n, p)| (n.to_owned(), IntOrString::Int(p)));
    assert_eq!(ports(&workload), named(8080, 8080));
    let mut template = workload.template.read();
    let containers = &mut template.spec.as_mut().unwrap().containers;
    containers[1].args = Some(vec!["--http-port=8000".to_owned(), "--grpc-port=8001".to_owned()]);
    workload.template = template.into();
    assert_eq!(ports(&workload), named(8000, 8001));
    // A port of the metrics apart from these comes from the pod's annotations.
    let mut template = workload.template.read();
    let metadata = template.metadata.get_or_insert_default();
    metadata.annotations = Some([("prometheus.io/port".to_owned(), "8002".to_owned())].into());
    workload.template = template.into();
    let metrics = ("metrics".to_owned(), IntOrString::Int(8002));
    assert_eq!(ports(&workload), [named(8000, 8001).as_slice(), &[metrics]].concat());
}

#[test]
fn the_services_own_alias_comes_last_and_keeps_the_route() {
    let workload = workload(&[]);
    let service = workload.revision.service();
    let route = Route::new(service.clone(), Destination::Split(Split::all(workload.revision.clone())));
    let aliases = aliases(service, &route, &Options::default(), None).unwrap();
    let names: Vec<_> = aliases.iter().map(|alias| alias.metadata.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["digits-predictor", "digits"]);
    for alias in &aliases {
        let name = alias.spec.as_ref().unwrap().external_name.as_deref();
        assert_eq!(name, Some("weir-gateway.weir-system.svc.cluster.local"));
        assert_eq!(service_of(alias).as_ref(), Some(service));
    }
    assert!(aliases[1].metadata.annotations.as_ref().unwrap().contains_key(ROUTE));
}

#[test]
fn a_refusal_names_the_kind_and_name_of_a_foreign_object() {
    let mut theirs = Service::default();
    theirs.metadata.name = Some("digits".to_owned());
    let refused = check_owner(&theirs, &ServiceName::new("vision", "digits").unwrap()).unwrap_err().to_string();
    assert_eq!(refused, r#"vision/digits: the Service "digits" is not Weir's: rename or delete it"#);
}

#[test]
fn a_transformers_objects_are_distinguished_from_the_predictors() {
    let predictor = ServiceName::new("vision", "digits").unwrap();
    let transformer = predictor.of_component(ComponentKind::Transformer).unwrap();
    let revision = transformer.revision(1).unwrap();
    let route = Route::new(transformer.clone(), Destination::Split(Split::all(revision.clone())));
    let aliases = aliases(&transformer, &route, &Options::default(), None).unwrap();
    let [alias] = &aliases[..] else { panic!("{} aliases", aliases.len()) };
    assert_eq!(alias.metadata.name.as_deref(), Some("digits-transformer"));
    assert!(alias.metadata.annotations.as_ref().unwrap().contains_key(ROUTE));
    assert_eq!(service_of(alias).as_ref(), Some(&transformer));
    assert_eq!(labels(&revision)["component"], "transformer");
    assert_eq!(labels(&predictor.revision(1).unwrap()).get("component"), None);
    let selectors = [&predictor, &transformer].map(selector);
    let of_both = "app.kubernetes.io/managed-by=weir,serving.kserve.io/inferenceservice=digits";
    assert_eq!(selectors[0], format!("{of_both},component notin (transformer,explainer)"));
    assert_eq!(selectors[1], format!("{of_both},component=transformer"));
    assert_eq!(
        (&*rollout_name(&predictor), &*rollout_name(&transformer)),
        ("digits-rollout", "digits-rollout-transformer")
    );
    let may_be: Vec<_> = may_be_of(alias).collect();
    assert!(may_be.contains(&transformer), "{may_be:?}");
}
