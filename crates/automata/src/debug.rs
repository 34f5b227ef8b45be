//! Printers of a DFA, for people: a table for the terminal and a graph for Graphviz.
//!
//! Plain strings: a graph library would be a dependency for everyone who only wants a constraint.

use std::{fmt::Write, ops::RangeInclusive};

use crate::{Dfa, Edge};

/// The DFA in the language of Graphviz: `dot -Tsvg` draws it. Accepting states have a double border.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Limits, debug};
///
/// let dfa = Dfa::from_pattern("[0-9a]x?", &Limits::default())?;
/// assert!(debug::dot(&dfa).contains(r#"0 -> 1 [label="0-9 a"];"#));
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
pub fn dot(dfa: &Dfa) -> String {
    let mut text =
        String::from("digraph dfa {\n  rankdir=LR;\n  node [shape=circle];\n  begin [shape=point];\n");
    write_line(&mut text, format_args!("  begin -> {};", dfa.start()));
    for state in dfa.states() {
        if dfa.is_accepting(state) {
            write_line(&mut text, format_args!("  {state} [shape=doublecircle];"));
        }
        for (target, label) in labels(dfa.edges(state)) {
            let label = label.replace('\\', "\\\\").replace('"', "\\\"");
            write_line(&mut text, format_args!("  {state} -> {target} [label=\"{label}\"];"));
        }
    }
    text.push_str("}\n");
    text
}

/// The DFA as lines of text: one for each state, marked with `*` where it accepts, with its edges.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Limits, debug};
///
/// let dfa = Dfa::from_pattern("[0-9a]x?", &Limits::default())?;
/// assert_eq!(debug::table(&dfa), " 0  0-9 a -> 1\n*1  x -> 2\n*2\n");
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
pub fn table(dfa: &Dfa) -> String {
    let width = (dfa.len() - 1).to_string().len();
    let mut text = String::new();
    for state in dfa.states() {
        let mark = if dfa.is_accepting(state) { '*' } else { ' ' };
        let edges: Vec<String> = labels(dfa.edges(state))
            .into_iter()
            .map(|(target, label)| format!("{label} -> {target}"))
            .collect();
        let line = format!("{mark}{:<width$}  {}", state.index(), edges.join(", "));
        write_line(&mut text, format_args!("{}", line.trim_end()));
    }
    text
}

/// The edges by target, in the order in which targets first appear, each with all its bytes.
fn labels(edges: impl Iterator<Item = Edge>) -> Vec<(crate::StateId, String)> {
    let mut labels: Vec<(crate::StateId, String)> = Vec::new();
    for edge in edges {
        let bytes = bytes(&edge.bytes);
        match labels.iter_mut().find(|(target, _)| *target == edge.target) {
            Some((_, label)) => {
                label.push(' ');
                label.push_str(&bytes);
            }
            None => labels.push((edge.target, bytes)),
        }
    }
    labels
}

fn bytes(range: &RangeInclusive<u8>) -> String {
    // What separates items, ranges and edges here is written in hexadecimal when it is meant itself.
    let byte = |byte: u8| match byte {
        b' ' | b'-' | b',' => format!("\\x{byte:02x}"),
        _ if byte.is_ascii_graphic() => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    };
    if range.start() == range.end() {
        byte(*range.start())
    } else {
        format!("{}-{}", byte(*range.start()), byte(*range.end()))
    }
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a string can always be written to");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn special_bytes_are_escaped() {
        let dfa = Dfa::from_pattern(r#"[-, "\\é]"#, &Limits::default()).unwrap();
        assert_eq!(table(&dfa), " 0  \\x20 \" \\x2c-\\x2d \\ -> 1, \\xc3 -> 2\n*1\n 2  \\xa9 -> 1\n");
        assert!(dot(&dfa).contains(r#"0 -> 1 [label="\\x20 \" \\x2c-\\x2d \\"];"#), "{}", dot(&dfa));
    }
}
