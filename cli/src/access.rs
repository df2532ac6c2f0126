//! Access documents: keys and rules of a gateway's clients, from files, Secrets and ConfigMaps. They are read at the
//! start and again when one changes.

pub(crate) mod key_lines;
mod objects;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{BoxStream, StreamExt};
use tokio::time::MissedTickBehavior;
use weir_access::{AccessDocument, ClientCertificates, Policy, PolicyError};
use weir_cluster_kubernetes::{Client, DataObject, Entries};
use weir_crds::{ReadDocument, read_document};
use weir_gateway::{AccessControl, ClientAuthority};

use crate::error::CliError;
use crate::watched_files::{WatchedFiles, read_file};

pub(crate) use objects::named_objects;

/// Interval at which the files are checked for changes, so that a revoked key is refused within a second.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Largest access file, in bytes. A key takes about 150 to 250.
const MAX_BYTES: u64 = 64 << 20;

/// Largest file of certificate authorities, in bytes. The authorities of a whole operating system take about 220 KiB.
const MAX_CA_BYTES: u64 = 1 << 20;

/// The access documents of a gateway, and the access control that follows them.
pub(crate) struct AccessSources {
    pub(crate) control: Arc<AccessControl>,
    files: Vec<PathBuf>,
    /// The files of keys and rules, then those of certificate authorities.
    watched: WatchedFiles,
    has_certificates: bool,
    objects: Vec<DataObject>,
    /// Entries of each object; `None` before it was first read.
    entries: Vec<Option<Entries>>,
    is_complete: Arc<AtomicBool>,
    /// Former keys and rules, which requests that have begun may still use.
    former: Vec<Arc<Policy>>,
}

/// Content of all access files, and of the files that they name.
struct Content {
    policy: Policy,
    authorities: Vec<ClientAuthority>,
}

/// Changes of the objects: the place of an object in the list, and its entries.
pub(crate) type ObjectChanges = BoxStream<'static, (usize, Entries)>;

/// Access documents that were read, and the errors of the others as lines with file, line and field.
#[derive(Default)]
struct ReadAccess {
    documents: Vec<ReadDocument<AccessDocument>>,
    errors: Vec<String>,
}

impl AccessSources {
    /// Reads the files; `None` if there are neither files nor objects. Objects are read by [`Self::follow`].
    ///
    /// # Errors
    /// [`CliError::Invalid`] with every error of every file.
    pub(crate) fn read(files: &[PathBuf], objects: Vec<DataObject>) -> Result<Option<Self>, CliError> {
        if files.is_empty() && objects.is_empty() {
            return Ok(None);
        }
        let mut watched = WatchedFiles::of(files);
        let (authority_files, content) = content(files, &[]);
        watched.0.extend(authority_files.0);
        let content = content.map_err(CliError::Invalid)?;
        let has_certificates = !content.authorities.is_empty();
        let control = AccessControl::new(Policy::default());
        let former = apply(&control, content).map_err(CliError::Invalid)?;
        let is_complete = Arc::new(AtomicBool::new(objects.is_empty()));
        let (entries, former, files) = (vec![None; objects.len()], vec![former], files.to_vec());
        Ok(Some(Self { control, files, watched, has_certificates, objects, entries, is_complete, former }))
    }

    /// Checks that clients can present certificates if the files have authorities for them. `tls` is the TLS of the
    /// gateway's port.
    ///
    /// # Errors
    /// [`CliError::Usage`] if the gateway has no port with TLS.
    pub(crate) fn check_port<T>(&self, tls: Option<&T>) -> Result<(), CliError> {
        if self.has_certificates && tls.is_none() {
            let message = "clientCertificates of --access-file need a port with TLS: set --tls-cert and --tls-key";
            return Err(CliError::Usage(message.to_owned()));
        }
        Ok(())
    }

