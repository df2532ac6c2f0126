//! Tests of the layouts of repository paths, and of the names of their models.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use weir_protocol::{Code, Coded};

use super::fake::{FakeLauncher, FakeRepository, fresh, index, options, started};
use super::folder::Folder;
use crate::repository::{AutoComplete, ControlMode, IndexFilter, Repository};

async fn single(path: PathBuf, name: Option<&str>) -> (std::sync::Arc<FakeRepository>, FakeLauncher) {
    let (repository, fake) = fresh(&[path], name, options(ControlMode::None));
    repository.start().await.unwrap();
    (repository, fake)
}

#[tokio::test]
async fn a_file_is_a_model_named_by_its_stem() {
    let folder = Folder::new();
    folder.write("resnet.pt", "weights");
    let (repository, _) = single(folder.at("resnet.pt"), None).await;
    let live = repository.find("resnet", "").unwrap();
    assert_eq!(live.content, "weights");
    assert_eq!(live.source.path, folder.at("resnet.pt"));
    assert_eq!(live.source.model_dir, folder.path());
    assert_eq!(live.source.config.backend, "pytorch");
    assert_eq!(index(&repository), ["resnet 1 READY"]);
}

#[tokio::test]
async fn each_file_of_a_folder_without_models_is_a_model() {
    let folder = Folder::new();
    folder.write("a.pt", "first").write("b.pt2", "second").write("README.md", "").directory("empty");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
    assert_eq!(repository.find("b", "").unwrap().content, "second");
}

#[tokio::test]
async fn the_only_archive_of_a_model_store_has_the_name_of_the_model() {
    let folder = Folder::new();
    folder.write("model-store/mnist.mar", "archive").write("config/config.properties", "");
    let (repository, _) = single(folder.path().to_owned(), Some("digits")).await;
    assert_eq!(index(&repository), ["digits 1 READY"]);
    assert_eq!(repository.find("digits", "").unwrap().content, "archive");
}

#[tokio::test]
async fn files_beside_models_are_no_models() {
    let folder = Folder::with(&[("m", &[1])]);
    folder.write("old.pt", "weights");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["m 1 READY"]);
}

#[tokio::test]
async fn a_folder_without_a_model_is_refused_by_what_it_holds() {
    for (name, files) in [(None, ["notes.txt", "pytorch_model.bin"]), (Some("m"), ["a.pt", "b.pt"])] {
        let folder = Folder::new();
        for file in files {
            folder.write(file, "");
        }
        let name = name.map(str::to_owned);
        let fake = FakeLauncher::default();
        let refused = Repository::new(&[folder.path().to_owned()], name, options(ControlMode::None), fake);
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(&format!("found {}, {}; ", files[0], files[1])), "{text}");
    }
}

#[tokio::test]
async fn a_bare_directory_is_a_model() {
    let folder = Folder::new();
    folder.write("resnet/model.pt", "weights").write("resnet/README.md", "");
    let (repository, _) = single(folder.at("resnet"), None).await;
    assert_eq!(repository.find("resnet", "1").unwrap().content, "weights");
}

#[tokio::test]
async fn a_directory_with_versions_is_a_model() {
    let folder = Folder::with(&[("resnet", &[1, 2, 10])]);
    folder.directory("resnet/01").directory("resnet/0").directory("resnet/x");
    folder.write("resnet/77", "a file is no version");
    let (repository, _) = single(folder.at("resnet"), None).await;
    assert_eq!(index(&repository), ["resnet 10 READY"]);
}

#[tokio::test]
async fn a_configuration_takes_precedence_over_a_bare_file() {
    let folder = Folder::new();
    folder.write("m/config.pbtxt", "name: \"digits\" backend: \"pytorch\"").write("m/model.pt", "w");
    let (repository, _) = single(folder.at("m"), None).await;
    assert_eq!(repository.find("digits", "").unwrap().source.path, folder.at("m/model.pt"));
}

#[tokio::test]
async fn a_model_without_files_needs_only_a_configuration() {
    let folder = Folder::new();
    folder.write("echo/config.pbtxt", "backend: \"echo\"");
    folder.write("other/config.pbtxt", "backend: \"echo\"").directory("other/3");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(repository.find("echo", "").unwrap().source.path, folder.at("echo"));
    assert_eq!(repository.find("other", "").unwrap().source.path, folder.at("other/3"));
}

#[tokio::test]
async fn any_other_directory_is_a_repository() {
    let folder = Folder::with(&[("versioned", &[1])]);
    folder.write("bare/model.pt", "w").write("README.md", "").directory("empty");
    folder.write(".git/1/model.pt", "w").directory("lost+found/1");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["bare 1 READY", "versioned 1 READY"]);
}

#[tokio::test]
async fn the_first_version_may_be_zero() {
    let folder = Folder::with(&[("m", &[0])]);
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["m 0 READY"]);
    assert_eq!(repository.find("m", "0").unwrap().content, "weights");
}

