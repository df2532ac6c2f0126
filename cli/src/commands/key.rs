//! `weir key`: makes, lists and revokes API keys in a file, or in a Secret of a cluster.
//!
//! The keys are written as a whole and replace the old ones at once, so that a gateway never reads half of them. The
//! file or entry holds keys, and limits of their clients: comments and rules that people write belong into an access
//! file of their own.

mod client_limits;
mod store;

use std::io;

use jiff::Timestamp;
use rustls::crypto::ring;
use weir_access::{AccessDocument, KeyId, NewKey, RESERVED_NAMES, WrittenKey, is_client_name};

use crate::args::{CreateKeyArgs, KeyAction, KeyArgs, ListKeysArgs, RevokeKeyArgs};
use crate::error::CliError;
use crate::error::Exit;
use crate::output::{print_note, print_result};
use store::KeyStore;

/// Runs one of the commands.
///
/// # Errors
/// [`CliError`] for a file or Secret that cannot be read or written, or for an unknown key.
pub(crate) async fn run(args: KeyArgs) -> Result<Exit, CliError> {
    match args.action {
        KeyAction::Create(args) => create(&args).await,
        KeyAction::List(args) => list(&args).await,
        KeyAction::Revoke(args) => revoke(&args).await,
    }
}

async fn create(args: &CreateKeyArgs) -> Result<Exit, CliError> {
    check_client(&args.client)?;
    check_expiry(args.expires, Timestamp::now())?;
    let key = new_key()?;
    let written = WrittenKey {
        id: key.id.to_string(),
        client: args.client.clone(),
        sha256: key.digest.to_string(),
        expires: args.expires.map(|time| time.to_string()),
        scopes: args.scopes.iter().map(|scope| (*scope).into()).collect(),
        roles: args.roles.clone(),
    };
    let store = KeyStore::of(&args.store).await?;
    let add = |document: &mut AccessDocument| {
        document.keys.push(written.clone());
        client_limits::set(document, &args.client, &args.limits)
    };
    store.change(add).await?;
    print_note(&format!("key {} of {} is in {store}. It is shown once:", key.id, args.client));
    print_result(&key.text)?;
    Ok(Exit::Done)
}

/// Checks that a client can have this name.
fn check_client(name: &str) -> Result<(), CliError> {
    if !is_client_name(name) {
        let message = "--client has 1 to 253 visible ASCII characters without quotes, commas, `\\` and `*`, not `(` at the beginning";
        return Err(CliError::Usage(message.to_owned()));
    }
    if name.starts_with(RESERVED_NAMES) {
        let message =
            format!("--client begins with {RESERVED_NAMES}, as the names of ServiceAccounts, which have tokens");
        return Err(CliError::Usage(message));
    }
    Ok(())
}

/// Checks that a key with this expiry is valid for a time, which a mistyped year would prevent.
fn check_expiry(expires: Option<Timestamp>, now: Timestamp) -> Result<(), CliError> {
    match expires {
        Some(time) if time <= now => Err(CliError::Usage(format!(
            "--expires is {time}, which is past: it is {now:.0} now. Give a later time, or none for a key that does not expire"
        ))),
        Some(_) | None => Ok(()),
    }
}

async fn list(args: &ListKeysArgs) -> Result<Exit, CliError> {
    let store = KeyStore::of(&args.store).await?;
    let document = store.read().await?;
    if document.keys.is_empty() {
        print_note(&format!("{store} has no keys"));
    }
    for key in &document.keys {
        print_result(&line(&document, key))?;
    }
    Ok(Exit::Done)
}

/// Returns the line of a key in the list.
fn line(document: &AccessDocument, key: &WrittenKey) -> String {
    let expires = key.expires.as_deref().unwrap_or("never");
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.label()).collect();
    let scopes = if scopes.is_empty() { "all".to_owned() } else { scopes.join(",") };
    let roles = if key.roles.is_empty() { String::new() } else { format!("  roles {}", key.roles.join(",")) };
    let limits = client_limits::shown(document, &key.client);
    format!("{}  {}  expires {expires}  scopes {scopes}{roles}{limits}", key.id, key.client)
}

