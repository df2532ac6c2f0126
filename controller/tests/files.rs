//! Services declared in files that are edited.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::time::timeout;
use weir_cluster::ServiceName;
use weir_controller::files::Files;
use weir_controller::{ControllerError, Declaration, KeptObject, Platform, Service, Source};

/// Timeout for noticing an edit, far longer than needed.
const SOON: Duration = Duration::from_secs(60);

fn manifest(name: &str, path: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {{name: {name}}}
spec:
  predictor:
    model:
      modelFormat: {{name: pytorch}}
      storageUri: pvc://models/{path}
"
    )
}

fn platform() -> Platform {
    Platform { routes_model_names: true, ..Platform::new("example.com") }
}

fn named(name: &str) -> ServiceName {
    ServiceName::new("default", name).unwrap()
}

async fn until(
    watch: &mut watch::Receiver<Arc<Declaration>>,
    is_it: impl Fn(&Declaration) -> bool,
) -> Arc<Declaration> {
    let found = timeout(SOON, watch.wait_for(|declaration| is_it(declaration))).await;
    found.expect("in time").unwrap().clone()
}

fn path(service: &Service) -> &str {
    let KeptObject::Value(object) = &service.object else { panic!("files are kept as objects") };
    let model = object.spec.predictor.model.as_ref().unwrap();
    model.framework.storage_uri.as_deref().unwrap()
}

fn problems(paths: &[PathBuf]) -> String {
    let files = Files::open(paths, platform()).unwrap();
    let problems = files.watch().borrow().problems.clone();
    assert!(!problems.is_empty(), "it was accepted");
    problems.join("\n")
}

fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

#[tokio::test]
async fn an_unknown_field_hides_no_other_error_of_its_object() {
    let folder = TempDir::new().unwrap();
    let text = manifest("a", "a").replace(
        "  predictor:\n",
        "  predictor:\n    minReplica: 2\n    canaryTrafficPercent: 200\n    timeout: -1\n    maxReplicas: text\n",
    );
    let found = problems(&[write(&folder, "a.yaml", &text)]);
    for expected in ["minReplica", "a.yaml:7:", "a.yaml:8:", "maxReplicas"] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
    // The missing field may be the misspelt one, so it is not reported too.
    let text = manifest("a", "a").replace("storageUri", "storageURI");
    let found = problems(&[write(&folder, "a.yaml", &text)]);
    assert_eq!(found.lines().count(), 1, "{found}");
    let text = "apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: r}
spec:
  nonsense: true
  supportedModelFormats: [{name: x, priority: 1}, {name: x, priority: 2}]
  containers: [{name: kserve-container, image: x}]
";
    let found = problems(&[write(&folder, "a.yaml", text)]);
    assert!(found.contains("nonsense") && found.contains("different priorities"), "{found}");
}

#[tokio::test]
async fn a_directory_declares_the_services_of_its_manifests() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", &manifest("a", "a"));
    write(&folder, "b.yml", &manifest("b", "b"));
    write(&folder, "notes.txt", "not: yaml: at: all");
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: models}\n";
    write(&folder, "claim.yaml", claim);
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let declaration = files.watch().borrow().clone();
    let names: Vec<_> = declaration.services.keys().map(ServiceName::name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(declaration.ignored_objects, ["PersistentVolumeClaim models"]);
    let a = &declaration.services[&named("a")].service;
    assert_eq!(a.claims.as_deref(), Some(folder.path()));
    assert_eq!(a.metadata().generation, Some(1));
}

#[tokio::test]
async fn an_empty_namespace_means_none_and_an_invalid_one_is_reported_at_its_field() {
    let folder = TempDir::new().unwrap();
    let in_namespace = |namespace: &str| {
        let metadata = format!("metadata: {{namespace: {namespace}, name: a}}");
        manifest("a", "a").replace("metadata: {name: a}", &metadata)
    };
    let file = write(&folder, "a.yaml", &in_namespace("''"));
    let files = Files::open(std::slice::from_ref(&file), platform()).unwrap();
    let declaration = files.watch().borrow().clone();
    assert!(declaration.services.contains_key(&named("a")));
    fs::write(&file, in_namespace("Team_A")).unwrap();
    let begin = format!("{}:3:12: metadata.namespace: namespace \"Team_A\": must consist of", file.display());
    let problems = problems(std::slice::from_ref(&file));
    assert!(problems.starts_with(&begin), "{problems}");
}

