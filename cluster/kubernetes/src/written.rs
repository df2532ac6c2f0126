//! Written forms of what the API server has no field for: JSON in annotations. Versions mix, so unknown fields are
//! skipped.

mod revision;
mod route;
mod scaling;
#[cfg(test)]
mod tests;

pub(crate) use revision::WrittenRevision;
pub(crate) use route::WrittenRoute;
