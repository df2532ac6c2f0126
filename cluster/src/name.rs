//! Names of services, revisions and tags, and the hosts derived from them.

mod component;
mod host;
mod label;
mod revision;
mod service;
mod tag;
#[cfg(test)]
mod tests;

pub use component::ComponentKind;
pub use host::Host;
pub use revision::RevisionName;
pub use service::ServiceName;
pub use tag::Tag;
