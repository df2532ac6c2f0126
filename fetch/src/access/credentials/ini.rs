//! Reads the profiles of `~/.aws/credentials` and `~/.aws/config`.

use super::Values;

/// Returns the values of one section; empty if there is none. Nested values, which are indented, are skipped.
pub(super) fn section(text: &str, name: &str) -> Values {
    let mut values = Values::new();
    let mut is_wanted = false;
    for line in text.lines() {
        if let Some(header) = line.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let header = header.trim();
            is_wanted = header == name || header.strip_prefix("profile ").map(str::trim) == Some(name);
        } else if is_wanted
            && !line.starts_with([' ', '\t', '#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            values.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::super::tests::values;
    use super::*;

    #[test]
    fn profiles_are_read() {
        let text = "# keys\n[default]\naws_access_key_id = A\nregion=eu-west-1\ns3 =\n  max = 3\n[profile other]\nregion = x\n";
        let default = values(&[("aws_access_key_id", "A"), ("region", "eu-west-1"), ("s3", "")]);
        assert_eq!(section(text, "default"), default);
        assert_eq!(section(text, "other"), values(&[("region", "x")]));
        assert_eq!(section(text, "none"), Values::new());
    }
}
