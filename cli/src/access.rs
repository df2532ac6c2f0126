//! Access files: keys and rules of a gateway's clients, read at the start and again when a file changes.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_access::{AccessDocument, Policy};
use weir_crds::{ReadDocument, read_document};
use weir_gateway::AccessControl;

use crate::error::CliError;

/// Interval at which the files are checked for changes, so that a revoked key is refused within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Largest access file, in bytes. A key takes about 180.
const MAX_BYTES: u64 = 64 << 20;

/// The access files of a gateway, and the access control that follows them.
pub(crate) struct AccessFiles {
    pub(crate) control: Arc<AccessControl>,
    files: Vec<PathBuf>,
    /// Fingerprints of the files before they were first read.
    at_start: Vec<Fingerprint>,
}

/// Modification time, size and inode of a file; `None` for a file that does not exist.
type Fingerprint = Option<(i64, i64, u64, u64)>;

impl AccessFiles {
    /// Reads the files of `--access-file`; `None` without the flag.
    ///
    /// # Errors
    /// [`CliError::Invalid`] with every error of every file.
    pub(crate) fn read(files: &[PathBuf]) -> Result<Option<Self>, CliError> {
        if files.is_empty() {
            return Ok(None);
        }
        // The fingerprints are taken before the content is read, so that a change in between is noticed.
        let at_start = fingerprints(files);
        let mut policy = policy(files).map_err(CliError::Invalid)?;
        let issuers = std::mem::take(&mut policy.issuers);
        let control = AccessControl::new(policy);
        control.trust(&issuers).map_err(|error| CliError::Invalid(vec![error.to_string()]))?;
        Ok(Some(Self { control, files: files.to_vec(), at_start }))
    }

    /// Follows the files, and fetches the keys of issuers of tokens.
    pub(crate) async fn follow(self) {
        let control = Arc::clone(&self.control);
        tokio::join!(control.fetch_keys(), self.follow_files());
    }

    /// Reads all files again whenever one changes. While one has errors, the last keys and rules stay in use.
    async fn follow_files(self) {
        let mut seen = self.at_start;
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let now = fingerprints(&self.files);
            if now == seen {
                continue;
            }
            seen = now;
            let files = self.files.clone();
            let read = tokio::task::spawn_blocking(move || policy(&files)).await;
            let read = read.unwrap_or_else(|error| Err(vec![error.to_string()]));
            let trusted = read.and_then(|policy| match self.control.trust(&policy.issuers) {
                Ok(()) => Ok(policy),
                Err(error) => Err(vec![error.to_string()]),
            });
            match trusted {
                Ok(policy) => {
                    tracing::info!(keys = policy.keys.len(), "the new access files are in use");
                    self.control.replace(policy);
                }
                Err(errors) => {
                    self.control.count_failed_reload();
                    let errors = errors.join("; ");
                    tracing::error!(errors, "the last valid keys and rules stay in use");
                }
            }
        }
    }
}

