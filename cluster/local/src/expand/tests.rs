use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expect: &str) {
    let lookup = |name: &str| match name {
        "A" => Some("1".to_owned()),
        "B" => Some("$(A)".to_owned()),
        "" => Some("empty".to_owned()),
        _ => None,
    };
    assert_eq!(expand(text, lookup), expect);
}

#[test]
fn references_are_expanded_as_in_kubernetes() {
    check("$(A)", "1");
    check("x$(A)y$(A)", "x1y1");
    check("$(B)", "$(A)");
    check("$(C)", "$(C)");
    check("$$(A)", "$(A)");
    check("$$$(A)", "$1");
    check("$A ${A}", "$A ${A}");
    check("$(A", "$(A");
    check("$", "$");
    check("$$", "$");
    check("$()", "empty");
    check("$($$)", "$($$)");
    check("é$(A)é", "é1é");
}

#[test]
fn shell_references_are_recognised_too() {
    for text in ["$(PORT)", "--x=$(PORT)", "serve $PORT", "$PORT;", "${PORT}"] {
        assert!(mentions(text, "PORT"), "{text}");
    }
    for text in ["PORT", "$PORTS", "$(PORTS)", "${PORT:-1", "$(GRPC_PORT)", "$"] {
        assert!(!mentions(text, "PORT"), "{text}");
    }
}

proptest! {
    #[test]
    fn a_text_without_dollars_is_unchanged(text in "[^$]{0,40}") {
        prop_assert_eq!(expand(&text, |_| Some("x".to_owned())), text);
    }

    #[test]
    fn without_references_only_double_dollars_change(text in "[$(A ]{0,20}") {
        prop_assert_eq!(expand(&text, |_| None), text.replace("$$", "$"));
    }
}
