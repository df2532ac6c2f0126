//! Validation of a manifest's arguments for Weir's own runtime, before the runtime starts.

use std::path::Path;

use crate::nearest::nearest;

/// Flags of `weir-runtime`, one per line, followed by `VALUE` if the flag takes one. Generated from the program.
const FLAGS: &str = include_str!("runtime_flags.txt");

/// Names of the program; the program also accepts its own name as the first argument.
const NAMES: [&str; 2] = ["weir-runtime", "tritonserver"];

/// Prefix of a reference that Kubernetes replaces by the value of an environment variable: `$(NAME)`.
const VARIABLE: &str = "$(";

/// Checks that `weir-runtime` accepts these arguments: the runtime exits at once on an unknown flag.
///
/// # Errors
/// A sentence about the first argument that the runtime would reject, when there is one.
pub fn check_runtime_arguments(args: &[String]) -> Result<(), String> {
    let is_name = |first: &&String| {
        let name = Path::new(first.as_str()).file_name();
        name.is_some_and(|name| NAMES.iter().any(|known| name == *known))
    };
    // If the first argument is the program's name, it is accepted like the value of a flag.
    let mut may_be_value = args.first().filter(is_name).is_some();
    for word in args {
        let (name, value) = word.split_once('=').map_or((&**word, None), |(n, v)| (n, Some(v)));
        // After expansion the variable may be a flag or a value.
        if name.starts_with(VARIABLE) {
            may_be_value = true;
        } else if name.starts_with('-') {
            let takes_value = takes_value(name).ok_or_else(|| unknown(name))?;
            may_be_value = takes_value && value.is_none();
        } else if may_be_value {
            may_be_value = false;
        } else {
            return Err(format!("weir-runtime does not accept the argument `{word}`: flags begin with --"));
        }
    }
    Ok(())
}

/// Returns true if the flag takes a value; `None` if the flag is unknown.
fn takes_value(name: &str) -> Option<bool> {
    let mut flags = flags();
    flags.find_map(|(flag, takes_value)| (flag == name).then_some(takes_value))
}

fn flags() -> impl Iterator<Item = (&'static str, bool)> {
    FLAGS.lines().map(|line| match line.split_once(' ') {
        Some((flag, _)) => (flag, true),
        None => (line, false),
    })
}

fn unknown(name: &str) -> String {
    let advice = nearest(flags().map(|(flag, _)| flag), name)
        .map_or_else(|| ": docs/flags.md lists its flags".to_owned(), |meant| format!("; did you mean {meant}?"));
    format!("weir-runtime has no flag {name}{advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(line: &str) -> Result<(), String> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        check_runtime_arguments(&words)
    }

    #[test]
    fn flags_of_the_runtime_are_taken_with_and_without_values() {
        for line in [
            "",
            "--id=a --log-verbose 1 --exit-on-error --strict-readiness false",
            "--model-store /mnt/models --allow-client-shm --allow-sagemaker=false",
            "/opt/tritonserver/bin/tritonserver --model-store=/m",
            "$(MORE) --id $(NAME) $(FLAG) value",
        ] {
            assert_eq!(checked(line), Ok(()), "{line}");
        }
    }

    #[test]
    fn an_unknown_flag_is_named_with_the_most_similar_one() {
        for (line, expected) in [
            (
                "--id=a --max-batch-secs=30",
                "weir-runtime has no flag --max-batch-secs; did you mean --max-batch-seconds?",
            ),
            ("--id a --colour red", "weir-runtime has no flag --colour: docs/flags.md lists its flags"),
            ("-v", "weir-runtime has no flag -v: docs/flags.md lists its flags"),
            ("--id a serve", "weir-runtime does not accept the argument `serve`: flags begin with --"),
            ("--id=a serve", "weir-runtime does not accept the argument `serve`: flags begin with --"),
            ("--help", "weir-runtime has no flag --help: docs/flags.md lists its flags"),
        ] {
            assert_eq!(checked(line), Err(expected.to_owned()), "{line}");
        }
    }
}