    /// Returns a flag that becomes true once the documents of all objects are in use. Until then clients are refused
    /// what only an object allows.
    pub(crate) fn completeness(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_complete)
    }

    /// Watches the objects. A failure of a watch is counted like one of a file.
    pub(crate) fn watch(&self, client: &Client) -> ObjectChanges {
        objects::watch(client, &self.objects, &self.control)
    }

    /// Follows the files and the changes of objects, and fetches the keys of issuers of tokens.
    pub(crate) async fn follow(self, changes: ObjectChanges) {
        let control = Arc::clone(&self.control);
        tokio::join!(control.fetch_keys(), self.follow_documents(changes));
    }

    /// Reads all documents again whenever one changes. While one has errors, the last keys and rules stay in use.
    async fn follow_documents(mut self, mut changes: ObjectChanges) {
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_changed = tokio::select! {
                Some((place, entries)) = changes.next() => self.take(place, entries),
                _ = check.tick() => {
                    self.free_former().await;
                    self.watched.notice()
                }
            };
            if is_changed {
                self.reload().await;
            }
        }
    }

    /// Keeps the entries of an object, and returns true if they are new.
    fn take(&mut self, place: usize, entries: Entries) -> bool {
        let entries = Some(entries);
        let is_new = self.entries[place] != entries;
        self.entries[place] = entries;
        is_new
    }

    /// Frees former keys and rules that no request uses any more. A hundred thousand keys take many milliseconds, so
    /// this is not left to the thread of the last request.
    async fn free_former(&mut self) {
        let is_unused = |policy: &mut Arc<Policy>| Arc::strong_count(policy) == 1;
        let unused: Vec<_> = self.former.extract_if(.., is_unused).collect();
        if !unused.is_empty() {
            // Dropping cannot fail.
            let _ = tokio::task::spawn_blocking(move || drop(unused)).await;
        }
    }

    async fn reload(&mut self) {
        let (files, texts) = (self.files.clone(), objects::texts(&self.objects, &self.entries));
        let read = tokio::task::spawn_blocking(move || content(&files, &texts)).await;
        let (authority_files, read) =
            read.unwrap_or_else(|error| (WatchedFiles::default(), Err(vec![error.to_string()])));
        self.watched.0.truncate(self.files.len());
        self.watched.0.extend(authority_files.0);
        let keys = read.as_ref().map_or(0, |content| content.policy.keys.len());
        match read.and_then(|content| apply(&self.control, content)) {
            Ok(former) => {
                self.former.push(former);
                tracing::info!(keys, "the new keys and rules are in use");
                self.is_complete.store(self.entries.iter().all(Option::is_some), Ordering::Release);
            }
            Err(errors) => {
                self.control.count_failed_reload();
                let errors = errors.join("; ");
                tracing::error!(errors, "the last valid keys and rules stay in use");
            }
        }
    }
}

/// Applies the content of the files. Returns the former keys and rules.
///
/// # Errors
/// One line for what is wrong. Keys and rules then stay as they were.
fn apply(control: &AccessControl, content: Content) -> Result<Arc<Policy>, Vec<String>> {
    let Content { policy, authorities } = content;
    control.trust(&policy.issuers).map_err(|error| vec![error.to_string()])?;
    control.accept_certificates(authorities).map_err(|error| vec![error.to_string()])?;
    Ok(control.replace(policy))
}

/// Reads all files and texts, and the files of certificate authorities that they name. Returns those files as they were
/// before they were read, even if they have errors or do not exist yet, so that they are read again once they change.
/// The errors are lines with file, line and field.
fn content(files: &[PathBuf], texts: &[(String, Vec<u8>)]) -> (WatchedFiles, Result<Content, Vec<String>>) {
    let policy = match policy(files, texts) {
        Ok(policy) => policy,
        Err(errors) => return (WatchedFiles::default(), Err(errors)),
    };
    let authority_files = WatchedFiles::of(policy.client_certificates.iter().map(|entry| &entry.ca_file));
    let (mut authorities, mut errors) = (Vec::new(), Vec::new());
    for entry in &policy.client_certificates {
        match authority(entry) {
            Ok(authority) => authorities.push(authority),
            Err(reason) => errors.push(format!("{} (clientCertificates): {reason}", entry.ca_file.display())),
        }
    }
    let content = if errors.is_empty() { Ok(Content { policy, authorities }) } else { Err(errors) };
    (authority_files, content)
}

fn authority(entry: &ClientCertificates) -> Result<ClientAuthority, String> {
    let pem = read_file(&entry.ca_file, MAX_CA_BYTES)?;
    ClientAuthority::new(entry, &pem).map_err(|error| error.to_string())
}

impl ReadAccess {
    fn add(&mut self, read: Result<ReadDocument<AccessDocument>, Vec<String>>) {
        match read {
            Ok(document) => self.documents.push(document),
            Err(mut errors) => self.errors.append(&mut errors),
        }
    }
}