#[tokio::test]
async fn edits_are_noticed_and_broken_ones_keep_the_last_good_state() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "a.yaml", &manifest("a", "one"));
    write(&folder, "b.yaml", &manifest("b", "b"));
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    let first = watch.borrow().services[&named("b")].service.clone();
    fs::write(&file, manifest("a", "two")).unwrap();
    let edited = until(&mut watch, |d| path(&d.services[&named("a")].service).ends_with("two")).await;
    assert_eq!(edited.services[&named("a")].service.metadata().generation, Some(2));
    assert!(Arc::ptr_eq(&edited.services[&named("b")].service, &first));
    fs::write(&file, manifest("a", "three").replace("storageUri", "storageURI")).unwrap();
    let broken = until(&mut watch, |d| !d.problems.is_empty()).await;
    assert_eq!(path(&broken.services[&named("a")].service), "pvc://models/two");
    let expected =
        format!("{}:8:7: spec.predictor.model.storageURI: unknown field; did you mean `storageUri`?", file.display());
    assert_eq!(broken.problems, [expected]);
    replace(&file, &manifest("a", "four"));
    let mended = until(&mut watch, |d| path(&d.services[&named("a")].service).ends_with("four")).await;
    assert!(mended.problems.is_empty());
    fs::remove_file(&file).unwrap();
    let removed = until(&mut watch, |d| d.services.len() == 1).await;
    assert!(removed.services.contains_key(&named("b")));
}

/// Replaces a file like an editor, by renaming another file over it.
fn replace(file: &Path, text: &str) {
    let other = file.with_extension("new");
    fs::write(&other, text).unwrap();
    fs::rename(other, file).unwrap();
}

#[tokio::test]
async fn a_single_file_stays_watched_when_it_is_replaced() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "a.yaml", &manifest("a", "one"));
    let files = Files::open(std::slice::from_ref(&file), platform()).unwrap();
    let mut watch = files.watch();
    for next in ["two", "three"] {
        replace(&file, &manifest("a", next));
        until(&mut watch, |d| path(&d.services[&named("a")].service).ends_with(next)).await;
    }
}

