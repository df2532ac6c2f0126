//! Bearer tokens of admin ports, read from a file.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, header};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

/// Bounds on a token's length in bytes. 16 random bytes in hexadecimal digits have twice the minimum.
const LENGTH: std::ops::RangeInclusive<usize> = 16..=1024;

/// Maximum number of tokens in a file: the current one, and some that clients still use.
const MAX_TOKENS: usize = 8;

/// Largest file, in bytes.
const MAX_BYTES: u64 = 16 << 10;

/// Scheme of `Authorization` for tokens (RFC 6750).
const BEARER: &[u8] = b"bearer ";

/// The tokens of a file, one in each line. All are accepted; requests to other admin ports have the first one. The file
/// is read again when it changes; while it is not valid, the last valid tokens stay.
pub struct TokenFile {
    path: PathBuf,
    last: Mutex<LastRead>,
}

struct LastRead {
    fingerprint: Fingerprint,
    tokens: Vec<Arc<str>>,
}

/// Modification time, size and inode of a file; `None` for a file that does not exist.
type Fingerprint = Option<(i64, i64, u64, u64)>;

/// An error in a file of tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is too large.
    #[error("{0}: more than {MAX_BYTES} bytes")]
    TooLarge(PathBuf),
    /// The file has no tokens, or too many.
    #[error("{0}: expected one to {MAX_TOKENS} tokens, one in each line")]
    Count(PathBuf),
    /// A line is not a token.
    #[error("{path}: line {line} is not a token of {} to {} visible ASCII characters", LENGTH.start(), LENGTH.end())]
    Token {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
}

impl TokenFile {
    /// Reads a file of tokens.
    ///
    /// # Errors
    /// [`TokenFileError`] for a file that cannot be read, or that has no valid tokens.
    pub fn open(path: &Path) -> Result<Self, TokenFileError> {
        // The fingerprint is taken before the content is read, so that a change in between is noticed.
        let fingerprint = fingerprint(path);
        let tokens = read(path)?;
        Ok(Self { path: path.to_owned(), last: Mutex::new(LastRead { fingerprint, tokens }) })
    }

    /// Returns the first token, for requests to other admin ports.
    #[must_use]
    pub fn first(&self) -> Option<Arc<str>> {
        self.tokens().into_iter().next()
    }

    /// Returns true if the headers have one of the tokens, as `Authorization: Bearer TOKEN`.
    #[must_use]
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, given)) = value.as_bytes().split_at_checked(BEARER.len()) else {
            return false;
        };
        // Each token is compared in constant time, and all of them are, so that the duration reveals nothing but their
        // lengths.
        let given = given.trim_ascii();
        let tokens = self.tokens();
        let is_known = tokens.iter().fold(false, |found, token| found | bool::from(token.as_bytes().ct_eq(given)));
        scheme.eq_ignore_ascii_case(BEARER) && is_known
    }

    /// Returns the tokens, after reading the file again if it has changed.
    fn tokens(&self) -> Vec<Arc<str>> {
        let mut last = self.last.lock();
        let now = fingerprint(&self.path);
        if now != last.fingerprint {
            last.fingerprint = now;
            match read(&self.path) {
                Ok(tokens) => last.tokens = tokens,
                Err(error) => tracing::error!("the last valid tokens of the admin port stay in use: {error}"),
            }
        }
        last.tokens.clone()
    }
}

impl std::fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenFile").field("path", &self.path).finish_non_exhaustive()
    }
}

fn read(path: &Path) -> Result<Vec<Arc<str>>, TokenFileError> {
    let failed = |source| TokenFileError::Io { path: path.to_owned(), source };
    if fs::metadata(path).map_err(failed)?.len() > MAX_BYTES {
        return Err(TokenFileError::TooLarge(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(failed)?;
    let mut tokens: Vec<Arc<str>> = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let token = line.trim();
        if !LENGTH.contains(&token.len()) || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(TokenFileError::Token { path: path.to_owned(), line: at + 1 });
        }
        tokens.push(token.into());
    }
    if tokens.is_empty() || tokens.len() > MAX_TOKENS {
        return Err(TokenFileError::Count(path.to_owned()));
    }
    Ok(tokens)
}

fn fingerprint(path: &Path) -> Fingerprint {
    // `metadata` follows symbolic links: Kubernetes replaces a link to update a mounted Secret.
    let found = fs::metadata(path).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "0123456789abcdef";
    const SECOND: &str = "fedcba9876543210";

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn each_line_is_a_token_and_nothing_else_is_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, format!("{FIRST}\n\n {SECOND}\r\n")).unwrap();
        let file = TokenFile::open(&path).unwrap();
        assert_eq!(file.first().as_deref(), Some(FIRST));
        let (first, second, lower) =
            (format!("Bearer {FIRST}"), format!("Bearer {SECOND}"), format!("bearer  {FIRST}"));
        for value in [&first, &second, &lower] {
            assert!(file.is_in(&headers(&[value])), "{value}");
        }
        let (cut, longer) = (format!("Bearer {}", &FIRST[1..]), format!("Bearer {FIRST}0"));
        for value in ["", "Bearer", "Bearer ", FIRST, &cut, &longer, &format!("Basic {FIRST}")] {
            assert!(!file.is_in(&headers(&[value])), "{value}");
        }
        assert!(!file.is_in(&headers(&[])));
        assert!(!file.is_in(&headers(&[&first, "Bearer x"])));
        assert!(!format!("{file:?}").contains(FIRST));
    }

    #[test]
    fn a_changed_file_is_used_and_a_broken_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        fs::write(&path, FIRST).unwrap();
        let file = TokenFile::open(&path).unwrap();
        let bearer = |token: &str| headers(&[&format!("Bearer {token}")]);
        fs::write(&path, format!("{SECOND}\n{SECOND}x\n")).unwrap();
        assert!(file.is_in(&bearer(SECOND)) && !file.is_in(&bearer(FIRST)));
        fs::remove_file(&path).unwrap();
        assert!(file.is_in(&bearer(SECOND)) && !file.is_in(&headers(&["Bearer "])));
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            TokenFile::open(&path).unwrap_err().to_string()
        };
        assert!(error("").ends_with("token: expected one to 8 tokens, one in each line"), "{}", error(""));
        assert!(error(&format!("{FIRST}\n").repeat(9)).contains("one to 8 tokens"));
        let short = error(&format!("{FIRST}\nshort\n"));
        assert!(short.ends_with("token: line 2 is not a token of 16 to 1024 visible ASCII characters"), "{short}");
        assert!(error(&format!("{FIRST} {FIRST}")).contains("line 1 is not a token"));
        assert!(error(&"a".repeat(17 << 10)).contains("more than 16384 bytes"));
        let missing = TokenFile::open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(missing.contains("No such file"), "{missing}");
    }
}