/// Reads all files, and texts with their names, into one policy. The errors are lines with file, line and field.
fn policy(files: &[PathBuf], texts: &[(String, Vec<u8>)]) -> Result<Policy, Vec<String>> {
    let mut read = ReadAccess::default();
    files.iter().for_each(|file| read.add(document(file)));
    texts.iter().for_each(|(name, content)| read.add(objects::document(name, content)));
    let ReadAccess { mut documents, errors } = read;
    if !errors.is_empty() {
        return Err(errors);
    }
    let values: Vec<AccessDocument> =
        documents.iter_mut().map(|document| std::mem::take(&mut document.value)).collect();
    let lines = |errors: &[FileError]| {
        let of = |number: usize| {
            let own = errors.iter().filter(move |error| error.document == number);
            own.map(|error| (error.field.clone(), error.sentence.clone())).collect::<Vec<_>>()
        };
        let each = documents.iter().enumerate().flat_map(|(number, document)| document.diagnostics(of(number)));
        each.map(|diagnostic| diagnostic.to_string()).collect::<Vec<_>>()
    };
    let policy = Policy::of(&values).map_err(|errors| {
        let errors: Vec<_> = errors.into_iter().map(FileError::of_policy).collect();
        lines(&errors)
    })?;
    match AccessControl::check_issuers(&policy.issuers) {
        Ok(()) => Ok(policy),
        Err(error) => Err(lines(&[FileError::of_issuer(&values, error.place(), error.to_string())])),
    }
}

/// An error in one of several files.
struct FileError {
    /// Index of the file, from 0.
    document: usize,
    /// Path of the field.
    field: String,
    sentence: String,
}

impl FileError {
    fn of_policy(error: PolicyError) -> Self {
        Self { document: error.document, field: error.field, sentence: error.problem.to_string() }
    }

    /// Returns the error of the issuer with the place `at` in the list of all files' issuers.
    fn of_issuer(documents: &[AccessDocument], (at, field): (usize, &str), sentence: String) -> Self {
        let mut at = at;
        for (document, content) in documents.iter().enumerate() {
            if at < content.issuers.len() {
                let field = if field.is_empty() { String::new() } else { format!(".{field}") };
                return Self { document, field: format!("issuers[{at}]{field}"), sentence };
            }
            at -= content.issuers.len();
        }
        Self { document: 0, field: String::new(), sentence }
    }
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
    read_text(&name, text)
}

