//! The files that a replica needs before it starts.

use weir_fetch::{FetchError, Limits, fetch};

use crate::storage::{Model, Origin};

/// Downloads what is to be downloaded and looks for the rest. The error is a sentence. Of several replicas
/// that want one model, one downloads it and the others wait.
pub(super) async fn bring(models: &[Model], limits: &Limits) -> Result<(), String> {
    for model in models {
        match model.origin {
            Origin::Here if model.path.exists() => {}
            Origin::Here => {
                return Err(format!(
                    "there is no {} for {}",
                    model.path.display(),
                    model.uri
                ));
            }
            Origin::Elsewhere => {
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
