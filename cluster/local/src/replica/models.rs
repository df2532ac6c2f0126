//! The files that a replica needs before it starts.

use weir_fetch::{FetchError, Limits, fetch};

use crate::storage::{ModelFiles, Origin};

/// Downloads remote models and checks that local ones exist. The error is a sentence. Of several replicas
/// that need one model, one downloads it and the others wait.
pub(super) async fn ensure(models: &[ModelFiles], limits: &Limits) -> Result<(), String> {
    for model in models {
        match model.origin {
            Origin::Local if model.path.exists() => {}
            Origin::Local => {
                return Err(format!(
                    "{} is missing: put the files of {} there",
                    model.path.display(),
                    model.uri
                ));
            }
            Origin::Remote => {
                let fetched = fetch(&model.uri, &model.path, limits).await;
                fetched.map_err(|error| explain(&error))?;
            }
        }
    }
    Ok(())
}

/// The error with its causes.
fn explain(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
