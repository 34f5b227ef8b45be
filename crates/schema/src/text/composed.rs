//! The texts of objects whose members come in one order, as one automaton.
//!
//! After a member, the text depends only on which member it was. So the automaton has one copy of the values of each
//! member, and after each of them a trie of the names that may come next. Concatenations from the last member on give
//! the same automaton, and each of them determinises all members after it again.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::{Dfa, Limits, RegexError, dfa::DfaBuilder};

/// A member of an object.
pub(crate) struct Member {
    /// The text from the name to the value. None begins with another one.
    pub(crate) name: String,
    /// The texts of the value. None goes on with a comma or a brace after its end.
    pub(crate) value: Arc<Dfa>,
    pub(crate) required: bool,
}

/// The objects with these members, in their order, and `comma` between two of them.
///
/// Cost: O(n² + m) for names of n bytes and m edges of the values, and a minimization.
///
/// # Errors
///
/// [`RegexError`] for a limit.
pub(crate) fn object(members: &[Member], comma: &str, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut edges = DfaBuilder::new(limits);
    let (start, open, end) = (edges.state(false)?, edges.state(false)?, edges.state(true)?);
    edges.edge(start, b'{'..=b'{', open);
    let mut values: Vec<Vec<u32>> = vec![];
    for member in members {
        let ids = member.value.states().map(|_| edges.state(false)).collect::<Result<Vec<u32>, _>>()?;
        for state in member.value.states() {
            for edge in member.value.edges(state) {
                edges.edge(ids[state.index()], edge.bytes, ids[edge.target.index()]);
            }
        }
        values.push(ids);
    }
    let starts: Vec<u32> =
        members.iter().zip(&values).map(|(member, ids)| ids[member.value.start().index()]).collect();
    // From the state `from`, the names of the members after the first `done`; and whether none of them is required.
    let go_on = |edges: &mut DfaBuilder, from: u32, done: usize, before: &str| {
        let mut known: HashMap<(u32, u8), u32> = HashMap::new();
        for (member, to) in members.iter().zip(&starts).skip(done) {
            let text = [before, &member.name].concat();
            let (last, inner) = text.as_bytes().split_last().expect("a name has quotes");
            let mut at = from;
            for byte in inner {
                at = match known.get(&(at, *byte)) {
                    Some(next) => *next,
                    None => {
                        let next = edges.state(false)?;
                        edges.edge(at, *byte..=*byte, next);
                        known.insert((at, *byte), next);
                        next
                    }
                };
            }
            edges.edge(at, *last..=*last, *to);
            if member.required {
                return Ok::<bool, RegexError>(false);
            }
        }
        Ok(true)
    };
    if go_on(&mut edges, open, 0, "")? {
        edges.edge(open, b'}'..=b'}', end);
    }
    for (done, (member, ids)) in (1..).zip(members.iter().zip(&values)) {
        // All ends of a value go on alike, so they share the states after the first byte.
        let after = edges.state(false)?;
        let is_last = go_on(&mut edges, after, done, &comma[1..])?;
        for state in member.value.states().filter(|state| member.value.is_accepting(*state)) {
            let from = ids[state.index()];
            if done < members.len() {
                edges.edge(from, b','..=b',', after);
            }
            if is_last {
                edges.edge(from, b'}'..=b'}', end);
            }
        }
    }
    edges.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_those_of_a_pattern() {
        let limits = Limits::default();
        for (comma, list, pattern) in [
            (",", &[("\"a\":", "-?[0-9]+", false)][..], r#"\{("a":-?[0-9]+)?\}"#),
            (", ", &[("\"a\": ", "1", true), ("\"ab\": ", "2|22", false)], r#"\{"a": 1(, "ab": (2|22))?\}"#),
            (
                ", ",
                &[
                    ("\"a\": ", "1", false),
                    ("\"b\": ", "\"[a-z,}]*\"", false),
                    ("\"c\": ", "[0-9]{1,3}", true),
                ],
                r#"\{("a": 1, )?("b": "[a-z,}]*", )?"c": [0-9]{1,3}\}"#,
            ),
            (
                ",",
                &[("\"a\":", "1", false), ("\"b\":", "[2-9]*0", false)],
                r#"\{("a":1(,"b":[2-9]*0)?|"b":[2-9]*0)?\}"#,
            ),
            (",", &[], r"\{\}"),
        ] {
            let members: Vec<Member> = list
                .iter()
                .map(|(name, value, required)| Member {
                    name: (*name).to_owned(),
                    value: Arc::new(Dfa::from_pattern(value, &limits).unwrap()),
                    required: *required,
                })
                .collect();
            assert_eq!(object(&members, comma, &limits), Dfa::from_pattern(pattern, &limits), "{pattern}");
        }
    }
}
