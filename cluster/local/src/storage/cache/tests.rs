use std::time::Duration;

use super::*;

/// Creates a model of `bytes` bytes that was used `age` seconds ago; 0 is the oldest time that the test uses.
fn model(models: &Path, name: &str, bytes: usize, last_use: u64) -> PathBuf {
    let path = models.join(name);
    fs::create_dir_all(path.join("1")).unwrap();
    fs::write(path.join("1/model.pt"), vec![7; bytes]).unwrap();
    drop(ModelLock::acquire(&path).unwrap());
    let lock = File::options().append(true).open(path.with_extension(LOCK)).unwrap();
    lock.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(last_use)).unwrap();
    path
}

#[test]
fn the_least_recently_used_models_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let new = model(folder.path(), "new", 100, 3);
    let old = model(folder.path(), "old", 100, 1);
    let middle = model(folder.path(), "middle", 100, 2);
    assert_eq!(evict(folder.path(), 300).unwrap(), 0);
    assert_eq!(evict(folder.path(), 299).unwrap(), 1);
    assert!(!old.exists() && middle.exists() && new.exists());
    assert_eq!(evict(folder.path(), 100).unwrap(), 1);
    assert!(!middle.exists() && new.exists());
}

#[test]
fn models_in_use_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (model(folder.path(), "old", 100, 1), model(folder.path(), "new", 100, 2));
    let lock = ModelLock::acquire(&old).unwrap();
    assert_eq!(evict(folder.path(), 0).unwrap(), 1);
    assert!(old.exists() && !new.exists());
    drop(lock);
    assert_eq!(evict(folder.path(), 0).unwrap(), 1);
    assert!(!old.exists());
}

#[test]
fn incomplete_downloads_count_and_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("abc.fetching");
    fs::create_dir_all(&part).unwrap();
    fs::write(part.join("part"), [1; 500]).unwrap();
    assert_eq!(evict(folder.path(), 500).unwrap(), 0);
    assert_eq!(evict(folder.path(), 499).unwrap(), 1);
    assert!(!part.exists());
}

#[test]
fn a_used_model_is_the_last_to_go() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (model(folder.path(), "one", 10, 1), model(folder.path(), "two", 10, 2));
    drop(ModelLock::acquire(&one).unwrap());
    assert_eq!(evict(folder.path(), 10).unwrap(), 1);
    assert!(one.exists() && !two.exists());
}

#[test]
fn a_model_that_was_never_loaded_is_removed_unless_it_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let model = model(folder.path(), "model", 10, 1);
    let lock = ModelLock::acquire(&model).unwrap();
    assert!(!remove_unloaded(&model).unwrap() && model.exists());
    drop(lock);
    assert!(remove_unloaded(&model).unwrap() && !model.exists());
    assert!(!remove_unloaded(&model).unwrap());
}

#[test]
fn a_model_that_was_loaded_stays_until_it_is_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = model(folder.path(), "model", 10, 1);
    ModelLock::acquire(&loaded).unwrap().mark_loaded().unwrap();
    assert!(!remove_unloaded(&loaded).unwrap() && loaded.exists());
    assert_eq!(evict(folder.path(), 0).unwrap(), 1);
    // The next download of the model is another one.
    let again = model(folder.path(), "model", 10, 1);
    assert!(remove_unloaded(&again).unwrap());
}
