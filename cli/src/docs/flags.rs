//! The page `docs/flags.md`, and the list of the runtime's flags.

use clap::{Arg, Command, CommandFactory};

use super::check;
use crate::args::Args;

#[test]
fn flags_are_documented() {
    let mut page = "\
# Flags

Generated from the programs; `--help` says the same.
"
    .to_owned();
    let weir = Args::command();
    for command in weir.get_subcommands() {
        add_weir_command(&mut page, command.get_name(), command);
        for below in command.get_subcommands() {
            add_weir_command(&mut page, &format!("{} {}", command.get_name(), below.get_name()), below);
        }
    }
    add_runtime(&mut page, &weir_runtime::args::command());
    page.push_str(MEMORY);
    check("docs/flags.md", &page);
}

/// Lists the flags that a manifest's arguments may have, so that other crates can check them without the program.
#[test]
fn flags_of_the_runtime_are_listed() {
    let command = weir_runtime::args::command();
    let mut lines = Vec::new();
    for arg in command.get_arguments() {
        let value = if arg.get_action().takes_values() { " VALUE" } else { "" };
        let aliases = arg.get_all_aliases().unwrap_or_default();
        let names = arg.get_long().into_iter().chain(aliases);
        lines.extend(names.map(|name| format!("--{name}{value}\n")));
    }
    lines.sort();
    check("cluster/src/runtime_flags.txt", &lines.concat());
}

fn add_weir_command(page: &mut String, name: &str, command: &Command) {
    let about = command.get_about().map(ToString::to_string);
    let about = about.unwrap_or_default();
    page.push_str(&format!("\n## `weir {name}`\n\n{about}.\n"));
    if command.get_arguments().next().is_none() {
        return;
    }
    page.push_str(&format!("\n{HEAD}"));
    for arg in command.get_arguments() {
        page.push_str(&row(arg));
    }
}

fn add_runtime(page: &mut String, command: &Command) {
    page.push_str(
        "
## `weir-runtime`

Names and defaults are Triton's where Triton has the flag. Booleans may be written `true`, `on`, `1`, `false`, `off` or `0`. If a flag
is given twice, the last value counts, unless the flag is repeatable.
",
    );
    let mut heading = None;
    for arg in command.get_arguments() {
        if heading != Some(arg.get_help_heading()) {
            heading = Some(arg.get_help_heading());
            let title = arg.get_help_heading().unwrap_or("General");
            page.push_str(&format!("\n### {title}\n\n{}{HEAD}", intro(title)));
        }
        page.push_str(&row(arg));
    }
}

/// Memory limits that follow from the flags together; `benches/hostile.py` measures them.
const MEMORY: &str = "
## Memory that clients can take

Whatever clients send, `weir up`, `weir gateway` and `weir-runtime` use at most this much memory for them:

```text
  2 x --max-inflight-bytes              bodies, decoded bodies, inputs in shared memory, and responses until clients read them
+ --max-connections x 256 KiB           heads (64 KiB), read buffers, TLS
+ requests over HTTP/2 x 32 KiB         at most 4 x --max-connections-per-address, or 1024, from each address
+ received bytes not yet processed     at most 1 MiB per stream and 8 MiB per connection of HTTP/2, for half a minute
```

Usually it is far less: an idle connection uses about 10 KiB. [security.md](security.md#measured) has measurements.
";

const HEAD: &str = "| flag | default | meaning |\n|---|---|---|\n";

fn intro(title: &str) -> &'static str {
    match title {
        "Accepted without effect" => "Flags of Triton that have no visible effect here; each is logged once.\n\n",
        "Refused" => {
            "Flags of Triton that would change results and are not supported: an error, unless the \
             value is `false`, `0` or `off`.\n\n"
        }
        _ => "",
    }
}

fn row(arg: &Arg) -> String {
    let mut value = String::new();
    let mut default = String::new();
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    // clap reports a default and choices for switches as well, which take no value.
    if arg.get_action().takes_values() {
        value = names(arg);
        default = defaults(arg);
        help.push_str(&choices(arg));
    }
    if let Some(variable) = arg.get_env().and_then(|variable| variable.to_str()) {
        help.push_str(&format!(" (environment: `{variable}`)"));
    }
    let spellings = spellings(arg, &value);
    format!("| {spellings} | {default} | {} |\n", help.replace('|', "\\|"))
}

/// Returns the flag with its value, then its aliases; for a positional argument, the name of its value.
fn spellings(arg: &Arg, value: &str) -> String {
    let Some(long) = arg.get_long() else {
        return format!("`{}`", value.trim());
    };
    let short = arg.get_short().map(|short| format!("-{short}"));
    let aliases = arg.get_all_aliases().unwrap_or_default();
    let aliases = aliases.iter().map(|alias| format!("--{alias}"));
    let others: String = short.into_iter().chain(aliases).map(|other| format!(", `{other}`")).collect();
    format!("`--{long}{value}`{others}")
}

fn names(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().map(|name| format!(" {name}")).collect()
}

fn defaults(arg: &Arg) -> String {
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.filter_map(|value| value.to_str()).map(|value| format!("`{value}`")).collect();
    values.join(" ")
}

fn choices(arg: &Arg) -> String {
    let values = arg.get_possible_values();
    let values: Vec<_> = values.iter().map(|value| format!("`{}`", value.get_name())).collect();
    if values.is_empty() { String::new() } else { format!(" ({})", values.join(", ")) }
}
