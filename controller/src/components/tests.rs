use weir_crds::Object;

use super::*;
use crate::declaration::{Declaration, DeclaredService};
use crate::fixtures::{model, platform, service};
use crate::runtimes::Runtimes;

fn transformer(fields: &str) -> String {
    format!("{}  transformer:\n    containers: [{{name: t, image: x}}]\n{fields}", model("a", &[]))
}

fn all(spec: &str, platform: &Platform) -> Vec<DeclaredService> {
    DeclaredService::all(&Arc::new(service(&[], spec)), &Runtimes::default(), platform)
}

fn container(declared: &DeclaredService) -> k8s_openapi::api::core::v1::Container {
    let template = declared.validated().unwrap().predictor.template.read();
    template.spec.unwrap().containers.remove(0)
}

fn on_kubernetes() -> Platform {
    Platform { routes_model_names: false, ..platform() }
}

fn hosts(declared: &DeclaredService) -> Vec<String> {
    declared.validated().unwrap().exposure.hosts.iter().map(ToString::to_string).collect()
}

#[test]
fn a_transformer_gets_kserves_arguments() {
    let components = all(&transformer(""), &on_kubernetes());
    let container = container(&components[1]);
    assert_eq!((&*container.name, container.image.as_deref()), ("kserve-container", Some("x")));
    let expected = ["--model_name", "digits", "--predictor_host", "digits-predictor.default", "--http_port", "8080"];
    assert_eq!(container.args.unwrap(), expected);
    let variables = container.env.unwrap().into_iter().map(|variable| (variable.name, variable.value.unwrap()));
    let expected = [("INFERENCE_SERVICE_NAME", "digits"), ("PREDICTOR_HOST", "digits-predictor.default")];
    assert_eq!(variables.collect::<Vec<_>>(), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn on_one_machine_ports_and_hosts_are_chosen_at_the_start_of_a_process() {
    let components = all(&transformer(""), &platform());
    let args = container(&components[1]).args.unwrap();
    assert_eq!(args[3..], ["$(PREDICTOR_HOST)", "--http_port", "$(PORT)"]);
}

#[test]
fn arguments_of_the_manifest_are_kept() {
    let pod = "{name: t, image: x, command: [serve, --http_port=9], args: [--predictor_host, mine, --model_name, m]}";
    let spec = format!("{}  transformer: {{containers: [{pod}]}}\n", model("a", &[]));
    let args = container(&all(&spec, &on_kubernetes())[1]).args.unwrap();
    assert_eq!(args, ["--predictor_host", "mine", "--model_name", "m"]);
    let pod = "{name: t, image: x, ports: [{containerPort: 9000}]}";
    let spec = format!("{}  transformer: {{containers: [{pod}]}}\n", model("a", &[]));
    let args = container(&all(&spec, &on_kubernetes())[1]).args.unwrap();
    assert_eq!(args[4..], ["--http_port", "9000"]);
}

#[test]
fn requests_reach_the_transformer_and_its_calls_the_predictor() {
    let components = all(&transformer(""), &platform());
    let [predictor, transformer] = &components[..] else { panic!("{} components", components.len()) };
    assert_eq!(
        hosts(predictor),
        ["digits-predictor.default", "digits-predictor.default.svc", "digits-predictor.default.svc.cluster.local"]
    );
    assert!(hosts(transformer).contains(&"digits-default.example.com".to_owned()));
    assert!(hosts(transformer).contains(&"digits.default.svc".to_owned()));
    assert!(!hosts(transformer).iter().any(|host| host.contains("predictor")));
    let model = |declared: &DeclaredService| declared.validated().unwrap().exposure.model.clone();
    assert_eq!((model(predictor), model(transformer).as_deref()), (None, Some("digits")));
}

#[test]
fn each_component_is_scaled_by_its_own_fields() {
    let fields = "    minReplicas: 0\n    maxReplicas: 3\n    canaryTrafficPercent: 10\n";
    let components = all(&transformer(fields), &platform());
    let of = |declared: &DeclaredService| declared.validated().unwrap().clone();
    let (predictor, transformer) = (of(&components[0]), of(&components[1]));
    assert_eq!((predictor.predictor.scaling.policy.min, predictor.predictor.scaling.policy.max), (1, None));
    assert_eq!((transformer.predictor.scaling.policy.min, transformer.predictor.scaling.policy.max), (0, Some(3)));
    assert_ne!(predictor.strategy, transformer.strategy);
}

#[test]
fn adding_a_transformer_leaves_the_predictors_pods_alone() {
    let identity = |spec: &str| all(spec, &platform())[0].validated().unwrap().predictor.identity.clone();
    assert_eq!(identity(&model("a", &[])), identity(&transformer("")));
}

#[test]
fn errors_name_the_field_of_the_manifest() {
    let message = |spec: &str| {
        let declared = all(spec, &platform());
        let errors = declared.iter().filter_map(|declared| declared.validation.as_ref().err());
        errors.map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let text = message(&transformer("    minReplicas: -1\n"));
    assert_eq!(text, "spec.transformer.minReplicas: 'MinReplicas' cannot be less than 0");
    let text = message(&format!("{}  transformer: {{minReplicas: 1}}\n", model("a", &[])));
    assert_eq!(text, "spec.transformer: Exactly one of [containers] must be specified in transformer");
    let text = message(&format!("{}  explainer: {{minReplicas: 1}}\n", model("a", &[])));
    assert_eq!(text, "spec.explainer: Exactly one of [art, containers] must be specified in explainer");
}

#[test]
fn ignored_fields_are_reported_once_and_by_their_own_path() {
    let spec = transformer("    logger: {mode: all}\n");
    let annotations = [("autoscaling.knative.dev/class", "kpa")];
    let components = DeclaredService::all(&Arc::new(service(&annotations, &spec)), &Runtimes::default(), &platform());
    let fields = |at: usize| {
        let ignored = &components[at].validated().unwrap().ignored_fields;
        ignored.iter().map(|ignored| ignored.field.clone()).collect::<Vec<_>>()
    };
    assert_eq!(fields(0), ["metadata.annotations[autoscaling.knative.dev/class]"]);
    assert_eq!(fields(1), ["spec.transformer.logger"]);
}

#[test]
fn an_explainer_is_reached_by_its_host_alone() {
    let art = "{type: SquareAttack, storageUri: pvc://a/b, config: {nb_classes: \"10\"}}";
    let spec = format!("{}  explainer: {{art: {art}}}\n", model("a", &[]));
    let components = all(&spec, &on_kubernetes());
    let container = container(&components[1]);
    assert_eq!(container.image.as_deref(), Some("kserve/art-explainer:latest"));
    let args = container.args.unwrap();
    let expected =
        ["--storage_uri", "/mnt/models", "--adversary_type", "SquareAttack", "--nb_classes", "10", "--model_name"];
    assert_eq!(args[..7], expected);
    assert_eq!(hosts(&components[1])[0], "digits-explainer.default");
    assert!(hosts(&components[0]).contains(&"digits.default".to_owned()));
    assert_eq!(components[1].validated().unwrap().predictor.storage.len(), 1);
}

/// Returns a service of this name that was created at this second.
fn named(name: &str, created: i64, spec: &str) -> Arc<Service> {
    let text = format!(
        "apiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {{name: {name}}}\nspec:\n{spec}"
    );
    let manifest = weir_crds::read("service.yaml", &text).unwrap().remove(0);
    let Object::InferenceService(object) = manifest.object else { panic!("no service") };
    let mut service = service(&[], &model("a", &[]));
    service.name = ServiceName::new("default", name).unwrap();
    service.object = KeptObject::Value(object);
    let time = k8s_openapi::jiff::Timestamp::from_second(created).unwrap();
    service.object.metadata_mut().creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(time));
    Arc::new(service)
}

fn declared(services: &[Arc<Service>], before: &Declaration) -> Declaration {
    let services = services.iter().map(|service| (service.name.clone(), service.clone())).collect();
    Declaration::new(services, Runtimes::default(), before, &platform())
}

#[test]
fn of_two_services_with_one_name_the_older_is_served() {
    let composed = named("digits", 2, &transformer(""));
    for (other, of_other) in [("digits-predictor", 1), ("digits-transformer", 3)] {
        let other = named(other, of_other, &model("b", &[]));
        let both = declared(&[composed.clone(), other.clone()], &Declaration::default());
        let refused = if of_other < 2 { &composed } else { &other };
        for (name, declared) in &both.services {
            assert_eq!(declared.validated().is_none(), name.whole() == refused.name, "{name}");
        }
        let errors = both.errors();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("already uses the name"), "{errors:?}");
        let alone = declared(std::slice::from_ref(refused), &both);
        assert_eq!(alone.errors(), Vec::<String>::new());
    }
    let plain = declared(
        &[named("digits", 2, &model("a", &[])), named("digits-predictor", 3, &model("b", &[]))],
        &Declaration::default(),
    );
    assert_eq!(plain.errors(), Vec::<String>::new());
}

#[test]
fn a_name_too_long_for_the_component_is_refused() {
    let name = "a".repeat(46);
    let long = declared(&[named(&name, 1, &transformer(""))], &Declaration::default());
    assert!(long.errors()[0].contains("at most 45 characters, has 46"), "{:?}", long.errors());
}

#[test]
fn an_unchanged_service_keeps_all_its_components() {
    let service = named("digits", 1, &transformer(""));
    let first = declared(std::slice::from_ref(&service), &Declaration::default());
    let again = declared(&[service], &first);
    assert_eq!(again.services.len(), 2);
    assert!(again.services.iter().all(|(name, declared)| declared.is(&first.services[name])));
}
