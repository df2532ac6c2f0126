//! One key of a key set (RFC 7517).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RsaPublicKeyComponents};
use ring::signature::{UnparsedPublicKey, VerificationAlgorithm};
use serde::Deserialize;

use crate::algorithm::Algorithm;

/// A public key that verifies signatures.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The key's name, `kid`.
    pub(crate) id: Option<String>,
    /// The only algorithm that the issuer uses with the key; `None` if the issuer does not limit it.
    algorithm: Option<Algorithm>,
    public: PublicKey,
}

#[derive(Debug, PartialEq, Eq)]
enum PublicKey {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Uncompressed point of the curve P-256.
    P256(Vec<u8>),
    /// Uncompressed point of the curve P-384.
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Fields of a key in JSON. Parameters of private keys are ignored.
#[derive(Deserialize)]
pub(crate) struct KeyFields {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Sizes of RSA keys that are accepted, in bytes: 2048 to 8192 bits, which are ring's bounds.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;

/// Longest exponent of an RSA key in bytes. ring accepts at most 33 bits.
const EXPONENT_BYTES: usize = 5;

impl Key {
    /// Creates a key from its fields; `None` if the key cannot verify a signature with an accepted algorithm.
    pub(crate) fn new(fields: KeyFields) -> Option<Self> {
        let is_for_encryption = fields.usage.as_deref().is_some_and(|usage| usage != "sig");
        let verifies = fields.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|name| name == "verify"));
        if is_for_encryption || !verifies {
            return None;
        }
        let algorithm = match &fields.alg {
            Some(name) => Some(Algorithm::named(name)?),
            None => None,
        };
        let public = public_key(&fields)?;
        Some(Self { id: fields.kid, algorithm, public })
    }

    /// Returns true if the key can verify signatures of this algorithm.
    pub(crate) fn fits(&self, algorithm: Algorithm) -> bool {
        let type_fits = match &self.public {
            PublicKey::Rsa { .. } => algorithm.rsa().is_some(),
            PublicKey::P256(_) => algorithm == Algorithm::Es256,
            PublicKey::P384(_) => algorithm == Algorithm::Es384,
            PublicKey::Ed25519(_) => algorithm == Algorithm::Ed25519,
        };
        type_fits && self.algorithm.is_none_or(|only| only == algorithm)
    }

    /// Returns true if the signature of a message was made with this key and algorithm.
    pub(crate) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        if !self.fits(algorithm) {
            return false;
        }
        let with = |how: &'static dyn VerificationAlgorithm, key: &[u8]| {
            UnparsedPublicKey::new(how, key).verify(message, signature).is_ok()
        };
        match &self.public {
            PublicKey::Rsa { modulus: n, exponent: e } => {
                let key = RsaPublicKeyComponents { n, e };
                algorithm.rsa().is_some_and(|how| key.verify(how, message, signature).is_ok())
            }
            PublicKey::P256(point) => with(&ECDSA_P256_SHA256_FIXED, point),
            PublicKey::P384(point) => with(&ECDSA_P384_SHA384_FIXED, point),
            PublicKey::Ed25519(key) => with(&ED25519, key),
        }
    }
}

fn public_key(fields: &KeyFields) -> Option<PublicKey> {
    match (fields.kty.as_str(), fields.crv.as_deref()) {
        ("RSA", _) => rsa(fields),
        ("EC", Some("P-256")) => Some(PublicKey::P256(point(fields, 32)?)),
        ("EC", Some("P-384")) => Some(PublicKey::P384(point(fields, 48)?)),
        ("OKP", Some("Ed25519")) => bytes(&fields.x).filter(|key| key.len() == 32).map(PublicKey::Ed25519),
        _ => None,
    }
}

fn rsa(fields: &KeyFields) -> Option<PublicKey> {
    let (modulus, exponent) = (unsigned(&fields.n)?, unsigned(&fields.e)?);
    let is_accepted = RSA_BYTES.contains(&modulus.len()) && (1..=EXPONENT_BYTES).contains(&exponent.len());
    is_accepted.then_some(PublicKey::Rsa { modulus, exponent })
}

/// Returns the uncompressed form of a point with coordinates of this length: the byte 4, x and y (SEC 1, 2.3.3).
fn point(fields: &KeyFields, length: usize) -> Option<Vec<u8>> {
    let (x, y) = (bytes(&fields.x)?, bytes(&fields.y)?);
    (x.len() == length && y.len() == length).then(|| [&[4], x.as_slice(), y.as_slice()].concat())
}

/// Returns a number without leading zeros, which ring refuses and some issuers send.
fn unsigned(field: &Option<String>) -> Option<Vec<u8>> {
    let bytes = bytes(field)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    Some(bytes[zeros..].to_vec())
}

fn bytes(field: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(field.as_ref()?).ok()
}
