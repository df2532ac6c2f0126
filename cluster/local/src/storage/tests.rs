use proptest::prelude::*;

use super::*;

fn at(uri: &str, claims: Option<&str>) -> Result<PathBuf, String> {
    let storage =
        Storage { uri: uri.into(), mount_path: Storage::MOUNT_PATH.into(), claims: claims.map(PathBuf::from) };
    let model = ModelFiles::of(&storage, Path::new("/state/models"));
    model.map(|model| model.path).map_err(|error| error.to_string())
}

#[test]
fn claims_are_directories_next_to_the_manifest() {
    let found = at("pvc://models/digits/1", Some("/home/me/digits"));
    assert_eq!(found, Ok("/home/me/digits/models/digits/1".into()));
    assert_eq!(at("pvc://models", Some("/d")), Ok("/d/models".into()));
    assert_eq!(at("file:///srv/m", None), Ok("/srv/m".into()));
    let in_state = Storage::uri_in_state("file:///srv/m", "00112233");
    assert_eq!(at(&in_state, None), Ok("/srv/m".into()));
}

#[test]
fn each_url_has_its_own_directory() {
    let first = at("https://a/model.pt", None).unwrap();
    assert_eq!(first, Path::new("/state/models/8a7367c87b72c792"));
    assert_ne!(first, at("https://b/model.pt", None).unwrap());
}

#[test]
fn a_url_that_names_no_file_is_refused() {
    let file = "the path must end with a plain file name";
    for (uri, reason) in [
        ("http://", "empty host"),
        ("https://two words/m.pt", "invalid international domain name"),
        ("http://models.example.com", file),
        ("http://models.example.com/digits/", file),
    ] {
        assert_eq!(at(uri, None), Err(format!("{uri}: {reason}")));
    }
}

#[test]
fn a_downloaded_file_is_served_under_any_name() {
    let repository = |uri: &str| {
        let storage = Storage { uri: uri.into(), mount_path: Storage::MOUNT_PATH.into(), claims: None };
        let files = ModelFiles::of(&storage, Path::new("/models")).unwrap();
        (files.repository, files.path)
    };
    let (repository_of_file, path) = repository("https://a/resnet.pt?signature=1");
    assert_eq!(repository_of_file, path.join("resnet.pt"));
    let (repository_of_archive, path) = repository("https://a/resnet.zip");
    assert_eq!(repository_of_archive, path);
}

#[test]
fn a_directory_without_a_model_is_recognised() {
    let holds = |files: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        may_hold_model(folder.path(), DEPTH, &mut { MAX_ENTRIES })
    };
    for none in [&[][..], &["a.pt", "b.pt"], &["1/mymodel.pt"], &["a/b/c/model.pt"]] {
        assert!(!holds(none), "{none:?}");
    }
    for some in [&["model.pt"][..], &["1/model.pt"], &["net/1/model.pt"], &["net/config.pbtxt"]] {
        assert!(holds(some), "{some:?}");
    }
}

#[test]
fn an_unusable_uri_is_refused_with_the_reason() {
    for (uri, text) in [
        ("pvc://models/x", "there is no manifest"),
        ("pvc:///x", "names no claim"),
        ("pvc://../x", "names no claim"),
        ("pvc://a/../../x", "leads out of its claim"),
        ("file://x", "file:///abs/path"),
        ("hdfs://a/b", "is not supported; copy the files to a bucket or a volume"),
        ("oci+native://a/b", "use oci:// instead"),
        ("ftp://a/b", "use s3://, gs://, hf://, oci://, https:// or http://"),
        ("<scheme-placeholder>://a/b", "set storage.parameters.type and bucket"),
        ("models", "not a storage URI"),
    ] {
        let claims = (!text.contains("no manifest")).then_some("/d");
        let error = at(uri, claims).unwrap_err();
        assert!(error.contains(text) && error.contains(uri), "{error}");
    }
}

proptest! {
    #[test]
    fn a_path_never_leaves_its_claim(path in "[./ab]{0,16}") {
        if let Ok(found) = at(&format!("pvc://{path}"), Some("/claims")) {
            prop_assert!(found.starts_with("/claims"));
            prop_assert!(!found.components().any(|part| part == Component::ParentDir));
        }
    }
}
