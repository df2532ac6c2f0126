//! Pages generated from the code: `docs/flags.md` and `docs/metrics.md`. `UPDATE=1 cargo test -p
//! weir-runtime --test docs` rewrites them.

#![expect(clippy::unwrap_used, reason = "a test may end at once")]

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_runtime::args;
use weir_runtime::metrics::{self, GpuSample, ModelSample, Options, Pool, Sources};
use weir_runtime::statistics::{Reason, Refusal, Statistics};

fn check(page: &str, expected: &str) {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(page);
    #[expect(clippy::disallowed_methods, reason = "the one switch of this test")]
    if std::env::var("UPDATE").is_ok() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/{page} is out of date: UPDATE=1 cargo test -p weir-runtime --test docs rewrites it"
    );
}

#[test]
fn flags_are_documented() {
    let command = args::command();
    let mut page = "\
# Flags of `weir-runtime`

Generated from the program; `weir-runtime --help` says the same. Names and defaults are Triton's where Triton
has the flag. Booleans may be written `true`, `1`, `false` or `0`.
"
    .to_owned();
    let mut heading = None;
    for arg in command.get_arguments() {
        if heading != Some(arg.get_help_heading()) {
            heading = Some(arg.get_help_heading());
            let title = arg.get_help_heading().unwrap_or("General");
            write!(page, "\n## {title}\n\n{}", intro(title)).unwrap();
            page.push_str("| flag | default | meaning |\n|---|---|---|\n");
        }
        let row = row(arg);
        page.push_str(&row);
    }
    check("flags.md", &page);
}

fn intro(title: &str) -> &'static str {
    match title {
        "Accepted without effect" => {
            "Flags of Triton that change nothing a user could see; each is logged once.\n\n"
        }
        "Refused" => {
            "Flags of Triton that would change what a user gets, and are not honoured: an error, unless the \
             value is `false`, `0` or `off`.\n\n"
        }
        _ => "",
    }
}

fn row(arg: &clap::Arg) -> String {
    let long = arg.get_long().unwrap_or_default();
    let aliases = arg.get_aliases().unwrap_or_default();
    let aliases: String = aliases
        .iter()
        .map(|alias| format!(", `--{alias}`"))
        .collect();
    let mut value = String::new();
    let mut default = String::new();
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    // A switch has default and choices too, but nobody may write them.
    if arg.get_action().takes_values() {
        value = names(arg);
        default = defaults(arg);
        help.push_str(&choices(arg));
    }
    format!(
        "| `--{long}{value}`{aliases} | {default} | {} |\n",
        help.replace('|', "\\|")
    )
}

fn names(arg: &clap::Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| format!(" {name}")).collect()
}

fn defaults(arg: &clap::Arg) -> String {
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values
        .filter_map(|value| value.to_str())
        .map(|value| format!("`{value}`"))
        .collect();
    values.join(" ")
}

fn choices(arg: &clap::Arg) -> String {
    let values = arg.get_possible_values();
    let values: Vec<_> = values
        .iter()
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if values.is_empty() {
        String::new()
    } else {
        format!(" ({})", values.join(", "))
    }
}

#[derive(Debug)]
struct Everything;

impl Sources for Everything {
    fn models(&self) -> Vec<ModelSample> {
        vec![ModelSample {
            name: "m".to_owned(),
            version: 1,
            tags: Vec::new(),
            snapshot: Statistics::new(1).snapshot(),
            predicted_wait: Duration::ZERO,
            load: Duration::ZERO,
        }]
    }

    fn gpus(&self) -> Vec<GpuSample> {
        vec![GpuSample {
            uuid: "GPU-1".to_owned(),
            utilization: 0.0,
            memory: Pool::default(),
            power: 0.0,
            power_limit: 0.0,
            energy: 0.0,
        }]
    }
}

/// Every metric, printed as `/metrics` prints it.
fn printed() -> String {
    let mut registry = weir_ops::registry::with_process_metrics();
    let options = Options {
        histogram_latencies: true,
        ..Options::default()
    };
    let _requests = metrics::register(&mut registry, Arc::new(Everything), options);
    weir_ops::registry::text(&registry).unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn metrics_are_documented() {
    let text = printed();
    let mut page = "\
# Metrics of `weir-runtime`

`/metrics` on port 8002 (`--metrics-port`), Prometheus text format 0.0.4. Names beginning `nv_` are Triton's, with
its labels and meaning. Generated from the program's own output.

Series of a model carry `model`, `version` and the model's `metric_tags`; those of a GPU carry `gpu_uuid` and appear
where one is. `nv_inference_first_response_histogram_ms` appears with `--metrics-config
histogram_latencies=true`.

Values of `reason`: REASONS. Values of `cause`: CAUSES. Values of `code`: `ok`, or the word for the error.

| name | type | labels | meaning |
|---|---|---|---|
"
    .replace("REASONS", &quoted(Reason::ALL.map(Reason::label)))
    .replace("CAUSES", &quoted(Refusal::ALL.map(Refusal::label)));
    let mut help = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        {
            let labels = labels(&text, name);
            let help = help.trim_end_matches('.');
            writeln!(page, "| `{name}` | {kind} | {labels} | {help} |").unwrap();
        }
    }
    check("metrics.md", &page);
}

fn quoted<const N: usize>(words: [&str; N]) -> String {
    words.map(|word| format!("`{word}`")).join(", ")
}

/// Label names of the family's first sample, `le` aside.
fn labels(text: &str, name: &str) -> String {
    let sample = text.lines().find(|line| {
        let after = line.strip_prefix(name);
        after.is_some_and(|after| after.starts_with(['{', ' ', '_']))
    });
    let inside = sample
        .and_then(|line| line.split_once('{'))
        .map_or("", |(_, rest)| rest);
    let pairs = inside
        .split_once('}')
        .map_or("", |(inside, _)| inside)
        .split(',');
    let names: Vec<_> = pairs
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, _)| format!("`{name}`"))
        .filter(|name| name != "`le`")
        .collect();
    names.join(", ")
}
