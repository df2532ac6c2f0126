//! Parser and matcher for label selectors: `app=web,tier in (a, b),!canary`. This module is pure.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::{Expression, Selector, SelectorExt};

/// Longest selector in bytes, far more than names of services need.
const MAX_LENGTH: usize = 4096;

/// Returns true if the labels match the selector; an empty selector matches all.
///
/// # Errors
/// A sentence that says which part cannot be parsed.
pub(crate) fn fits(selector: &str, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    Ok(parse(selector)?.matches(labels))
}

fn parse(selector: &str) -> Result<Selector, String> {
    if selector.len() > MAX_LENGTH {
        return Err(format!("the label selector is longer than {MAX_LENGTH} bytes"));
    }
    let parts = split(selector).filter(|part| !part.is_empty());
    parts.map(expression).collect()
}

/// Splits a selector at the commas that are not within parentheses.
fn split(selector: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let parts = selector.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim)
}

fn expression(part: &str) -> Result<Expression, String> {
    if let Some((key, values)) = set(part, " notin ")? {
        return Ok(Expression::NotIn(key, values));
    }
    if let Some((key, values)) = set(part, " in ")? {
        return Ok(Expression::In(key, values));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return Ok(Expression::NotEqual(token(key)?, token(value)?));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return Ok(Expression::Equal(token(key)?, value.trim().to_owned()));
    }
    match part.strip_prefix('!') {
        Some(key) => Ok(Expression::DoesNotExist(token(key)?)),
        None => Ok(Expression::Exists(token(part)?)),
    }
}

fn set(part: &str, operator: &str) -> Result<Option<(String, BTreeSet<String>)>, String> {
    let Some((key, values)) = part.split_once(operator) else {
        return Ok(None);
    };
    let inner = values.trim().strip_prefix('(').and_then(|v| v.strip_suffix(')'));
    let inner = inner.ok_or_else(|| unreadable(part))?;
    let values: Result<_, _> = inner.split(',').map(token).collect();
    Ok(Some((token(key)?, values?)))
}

/// Parses a key or a value, with the characters allowed in names.
fn token(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if text.is_empty() || !text.chars().all(is_allowed) {
        return Err(unreadable(text));
    }
    Ok(text.to_owned())
}

fn unreadable(part: &str) -> String {
    let part: String = part.chars().take(80).collect();
    format!("the label selector cannot be read at {part:?}: write, for example, key=value")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn does_fit(selector: &str) -> Result<bool, String> {
        let labels = [("app", "web"), ("example.com/tier", "a")];
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned()));
        fits(selector, &labels.into())
    }

    #[test]
    fn every_operator_is_understood() {
        let fitting = [
            "",
            "app=web",
            "app == web",
            "app!=db",
            "app",
            "!other",
            "example.com/tier in (a, b)",
            "example.com/tier notin (c,d), app=web",
        ];
        for selector in fitting {
            assert_eq!(does_fit(selector), Ok(true), "{selector}");
        }
        let others = ["app=db", "app!=web", "!app", "other", "app in (x)", "app=web,other"];
        for selector in others {
            assert_eq!(does_fit(selector), Ok(false), "{selector}");
        }
    }

    #[test]
    fn an_invalid_selector_is_refused() {
        for selector in ["app in x", "a b", "=x", "app in (", "a>1"] {
            assert!(does_fit(selector).is_err(), "{selector}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_text_does_not_panic(text in "\\PC*") {
            let _ = does_fit(&text);
        }

        #[test]
        fn a_formatted_selector_is_parsed(key in "[a-z]{1,5}", values in prop::collection::btree_set("[a-z]{1,3}", 1..4)) {
            for expression in [
                Expression::In(key.clone(), values.clone()),
                Expression::NotIn(key.clone(), values.clone()),
                Expression::Exists(key.clone()),
                Expression::DoesNotExist(key.clone()),
                Expression::Equal(key.clone(), "x".to_owned()),
                Expression::NotEqual(key.clone(), "x".to_owned()),
            ] {
                let written = Selector::from(expression).to_string();
                prop_assert_eq!(parse(&written).map(|s| s.to_string()), Ok(written));
            }
        }
    }
}
