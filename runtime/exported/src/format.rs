//! The file format: sections and pickles of the archive, and the types into which its JSON is parsed.

pub(crate) mod json;
pub(crate) mod pickle;
pub(crate) mod schema;
pub(crate) mod section;
