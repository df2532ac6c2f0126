use proptest::prelude::*;
use serde_json::{Value, json};
use weir_access::IssuerKind;

use super::*;
use crate::claim_path::ClaimPath;
use crate::error::KeySetError;
use crate::testing::{NOW, Signer, claims, claims_with, config, encoded, key_set};
use crate::token::MAX_TOKEN_BYTES;

fn verified(token: &str, keys: &KeySet, config: &IssuerConfig, now: u64) -> Result<TokenIdentity, TokenError> {
    verify(&UnverifiedToken::parse(token)?, keys, config, now).map(|(identity, _)| identity)
}

fn name(identity: &TokenIdentity) -> &str {
    identity.caller.client().unwrap()
}

fn names(identity: &TokenIdentity) -> Vec<&str> {
    identity.caller.roles().iter().map(|role| &**role).collect()
}

/// Returns the result for a token with these claims of one key.
fn result_of(claims: &Value, config: &IssuerConfig) -> Result<TokenIdentity, TokenError> {
    let signer = Signer::ed25519(Some("k"));
    verified(&signer.token("EdDSA", claims), &key_set(&[&signer]), config, NOW)
}

#[test]
fn every_accepted_algorithm_is_verified_and_gives_the_client() {
    let signers: [(Signer, &[&str]); 4] = [
        (Signer::rsa(Some("r")), &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]),
        (Signer::p256(Some("p")), &["ES256"]),
        (Signer::p384(Some("q")), &["ES384"]),
        (Signer::ed25519(Some("e")), &["EdDSA", "Ed25519"]),
    ];
    let keys = key_set(&signers.each_ref().map(|(signer, _)| signer));
    for (signer, algorithms) in &signers {
        for algorithm in *algorithms {
            let token = signer.token(algorithm, &claims());
            let identity = verified(&token, &keys, &config(), NOW).unwrap();
            assert_eq!((name(&identity), identity.expires), ("ada", NOW + 600), "{algorithm}");
            assert_eq!(names(&identity), ["a", "b", "c"], "{algorithm}");
            let changed = token.replacen('.', &format!(".{}", &encoded(b"{}")[..2]), 1);
            assert!(verified(&changed, &keys, &config(), NOW).is_err(), "{algorithm}");
        }
    }
}

