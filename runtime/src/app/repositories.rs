//! Paths of the model repositories, of which some are copies of remote ones.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use super::OpenRemote;
use crate::args::Config;
use crate::repository::RemoteRepository;

/// The repositories that the flags name.
pub(super) struct Repositories {
    /// Local paths, with the copies' directories in place of URIs.
    pub(super) paths: Vec<PathBuf>,
    /// Remote repositories, each with its copy.
    pub(super) remotes: Vec<Arc<dyn RemoteRepository>>,
    /// Directory of the copies, removed when the process ends; `None` if there is none or `--model-repository-cache`
    /// names one.
    temporary: Option<TempDir>,
}

impl Repositories {
    /// Opens the copies of remote repositories; nothing is fetched yet. The error is a sentence.
    pub(super) fn open(config: &Config, open: OpenRemote) -> Result<Self, String> {
        let mut opened = Self { paths: Vec::new(), remotes: Vec::new(), temporary: None };
        for path in &config.repositories {
            let Some(uri) = uri(path) else {
                opened.paths.push(path.clone());
                continue;
            };
            let remote = open(uri, &opened.folder(config)?)?;
            opened.paths.push(remote.directory());
            opened.remotes.push(remote);
        }
        Ok(opened)
    }

    /// Returns the directory of the copies.
    fn folder(&mut self, config: &Config) -> Result<PathBuf, String> {
        if let Some(folder) = &config.repository_cache {
            return Ok(folder.clone());
        }
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => tempfile::Builder::new().prefix("weir-models-").tempdir().map_err(|error| {
                format!("no temporary directory for models: {error}. Name one with --model-repository-cache")
            })?,
        };
        Ok(self.temporary.insert(temporary).path().to_owned())
    }
}

/// Returns the URI of a remote repository; `None` for a local path.
fn uri(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains("://"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::parse;
    use crate::repository::{Refresh, RefreshedModels};

    #[derive(Debug)]
    struct FixedRemote(PathBuf);

    impl RemoteRepository for FixedRemote {
        fn directory(&self) -> PathBuf {
            self.0.clone()
        }

        fn refresh<'a>(&'a self, _: &'a RefreshedModels) -> Refresh<'a> {
            Box::pin(async { Ok(()) })
        }
    }

    fn open(uri: &str, folder: &Path) -> Result<Arc<dyn RemoteRepository>, String> {
        match uri.strip_prefix("s3://") {
            Some(name) => Ok(Arc::new(FixedRemote(folder.join(name)))),
            None => Err(format!("{uri} is not supported")),
        }
    }

    fn opened(flags: &[&str]) -> Result<Repositories, String> {
        let argv = ["weir-runtime"].iter().chain(flags);
        Repositories::open(&parse(argv).unwrap(), open)
    }

    #[test]
    fn uris_become_copies_among_the_paths() {
        let flags = ["--model-repository=/m", "--model-repository=s3://a", "--model-repository-cache=/cache"];
        let repositories = opened(&flags).unwrap();
        assert_eq!(repositories.paths, [Path::new("/m"), Path::new("/cache/a")]);
        assert_eq!(repositories.remotes.len(), 1);
        assert!(opened(&["--model-repository=ftp://a"]).is_err());
    }

    #[test]
    fn copies_without_a_cache_share_a_temporary_directory() {
        let repositories = opened(&["--model-repository=s3://a", "--model-repository=s3://b"]).unwrap();
        let [a, b] = &repositories.paths[..] else { panic!("{:?}", repositories.paths) };
        let folder = a.parent().unwrap().to_owned();
        assert_eq!(Some(&*folder), b.parent());
        assert!(folder.exists());
        drop(repositories);
        assert!(!folder.exists());
    }
}
