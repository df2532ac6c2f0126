//! The limit on open files, which every connection counts against.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit on open files to the hard limit. Shells set the soft limit to 1024 for programs that use
/// `select`.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let most = Rlimit { current: maximum, maximum };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::debug!(%error, "cannot raise the limit on open files");
    }
}

/// Returns the number of connections that a port may have: three quarters of the limit on open files. The rest is left
/// for files, outgoing connections and other ports.
pub(crate) fn connections() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    let limit = current.and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(usize::MAX, |limit| (limit - limit / 4).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_limit() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert!(connections() >= 1);
    }
}
