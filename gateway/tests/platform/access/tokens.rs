//! Tokens of an issuer in place of keys.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use weir_access::IssuerSettings;

use super::*;

/// Time at which the tokens of these tests expire: the year 2100, in seconds since 1970.
const LATER: u64 = 4_102_444_800;

/// A signing key of the issuer, with its name.
pub(super) struct Signer {
    id: &'static str,
    key: Ed25519KeyPair,
}

impl Signer {
    pub(super) fn new(id: &'static str) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id, key: Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap() }
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encoded(&json!({ "alg": "EdDSA", "kid": self.id })), encoded(claims));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())))
    }

    /// Starts a server of a key set with this key alone.
    pub(super) async fn serve(&self) -> TestReplica {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key());
        let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": x }] }).to_string();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", keys.len());
        TestReplica::saying(Bytes::from(head + &keys)).await
    }
}

pub(super) fn issuer(keys: &TestReplica) -> IssuerSettings {
    IssuerSettings {
        issuer: Some("https://issuer.example.com".to_owned()),
        audiences: vec!["weir".to_owned()],
        jwks_uri: Some(format!("http://{}/keys", keys.address)),
        client_prefix: "sso:".to_owned(),
        ..IssuerSettings::default()
    }
}

/// Returns claims of the client `ada` in the team `ml`.
fn claims() -> Value {
    json!({ "iss": "https://issuer.example.com", "aud": "weir", "sub": "ada", "exp": LATER, "groups": ["ml"] })
}

pub(super) fn with_claim(name: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[name] = value;
    claims
}

impl Guarded {
    /// Starts a gateway that fetches the keys of its issuers. The role `ml` may use all services.
    async fn with_issuer(issuer: &IssuerSettings) -> Self {
        let role = Rule { roles: vec!["ml".to_owned()], services: vec!["*".to_owned()], ..Rule::default() };
        Self::new(Scope::Local, policy(vec![written(1, "a")], vec![role])).await.trusting(issuer)
    }

    /// Lets the gateway accept the tokens of an issuer.
    pub(super) fn trusting(self, issuer: &IssuerSettings) -> Self {
        let guarded = self;
        guarded.access.trust(std::slice::from_ref(issuer)).unwrap();
        let access = Arc::clone(&guarded.access);
        tokio::spawn(async move { access.fetch_keys().await });
        guarded
    }

    async fn infer_with_token(&self, token: &str) -> u16 {
        let request = post(HOST, "/v2/models/digits/infer", "x");
        let request = with(request, "authorization", &format!("Bearer {token}"));
        once(self.world.address(), request).await.status.as_u16()
    }
}

#[tokio::test]
async fn a_token_opens_what_its_roles_may_use() {
    let (signer, stranger) = (Signer::new("k1"), Signer::new("k1"));
    let keys = signer.serve().await;
    let guarded = Guarded::with_issuer(&issuer(&keys)).await;
    assert_eq!(guarded.infer_with_token(&signer.token(&claims())).await, 200);
    let head = guarded.replica.seen.heads.lock().pop().unwrap();
    assert_eq!(head.headers["weir-client"], "sso:ada");
    assert!(!head.headers.contains_key("authorization"));
    for (name, value, expected) in [
        ("aud", json!("other"), 401),
        ("exp", json!(1), 401),
        ("nbf", json!(LATER), 401),
        ("iss", json!("https://other.example.com"), 401),
        ("sub", json!("a b"), 401),
        ("groups", json!([]), 403),
        ("groups", json!("ml"), 200),
    ] {
        assert_eq!(guarded.infer_with_token(&signer.token(&with_claim(name, value))).await, expected, "{name}");
    }
    assert_eq!(guarded.infer_with_token(&stranger.token(&claims())).await, 401);
    assert_eq!(guarded.infer_with_token("a.b.c").await, 401);
    // Keys are still accepted. This one has no role.
    assert_eq!(guarded.infer(Some(&key(1).text)).await.status, StatusCode::FORBIDDEN);
}

/// A key and a token of different people could have the same name otherwise.
#[tokio::test]
async fn a_token_that_names_a_client_with_keys_is_refused() {
    let signer = Signer::new("k1");
    let keys = signer.serve().await;
    let guarded = Guarded::with_issuer(&IssuerSettings { client_prefix: String::new(), ..issuer(&keys) }).await;
    assert_eq!(guarded.infer_with_token(&signer.token(&claims())).await, 200);
    assert_eq!(guarded.infer_with_token(&signer.token(&with_claim("sub", json!("a")))).await, 401);
    let role = Rule { roles: vec!["ml".to_owned()], services: vec!["*".to_owned()], ..Rule::default() };
    guarded.access.replace(policy(vec![written(1, "a"), written(2, "ada")], vec![role]));
    assert_eq!(guarded.infer_with_token(&signer.token(&claims())).await, 401);
}

#[tokio::test]
async fn a_token_of_a_key_that_the_issuer_has_withdrawn_is_refused() {
    let (old, new) = (Signer::new("k1"), Signer::new("k2"));
    let (before, after) = (old.serve().await, new.serve().await);
    let guarded = Guarded::with_issuer(&issuer(&before)).await;
    let token = old.token(&claims());
    assert_eq!(guarded.infer_with_token(&token).await, 200);
    guarded.access.trust(&[issuer(&after)]).unwrap();
    assert_eq!(guarded.infer_with_token(&new.token(&claims())).await, 200);
    let wrong = guarded.access.trust(&[IssuerSettings::default()]).unwrap_err().to_string();
    assert!(wrong.starts_with("issuer 1: audiences is empty"), "{wrong}");
    guarded.access.trust(&[]).unwrap();
    assert_eq!(guarded.infer_with_token(&new.token(&claims())).await, 401);
    assert_eq!(guarded.infer_with_token(&token).await, 401);
}
