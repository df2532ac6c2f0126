//! Keys that sign tokens, and an HTTPS server of their public parts, for tests.

mod server;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384,
    RSA_PSS_SHA512, RsaEncoding, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};
use weir_access::IssuerKind;

use crate::claim_path::ClaimPath;
use crate::identity::IssuerConfig;
use crate::key_set::KeySet;
pub(crate) use server::IssuerServer;

/// Time of all tokens in tests, in seconds since 1970.
pub(crate) const NOW: u64 = 1_800_000_000;

/// A private key with its name.
pub(crate) struct Signer {
    pub(crate) id: Option<&'static str>,
    key: SigningKey,
}

enum SigningKey {
    Rsa(RsaKeyPair),
    P256(EcdsaKeyPair),
    P384(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl Signer {
    /// Returns the one RSA key of the tests: ring cannot make RSA keys.
    pub(crate) fn rsa(id: Option<&'static str>) -> Self {
        let key = RsaKeyPair::from_pkcs8(include_bytes!("testing/rsa.pk8")).unwrap();
        Self { id, key: SigningKey::Rsa(key) }
    }

    pub(crate) fn p256(id: Option<&'static str>) -> Self {
        Self { id, key: SigningKey::P256(ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)) }
    }

    pub(crate) fn p384(id: Option<&'static str>) -> Self {
        Self { id, key: SigningKey::P384(ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING)) }
    }

    pub(crate) fn ed25519(id: Option<&'static str>) -> Self {
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { id, key: SigningKey::Ed25519(Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap()) }
    }

    /// Returns the public key in JSON.
    pub(crate) fn jwk(&self) -> Value {
        let mut jwk = match &self.key {
            SigningKey::Rsa(key) => {
                let public = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                json!({ "kty": "RSA", "use": "sig", "n": encoded(&public.n), "e": encoded(&public.e) })
            }
            SigningKey::P256(key) => ec("P-256", key.public_key().as_ref()),
            SigningKey::P384(key) => ec("P-384", key.public_key().as_ref()),
            SigningKey::Ed25519(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(key.public_key().as_ref()) })
            }
        };
        if let Some(id) = self.id {
            jwk["kid"] = id.into();
        }
        jwk
    }

    /// Returns a token with these claims, signed by an algorithm that fits the key.
    pub(crate) fn token(&self, algorithm: &str, claims: &Value) -> String {
        let header = match self.id {
            Some(id) => json!({ "alg": algorithm, "kid": id }),
            None => json!({ "alg": algorithm }),
        };
        self.token_with(&header, claims)
    }

    /// Returns a token with this header, whose field `alg` decides the signature.
    pub(crate) fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.to_string().as_bytes()));
        let signature = self.sign(header["alg"].as_str().unwrap_or_default(), signed.as_bytes());
        format!("{signed}.{}", encoded(&signature))
    }

    fn sign(&self, algorithm: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.key {
            SigningKey::Rsa(key) => {
                let encoding: &dyn RsaEncoding = match algorithm {
                    "RS384" => &RSA_PKCS1_SHA384,
                    "RS512" => &RSA_PKCS1_SHA512,
                    "PS256" => &RSA_PSS_SHA256,
                    "PS384" => &RSA_PSS_SHA384,
                    "PS512" => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(encoding, &random, message, &mut signature).unwrap();
                signature
            }
            SigningKey::P256(key) | SigningKey::P384(key) => key.sign(&random, message).unwrap().as_ref().to_vec(),
            SigningKey::Ed25519(key) => key.sign(message).as_ref().to_vec(),
        }
    }
}

fn ecdsa(algorithm: &'static EcdsaSigningAlgorithm) -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
}

fn ec(curve: &str, point: &[u8]) -> Value {
    let (x, y) = point[1..].split_at(point.len() / 2);
    json!({ "kty": "EC", "crv": curve, "x": encoded(x), "y": encoded(y) })
}

pub(crate) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns a key set in JSON.
pub(crate) fn jwks(signers: &[&Signer]) -> Value {
    json!({ "keys": signers.iter().map(|signer| signer.jwk()).collect::<Vec<_>>() })
}

pub(crate) fn key_set(signers: &[&Signer]) -> KeySet {
    KeySet::parse(jwks(signers).to_string().as_bytes()).unwrap()
}

/// Returns the rules of the issuer `https://issuer`.
pub(crate) fn config() -> IssuerConfig {
    let path = |text| ClaimPath::parse(text).unwrap();
    IssuerConfig {
        issuer: "https://issuer".to_owned(),
        audiences: vec!["weir".to_owned()],
        kind: IssuerKind::OpenId,
        client: path("sub"),
        client_prefix: String::new(),
        roles: vec![path("groups"), path("realm_access.roles")],
        roles_prefix: String::new(),
    }
}

/// Returns claims that [`config`] accepts at [`NOW`].
pub(crate) fn claims() -> Value {
    json!({
        "iss": "https://issuer", "aud": "weir", "sub": "ada", "exp": NOW + 600, "iat": NOW - 1,
        "groups": ["a", "b"], "realm_access": { "roles": ["b", "c"] },
    })
}

/// Returns the claims with another value of one claim; without the claim if the value is null.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut claims = claims();
    match value {
        Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
        value => claims[name] = value,
    }
    claims
}
