use std::fs;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use weir_cluster_kubernetes::Entries;

use super::*;

/// Returns a certificate with this name, its key, and its authority.
fn made(name: &str) -> [String; 3] {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new([]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    [certificate.pem(), key.serialize_pem(), ca]
}

/// Writes the files of a certificate with this name.
fn args(folder: &Path, name: &str) -> PeerArgs {
    let [certificate, key, ca] = made(name);
    let write = |file: &str, text: String| {
        fs::write(folder.join(file), text).unwrap();
        Some(folder.join(file))
    };
    PeerArgs {
        peer_cert: write("tls.crt", certificate),
        peer_key: write("tls.key", key),
        peer_ca: write("ca.crt", ca),
        peer_secret: None,
        peer_name: "weir-gateway".to_owned(),
        peer_trust: PeerTrustFlag::Certificate,
    }
}

fn read(args: &PeerArgs) -> Result<Option<PeerCertificates>, CliError> {
    PeerCertificates::read(args, "weir-system")
}

#[test]
fn files_are_read_and_replaced_only_by_valid_ones() {
    let folder = tempfile::tempdir().unwrap();
    let wrong = read(&args(folder.path(), "webhook")).unwrap_err().to_string();
    assert!(wrong.contains("with the only DNS name weir-gateway"), "{wrong}");
    let none = PeerArgs { peer_cert: None, ..args(folder.path(), "weir-gateway") };
    assert!(read(&none).unwrap().is_none());
    let PeerCertificates { tls, source, is_read } = read(&args(folder.path(), "weir-gateway")).unwrap().unwrap();
    let Source::Files { paths, mut watched } = source else { panic!("{source:?}") };
    assert!(is_read.load(Ordering::Acquire));
    assert_eq!(replace(&tls, paths.content()), Ok(()));
    args(folder.path(), "webhook");
    assert!(watched.notice());
    assert!(replace(&tls, paths.content()).is_err());
    fs::remove_file(folder.path().join("ca.crt")).unwrap();
    let missing = replace(&tls, paths.content()).unwrap_err();
    assert!(missing.contains("ca.crt: No such file"), "{missing}");
}

/// Returns the entries of a Secret with a certificate with this name.
fn entries(name: &str) -> Entries {
    let made = made(name).map(String::into_bytes);
    ["tls.crt", "tls.key", "ca.crt"].map(str::to_owned).into_iter().zip(made).collect()
}

/// Waits until a check succeeds.
async fn until(what: &str, check: impl Fn() -> bool) {
    let wait = async {
        while !check() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.unwrap_or_else(|_| panic!("{what}"));
}

#[tokio::test]
async fn a_secret_is_followed_from_before_its_certificates_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let args = PeerArgs {
        peer_cert: None,
        peer_secret: Some("weir-gateway-peers".to_owned()),
        ..args(folder.path(), "weir-gateway")
    };
    let PeerCertificates { tls, source, is_read } = read(&args).unwrap().unwrap();
    let Source::Secret(object) = source else { panic!("{source:?}") };
    assert_eq!(object.to_string(), "Secret weir-system/weir-gateway-peers");
    let (sender, states) = mpsc::unbounded_channel();
    let (following, complete) = (Arc::clone(&tls), Arc::clone(&is_read));
    let following = tokio::spawn(async move {
        let states = UnboundedReceiverStream::new(states).boxed();
        certificate_secret::follow(states, "Secret a/b", &complete, |content| log(replace(&following, content))).await;
    });
    let uses = |generation: u64| format!("{tls:?}").contains(&format!("generation: {generation}"));
    assert!(!is_read.load(Ordering::Acquire));
    sender.send(Entries::new()).unwrap();
    until("the empty Secret", || is_read.load(Ordering::Acquire)).await;
    assert!(uses(0));
    let first = entries("weir-gateway");
    sender.send(first.clone()).unwrap();
    until("the first certificate", || uses(1)).await;
    // The same again, one that other gateways refuse, an incomplete one and none change nothing.
    let mut incomplete = entries("weir-gateway");
    incomplete.remove("ca.crt");
    for state in [first, entries("webhook"), incomplete, Entries::new(), entries("weir-gateway")] {
        sender.send(state).unwrap();
    }
    until("the second certificate", || uses(2)).await;
    drop(sender);
    following.await.unwrap();
    assert!(uses(2));
}
