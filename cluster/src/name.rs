//! Names: of services, their revisions and tags, and the hosts they answer to.

mod host;
mod label;
mod revision;
mod service;
mod tag;
#[cfg(test)]
mod tests;

pub use host::Host;
pub use revision::RevisionName;
pub use service::ServiceName;
pub use tag::Tag;
