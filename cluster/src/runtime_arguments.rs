//! Arguments for Weir's own runtime, as far as a manifest can have them wrong before it runs.

use std::path::Path;

use crate::nearest::nearest;

/// Flags of `weir-runtime`, each on a line, with `VALUE` behind those that take one. Generated from the program.
const FLAGS: &str = include_str!("runtime_flags.txt");

/// Names of the program, which it takes as its first argument too.
const NAMES: [&str; 2] = ["weir-runtime", "tritonserver"];

/// Beginning of a reference that Kubernetes replaces by the value of an environment variable: `$(NAME)`.
const VARIABLE: &str = "$(";

/// Checks that `weir-runtime` has the flags among these arguments: it ends at once at one that it has not.
///
/// # Errors
/// A sentence about the first argument that it would end at.
pub fn check_runtime_arguments(args: &[String]) -> Result<(), String> {
    let is_name = |first: &&String| {
        let name = Path::new(first.as_str()).file_name();
        name.is_some_and(|name| NAMES.iter().any(|known| name == *known))
    };
    // Then the first argument is as welcome as a flag's value.
    let mut may_be_value = args.first().filter(is_name).is_some();
    for word in args {
        let (name, value) = word.split_once('=').map_or((&**word, None), |(n, v)| (n, Some(v)));
        // It may become a flag, or its value.
        if name.starts_with(VARIABLE) {
            may_be_value = true;
        } else if name.starts_with('-') {
            let takes_value = takes_value(name).ok_or_else(|| unknown(name))?;
            may_be_value = takes_value && value.is_none();
        } else if may_be_value {
            may_be_value = false;
        } else {
            return Err(format!("weir-runtime takes no `{word}`: its flags begin with --"));
        }
    }
    Ok(())
}

/// Returns true for a flag that takes a value; `None` for a name that no flag has.
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
    let advice = nearest(flags().map(|(flag, _)| flag), name).map_or_else(
        || ": docs/flags.md lists those that it has".to_owned(),
        |meant| format!("; did you mean {meant}?"),
    );
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
    fn a_flag_that_it_does_not_have_is_named_with_the_one_that_was_meant() {
        for (line, expected) in [
            (
                "--id=a --max-batch-secs=30",
                "weir-runtime has no flag --max-batch-secs; did you mean --max-batch-seconds?",
            ),
            ("--id a --colour red", "weir-runtime has no flag --colour: docs/flags.md lists those that it has"),
            ("-v", "weir-runtime has no flag -v: docs/flags.md lists those that it has"),
            ("--id a serve", "weir-runtime takes no `serve`: its flags begin with --"),
            ("--id=a serve", "weir-runtime takes no `serve`: its flags begin with --"),
            ("--help", "weir-runtime has no flag --help: docs/flags.md lists those that it has"),
        ] {
            assert_eq!(checked(line), Err(expected.to_owned()), "{line}");
        }
    }
}