/// Reads the text of an access document with this name.
///
/// # Errors
/// One line for each error.
pub(crate) fn read_text(name: &str, text: String) -> Result<ReadDocument<AccessDocument>, Vec<String>> {
    if let Some(value) = key_lines::read(&text) {
        return Ok(ReadDocument::new(name, text, value));
    }
    read_document(name, text).map_err(|diagnostics| diagnostics.iter().map(ToString::to_string).collect())
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
        let errors = policy(&[one.clone(), two.clone()], &[]).unwrap_err();
        let (one_name, two_name) = (one.display(), two.display());
        let expected = [
            format!("{one_name}:2:3: keys[0].id: expected 16 hexadecimal digits, as `weir key create` writes"),
            format!(
                "{two_name}:3:14: rules[0].services[0]: a service is NAMESPACE/NAME, each with an optional final `*`, or `*` for all"
            ),
            format!("{two_name}:4:3: rules[1]: the rule allows no caller: set `clients`, `roles` or `anyone: true`"),
        ];
        assert_eq!(errors, expected);
        fs::write(&one, "issuers:\n- issuer: https://a\n  audiences: [weir]\n").unwrap();
        fs::write(&two, "issuers:\n- issuer: https://b\n  audiences: [weir]\n  clientPrefix: x\n  refreshSeconds: 1\n")
            .unwrap();
        let errors = policy(&[one.clone(), two.clone()], &[]).unwrap_err();
        let expected = "issuer https://b: refreshSeconds must be between 10 and 86400";
        assert_eq!(errors, [format!("{two_name}:5:3: issuers[0].refreshSeconds: {expected}")]);
        fs::write(&two, "issuers:\n- kind: kubernetes\n- issuer: https://b\n  audiences: [weir]\n").unwrap();
        let errors = policy(&[one.clone(), two.clone()], &[]).unwrap_err();
        let expected = "issuers[1].clientPrefix: two issuers could give the same name: no clientPrefix may begin with \
                        another one, as with '' and ''";
        assert_eq!(errors, [format!("{two_name}:3:3: {expected}")]);
        fs::write(&one, "kyes: []\n").unwrap();
        let errors = policy(&[one, folder.path().join("none.yaml")], &[]).unwrap_err();
        assert!(errors[0].ends_with("keys.yaml:1:1: kyes: unknown field; did you mean `keys`?"), "{errors:?}");
        assert!(errors[1].contains("none.yaml (--access-file): No such file"), "{errors:?}");
    }

    #[test]
    fn files_of_authorities_are_read_and_watched() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ca) = (folder.path().join("access.yaml"), folder.path().join("ca.pem"));
        let entry = format!("clientCertificates:\n- caFile: {}\n  clientPrefix: 'ca:'\n", ca.display());
        fs::write(&file, entry).unwrap();
        let error = |files: &[PathBuf]| content(files, &[]).1.err().unwrap().remove(0);
        let missing = error(std::slice::from_ref(&file));
        assert!(missing.contains("ca.pem (clientCertificates): No such file"), "{missing}");
        fs::write(&ca, "none").unwrap();
        let empty = error(std::slice::from_ref(&file));
        assert!(empty.ends_with("(clientCertificates): it holds no certificate in PEM"), "{empty}");
        let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        fs::write(&ca, made.cert.pem()).unwrap();
        let mut files = AccessSources::read(&[file], Vec::new()).unwrap().unwrap();
        assert!(files.check_port(None::<&()>).is_err());
        assert!(files.check_port(Some(&())).is_ok());
        assert!(!files.watched.notice());
        fs::write(&ca, made.cert.pem() + "\n").unwrap();
        assert!(files.watched.notice());
    }

    #[tokio::test]
    async fn a_file_of_authorities_that_comes_after_the_document_that_names_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, ca) = (folder.path().join("access.yaml"), folder.path().join("ca.pem"));
        fs::write(&file, "rules: []\n").unwrap();
        let mut sources = AccessSources::read(std::slice::from_ref(&file), Vec::new()).unwrap().unwrap();
        fs::write(&file, format!("clientCertificates:\n- caFile: {}\n", ca.display())).unwrap();
        assert!(sources.watched.notice());
        sources.reload().await;
        assert!(!sources.watched.notice());
        let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        fs::write(&ca, made.cert.pem()).unwrap();
        assert!(sources.watched.notice());
        sources.reload().await;
        assert_eq!(sources.former.len(), 2, "the document is in use");
    }

    /// Returns the text between the fences of the first block of YAML.
    fn block(example: &str) -> &str {
        let (_, rest) = example.split_once("```yaml\n").unwrap();
        rest.split_once("```").unwrap().0
    }

    /// Returns the caller of a row: `none`, or the name of a client, `of`, and its roles, each between backquotes.
    fn caller(cell: &str) -> Caller {
        let mut names = cell.split('`').skip(1).step_by(2).map(Into::into);
        match names.next() {
            None => Caller::anonymous(),
            Some(client) => Caller::named(client, names.collect(), Operations::ALL),
        }
    }

    /// Decides about a row of an example's table, and returns the word for the answer.
    fn answer(rules: &Rules, caller: &Caller, cells: &[&str]) -> &'static str {
        let (namespace, name) = cells[1].split_once('/').unwrap();
        let operation = Operation::ALL.into_iter().find(|operation| operation.label() == cells[2]).unwrap();
        match rules.decide(&ServiceRules::default(), caller, ServiceId { namespace, name }, operation) {
            Verdict::Allowed(_) => "allowed",
            Verdict::Forbidden => "forbidden",
            Verdict::Unauthenticated => "unauthenticated",
        }
    }

    #[test]
    fn the_examples_of_the_page_give_the_answers_of_their_tables() {
        let page = include_str!("../../docs/access.md");
        let examples = page.split_once("\n## Recipes\n").unwrap().1.split("\n### ").skip(1);
        let (mut recipes, mut rows) = (0, 0);
        for example in examples {
            let document = read_document::<AccessDocument>("example", block(example)).unwrap();
            let policy = Policy::of(&[document.value]).unwrap();
            AccessControl::check_issuers(&policy.issuers).unwrap();
            for row in example.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| client")) {
                let cells: Vec<&str> =
                    row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
                let caller = caller(row.split('|').nth(1).unwrap());
                assert_eq!(answer(&policy.rules, &caller, &cells), cells[3], "{row}");
                rows += 1;
            }
            recipes += 1;
        }
        assert!(recipes >= 10 && rows > 30, "{recipes} recipes, {rows} rows");
    }
}
