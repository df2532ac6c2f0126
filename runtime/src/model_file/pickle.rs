//! Finds the classes that a pickle names, without executing it.

use super::advice::{Advice, FROM_ESTIMATOR, FROM_MODULE, FROM_PICKLE, STATE_DICT};

/// Longest name of a module or class: longer ones are data that only looks like a name.
const LONGEST_NAME: usize = 120;

/// Packages whose classes a state_dict or a checkpoint consists of.
const TENSOR_PACKAGES: [&str; 8] =
    ["collections", "torch._utils", "torch._tensor", "torch.storage", "builtins", "__builtin__", "_codecs", "numpy"];

/// Returns advice for a pickle by its first bytes, also for the pickle inside a zip archive of `torch.save`.
pub(super) fn advice(start: &[u8]) -> Advice {
    let classes = classes(start);
    let foreign = classes.iter().find(|(module, name)| !is_tensor(module, name));
    let tensors = classes.iter().any(|(module, _)| module.starts_with("torch"));
    match foreign {
        Some((module, name)) if tensors => {
            Advice { what: format!("a pickled nn.Module of torch.save ({module}.{name})"), remedy: FROM_MODULE }
        }
        Some((module, name)) => {
            let is_estimator = module.split('.').next().is_some_and(|package| ESTIMATOR_PACKAGES.contains(&package));
            let remedy = if is_estimator { FROM_ESTIMATOR } else { FROM_PICKLE };
            Advice { what: format!("a Python pickle ({module}.{name})"), remedy }
        }
        None if tensors => Advice::from(&STATE_DICT),
        None => Advice { what: "a Python pickle".to_owned(), remedy: FROM_PICKLE },
    }
}

/// Packages whose models ONNX can hold: scikit-learn with what its models are pickled with, and boosted trees.
const ESTIMATOR_PACKAGES: [&str; 5] = ["sklearn", "joblib", "xgboost", "lightgbm", "catboost"];

/// Returns true for a class that tensors and their containers consist of.
fn is_tensor(module: &str, name: &str) -> bool {
    let package = |prefix: &&str| {
        let rest = module.strip_prefix(*prefix);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let storage = module == "torch" && !name.starts_with("nn");
    storage || TENSOR_PACKAGES.iter().any(package) || name == "Parameter" || name.starts_with("_rebuild")
}

/// Returns the modules and classes of the opcodes `GLOBAL` (`c` and two lines) and `STACK_GLOBAL` (after two short
/// strings), in order. Other bytes that look like these opcodes are skipped, because the characters after them are not
/// those of a name.
fn classes(pickle: &[u8]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < pickle.len() {
        match global(&pickle[at..]).or_else(|| stack_global(&pickle[at..])) {
            Some((class, length)) => {
                found.push(class);
                at += length;
            }
            None => at += 1,
        }
    }
    found
}

type Found = ((String, String), usize);

fn global(pickle: &[u8]) -> Option<Found> {
    let rest = pickle.strip_prefix(b"c")?;
    let (module, rest) = line(rest)?;
    let (name, _) = line(rest)?;
    let length = 1 + module.len() + 1 + name.len() + 1;
    Some(((module, name), length))
}

fn line(bytes: &[u8]) -> Option<(String, &[u8])> {
    let end = bytes.iter().take(LONGEST_NAME).position(|byte| *byte == b'\n')?;
    Some((identifier(&bytes[..end])?, &bytes[end + 1..]))
}

/// Reads two `SHORT_BINUNICODE`, each perhaps memoised (`\x94`), followed by `STACK_GLOBAL` (`\x93`).
fn stack_global(pickle: &[u8]) -> Option<Found> {
    let (module, rest) = short_text(pickle)?;
    let (name, rest) = short_text(rest)?;
    let rest = rest.strip_prefix(b"\x93")?;
    Some(((module, name), pickle.len() - rest.len()))
}

fn short_text(bytes: &[u8]) -> Option<(String, &[u8])> {
    let [length, rest @ ..] = bytes.strip_prefix(b"\x8c")? else {
        return None;
    };
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((identifier(text)?, rest.strip_prefix(b"\x94").unwrap_or(rest)))
}

/// Returns the bytes as a dotted Python name, if they are one.
fn identifier(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let starts = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let inside = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    (starts && inside && text.len() <= LONGEST_NAME).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_dicts_modules_and_plain_pickles_are_distinguished() {
        let ordered = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01(X\x08\x00\x00\x000.weightq\x02\
            ctorch._utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storageq\x04ctorch\nFloatStorage\n";
        assert!(advice(ordered).what.starts_with("a state_dict"));
        let module = b"\x80\x02c__main__\nNet\nq\x00)\x81q\x01}q\x02(ctorch._utils\n_rebuild_parameter\n";
        assert_eq!(advice(module).what, "a pickled nn.Module of torch.save (__main__.Net)");
        let sequential = b"\x80\x02}q\x00(X\x05\x00\x00\x00modelq\x01ctorch.nn.modules.container\nSequential\n";
        assert!(advice(sequential).what.contains("container.Sequential"));
        let sklearn = b"\x80\x04\x95&\x00\x00\x00\x00\x00\x00\x00\x8c\x08sklearn_\x94\x8c\x03SVC\x94\x93\x94)";
        assert_eq!(advice(sklearn).what, "a Python pickle (sklearn_.SVC)");
        assert!(advice(sklearn).remedy.contains("torch.export.save"));
        let forest = b"\x80\x04\x95&\x00\x00\x00\x00\x00\x00\x00\x8c\x07sklearn\x94\x8c\x03SVC\x94\x93\x94)";
        assert!(advice(forest).remedy.contains("skl2onnx"));
        let boosted = b"\x80\x03cxgboost.sklearn\nXGBClassifier\nq\x00)\x81";
        assert!(advice(boosted).remedy.contains("skl2onnx"));
        assert_eq!(advice(b"\x80\x04}.").what, "a Python pickle");
        assert_eq!(advice(b"").what, "a Python pickle");
    }

    proptest::proptest! {
        #[test]
        fn no_input_makes_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..300)) {
            let text = advice(&bytes).text();
            proptest::prop_assert!(text.starts_with("is a "));
        }
    }
}
