//! Finds uses of a dependency's optional parts that a crate's manifest does not enable. The workspace builds all the
//! same, because another crate enables the feature; the crate alone (`cargo test -p`) does not.

/// Beginning of a path or attribute, and the dependency and the feature that it needs.
const USES: &[(&str, &str, &str)] = &[
    ("Timestamp::now()", "jiff", "std"),
    ("hyper::client::", "hyper", "client"),
    ("rustix::event::", "rustix", "event"),
    ("rustix::fs::", "rustix", "fs"),
    ("rustix::net::", "rustix", "net"),
    ("rustix::process::", "rustix", "process"),
    ("rustix::time::", "rustix", "time"),
    ("start_paused = true", "tokio", "test-util"),
    ("tokio::fs::", "tokio", "fs"),
    ("tokio::process::", "tokio", "process"),
    ("tokio::time::advance(", "tokio", "test-util"),
];

/// Finds the features that a file needs and that neither the manifest of its crate nor that of the workspace enables;
/// each as `dependency/feature`.
#[must_use]
pub fn missing_features(text: &str, manifest: &str, workspace: &str) -> Vec<String> {
    let used = USES.iter().filter(|(path, ..)| text.contains(path));
    let missing = used.filter(|(_, dependency, feature)| {
        let own = enabled(manifest, dependency);
        own.is_empty() || ![own, enabled(workspace, dependency)].concat().contains(feature)
    });
    missing.map(|(_, dependency, feature)| format!("{dependency}/{feature}")).collect()
}

/// Returns the words in the lines of a manifest that declare a dependency, features among them; none if it has no such
/// line.
fn enabled<'a>(manifest: &'a str, dependency: &str) -> Vec<&'a str> {
    let lines = manifest.lines().filter(|line| {
        let rest = line.strip_prefix(dependency).unwrap_or_default();
        rest.starts_with(" =") || rest.starts_with(".workspace")
    });
    lines.flat_map(|line| line.split([' ', '"', ',', '[', ']'])).filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: &str = "tokio = { version = \"1\", features = [\"rt\", \"time\"] }\n";

    #[test]
    fn a_feature_that_neither_manifest_enables_is_missing() {
        let text = "#[tokio::test(start_paused = true)]";
        assert_eq!(missing_features(text, "tokio.workspace = true", WORKSPACE), ["tokio/test-util"]);
        let own = "tokio = { workspace = true, features = [\"test-util\"] }";
        assert_eq!(missing_features(text, own, WORKSPACE), Vec::<String>::new());
        assert_eq!(
            missing_features(text, "tokio-util.workspace = true", &own.replace("workspace", "version")).len(),
            1
        );
    }

    #[test]
    fn a_feature_of_the_workspace_is_enabled() {
        let all = WORKSPACE.replace("\"time\"", "\"time\", \"fs\"");
        assert_eq!(missing_features("tokio::fs::read(path)", "tokio.workspace = true", &all), Vec::<String>::new());
    }
}
