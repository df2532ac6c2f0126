//! `weir key`: makes, lists and revokes API keys in a file, or in a Secret of a cluster.
//!
//! The keys are written as a whole and replace the old ones at once, so that a gateway never reads half of them. The file
//! or entry holds keys alone: comments and rules that people write belong into an access file of their own.

mod store;

use std::io;

use rustls::crypto::ring;
use weir_access::{KeyId, NewKey, RESERVED_NAMES, WrittenKey, is_client_name};

use crate::args::{CreateKeyArgs, KeyAction, KeyArgs, ListKeysArgs, RevokeKeyArgs};
use crate::error::CliError;
use crate::exit::Exit;
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
    if !is_client_name(&args.client) {
        let message = "--client has 1 to 253 visible ASCII characters without quotes, commas, `\\` and `*`, not `(` at the beginning";
        return Err(CliError::Usage(message.to_owned()));
    }
    if args.client.starts_with(RESERVED_NAMES) {
        let message =
            format!("--client begins with {RESERVED_NAMES}, as the names of ServiceAccounts, which have tokens");
        return Err(CliError::Usage(message));
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
    let store = KeyStore::of(&args.store).await?;
    let add = |keys: &mut Vec<WrittenKey>| {
        keys.push(written.clone());
        Ok(())
    };
    store.change(add).await?;
    print_note(&format!("key {} of {} is in {store}. It is shown once:", key.id, args.client));
    print_result(&key.text)?;
    Ok(Exit::Done)
}

async fn list(args: &ListKeysArgs) -> Result<Exit, CliError> {
    for key in KeyStore::of(&args.store).await?.read().await? {
        let expires = key.expires.as_deref().unwrap_or("never");
        let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.label()).collect();
        let scopes = if scopes.is_empty() { "all".to_owned() } else { scopes.join(",") };
        print_result(&format!("{}  {}  expires {expires}  scopes {scopes}", key.id, key.client))?;
    }
    Ok(Exit::Done)
}

async fn revoke(args: &RevokeKeyArgs) -> Result<Exit, CliError> {
    // People paste the whole key as well; its id is enough.
    let id = KeyId::in_key(&args.id).map_or_else(|| args.id.clone(), |id| id.to_string());
    let store = KeyStore::of(&args.store).await?;
    let remove = |keys: &mut Vec<WrittenKey>| {
        let before = keys.len();
        keys.retain(|key| key.id != id);
        if keys.len() < before { Ok(()) } else { Err(CliError::Usage(format!("no key has the id {id}"))) }
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
        let words = ["weir", "key", "create", "--client", client, "--scope", "infer", "--role", "a: b"];
        let words = words.iter().map(AsRef::as_ref).chain(["--expires".as_ref(), "2999-01-31T00:00:00Z".as_ref()]);
        let words = words.chain([std::ffi::OsStr::new("--file"), file.as_os_str()]);
        match Args::try_parse_from(words).unwrap().command {
            Command::Key(KeyArgs { action: KeyAction::Create(args) }) => args,
            other => panic!("{other:?}"),
        }
    }

    async fn read(file: &Path) -> Vec<WrittenKey> {
        KeyStore::File(file.to_owned()).read().await.unwrap()
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
