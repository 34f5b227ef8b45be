//! The terminals that `%import common.X` names, as regular expressions.
//!
//! Each is the language that Lark's documentation gives for the name. Some definitions in Lark rely on a
//! lexer that stops at the first end (quoted texts, comments in C). The expression here restricts the
//! characters before the end instead.

/// The name of the module.
pub(super) const MODULE: &str = "common";

/// Names and patterns.
const TERMINALS: [(&str, &str); 27] = [
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[0-9a-fA-F]"),
    ("INT", "[0-9]+"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("DECIMAL", r"[0-9]+\.[0-9]*|\.[0-9]+"),
    ("FLOAT", r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("SIGNED_FLOAT", r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("NUMBER", r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("SIGNED_NUMBER", r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("ESCAPED_STRING", r#""([^"\\\n]|\\[^\n])*""#),
    ("_EXP", "[eE][+-]?[0-9]+"),
    ("_STRING_INNER", ".*?"),
    ("_STRING_ESC_INNER", r".*?(?<!\\)(\\\\)*?"),
    ("LCASE_LETTER", "[a-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LETTER", "[A-Za-z]"),
    ("WORD", "[A-Za-z]+"),
    ("CNAME", "[_A-Za-z][_A-Za-z0-9]*"),
    ("WS_INLINE", r"[ \t]+"),
    ("WS", r"[ \t\f\r\n]+"),
    ("CR", r"\r"),
    ("LF", r"\n"),
    ("NEWLINE", r"(\r?\n)+"),
    ("SH_COMMENT", r"#[^\n]*"),
    ("CPP_COMMENT", r"//[^\n]*"),
    ("C_COMMENT", r"/\*([^*]|\*+[^*/])*\*+/"),
    ("SQL_COMMENT", r"--[^\n]*"),
];

/// The pattern of the terminal `name`.
pub(super) fn pattern(name: &str) -> Option<&'static str> {
    TERMINALS.iter().find(|(known, _)| *known == name).map(|(_, pattern)| *pattern)
}

/// All names.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TERMINALS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use unskew_automata::{Dfa, Limits};

    use super::*;

    #[test]
    fn common_terminals_are_those_of_their_definitions() {
        let automaton = |name: &str| Dfa::from_pattern(pattern(name).unwrap(), &Limits::default()).unwrap();
        let same = |name: &str, other: &str| {
            assert_eq!(automaton(name), Dfa::from_pattern(other, &Limits::default()).unwrap(), "{name}");
        };
        let [int, exponent] = [r"\d+".replace(r"\d", "[0-9]"), "[eE][+-]?[0-9]+".to_owned()];
        let decimal = format!(r"({int}\.({int})?|\.{int})");
        let float = format!("({int}{exponent}|{decimal}({exponent})?)");
        same("DECIMAL", &decimal);
        same("FLOAT", &float);
        same("SIGNED_FLOAT", &format!("[+-]?{float}"));
        same("NUMBER", &format!("{float}|{int}"));
        same("SIGNED_NUMBER", &format!("[+-]?({float}|{int})"));
        let string = automaton("ESCAPED_STRING");
        for (text, accepted) in
            [(r#""""#, true), (r#""a\"b""#, true), (r#""a"b""#, false), (r#""\""#, false), (r#""\\""#, true)]
        {
            assert_eq!(string.accepts(text.as_bytes()), accepted, "{text}");
        }
        let comment = automaton("C_COMMENT");
        for (text, accepted) in
            [("/**/", true), ("/***/", true), ("/*\n* / */", true), ("/*/", false), ("/* */ */", false)]
        {
            assert_eq!(comment.accepts(text.as_bytes()), accepted, "{text}");
        }
        // The insides of strings end where the terminal around them says.
        names().filter(|name| !name.starts_with("_STRING")).for_each(|name| drop(automaton(name)));
    }
}