/// Reads all files into one policy. The errors are lines with file, line and field.
fn policy(files: &[PathBuf]) -> Result<Policy, Vec<String>> {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    for file in files {
        match document(file) {
            Ok(document) => documents.push(document),
            Err(mut found) => errors.append(&mut found),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let values: Vec<AccessDocument> =
        documents.iter_mut().map(|document| std::mem::take(&mut document.value)).collect();
    Policy::of(&values).map_err(|errors| {
        let of = |number: usize| {
            let own = errors.iter().filter(move |error| error.document == number);
            own.map(|error| (error.field.clone(), error.problem.to_string())).collect::<Vec<_>>()
        };
        let each = documents.iter().enumerate().flat_map(|(number, document)| document.diagnostics(of(number)));
        each.map(|diagnostic| diagnostic.to_string()).collect()
    })
}

/// Reads one access file.
///
/// # Errors
/// One line for each error.
pub(crate) fn document(file: &Path) -> Result<ReadDocument<AccessDocument>, Vec<String>> {
    let name = file.display().to_string();
    let failed = |reason: &str| vec![format!("{name} (--access-file): {reason}")];
    let size = std::fs::metadata(file).map_err(|error| failed(&error.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(failed(&format!("{size} bytes, more than {MAX_BYTES}")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| failed(&error.to_string()))?;
    let read = read_document(&name, &text);
    read.map_err(|diagnostics| diagnostics.iter().map(ToString::to_string).collect())
}

fn fingerprints(files: &[PathBuf]) -> Vec<Fingerprint> {
    let each = files.iter().map(|file| {
        // `metadata` follows symbolic links: Kubernetes replaces a link to update a mounted Secret.
        let found = std::fs::metadata(file).ok()?;
        Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_access::{Caller, Operation, Operations, Rules, ServiceId, ServiceRules, Verdict};

    use super::*;

    #[test]
    fn every_error_of_every_file_has_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("keys.yaml"), folder.path().join("rules.yaml"));
        fs::write(&one, "keys:\n- id: x\n  client: a\n  sha256: z\n").unwrap();
        fs::write(&two, "rules:\n- clients: [a]\n  services: [digits]\n- {}\n").unwrap();
        let errors = policy(&[one.clone(), two.clone()]).unwrap_err();
        let (one_name, two_name) = (one.display(), two.display());
        let expected = [
            format!("{one_name}:2:3: keys[0].id: expected 16 hexadecimal digits, as `weir key create` writes"),
            format!(
                "{two_name}:3:14: rules[0].services[0]: a service is NAMESPACE/NAME, each with an optional final `*`, or `*` for all"
            ),
            format!("{two_name}:4:3: rules[1]: the rule allows nobody: set `clients`, `roles` or `anyone: true`"),
        ];
        assert_eq!(errors, expected);
        fs::write(&one, "kyes: []\n").unwrap();
        let errors = policy(&[one, folder.path().join("none.yaml")]).unwrap_err();
        assert!(errors[0].ends_with("keys.yaml:1:1: kyes: unknown field; did you mean `keys`?"), "{errors:?}");
        assert!(errors[1].contains("none.yaml (--access-file): No such file"), "{errors:?}");
    }

    /// Returns the text between the fences of the first block of YAML.
    fn block(example: &str) -> &str {
        let (_, rest) = example.split_once("```yaml\n").unwrap();
        rest.split_once("```").unwrap().0
    }

    /// Decides about a row of an example's table, and returns the word for the answer.
    fn answer(rules: &Rules, cells: &[&str]) -> &'static str {
        let caller = match cells[0] {
            "none" => Caller::anonymous(),
            client => Caller::named(client.into(), Vec::new(), Operations::ALL),
        };
        let (namespace, name) = cells[1].split_once('/').unwrap();
        let operation = Operation::ALL.into_iter().find(|operation| operation.label() == cells[2]).unwrap();
        match rules.decide(&ServiceRules::default(), &caller, ServiceId { namespace, name }, operation) {
            Verdict::Allowed(_) => "allowed",
            Verdict::Forbidden => "forbidden",
            Verdict::Unauthenticated => "unauthenticated",
        }
    }

    #[test]
    fn the_examples_of_the_page_give_the_answers_of_their_tables() {
        let page = include_str!("../../docs/access.md");
        let examples = page.split_once("\n## Recipes\n").unwrap().1.split("\n### ").skip(1);
        let mut rows = 0;
        for example in examples {
            let document = read_document::<AccessDocument>("example", block(example)).unwrap();
            let policy = Policy::of(&[document.value]).unwrap();
            for row in example.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| client")) {
                let cells: Vec<&str> =
                    row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
                assert_eq!(answer(&policy.rules, &cells), cells[3], "{row}");
                rows += 1;
            }
        }
        assert!(rows > 15, "{rows}");
    }
}
