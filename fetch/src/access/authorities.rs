//! Certificates of private authorities, which servers of all schemes may have.

use std::path::{Path, PathBuf};

use crate::access::settings::Settings;
use crate::web::Trust;

/// Variable with the path of a file of certificates.
const FILE: &str = "CA_BUNDLE";

/// KServe's variable with the directory at which the ConfigMap of certificates is mounted, and the key in it.
const DIRECTORY: &str = "CA_BUNDLE_VOLUME_MOUNT_POINT";
const KEY: &str = "cabundle.crt";

/// Returns the trust that the variables ask for: the system's authorities, and those in a file if a variable names one.
///
/// # Errors
/// A clause with the variable and the file, if the file cannot be read.
pub(crate) fn trust(settings: &dyn Settings) -> Result<Trust, String> {
    let named = settings.variable(FILE).map(|path| (FILE, PathBuf::from(path)));
    let mounted = || settings.variable(DIRECTORY).map(|directory| (DIRECTORY, Path::new(&directory).join(KEY)));
    let Some((variable, path)) = named.or_else(mounted) else {
        return Ok(Trust::System);
    };
    let pem = settings.file(&path).ok_or_else(|| format!("{variable}: {} cannot be read", path.display()))?;
    Ok(Trust::Also(pem.into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::settings::Fixed;

    #[test]
    fn certificates_come_from_the_file_that_a_variable_names() {
        let files = vec![("/own.pem", "own".to_owned()), ("/mounted/cabundle.crt", "mounted".to_owned())];
        let found = |variables: &[(&'static str, &str)]| {
            let variables = variables.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
            trust(&Fixed { variables, files: files.clone(), ..Fixed::default() })
        };
        assert_eq!(found(&[]), Ok(Trust::System));
        let directory = ("CA_BUNDLE_VOLUME_MOUNT_POINT", "/mounted");
        assert_eq!(found(&[directory]), Ok(Trust::Also(b"mounted".to_vec())));
        assert_eq!(found(&[directory, ("CA_BUNDLE", "/own.pem")]), Ok(Trust::Also(b"own".to_vec())));
        assert_eq!(found(&[("CA_BUNDLE", "/none.pem")]), Err("CA_BUNDLE: /none.pem cannot be read".to_owned()));
    }
}