#[tokio::test]
async fn models_may_have_numbers_for_names() {
    let folder = Folder::with(&[("7", &[1, 2]), ("resnet", &[1])]);
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository), ["7 2 READY", "resnet 1 READY"]);

    // The directory of a model that is being copied is empty at first. It must not count as a version of a model that
    // contains the others.
    let folder = Folder::new();
    folder.write("m/config.pbtxt", "backend: \"pytorch\"").write("m/1/model.pt", "w").directory("2024");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(index(&repository)[0], "m 1 READY");
}

#[tokio::test]
async fn a_model_with_its_own_folders_stays_one_model() {
    let folder = Folder::with(&[("m", &[3])]);
    folder
        .directory("m/3/1")
        .write("m/warmup/x", "")
        .write("m/.git/config.pbtxt", "")
        .write("m/configs/config.pbtxt", "");
    let (repository, _) = single(folder.at("m"), None).await;
    assert_eq!(index(&repository), ["m 3 READY"]);
}

#[tokio::test]
async fn links_and_dots_are_resolved() {
    let folder = Folder::with(&[("data/v7", &[1]), ("repo/plain", &[1])]);
    symlink(folder.at("data/v7"), folder.at("repo/linked")).unwrap();
    symlink(folder.at("nowhere"), folder.at("repo/broken")).unwrap();
    symlink(folder.at("repo"), folder.at("repo/plain/upwards")).unwrap();
    folder.remove("repo/plain").write("repo/plain/1/model.pt", "w");
    let path = folder.at("data/../repo/.");
    let (repository, _) = fresh(&[path], None, options(ControlMode::None));
    repository.start().await.unwrap();
    assert_eq!(index(&repository), ["linked 1 READY", "plain 1 READY"]);

    let (repository, _) = single(folder.at("repo/linked/1/.."), None).await;
    assert!(repository.is_known("v7"), "{:?}", index(&repository));
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_is_never_ignored() {
    let folder = Folder::with(&[("versioned", &[1]), ("device", &[1]), ("good", &[1])]);
    folder.write("bare/model.pt", "w");
    for model in ["versioned", "bare"] {
        folder.link("/nowhere", &format!("{model}/config.pbtxt"));
    }
    folder.link("/dev/zero", "device/config.pbtxt");
    let (repository, _) = fresh(&[folder.at("")], None, options(ControlMode::None));
    repository.start().await.unwrap_err();
    let index = index(&repository);
    assert!(index.contains(&"good 1 READY".to_owned()), "{index:?}");
    for model in ["versioned", "bare", "device"] {
        let refused = format!("{model} - UNAVAILABLE cannot read");
        let refused = |line: &String| line.starts_with(&refused);
        assert!(index.iter().any(refused), "{model}: {index:?}");
    }
}

#[tokio::test]
async fn a_single_model_answers_to_both_names() {
    let folder = Folder::with(&[("models", &[1])]);
    folder.write("models/config.pbtxt", "name: \"digits\" backend: \"pytorch\"");
    let (repository, _) = single(folder.at("models"), Some("service")).await;
    assert_eq!(repository.find("service", "").unwrap().source.config.name, "service");
    assert_eq!(repository.find("digits", "1").unwrap().source.name, "service");
    assert_eq!(index(&repository), ["service 1 READY"]);
    assert!(!repository.is_known("models"));
}

#[tokio::test]
async fn the_only_model_of_a_repository_answers_to_both_names() {
    let folder = Folder::with(&[("digits", &[1])]);
    let (repository, _) = single(folder.path().to_owned(), Some("service")).await;
    assert_eq!(repository.find("service", "").unwrap().source.name, "digits");
    assert_eq!(repository.find("digits", "").unwrap().source.name, "digits");
    assert_eq!(index(&repository), ["digits 1 READY"]);
}

#[tokio::test]
async fn several_repositories_are_served_as_one() {
    let (left, right) = (Folder::with(&[("a", &[1])]), Folder::with(&[("b", &[1])]));
    let paths = [left.path().to_owned(), right.path().to_owned()];
    let (repository, _) = fresh(&paths, None, options(ControlMode::None));
    repository.start().await.unwrap();
    assert_eq!(index(&repository), ["a 1 READY", "b 1 READY"]);
}

#[tokio::test]
async fn a_name_in_two_repositories_is_an_error_that_names_both() {
    let (left, right) = (Folder::with(&[("a", &[1])]), Folder::with(&[("a", &[1]), ("b", &[1])]));
    let paths = [left.path().to_owned(), right.path().to_owned()];
    let (repository, _) = fresh(&paths, None, options(ControlMode::None));
    let failures = repository.start().await.unwrap_err();
    let text = failures[0].to_string();
    assert!(text.starts_with("load failed for model 'a': model 'a' is in more than one repository"));
    assert!(text.contains(left.at("a").to_str().unwrap()), "{text}");
    assert!(text.contains(right.at("a").to_str().unwrap()), "{text}");
    assert!(repository.find("b", "").is_ok());
    assert!(!repository.is_ready());
}

#[tokio::test]
async fn missing_paths_are_errors() {
    let folder = Folder::new();
    let refused = |path: PathBuf, name: Option<&str>| {
        let name = name.map(str::to_owned);
        let error = Repository::new(&[path], name, options(ControlMode::None), FakeLauncher::default());
        error.map(drop).unwrap_err()
    };
    let error = refused(folder.at("nowhere"), None);
    assert!(error.to_string().contains("nowhere"), "{error}");
    assert!(error.to_string().contains("No such file"), "{error}");
    assert_eq!(refused(folder.path().to_owned(), Some("a/b")).code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_version_policy_selects_versions() {
    let policies = [
        ("latest { num_versions: 2 }", vec!["m 3 READY", "m 9 READY"]),
        ("all { }", vec!["m 1 READY", "m 3 READY", "m 9 READY"]),
        ("specific { versions: [1, 4] }", vec!["m 1 READY"]),
    ];
    for (policy, expected) in policies {
        let folder = Folder::with(&[("m", &[1, 3, 9])]);
        let config = format!("backend: \"pytorch\" version_policy {{ {policy} }}");
        folder.write("m/config.pbtxt", &config);
        let (repository, _) = started(&folder, ControlMode::None).await;
        assert_eq!(index(&repository), expected, "{policy}");
    }
}

#[tokio::test]
async fn unusable_configurations_are_reported() {
    let cases = [
        ("backend: \"tensorflow_x\"", "no backend 'tensorflow_x', there are echo, pytorch"),
        ("backend: \"echo\" name: \"other\"", "unexpected directory name 'm' for model 'other'"),
        ("bakend: \"echo\"", "bakend"),
        (
            "backend: \"pytorch\" version_policy { specific { versions: [7] } }",
            "at least one version must be available under the version policy of model 'm'",
        ),
        ("backend: \"pytorch\" default_model_filename: \"../../x\"", "default_model_filename"),
    ];
    for (config, words) in cases {
        let folder = Folder::with(&[("m", &[1])]);
        folder.write("m/config.pbtxt", config);
        let (repository, fake) = fresh(&[folder.path().to_owned()], None, options(ControlMode::None));
        let failures = repository.start().await.unwrap_err();
        assert!(failures[0].to_string().contains(words), "{failures:?}");
        assert!(repository.index(IndexFilter::All)[0].reason.contains(words));
        assert_eq!(fake.launches(), 0);
    }
}

#[tokio::test]
async fn without_completion_a_configuration_is_required() {
    let folder = Folder::with(&[("m", &[1])]);
    let mut options = options(ControlMode::None);
    options.auto_complete = AutoComplete::Off;
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options);
    let failures = repository.start().await.unwrap_err();
    assert!(failures[0].to_string().contains("config.pbtxt"), "{failures:?}");
}

#[tokio::test]
async fn a_named_configuration_takes_precedence() {
    let folder = Folder::with(&[("a", &[1]), ("b", &[1])]);
    folder.write("a/config.pbtxt", "backend: \"pytorch\" max_batch_size: 1");
    folder.write("b/config.pbtxt", "backend: \"pytorch\" max_batch_size: 2");
    folder.write("a/configs/large.pbtxt", "backend: \"pytorch\" max_batch_size: 64");
    let mut options = options(ControlMode::None);
    options.config_name = Some("large".to_owned());
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options);
    repository.start().await.unwrap();
    let largest = |name| repository.find(name, "").unwrap().source.config.max_batch_size;
    assert_eq!((largest("a"), largest("b")), (Some(64), Some(2)));
}

#[tokio::test]
async fn labels_are_read_with_the_source() {
    let folder = Folder::with(&[("m", &[1])]);
    let output = "output { name: \"y\" data_type: TYPE_FP32 dims: 3 label_filename: \"y.txt\" }";
    let input = "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }";
    folder.write("m/config.pbtxt", &format!("backend: \"pytorch\" {input} {output}"));
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options(ControlMode::None));
    let failures = repository.start().await.unwrap_err();
    assert!(failures[0].to_string().contains("failed to read label file"), "{failures:?}");

    folder.write("m/y.txt", "\u{feff}cat\ndog\r\nowl\n");
    let (repository, _) = started(&folder, ControlMode::None).await;
    assert_eq!(repository.find("m", "").unwrap().source.labels["y"], ["cat", "dog", "owl"]);
}

#[tokio::test]
async fn the_labels_of_all_outputs_share_a_limit() {
    let folder = Folder::with(&[("m", &[1])]);
    let output =
        |name: &str| format!("output {{ name: \"{name}\" data_type: TYPE_FP32 dims: 3 label_filename: \"y.txt\" }}");
    let input = "input { name: \"x\" data_type: TYPE_FP32 dims: 3 }";
    folder.write("m/config.pbtxt", &format!("backend: \"pytorch\" {input} {} {}", output("y"), output("z")));
    folder.write("m/y.txt", &"\n".repeat(1_500_000));
    let (repository, _) = fresh(&[folder.path().to_owned()], None, options(ControlMode::None));
    let failures = repository.start().await.unwrap_err();
    assert!(
        failures[0].to_string().contains("the labels of all outputs take more than 67108864 bytes"),
        "{failures:?}"
    );
}
