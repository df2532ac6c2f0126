//! Manifests: which files an image or artifact has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::archive::packing::{Compression, Packing};
use crate::digest::Digest;
use crate::store::{Object, RelativePath};

/// Media types that a manifest may have.
pub(super) const ACCEPT: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Annotation with the name of an artifact's file.
const TITLE: &str = "org.opencontainers.image.title";

/// Annotation of a directory that ORAS packed as an archive.
const ORAS_DIRECTORY: &str = "io.deis.oras.content.unpack";

/// Media types of an image's configuration.
const IMAGE_CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];

/// A manifest, or an index of manifests for several platforms.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    /// Manifests of an index; absent in a manifest.
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

/// A blob or manifest.
#[derive(Clone, Debug, Deserialize)]
struct Descriptor {
    #[serde(default, rename = "mediaType")]
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    platform: Option<Platform>,
}

/// System that an image is built for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
struct Platform {
    os: String,
    architecture: String,
}

/// The content that a manifest lists.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another manifest with this digest.
    Manifest(Digest),
    /// Blobs of an image or artifact.
    Objects(Vec<Object>),
}

/// Returns the name of this machine's architecture in manifests.
pub(super) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl Manifest {
    /// Returns what the manifest leads to on Linux with this architecture.
    ///
    /// # Errors
    /// A clause that says why nothing can be fetched.
    pub(super) fn next(&self, architecture: &str) -> Result<Next, String> {
        if let Some(manifests) = &self.manifests {
            return choose(manifests, architecture).map(Next::Manifest);
        }
        let is_image = self.config.as_ref().is_some_and(|config| IMAGE_CONFIGS.contains(&config.media_type.as_str()));
        let objects = if is_image { self.layers() } else { self.files() }?;
        if objects.is_empty() {
            return Err("it has neither layers of an image nor files with a title".to_owned());
        }
        Ok(Next::Objects(objects))
    }

    /// Returns the layers of an image, lowest first.
    fn layers(&self) -> Result<Vec<Object>, String> {
        let mut layers = Vec::new();
        for layer in &self.layers {
            if let Some(compression) = compression(&layer.media_type)? {
                let path = format!("layer-{:05}", layers.len());
                layers.push(layer.object(&path, Packing::Layer(compression))?);
            }
        }
        Ok(layers)
    }

    /// Returns the files of an artifact.
    fn files(&self) -> Result<Vec<Object>, String> {
        let (mut files, mut names) = (Vec::new(), BTreeSet::new());
        for layer in &self.layers {
            let Some(title) = layer.annotations.get(TITLE) else { continue };
            if !names.insert(title) {
                return Err(format!("it has two files with the title {title:?}"));
            }
            let is_directory = layer.annotations.get(ORAS_DIRECTORY).is_some_and(|value| value == "true");
            files.push(if is_directory {
                // The names in the archive begin with the directory.
                layer.object(&format!(".directory-{:05}.tar.gz", files.len()), Packing::TarGz)?
            } else {
                layer.object(title, Packing::None)?
            });
        }
        Ok(files)
    }
}

/// Chooses the manifest for a platform. An index without platforms has one artifact.
fn choose(manifests: &[Descriptor], architecture: &str) -> Result<Digest, String> {
    let wanted = Platform { os: "linux".to_owned(), architecture: architecture.to_owned() };
    let fitting = manifests.iter().find(|manifest| manifest.platform.as_ref() == Some(&wanted));
    let chosen = match (fitting, manifests) {
        (Some(manifest), _) => manifest,
        (None, [only]) if only.platform.is_none() => only,
        (None, _) => {
            let platforms = manifests.iter().filter_map(|manifest| manifest.platform.as_ref());
            let names: Vec<_> = platforms.map(|found| format!("{}/{}", found.os, found.architecture)).collect();
            return Err(format!("it has no image for linux/{architecture}, only for {}", names.join(", ")));
        }
    };
    chosen.digest()
}

/// Returns the compression of a layer with this media type; `None` if it is not a layer, but an attestation, for example.
fn compression(media_type: &str) -> Result<Option<Compression>, String> {
    let is_layer = media_type.contains(".layer.") || media_type.contains(".rootfs.");
    if !is_layer || !media_type.contains("tar") {
        return Ok(None);
    }
    match media_type {
        gzip if gzip.ends_with("gzip") => Ok(Some(Compression::Gzip)),
        plain if plain.ends_with(".tar") => Ok(Some(Compression::None)),
        other => Err(format!("it has a layer of the type {other}, which is not supported: build it with gzip")),
    }
}

impl Descriptor {
    fn digest(&self) -> Result<Digest, String> {
        let digits = self.digest.strip_prefix("sha256:").and_then(Digest::of_hex);
        digits.ok_or_else(|| "it names a blob by another digest than SHA-256, which is not supported".to_owned())
    }

