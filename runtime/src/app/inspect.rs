//! `weir-runtime inspect PATH`: describes model files as a server would load them, without serving them.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Parser;
use serde::Serialize;

use crate::args::Exit;
use crate::backend::{Backend, Inspection, LoadError, ModelSource, WarmUpFailures};
use crate::inspection::InspectedTensor;
use crate::model::config::ModelConfig;
use crate::model_file::torchserve;
use crate::repository::{FoundModel, found_models};

/// The first argument of an inspection.
const COMMAND: &str = "inspect";

/// Describes model files: format, inputs, outputs, batches and size.
///
/// TorchScript is run on made-up inputs in a child process, as a server does before it serves it. Programs of
/// torch.export are only read, unless their graph does not decide whether rows can share a batch.
#[derive(Debug, Parser)]
#[command(name = "weir-runtime inspect", max_term_width = 100)]
struct InspectArgs {
    /// Model file, model directory or directory of models
    path: PathBuf,
    /// Print a JSON array with one object per file
    #[arg(long)]
    json: bool,
}

/// Result for one file of a model.
#[derive(Debug, Serialize)]
struct InspectedFile {
    model: String,
    file: PathBuf,
    #[serde(flatten)]
    found: Servability,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Servability {
    Servable(Box<Inspection>),
    Refused { error: String },
}

/// Runs the inspection if the program's arguments request one, and returns the exit code: 0 if every file can be
/// served, otherwise 1. `None` for other arguments.
pub(super) fn main(backends: &[Arc<dyn Backend>], arguments: impl Iterator<Item = OsString>) -> Option<Exit> {
    let mut arguments = arguments.skip(1).peekable();
    arguments.peek().filter(|first| *first == COMMAND)?;
    let args = match InspectArgs::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // If standard output or error is closed, the failure cannot be reported anywhere.
            drop(error.print());
            return Some(if error.use_stderr() { Exit::Usage } else { Exit::Done });
        }
    };
    let inspected = match inspect(backends, &args.path) {
        Ok(inspected) => inspected,
        Err(error) => {
            eprintln!("error: {error}");
            return Some(Exit::Failed);
        }
    };
    let text =
        if args.json { as_json(&inspected) } else { inspected.iter().map(text).collect::<Vec<_>>().join("\n\n") };
    // A reader such as `head` may have closed the pipe.
    drop(writeln!(std::io::stdout(), "{text}"));
    let is_servable = |one: &InspectedFile| matches!(one.found, Servability::Servable(_));
    Some(if inspected.iter().all(is_servable) { Exit::Done } else { Exit::Failed })
}

fn inspect(backends: &[Arc<dyn Backend>], path: &Path) -> Result<Vec<InspectedFile>, String> {
    let default_filename = |name: &str| backend(backends, name).map(|backend| backend.default_filename());
    let found = found_models(path, &default_filename)?;
    let inspected = found.into_iter().map(|model| {
        let found = match described(backends, &model) {
            Ok(inspection) => Servability::Servable(Box::new(inspection)),
            Err(error) => Servability::Refused { error },
        };
        InspectedFile { model: model.name, file: model.file, found }
    });
    Ok(inspected.collect())
}

fn backend<'a>(backends: &'a [Arc<dyn Backend>], name: &str) -> Result<&'a Arc<dyn Backend>, LoadError> {
    let found = backends.iter().find(|backend| backend.names().contains(&name));
    found.ok_or_else(|| LoadError::Config(format!("unknown backend '{name}'")))
}

fn described(backends: &[Arc<dyn Backend>], model: &FoundModel) -> Result<Inspection, String> {
    let config = model.config.clone()?;
    let backend = backend(backends, &config.backend).map_err(|error| error.to_string())?;
    let unpacked = if model.file.is_file() { torchserve::unpack(&model.file)? } else { None };
    let path = unpacked.as_ref().map_or(&model.file, |unpacked| &unpacked.path);
    let source = source(model, path, &config);
    let mut inspection = backend.inspect(&source).map_err(|error| error.to_string())?;
    inspection.is_code |= !source.op_libraries.is_empty();
    inspection.notes.extend(unpacked.as_ref().and_then(|unpacked| unpacked.without.clone()));
    Ok(inspection)
}

