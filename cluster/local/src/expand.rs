//! Expansion of `$(NAME)` in commands, arguments and variables, as in Kubernetes.

#[cfg(test)]
mod tests;

/// Replaces each `$(NAME)` that `lookup` knows. An unknown reference is left unchanged; `$$` is an escaped dollar sign,
/// so `$$(NAME)` becomes `$(NAME)`.
pub(crate) fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let (piece, after) = reference(&rest[at..]);
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Name(name) => match lookup(name) {
                Some(value) => out.push_str(&value),
                None => out.extend(["$(", name, ")"]),
            },
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns true if a text uses the variable `name`: as `$(NAME)`, or, for a shell, as `$NAME` or `${NAME}`.
pub(crate) fn mentions(text: &str, name: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    text.match_indices('$').any(|(at, _)| {
        let rest = &text[at + 1..];
        let inner = |open, close| {
            let inner = rest.strip_prefix(open).and_then(|r| r.strip_prefix(name));
            inner.is_some_and(|r| r.starts_with(close))
        };
        inner('(', ')') || inner('{', '}') || rest.strip_prefix(name).is_some_and(ends)
    })
}

enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Parses the reference, escape or plain dollar sign at the beginning of `text`. Returns it and the remaining text.
fn reference(text: &str) -> (Piece<'_>, &str) {
    if let Some(after) = text.strip_prefix("$$") {
        return (Piece::Text("$"), after);
    }
    let named = text.strip_prefix("$(").and_then(|t| t.split_once(')'));
    match named {
        Some((name, after)) => (Piece::Name(name), after),
        None => (Piece::Text("$"), &text[1..]),
    }
}
