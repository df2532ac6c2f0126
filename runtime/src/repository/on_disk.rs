//! Contents of the directory of a model repository: models, their versions and configurations.

pub(in crate::repository) mod catalog;
pub(in crate::repository) mod check;
pub(in crate::repository) mod config_file;
pub(in crate::repository) mod layout;
mod loose_files;
pub(in crate::repository) mod names;
mod no_model;
pub(in crate::repository) mod options;
pub(in crate::repository) mod stamp;