fn source(model: &FoundModel, path: &Path, config: &ModelConfig) -> ModelSource {
    let libraries = config.proto.model_operations.iter().flat_map(|operations| &operations.op_library_filename);
    ModelSource {
        inputs: config.inputs.clone(),
        outputs: config.outputs.clone(),
        max_batch_size: config.max_batch_size,
        parameters: config.parameters.clone(),
        op_libraries: libraries.map(|library| model.directory.join(library)).collect(),
        warm_up_failures: WarmUpFailures::Allow,
        ..ModelSource::bare(&model.name, path.to_owned())
    }
}

fn as_json(inspected: &[InspectedFile]) -> String {
    serde_json::to_string_pretty(inspected).unwrap_or_default()
}

fn text(InspectedFile { model, file, found }: &InspectedFile) -> String {
    let described = match found {
        Servability::Refused { error } => format!("  cannot be served: {error}"),
        Servability::Servable(inspection) => lines(inspection).join("\n"),
    };
    format!("{model}: {}\n{described}", file.display())
}

fn lines(inspection: &Inspection) -> Vec<String> {
    let Inspection { format, max_batch_size, batching, parameters, bytes, .. } = inspection;
    let written_by = inspection.torch_version.as_ref().map(|version| format!(", written by torch {version}"));
    let code = if inspection.is_code { "code, refused with --model-code=forbid" } else { "data" };
    let rows = match max_batch_size {
        0 => "each request alone".to_owned(),
        most => format!("up to {most} rows"),
    };
    let mut lines = vec![format!("  format   {format}{}: {code}", written_by.unwrap_or_default())];
    let tensor = |kind: &str, tensor: &InspectedTensor| {
        format!("  {kind:<8} {} {} {:?}", tensor.name, tensor.datatype, tensor.shape)
    };
    lines.extend(inspection.inputs.iter().map(|input| tensor("input", input)));
    lines.extend(inspection.outputs.iter().map(|output| tensor("output", output)));
    lines.push(format!("  batches  {rows}: {batching}"));
    lines.push(format!("  weights  {parameters} elements, {bytes} bytes"));
    lines.extend(inspection.notes.iter().map(|note| format!("  note     {note}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arguments: &[&str]) -> Option<Exit> {
        main(&[], arguments.iter().map(OsString::from))
    }

    #[test]
    fn other_arguments_are_left_to_the_server() {
        assert_eq!(run(&["weir-runtime", "--model-repository", "inspect"]), None);
        assert_eq!(run(&["weir-runtime"]), None);
        assert_eq!(run(&["weir-runtime", "inspect"]), Some(Exit::Usage));
        assert_eq!(run(&["weir-runtime", "inspect", "/nonexistent"]), Some(Exit::Failed));
    }

    #[test]
    fn a_description_has_one_line_per_fact() {
        let tensor = |name: &str| InspectedTensor { name: name.to_owned(), datatype: "FP32", shape: vec![-1, 4] };
        let inspection = Inspection {
            format: "TorchScript",
            torch_version: None,
            inputs: vec![tensor("x")],
            outputs: vec![tensor("y")],
            max_batch_size: 0,
            batching: "operator aten::mean.dim at 'mean' mixes the rows of a batch".to_owned(),
            parameters: 12,
            bytes: 48,
            is_code: true,
            notes: vec!["the handler h does not run".to_owned()],
        };
        let shown = InspectedFile {
            model: "m".to_owned(),
            file: "/m/m.pt".into(),
            found: Servability::Servable(Box::new(inspection)),
        };
        let expected = "m: /m/m.pt\n  format   TorchScript: code, refused with --model-code=forbid\n  input    x FP32 [-1, 4]\n  \
                        output   y FP32 [-1, 4]\n  batches  each request alone: operator aten::mean.dim at 'mean' mixes \
                        the rows of a batch\n  weights  12 elements, 48 bytes\n  note     the handler h does not run";
        assert_eq!(text(&shown), expected);
        let json: serde_json::Value = serde_json::from_str(&as_json(&[shown])).unwrap();
        assert_eq!(json[0]["inputs"][0]["shape"], serde_json::json!([-1, 4]));
        let refused = Servability::Refused { error: "is empty".to_owned() };
        let json = as_json(&[InspectedFile { model: "m".to_owned(), file: "/m".into(), found: refused }]);
        assert!(json.contains("\"error\": \"is empty\""), "{json}");
    }
}