    fn object(&self, path: &str, packing: Packing) -> Result<Object, String> {
        let digest = self.digest()?;
        Ok(Object {
            path: RelativePath::parse(path).map_err(|reason| format!("it contains the file {path:?}, {reason}"))?,
            key: format!("sha256:{}", digest.hex()),
            size: Some(self.size),
            version: Some(digest.hex().to_owned()),
            digest: Some(digest),
            packing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(json: &serde_json::Value) -> Result<Next, String> {
        serde_json::from_value::<Manifest>(json.clone()).unwrap().next("amd64")
    }

    fn blob(media_type: &str, title: &str) -> serde_json::Value {
        let digest = format!("sha256:{}", "ab".repeat(32));
        let annotations = if title.is_empty() { serde_json::json!({}) } else { serde_json::json!({TITLE: title}) };
        serde_json::json!({"mediaType": media_type, "digest": digest, "size": 7, "annotations": annotations})
    }

    fn described(next: Next) -> Vec<(String, Packing)> {
        let Next::Objects(objects) = next else { panic!("{next:?}") };
        let describe = |object: &Object| (object.path.as_path().display().to_string(), object.packing);
        objects.iter().map(describe).collect()
    }

    #[test]
    fn an_image_has_layers_and_an_artifact_has_files() {
        let layers = [
            blob("application/vnd.oci.image.layer.v1.tar+gzip", ""),
            blob("application/vnd.in-toto+json", ""),
            // Some builders of modelcars give their layers titles.
            blob("application/vnd.oci.image.layer.v1.tar", "model"),
            blob("application/vnd.docker.image.rootfs.diff.tar.gzip", ""),
        ];
        let image = serde_json::json!({"config": blob(IMAGE_CONFIGS[0], ""), "layers": layers});
        let expected = [(0, Compression::Gzip), (1, Compression::None), (2, Compression::Gzip)];
        let expected = expected.map(|(i, compression)| (format!("layer-{i:05}"), Packing::Layer(compression)));
        assert_eq!(described(next(&image).unwrap()), expected);
        let mut directory = blob("application/vnd.oci.image.layer.v1.tar+gzip", "data");
        directory["annotations"][ORAS_DIRECTORY] = "true".into();
        let files = [blob("application/vnd.oci.image.layer.v1.tar", "a/model.pt"), directory, blob("text/plain", "")];
        let artifact = serde_json::json!({"config": blob("application/vnd.oci.empty.v1+json", ""), "layers": files});
        let expected =
            [("a/model.pt".to_owned(), Packing::None), (".directory-00001.tar.gz".to_owned(), Packing::TarGz)];
        assert_eq!(described(next(&artifact).unwrap()), expected);
    }

    #[test]
    fn an_index_leads_to_the_manifest_of_this_platform() {
        let manifest = |os: &str, architecture: &str, digit: &str| {
            let platform = serde_json::json!({"os": os, "architecture": architecture});
            serde_json::json!({"digest": format!("sha256:{}", digit.repeat(64)), "size": 1, "platform": platform})
        };
        let (arm, amd) = (manifest("linux", "arm64", "a"), manifest("linux", "amd64", "b"));
        let unknown = manifest("unknown", "unknown", "c");
        let index = serde_json::json!({"manifests": [unknown, arm, amd]});
        assert_eq!(next(&index), Ok(Next::Manifest(Digest::of_hex(&"b".repeat(64)).unwrap())));
        let error = next(&serde_json::json!({"manifests": [unknown, arm]})).unwrap_err();
        assert_eq!(error, "it has no image for linux/amd64, only for unknown/unknown, linux/arm64");
        let artifact = serde_json::json!({"manifests": [{"digest": format!("sha256:{}", "d".repeat(64)), "size": 1}]});
        assert_eq!(next(&artifact), Ok(Next::Manifest(Digest::of_hex(&"d".repeat(64)).unwrap())));
    }

    #[test]
    fn an_image_that_cannot_be_fetched_is_refused() {
        let image =
            |layer: serde_json::Value| serde_json::json!({"config": blob(IMAGE_CONFIGS[1], ""), "layers": [layer]});
        let artifact = |layers: &[serde_json::Value]| serde_json::json!({"layers": layers});
        let mut sha512 = blob("x", "a");
        sha512["digest"] = "sha512:00".into();
        for (manifest, expected) in [
            (image(blob("application/vnd.oci.image.layer.v1.tar+zstd", "")), "build it with gzip"),
            (artifact(&[]), "neither layers of an image nor files with a title"),
            (artifact(&[blob("x", "a"), blob("x", "a")]), "two files with the title \"a\""),
            (artifact(&[blob("x", "../a")]), "contains the file \"../a\", which leads out of the directory"),
            (artifact(&[blob("x", "/a")]), "contains the file \"/a\", which has an empty part"),
            (artifact(&[sha512]), "another digest than SHA-256"),
        ] {
            let error = next(&manifest).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
