//! `weir key`: makes, lists and revokes API keys in a file.
//!
//! A file of keys is written as a whole and replaces the old one at once, so that a gateway never reads half of it. The
//! file holds keys alone: comments and rules that people write belong into an access file of their own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustls::crypto::ring;
use weir_access::{AccessDocument, KeyId, NewKey, WrittenKey, is_client_name};

use crate::access;
use crate::args::{CreateKeyArgs, KeyAction, KeyArgs, ListKeysArgs, RevokeKeyArgs};
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::{print_note, print_result};

/// First lines of a file of keys.
const HEADER: &str = "\
# Keys of the clients of Weir's gateways (--access-file), written by `weir key`, which removes other comments.
# The keys themselves are stored nowhere: a digest does not lead back to its key.
";

/// Runs one of the commands.
///
/// # Errors
/// [`CliError`] for a file that cannot be read or written, or for an unknown key.
pub(crate) fn run(args: KeyArgs) -> Result<Exit, CliError> {
    match args.action {
        KeyAction::Create(args) => create(&args),
        KeyAction::List(args) => list(&args),
        KeyAction::Revoke(args) => revoke(&args),
    }
}

fn create(args: &CreateKeyArgs) -> Result<Exit, CliError> {
    if !is_client_name(&args.client) {
        let message = "--client has 1 to 253 visible ASCII characters without quotes, commas, `\\` and `*`";
        return Err(CliError::Usage(message.to_owned()));
    }
    let key = new_key()?;
    let written = WrittenKey {
        id: key.id.to_string(),
        client: args.client.clone(),
        sha256: key.digest.to_string(),
        expires: args.expires.map(|time| time.to_string()),
        scopes: args.scopes.iter().map(|scope| (*scope).into()).collect(),
        roles: args.roles.clone(),
    };
    change(&args.file, |keys| {
        keys.push(written);
        Ok(())
    })?;
    print_note(&format!("key {} of {} is in {}. It is shown once:", key.id, args.client, args.file.display()));
    print_result(&key.text)?;
    Ok(Exit::Done)
}

fn list(args: &ListKeysArgs) -> Result<Exit, CliError> {
    for key in read(&args.file)? {
        let expires = key.expires.as_deref().unwrap_or("never");
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.label()).collect();
        let scopes = if scopes.is_empty() { "all".to_owned() } else { scopes.join(",") };
        print_result(&format!("{}  {}  expires {expires}  scopes {scopes}", key.id, key.client))?;
    }
    Ok(Exit::Done)
}

fn revoke(args: &RevokeKeyArgs) -> Result<Exit, CliError> {
    // People paste the whole key as well; its id is enough.
    let id = KeyId::in_key(&args.id).map_or_else(|| args.id.clone(), |id| id.to_string());
    change(&args.file, |keys| {
        let before = keys.len();
        keys.retain(|key| key.id != id);
        if keys.len() < before { Ok(()) } else { Err(CliError::Usage(format!("no key has the id {id}"))) }
    })?;
    print_note(&format!("key {id} is revoked: gateways refuse it within a second of reading {}", args.file.display()));
    Ok(Exit::Done)
}

fn new_key() -> Result<NewKey, CliError> {
    let mut random = [0; NewKey::RANDOM];
    let filled = ring::default_provider().secure_random.fill(&mut random);
    filled.map_err(|_| CliError::io("cannot make a key", io::Error::other("no random numbers")))?;
    Ok(NewKey::from_random(random))
}

/// Changes the keys of a file. A lock on its folder keeps other commands from writing at the same time.
fn change(file: &Path, change: impl FnOnce(&mut Vec<WrittenKey>) -> Result<(), CliError>) -> Result<(), CliError> {
    let failed = |error| CliError::io(format!("cannot write {}", file.display()), error);
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    let folder_lock = File::open(folder).map_err(failed)?;
    folder_lock.lock().map_err(failed)?;
    let mut keys = read(file)?;
    change(&mut keys)?;
    replace(file, &text(&keys)).map_err(failed)
}

/// Returns the keys of a file; none if it does not exist.
fn read(file: &Path) -> Result<Vec<WrittenKey>, CliError> {
    match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(_) | Err(_) => {}
    }
    let AccessDocument { keys, rules, issuers, limits } = access::document(file).map_err(CliError::Invalid)?.value;
    if rules.is_empty() && issuers.is_empty() && limits.is_empty() {
        return Ok(keys);
    }
    let message = format!(
        "{} has rules, issuers or limits, and `weir key` would lose their comments: use a file for keys alone",
        file.display()
    );
    Err(CliError::Usage(message))
}

/// Returns the content of a file. JSON is YAML, and quotes whatever needs it.
fn text(keys: &[WrittenKey]) -> String {
    let mut text = HEADER.to_owned();
    if keys.is_empty() {
        text.push_str("keys: []\n");
        return text;
    }
    text.push_str("keys:\n");
    for key in keys {
        // Strings and lists of words become JSON without errors.
        text.push_str(&format!("- {}\n", serde_json::to_string(key).unwrap_or_default()));
    }
    text
}

/// Replaces a file at once. Only its owner may read it.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = Path::new(&name);
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(new)?;
    let written = out.write_all(text.as_bytes()).and_then(|()| out.sync_all());
    let replaced = written.and_then(|()| fs::rename(new, file));
    if replaced.is_err() {
        // The error of the write is the one to report.
        let _ = fs::remove_file(new);
    }
    replaced
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::Parser;
    use weir_access::{Operation, Policy};

    use super::*;
    use crate::args::{Args, Command};

    /// Returns the arguments of `weir key create` for this file and client.
    fn create_args(file: &Path, client: &str) -> CreateKeyArgs {
        let words = ["weir", "key", "create", "--client", client, "--scope", "infer", "--role", "a: b"];
        let words = words.iter().map(AsRef::as_ref).chain(["--expires".as_ref(), "2999-01-31T00:00:00Z".as_ref()]);
        let words = words.chain([std::ffi::OsStr::new("--file"), file.as_os_str()]);
        match Args::try_parse_from(words).unwrap().command {
            Command::Key(KeyArgs { action: KeyAction::Create(args) }) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn keys_are_made_listed_and_revoked_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        for client in ["team-a", "system:serviceaccount:a:b"] {
            create(&create_args(&file, client)).unwrap();
        }
        let keys = read(&file).unwrap();
        assert_eq!(keys.iter().map(|key| &*key.client).collect::<Vec<_>>(), ["team-a", "system:serviceaccount:a:b"]);
        assert_eq!(keys[0].expires.as_deref(), Some("2999-01-31T00:00:00Z"));
        assert_eq!((&keys[0].scopes[..], &*keys[0].roles[0]), (&[Operation::Infer][..], "a: b"));
        let document = AccessDocument { keys: keys.clone(), ..AccessDocument::default() };
        assert_eq!(Policy::of(&[document]).unwrap().keys.len(), 2);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let revoke_args = |id: &str| RevokeKeyArgs { file: file.clone(), id: id.to_owned() };
        revoke(&revoke_args(&keys[0].id)).unwrap();
        assert!(revoke(&revoke_args(&keys[0].id)).is_err());
        revoke(&revoke_args(&keys[1].id)).unwrap();
        assert_eq!(read(&file).unwrap(), []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_with_rules_is_not_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.yaml");
        let text = "rules:\n- clients: [a] # ours\n  services: ['*']\n";
        fs::write(&file, text).unwrap();
        assert!(create(&create_args(&file, "a")).unwrap_err().to_string().contains("has rules, issuers or limits"));
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}
