//! Names of container images.

/// Returns the last path component of an image's name, without tag and digest: `weir-runtime` for
/// `registry.example.com:5000/team/weir-runtime:1.2`.
#[must_use]
pub fn image_name(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split(':').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_tag_and_digest_are_left_out() {
        for image in
            ["digits", "registry.example.com:5000/team/digits:1.2", "ghcr.io/team/digits@sha256:00", "digits:1"]
        {
            assert_eq!(image_name(image), "digits", "{image}");
        }
    }
}