#[tokio::test]
async fn json_files_that_are_no_manifests_are_ignored() {
    let folder = TempDir::new().unwrap();
    write(&folder, "a.yaml", &manifest("a", "a"));
    write(&folder, "config.json", r#"{"hidden_size": 768}"#);
    write(&folder, "tokens.json", "[1, 2]");
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    assert_eq!(files.watch().borrow().services.len(), 1);
    write(&folder, "b.json", r#"{"kind": "InferenceService"}"#);
    let broken = Files::open(&[folder.path().to_owned()], platform());
    let broken = broken.unwrap().watch().borrow().problems.clone();
    assert!(broken[0].contains("b.json"), "{broken:?}");
    // A JSON file that is given by name is expected to be a manifest.
    let named = Files::open(&[folder.path().join("config.json")], platform());
    let named = named.unwrap().watch().borrow().problems.clone();
    assert!(named[0].contains("apiVersion"), "{named:?}");
}

/// Returns the creation time of a service, in seconds since 1970.
fn created(declaration: &Declaration, name: &str) -> i64 {
    let metadata = declaration.services[&named(name)].service.metadata();
    metadata.creation_timestamp.as_ref().unwrap().0.as_second()
}

#[tokio::test]
async fn a_service_keeps_its_creation_time_over_a_restart_until_it_is_deleted() {
    let (folder, state) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = write(&folder, "a.yaml", &manifest("a", "a"));
    write(&folder, "b.yaml", &manifest("b", "b"));
    let known = r#"{"revisions": {}, "created": {"default/a": 1000, "default/gone": 2000}}"#;
    let numbers = write(&state, "revisions.json", known);
    let paths = [folder.path().to_owned()];
    let files = Files::reopen(&paths, platform(), &numbers).unwrap();
    let mut watch = files.watch();
    assert_eq!(created(&watch.borrow(), "a"), 1000);
    let new = created(&watch.borrow(), "b");
    assert!(new > 1000);
    let files = files.numbered_in(numbers.clone());
    let kept = fs::read_to_string(&numbers).unwrap();
    assert!(kept.contains(r#""default/a": 1000"#), "{kept}");
    assert!(kept.contains(&format!(r#""default/b": {new}"#)), "{kept}");
    assert!(!kept.contains("gone"), "{kept}");
    fs::remove_file(&file).unwrap();
    until(&mut watch, |now| now.services.len() == 1).await;
    fs::write(&file, manifest("a", "a")).unwrap();
    let again = until(&mut watch, |now| now.services.len() == 2).await;
    assert!(created(&again, "a") > 1000);
    drop(files);
}

/// Makes a tree `top/services/a.yaml` whose file has this version.
fn tree(version: &str) -> TempDir {
    let root = TempDir::new().unwrap();
    let folder = root.path().join("top/services");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("a.yaml"), manifest("a", version)).unwrap();
    root
}

/// Returns true for a declaration of `a` in this version. Between two steps of a replacement, `a` may be undeclared.
fn is_version(version: &str) -> impl Fn(&Declaration) -> bool {
    move |declaration| {
        let declared = declaration.services.get(&named("a"));
        let is_it = |service: &Service| path(service) == format!("pvc://models/{version}");
        declared.is_some_and(|declared| is_it(&declared.service))
    }
}

/// Checks that replacing a directory of the tree, and editing the file in it afterwards, are both noticed.
async fn follows_a_replaced_directory(given: &str, replaced: &str) {
    let root = tree("one");
    let file = root.path().join("top/services/a.yaml");
    let files = Files::open(&[root.path().join(given)], platform()).unwrap();
    let mut watch = files.watch();
    let place = root.path().join(replaced);
    for (moved, edited) in [("two", "three"), ("four", "five")] {
        let other = tree(moved);
        fs::rename(&place, root.path().join(format!("before-{moved}"))).unwrap();
        fs::rename(other.path().join(replaced), &place).unwrap();
        until(&mut watch, is_version(moved)).await;
        fs::write(&file, manifest("a", edited)).unwrap();
        until(&mut watch, is_version(edited)).await;
    }
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    for version in ["six", "seven"] {
        fs::write(&file, manifest("a", version)).unwrap();
        until(&mut watch, is_version(version)).await;
    }
    assert_eq!(watch.borrow().problems, [""; 0]);
}

#[tokio::test]
async fn a_replaced_folder_stays_watched() {
    follows_a_replaced_directory("top/services", "top/services").await;
}

#[tokio::test]
async fn a_folder_stays_watched_when_one_above_it_is_replaced() {
    follows_a_replaced_directory("top/services", "top").await;
}

#[tokio::test]
async fn a_file_stays_watched_when_its_folder_is_replaced() {
    follows_a_replaced_directory("top/services/a.yaml", "top/services").await;
}

#[tokio::test]
async fn a_folder_that_is_moved_away_and_back_stays_watched() {
    let root = tree("one");
    let folder = root.path().join("top/services");
    let files = Files::open(std::slice::from_ref(&folder), platform()).unwrap();
    let mut watch = files.watch();
    let away = root.path().join("away");
    fs::rename(&folder, &away).unwrap();
    let now = until(&mut watch, |now| !now.problems.is_empty()).await;
    assert!(is_version("one")(&now));
    fs::rename(&away, &folder).unwrap();
    until(&mut watch, |now| now.problems.is_empty()).await;
    fs::write(folder.join("a.yaml"), manifest("a", "two")).unwrap();
    until(&mut watch, is_version("two")).await;
}

/// Objects that cannot be used, and the beginning of their problems without the file name.
const BROKEN: [(&str, &str); 5] = [
    ("SPEC", ":6:12: spec.predictor.model: "),
    ("NAME", ":3:12: metadata.name: service name \"Not_A_Name\""),
    ("NAMESPACE", ":3:12: metadata.namespace: namespace \"Team_A\""),
    ("LONG", ":3:12: metadata.name: service name"),
    ("MULTI", ":5:3: spec.multiModel: "),
];

/// Returns the text of an entry of [`BROKEN`].
fn broken_text(what: &str) -> String {
    let metadata = "metadata: {name: a}";
    match what {
        "SPEC" => format!("{}    model: 5\n", manifest("other", "x").split_inclusive("predictor:\n").next().unwrap()),
        "NAME" => manifest("Not_A_Name", "x"),
        "NAMESPACE" => manifest("a", "x").replace(metadata, "metadata: {namespace: Team_A, name: a}"),
        "LONG" => manifest(&"a".repeat(60), "x"),
        "MULTI" => "apiVersion: serving.kserve.io/v1alpha1
kind: ServingRuntime
metadata: {name: several}
spec:
  multiModel: true
  containers: [{name: kserve-container, command: [server]}]
"
        .to_owned(),
        text => text.to_owned(),
    }
}

#[tokio::test]
async fn a_broken_object_blocks_no_edit_addition_or_deletion_of_others() {
    for (what, problem) in BROKEN {
        let folder = TempDir::new().unwrap();
        let edited = write(&folder, "edited.yaml", &manifest("edited", "one"));
        let deleted = write(&folder, "deleted.yaml", &manifest("deleted", "one"));
        let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
        let mut watch = files.watch();
        let broken = write(&folder, "broken.yaml", &broken_text(what));
        let now = until(&mut watch, |d| !d.problems.is_empty()).await;
        let expected = format!("{}{problem}", broken.display());
        assert!(now.problems[0].starts_with(&expected), "{what}: {:?}", now.problems);
        fs::write(&edited, manifest("edited", "two")).unwrap();
        write(&folder, "added.yaml", &manifest("added", "one"));
        fs::remove_file(&deleted).unwrap();
        let now = until(&mut watch, |d| {
            let names: Vec<_> = d.services.keys().map(ServiceName::name).collect();
            names == ["added", "edited"] && path(&d.services[&named("edited")].service).ends_with("two")
        })
        .await;
        assert!(now.problems[0].starts_with(&expected), "{what}: {:?}", now.problems);
    }
}

#[tokio::test]
async fn a_service_is_kept_while_a_file_is_written_in_several_steps() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "all.yaml", &format!("{}---\n{}", manifest("a", "one"), manifest("b", "one")));
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    fs::write(&file, manifest("b", "two")).unwrap();
    let half = until(&mut watch, |d| path(&d.services[&named("b")].service).ends_with("two")).await;
    assert!(is_version("one")(&half));
    fs::write(&file, format!("{}---\n{}", manifest("b", "three"), manifest("a", "two"))).unwrap();
    let whole = until(&mut watch, |d| path(&d.services[&named("b")].service).ends_with("three")).await;
    assert!(is_version("two")(&whole));
    assert_eq!(whole.services[&named("a")].service.metadata().generation, Some(2));
    fs::write(&file, manifest("b", "three")).unwrap();
    until(&mut watch, |d| d.services.len() == 1).await;
}

/// Texts that may hide a service, so that no service is deleted.
#[tokio::test]
async fn a_service_that_a_broken_file_may_declare_is_kept_until_the_file_is_corrected() {
    let without_separator = manifest("b", "one") + &manifest("a", "two");
    let misspelt = manifest("a", "two").replace("storageUri", "storageURI");
    let without_version = manifest("a", "two").replace("apiVersion", "version");
    for text in
        [without_separator, misspelt, without_version, "}{".to_owned(), "apiVersion: v1\nkind: List\n".to_owned()]
    {
        let folder = TempDir::new().unwrap();
        let file = write(&folder, "a.yaml", &manifest("a", "one"));
        let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
        let mut watch = files.watch();
        let broken = write(&folder, "b.yaml", &text);
        fs::remove_file(&file).unwrap();
        let problem = format!(
            "{}: the InferenceService default/a is in no file any more; it is kept, because the errors in this file \
             may hide it",
            broken.display()
        );
        let now = until(&mut watch, |d| d.problems.contains(&problem)).await;
        assert!(is_version("one")(&now), "{text}");
        replace(&broken, &manifest("b", "one"));
        let now = until(&mut watch, |d| d.services.keys().eq([&named("b")])).await;
        assert_eq!(now.problems, [""; 0]);
    }
}

#[tokio::test]
async fn a_broken_object_keeps_its_last_good_state_beside_edits_in_the_same_file() {
    let folder = TempDir::new().unwrap();
    let texts = |texts: &[String]| texts.join("---\n");
    let runtime = broken_text("MULTI").replace("  multiModel: true\n", "");
    let good = texts(&[manifest("a", "one"), manifest("b", "one"), runtime]);
    let file = write(&folder, "all.yaml", &good);
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    let runtimes = watch.borrow().runtimes.as_slice().len();
    // The first object's name is now invalid, the second is edited, and the runtime is broken.
    let edit = texts(&[manifest("A", "two"), manifest("b", "two"), broken_text("MULTI")]);
    replace(&file, &edit);
    let now = until(&mut watch, |d| d.problems.len() == 2).await;
    let path = |name: &str| path(&now.services[&named(name)].service).to_owned();
    assert_eq!([path("a"), path("b")], ["pvc://models/one", "pvc://models/two"]);
    assert_eq!(now.runtimes.as_slice().len(), runtimes);
    // A corrected file deletes the objects that it does not declare.
    replace(&file, &manifest("b", "three"));
    let now = until(&mut watch, |d| d.services.keys().eq([&named("b")])).await;
    assert_eq!(now.problems, [""; 0]);
    assert_eq!(now.runtimes.as_slice().len(), runtimes - 1);
}

#[tokio::test]
async fn the_older_of_two_declarations_counts_until_it_is_deleted() {
    let folder = TempDir::new().unwrap();
    let first = write(&folder, "b.yaml", &manifest("s", "first"));
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    write(&folder, "a.yaml", &manifest("s", "second"));
    write(&folder, "c.yaml", &manifest("c", "c"));
    let now = until(&mut watch, |d| !d.problems.is_empty() && d.services.len() == 2).await;
    assert_eq!(path(&now.services[&named("s")].service), "pvc://models/first");
    fs::remove_file(&first).unwrap();
    let now = until(&mut watch, |d| d.problems.is_empty()).await;
    assert_eq!(path(&now.services[&named("s")].service), "pvc://models/second");
}

#[tokio::test]
async fn a_model_file_that_is_overwritten_in_place_makes_another_revision() {
    let folder = TempDir::new().unwrap();
    let model = folder.path().join("models/digits");
    fs::create_dir_all(&model).unwrap();
    fs::write(model.join("model.pt"), "one").unwrap();
    write(&folder, "a.yaml", &manifest("a", "digits"));
    write(&folder, "b.yaml", &manifest("b", "elsewhere"));
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    let storage = |declaration: &Declaration, name: &str| {
        let validated = declaration.services[&named(name)].validated().unwrap();
        validated.predictor.storage[0].clone()
    };
    let first = watch.borrow().clone();
    fs::write(model.join("model.pt"), "another").unwrap();
    let is_other = |d: &Declaration| storage(d, "a").uri != storage(&first, "a").uri;
    let now = until(&mut watch, is_other).await;
    assert_eq!(storage(&now, "a").plain_uri(), "pvc://models/digits");
    assert_eq!(storage(&now, "b"), storage(&first, "b"));
    assert_eq!(&*storage(&now, "b").uri, "pvc://models/elsewhere");
}

#[tokio::test]
async fn two_services_of_one_name_are_one_problem() {
    let folder = TempDir::new().unwrap();
    let first = write(&folder, "a.yaml", &manifest("a", "one"));
    let second = write(&folder, "b.yaml", &manifest("a", "two"));
    let found = problems(&[folder.path().to_owned()]);
    let expected = format!(
        "{}:3:12: the InferenceService default/a is declared twice; the first is at {}:3:12",
        second.display(),
        first.display()
    );
    assert_eq!(found, expected);
}

#[tokio::test]
async fn an_invalid_manifest_at_the_start_is_a_problem() {
    let folder = TempDir::new().unwrap();
    let missing = folder.path().join("none.yaml");
    let error = Files::open(std::slice::from_ref(&missing), platform()).unwrap_err();
    assert!(matches!(error, ControllerError::Read { .. }), "{error}");
    assert!(error.to_string().contains("none.yaml"), "{error}");
    let file = write(&folder, "a.yaml", &manifest("Upper", "one"));
    let found = problems(std::slice::from_ref(&file));
    assert!(found.starts_with(&format!("{}:3:12: metadata.name: ", file.display())), "{found}");
}

#[tokio::test]
async fn invalid_services_are_reported_before_anything_runs() {
    let folder = TempDir::new().unwrap();
    let wrong = manifest("a", "one").replace("    model:\n", "    minReplicas: -1\n    model:\n");
    let file = write(&folder, "a.yaml", &wrong);
    let files = Files::open(std::slice::from_ref(&file), platform()).unwrap();
    let errors = files.watch().borrow().errors();
    let expected = format!("{}:6:5: spec.predictor.minReplicas: 'MinReplicas' cannot be less than 0", file.display());
    assert_eq!(errors, [expected]);
}

/// Checks that the examples are valid.
#[tokio::test]
async fn examples_are_valid() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let folders = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
    let folders: Vec<_> = folders.filter(|path| path.is_dir()).collect();
    let files = Files::open(&folders, platform()).unwrap();
    let declaration = files.watch().borrow().clone();
    assert_eq!(declaration.errors(), Vec::<String>::new());
    let digits = &declaration.services[&named("digits")].service;
    let claims = digits.claims.as_ref().unwrap();
    assert!(claims.join("weir-examples/digits").is_dir());
}

#[tokio::test]
async fn a_link_out_of_the_folder_is_followed_when_its_target_changes() {
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = write(&other, "real.yaml", &manifest("a", "one"));
    symlink(&target, folder.path().join("a.yaml")).unwrap();
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    fs::write(&target, manifest("a", "two")).unwrap();
    let is_at = |end: &'static str| move |d: &Declaration| path(&d.services[&named("a")].service).ends_with(end);
    until(&mut watch, is_at("two")).await;
    write(&other, "new", &manifest("a", "three"));
    fs::rename(other.path().join("new"), &target).unwrap();
    until(&mut watch, is_at("three")).await;
}

#[tokio::test]
async fn a_mounted_config_map_is_read_again_whenever_it_is_replaced() {
    let (folder, mount) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // Like the kubelet, uses a folder for each version, and a link that is replaced as a whole.
    let mounted = |version: &str| {
        let inside = mount.path().join(version);
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("a.yaml"), manifest("a", version)).unwrap();
        symlink(version, mount.path().join("..new")).unwrap();
        fs::rename(mount.path().join("..new"), mount.path().join("..data")).unwrap();
    };
    mounted("one");
    symlink("..data/a.yaml", mount.path().join("a.yaml")).unwrap();
    let link = folder.path().join("a.yaml");
    symlink(mount.path().join("a.yaml"), &link).unwrap();
    let files = Files::open(&[link], platform()).unwrap();
    let mut watch = files.watch();
    for (version, before) in [("two", "one"), ("three", "two")] {
        mounted(version);
        fs::remove_dir_all(mount.path().join(before)).unwrap();
        until(&mut watch, |d| path(&d.services[&named("a")].service).ends_with(version)).await;
    }
    assert_eq!(watch.borrow().problems, [""; 0]);
}

/// A shell's `<(…)` is a pipe that can be read once, and its folder means nothing.
#[tokio::test]
async fn a_pipe_is_read_once_and_to_its_end() {
    let folder = TempDir::new().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (to, text) = (pipe.clone(), manifest("piped", "a"));
    let written = tokio::task::spawn_blocking(move || fs::write(to, text));
    let file = write(&folder, "b.yaml", &manifest("b", "one"));
    let files = Files::open(&[pipe, file.clone()], platform()).unwrap();
    written.await.unwrap().unwrap();
    let mut watch = files.watch();
    let claims = watch.borrow().services[&named("piped")].service.claims.clone();
    assert_eq!(claims, Some(std::env::current_dir().unwrap()));
    fs::write(&file, manifest("b", "two")).unwrap();
    let now = until(&mut watch, |now| path(&now.services[&named("b")].service).ends_with("two")).await;
    assert!(now.services.contains_key(&named("piped")));
    assert_eq!(now.problems, [""; 0]);
}

#[tokio::test]
async fn a_file_given_by_two_names_is_read_once() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "a.yaml", &manifest("a", "a"));
    symlink("a.yaml", folder.path().join("link.yaml")).unwrap();
    let dotted = folder.path().join(".").join("a.yaml");
    let paths = [folder.path().to_owned(), file, dotted];
    let files = Files::open(&paths, platform()).unwrap();
    assert_eq!(files.watch().borrow().services.len(), 1);
}

/// Some editors truncate a file before they write the new text, and may pause in between.
#[tokio::test]
async fn an_empty_file_removes_no_service() {
    let folder = TempDir::new().unwrap();
    let file = write(&folder, "a.yaml", &manifest("a", "a"));
    let files = Files::open(&[folder.path().to_owned()], platform()).unwrap();
    let mut watch = files.watch();
    fs::write(&file, "").unwrap();
    let now = until(&mut watch, |now| !now.problems.is_empty()).await;
    assert!(now.problems[0].ends_with("delete it"), "{:?}", now.problems);
    assert!(now.services.contains_key(&named("a")));
    fs::write(&file, "# nothing any more\n").unwrap();
    until(&mut watch, |now| now.services.is_empty()).await;
}
