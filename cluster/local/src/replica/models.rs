//! The model files that a replica needs before it starts.

use weir_fetch::{Attempt, FetchError, Limits, fetch};

use crate::storage::{ModelFiles, Origin};

/// Downloads remote models and checks that local ones exist. The error is a sentence. If several replicas need one
/// model, one of them downloads it and the others wait. `observe` is called for each attempt.
pub(super) async fn ensure(
    models: &[ModelFiles],
    limits: &Limits,
    mut observe: impl FnMut(Attempt) + Send,
) -> Result<(), String> {
    for model in models {
        if let Some(missing) = model.missing() {
            return Err(missing);
        }
        if model.origin == Origin::Remote {
            let fetched = fetch(&model.uri, &model.path, limits, &mut observe).await;
            fetched.map_err(|error| explain(&error))?;
        }
    }
    Ok(())
}

/// Returns the text of the error with all of its causes.
fn explain(error: &FetchError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
