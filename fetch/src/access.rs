//! Stores as they are configured: settings, credentials and authorities for each.

pub(crate) mod authorities;
pub(crate) mod credentials;
pub(crate) mod patterns;
pub(crate) mod settings;