async fn revoke(args: &RevokeKeyArgs) -> Result<Exit, CliError> {
    // People paste the whole key as well; its id is enough.
    let id = KeyId::in_key(&args.id).map_or_else(|| args.id.clone(), |id| id.to_string());
    let store = KeyStore::of(&args.store).await?;
    let remove = |document: &mut AccessDocument| {
        let place = document.keys.iter().position(|key| key.id == id);
        let place = place.ok_or_else(|| CliError::Usage(format!("no key has the id {id}")))?;
        let removed = document.keys.remove(place);
        client_limits::remove_unused(document, &removed.client);
        Ok(())
    };
    store.change(remove).await?;
    print_note(&format!("key {id} is revoked: gateways refuse it within a second of reading {store}"));
    Ok(Exit::Done)
}

fn new_key() -> Result<NewKey, CliError> {
    let mut random = [0; NewKey::RANDOM];
    let filled = ring::default_provider().secure_random.fill(&mut random);
    filled.map_err(|_| CliError::io("cannot make a key", io::Error::other("no random numbers")))?;
    Ok(NewKey::from_random(random))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use clap::Parser;
    use weir_access::{AccessDocument, Operation, Policy};

    use super::*;
    use crate::args::{Args, Command, KeyStoreArgs};

    /// Returns the arguments of `weir key create` for this file and client.
    fn create_args(file: &Path, client: &str) -> CreateKeyArgs {
        let more = ["--scope", "infer", "--role", "a: b", "--expires", "2999-01-31T00:00:00Z"];
        create_args_with(file, client, &more)
    }

    fn create_args_with(file: &Path, client: &str, more: &[&str]) -> CreateKeyArgs {
        let words = ["weir", "key", "create", "--client", client];
        let words = words.iter().chain(more).map(AsRef::as_ref);
        let words = words.chain([std::ffi::OsStr::new("--file"), file.as_os_str()]);
        match Args::try_parse_from(words).unwrap().command {
            Command::Key(KeyArgs { action: KeyAction::Create(args) }) => args,
            other => panic!("{other:?}"),
        }
    }

    async fn read(file: &Path) -> Vec<WrittenKey> {
        KeyStore::File(file.to_owned()).read().await.unwrap().keys
    }

    #[tokio::test]
    async fn keys_are_made_listed_and_revoked_in_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        for client in ["team-a", "ci:deploy"] {
            create(&create_args(&file, client)).await.unwrap();
        }
        let account = create(&create_args(&file, "system:serviceaccount:a:b")).await.unwrap_err().to_string();
        assert!(account.contains("as the names of ServiceAccounts"), "{account}");
        let keys = read(&file).await;
        assert_eq!(keys.iter().map(|key| &*key.client).collect::<Vec<_>>(), ["team-a", "ci:deploy"]);
        assert_eq!(keys[0].expires.as_deref(), Some("2999-01-31T00:00:00Z"));
        let listed = line(&AccessDocument::default(), &keys[0]);
        assert_eq!(listed, format!("{}  team-a  expires 2999-01-31T00:00:00Z  scopes infer  roles a: b", keys[0].id));
        assert_eq!((&keys[0].scopes[..], &*keys[0].roles[0]), (&[Operation::Infer][..], "a: b"));
        let document = AccessDocument { keys: keys.clone(), ..AccessDocument::default() };
        assert_eq!(Policy::of(&[document]).unwrap().keys.len(), 2);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let revoke_args = |id: &str| RevokeKeyArgs {
            store: KeyStoreArgs { file: Some(file.clone()), secret: None },
            id: id.to_owned(),
        };
        revoke(&revoke_args(&keys[0].id)).await.unwrap();
        assert!(revoke(&revoke_args(&keys[0].id)).await.is_err());
        revoke(&revoke_args(&keys[1].id)).await.unwrap();
        assert_eq!(read(&file).await, []);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_link_to_a_file_with_keys_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real/keys.yaml"), folder.path().join("keys.yaml"));
        fs::create_dir(folder.path().join("real")).unwrap();
        create(&create_args(&real, "a")).await.unwrap();
        std::os::unix::fs::symlink("real/keys.yaml", &link).unwrap();
        create(&create_args(&link, "b")).await.unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&real).await.len(), 2);
    }

    #[tokio::test]
    async fn a_list_of_a_missing_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let store = KeyStoreArgs { file: Some(folder.path().join("typo.yaml")), secret: None };
        let error = list(&ListKeysArgs { store }).await.unwrap_err().to_string();
        assert!(error.contains("typo.yaml") && error.contains("No such file"), "{error}");
    }

    #[test]
    fn words_without_a_meaning_are_refused() {
        let parsed = |more: &[&str]| {
            let words = ["weir", "key", "create", "--client", "a", "--file", "f"];
            Args::try_parse_from(words.iter().chain(more)).map_err(|error| error.to_string())
        };
        assert!(parsed(&["--role", ""]).unwrap_err().contains("--role"));
        let date = parsed(&["--expires", "2027-01-31"]).unwrap_err();
        assert!(date.contains("write it as 2027-01-31T00:00:00Z"), "{date}");
    }

    #[tokio::test]
    async fn a_key_that_has_expired_already_is_refused_and_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        let error = create(&create_args_with(&file, "a", &["--expires", "2001-01-01T00:00:00Z"])).await.unwrap_err();
        assert!(error.to_string().contains("--expires is 2001-01-01T00:00:00Z, which is past: it is 2"), "{error}");
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn limits_are_those_of_the_client_and_go_with_its_last_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        let made = async |client: &str, more: &[&str]| create(&create_args_with(&file, client, more)).await.map(drop);
        made("partner", &["--requests-per-minute", "600", "--burst", "50"]).await.unwrap();
        made("partner", &["--concurrency", "4", "--requests-per-minute", "60"]).await.unwrap();
        made("team", &[]).await.unwrap();
        let store = KeyStore::File(file.clone());
        let document = store.read().await.unwrap();
        let policy = Policy::of(std::slice::from_ref(&document)).unwrap();
        let limits = policy.limits_of("partner").unwrap();
        let numbers =
            [limits.requests_per_minute, limits.burst, limits.concurrency].map(|number| number.unwrap().get());
        assert_eq!(numbers, [60, 50, 4]);
        assert_eq!(policy.limits_of("team"), None);
        assert_eq!(client_limits::shown(&document, "team"), "");
        let shown = "  limits requestsPerMinute=60,burst=50,concurrency=4";
        assert_eq!(client_limits::shown(&document, "partner"), shown);
        for (key, left) in document.keys.iter().zip([1, 0]) {
            let store = KeyStoreArgs { file: Some(file.clone()), secret: None };
            revoke(&RevokeKeyArgs { store, id: key.id.clone() }).await.unwrap();
            assert_eq!(KeyStore::File(file.clone()).read().await.unwrap().limits.len(), left);
        }
    }

    /// A gateway would refuse a file with more limits.
    #[tokio::test]
    async fn more_limits_than_a_gateway_reads_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys.yaml");
        let limits = (0..256).map(|number| format!("- clients: [c{number}]\n  weight: 2\n"));
        fs::write(&file, format!("limits:\n{}", limits.collect::<String>())).unwrap();
        create(&create_args_with(&file, "c1", &["--weight", "3"])).await.unwrap();
        let error = create(&create_args_with(&file, "other", &["--weight", "3"])).await.unwrap_err().to_string();
        assert!(error.contains("more than 256 limits"), "{error}");
        assert_eq!(read(&file).await.len(), 1);
    }

    #[tokio::test]
    async fn a_file_with_rules_is_not_rewritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("access.yaml");
        let text = "rules:\n- clients: [a] # ours\n  services: ['*']\n";
        fs::write(&file, text).unwrap();
        let error = create(&create_args(&file, "a")).await.unwrap_err().to_string();
        assert!(error.contains("has more than keys"), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }

    #[test]
    fn keys_are_either_in_a_file_or_in_a_secret() {
        let parsed = |words: &str| Args::try_parse_from(words.split(' '));
        assert!(parsed("weir key list").is_err());
        assert!(parsed("weir key list --file a --secret b/c").is_err());
        assert!(parsed("weir key list --secret c").is_err());
        assert!(parsed("weir key list --secret b/c").is_ok());
    }
}