#[test]
fn no_algorithm_is_confused_with_another() {
    let (rsa, p256, ed) = (Signer::rsa(Some("r")), Signer::p256(Some("p")), Signer::ed25519(Some("e")));
    let keys = key_set(&[&rsa, &p256, &ed]);
    let result =
        |signer: &Signer, header: Value| verified(&signer.token_with(&header, &claims()), &keys, &config(), NOW);
    for name in ["none", "None", "NONE", "HS256", "HS384", "HS512", "ES512", "ES256K", "RSA-OAEP", "", "rs256"] {
        assert_eq!(result(&rsa, json!({ "alg": name, "kid": "r" })), Err(TokenError::Algorithm), "{name}");
    }
    assert_eq!(result(&rsa, json!({ "alg": "RS256", "kid": "p" })), Err(TokenError::Signature));
    assert_eq!(result(&ed, json!({ "alg": "ES256", "kid": "e" })), Err(TokenError::Signature));
    assert_eq!(result(&p256, json!({ "alg": "ES384", "kid": "p" })), Err(TokenError::Signature));
    // The signature itself must fit as well.
    assert_eq!(result(&rsa, json!({ "alg": "PS256", "kid": "e" })), Err(TokenError::Signature));
    let unsigned =
        format!("{}.{}.", encoded(br#"{"alg":"RS256","kid":"r"}"#), encoded(claims().to_string().as_bytes()));
    assert_eq!(verified(&unsigned, &keys, &config(), NOW), Err(TokenError::Signature));
}

#[test]
fn a_key_that_is_for_one_algorithm_or_for_encryption_verifies_nothing_else() {
    let signer = Signer::rsa(Some("r"));
    let with = |field: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[field] = value;
        let keys = KeySet::parse(json!({ "keys": [jwk] }).to_string().as_bytes());
        keys.map(|keys| verified(&signer.token("RS256", &claims()), &keys, &config(), NOW).map(|_| ()))
    };
    assert_eq!(with("alg", "RS256".into()), Ok(Ok(())));
    assert_eq!(with("alg", "RS512".into()), Ok(Err(TokenError::Signature)));
    assert_eq!(with("key_ops", json!(["verify"])), Ok(Ok(())));
    for (field, value) in [
        ("alg", json!("RSA-OAEP")),
        ("use", json!("enc")),
        ("key_ops", json!(["encrypt"])),
        ("kty", json!("oct")),
        ("n", json!(encoded(&[255; 128]))),
        ("n", json!(encoded(&[255; 1025]))),
        ("e", json!("")),
    ] {
        assert_eq!(with(field, value.clone()), Err(KeySetError::Empty), "{field} {value}");
    }
}

#[test]
fn keys_are_chosen_by_name_and_tried_without_one() {
    let (named, unnamed, other) = (Signer::p256(Some("a")), Signer::p256(None), Signer::p256(Some("b")));
    let keys = key_set(&[&named, &unnamed]);
    let result = |token: String| verified(&token, &keys, &config(), NOW).map(|_| ());
    assert_eq!(result(named.token("ES256", &claims())), Ok(()));
    assert_eq!(result(unnamed.token("ES256", &claims())), Ok(()));
    assert_eq!(result(named.token_with(&json!({ "alg": "ES256" }), &claims())), Ok(()));
    assert_eq!(result(unnamed.token_with(&json!({ "alg": "ES256", "kid": "z" }), &claims())), Ok(()));
    assert_eq!(result(other.token("ES256", &claims())), Err(TokenError::UnknownKey));
    assert_eq!(result(other.token_with(&json!({ "alg": "ES256", "kid": "a" }), &claims())), Err(TokenError::Signature));
    assert_eq!(result(other.token_with(&json!({ "alg": "ES256" }), &claims())), Err(TokenError::UnknownKey));
}

#[test]
fn headers_that_ask_for_more_are_refused() {
    let signer = Signer::p256(None);
    let result = |header: Value| {
        verified(&signer.token_with(&header, &claims()), &key_set(&[&signer]), &config(), NOW).map(|_| ())
    };
    for name in ["JWT", "jwt", "at+jwt", "application/at+JWT"] {
        assert_eq!(result(json!({ "alg": "ES256", "typ": name })), Ok(()), "{name}");
    }
    for name in ["logout+jwt", "dpop+jwt", ""] {
        assert_eq!(result(json!({ "alg": "ES256", "typ": name })), Err(TokenError::Header), "{name}");
    }
    assert_eq!(result(json!({ "alg": "ES256", "crit": ["b64"], "b64": false })), Err(TokenError::Header));
    // A key or a URL in the header has no effect.
    let own = Signer::p256(None);
    let header = json!({ "alg": "ES256", "jwk": own.jwk(), "jku": "https://evil/keys", "x5u": "https://evil/" });
    let token = own.token_with(&header, &claims());
    assert_eq!(verified(&token, &key_set(&[&signer]), &config(), NOW), Err(TokenError::UnknownKey));
    assert_eq!(result(header), Ok(()));
}

#[test]
fn issuer_audience_and_times_are_checked() {
    let result = |name: &str, value: Value| result_of(&claims_with(name, value), &config()).map(|_| ());
    let claim = |name: &str| Err(TokenError::Claim(name.to_owned()));
    for (name, value, expected) in [
        ("aud", json!(["x", "weir"]), Ok(())),
        ("aud", json!(["x"]), Err(TokenError::Audience)),
        ("aud", json!("weir2"), Err(TokenError::Audience)),
        ("aud", json!([["weir"]]), Err(TokenError::Audience)),
        ("aud", json!({ "weir": 1 }), Err(TokenError::Audience)),
        ("aud", Value::Null, Err(TokenError::Audience)),
        ("iss", json!("https://issuer/"), Err(TokenError::UnknownIssuer)),
        ("iss", Value::Null, Err(TokenError::UnknownIssuer)),
        ("exp", Value::Null, claim("exp")),
        ("exp", json!("1900000000"), claim("exp")),
        ("exp", json!(-1), claim("exp")),
        ("exp", json!(1e300), claim("exp")),
        ("exp", json!(NOW * 1000), claim("exp")),
        ("exp", json!(NOW - 59), Ok(())),
        ("exp", json!(NOW - 60), Err(TokenError::Expired)),
        ("exp", json!(NOW as f64 + 0.5), Ok(())),
        ("nbf", json!(NOW + 60), Ok(())),
        ("nbf", json!(NOW + 61), Err(TokenError::NotYetValid)),
        ("nbf", json!("soon"), claim("nbf")),
        ("iat", json!(NOW + 61), Err(TokenError::NotYetValid)),
        ("iat", Value::Null, Ok(())),
    ] {
        assert_eq!(result(name, value.clone()), expected, "{name} {value}");
    }
}

#[test]
fn names_are_plain_and_not_those_of_others() {
    let result = |name: &str, value: Value| result_of(&claims_with(name, value), &config());
    let invalid = Err(TokenError::Claim("sub".to_owned()));
    for value in [
        Value::Null,
        json!(""),
        json!(7),
        json!("a\nb"),
        json!(" a"),
        json!("a b"),
        json!("a,b"),
        json!("x".repeat(254)),
    ] {
        assert_eq!(result("sub", value.clone()), invalid, "{value}");
    }
    let reserved = result("sub", json!("system:serviceaccount:prod:x"));
    assert_eq!(reserved, Err(TokenError::ReservedName));
    let roles = |value| result("groups", value).map(|identity| names(&identity).join(","));
    assert_eq!(roles(json!(["namespace:prod", "system:masters", "x", 7, "", "a b"])), Ok("x,a b,b,c".to_owned()));
    assert_eq!(roles(json!("one team")), Ok("one team,b,c".to_owned()));
    assert_eq!(roles(Value::Null), Ok("b,c".to_owned()));
    assert_eq!(roles(json!({ "a": 1 })), Err(TokenError::Claim("groups".to_owned())));
}

#[test]
fn prefixes_and_scopes_are_applied() {
    let scope = vec![ClaimPath::parse("scope").unwrap()];
    let prefixes = ("partner:".to_owned(), "p/".to_owned());
    let config = IssuerConfig { roles: scope, client_prefix: prefixes.0, roles_prefix: prefixes.1, ..config() };
    let identity = result_of(&claims_with("scope", json!("infer  read")), &config).unwrap();
    assert_eq!((name(&identity), names(&identity)), ("partner:ada", vec!["p/infer", "p/read"]));
}

#[test]
fn a_service_account_has_its_name_and_its_namespace() {
    let config = IssuerConfig { kind: IssuerKind::Kubernetes, ..config() };
    let identity = result_of(&claims_with("sub", json!("system:serviceaccount:ml:batch")), &config).unwrap();
    assert_eq!((name(&identity), names(&identity)), ("system:serviceaccount:ml:batch", vec!["namespace:ml"]));
    for name in
        ["ada", "system:node:x", "system:serviceaccount:ml", "system:serviceaccount::x", "system:serviceaccount:a:b:c"]
    {
        assert_eq!(
            result_of(&claims_with("sub", json!(name)), &config),
            Err(TokenError::Claim("sub".to_owned())),
            "{name}"
        );
    }
}

#[test]
fn huge_and_deep_tokens_are_refused() {
    let signer = Signer::p256(None);
    let result = |token: &str| verified(token, &key_set(&[&signer]), &config(), NOW).map(|_| ());
    assert_eq!(result(&"a.".repeat(MAX_TOKEN_BYTES)), Err(TokenError::TooLong));
    assert_eq!(result(&signer.token("ES256", &claims_with("x", json!("y".repeat(8000))))), Err(TokenError::TooLong));
    let deep = format!(r#"{{"iss":{}{}}}"#, "[".repeat(2000), "]".repeat(2000));
    let token = format!("{}.{}.AAAA", encoded(br#"{"alg":"ES256"}"#), encoded(deep.as_bytes()));
    assert_eq!(result(&token), Err(TokenError::Malformed));
    for token in ["", ".", "..", "...", "a.b", "e30.e30.e30", "a.b.c.d.e"] {
        assert_eq!(result(token), Err(TokenError::Malformed), "{token}");
    }
}

#[test]
fn no_changed_token_is_accepted() {
    let signer = Signer::ed25519(Some("k"));
    let (token, keys, config) = (signer.token("EdDSA", &claims()), key_set(&[&signer]), config());
    let corpus = [token.as_bytes(), br#"eyJhbGciOiJub25lIn0.e30."#, br#"{"alg":"none","kid":"k","crit":[]}"#];
    let make = |rng: &mut weir_fuzz::FuzzRng| weir_fuzz::mutate(&corpus, b".-_=eyJ{}[]\"", 8, rng);
    weir_fuzz::fuzz(1, make, |bytes, _| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        let is_same = text == token;
        assert_eq!(verified(text, &keys, &config, NOW).is_ok(), is_same, "{text}");
    });
}

#[test]
fn no_key_set_stops_the_reader() {
    let signers = [Signer::rsa(Some("r")), Signer::p384(None), Signer::ed25519(Some("e"))];
    let whole = crate::testing::jwks(&signers.each_ref()).to_string();
    let make = |rng: &mut weir_fuzz::FuzzRng| weir_fuzz::mutate(&[whole.as_bytes()], b"{}[]\",:AQ-_", 8, rng);
    let token = signers[0].token("RS256", &claims());
    weir_fuzz::fuzz(1, make, |bytes, _| {
        if let Ok(keys) = KeySet::parse(bytes) {
            let _ = verified(&token, &keys, &config(), NOW);
        }
    });
    let many = json!({ "keys": vec![signers[2].jwk(); 101] });
    assert_eq!(KeySet::parse(many.to_string().as_bytes()), Err(KeySetError::TooMany(100)));
}

proptest! {
    #[test]
    fn claims_of_any_form_give_a_client_or_an_error(name in "[a-z]{3}", value in arbitrary_json()) {
        for claim in [name.as_str(), "sub", "aud", "exp", "nbf", "groups", "realm_access"] {
            let _ = crate::identity::identity(claims_with(claim, value.clone()).as_object().unwrap(), &config(), NOW);
        }
    }
}

fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::hash_map("[a-z]{1,5}", inner, 0..5).prop_map(|map| json!(map)),
        ]
    })
}
