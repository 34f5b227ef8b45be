//! The texts of arrays, and of objects whose members come in one order, as one automaton.
//!
//! After a member, the text depends only on which member it was. So the automaton has one copy of the values of each
//! member, and after each of them a trie of the names that may come next. Concatenations from the last member on give
//! the same automaton, and each of them determinises all members after it again. A trie of the names of its own after
//! each member has equal states in all of them, and a minimisation that finds them takes most of the time.

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
/// No two states have the same language, so that nothing is minimised: a text that completes an object says how deep
/// its nesting is and where each value ends, the values are minimal, and after each member others may follow.
///
/// Cost: O(n² + m) for names of n bytes and m edges of the values.
///
/// # Errors
///
/// [`RegexError`] for a limit.
pub(crate) fn object(members: &[Member], comma: &str, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut edges = DfaBuilder::new(limits);
    let (start, open, end) = (edges.state(false)?, edges.state(false)?, edges.state(true)?);
    edges.edge(start, b'{'..=b'{', open);
    let values: Vec<Vec<u32>> =
        members.iter().map(|member| copied(&mut edges, &member.value)).collect::<Result<_, _>>()?;
    let starts = members.iter().zip(&values).map(|(member, ids)| ids[member.value.start().index()]).collect();
    let mut names = Names { members, starts, known: HashMap::new() };
    // The members that may follow the first `done`, and whether there need be none.
    let following = |done: usize| {
        let required = members[done..].iter().position(|member| member.required);
        let end = required.map_or(members.len(), |at| done + at + 1);
        ((done..end).collect::<Vec<usize>>(), required.is_none())
    };
    let (first, is_last) = following(0);
    names.read(&mut edges, open, first)?;
    if is_last {
        edges.edge(open, b'}'..=b'}', end);
    }
    for (done, (member, ids)) in (1..).zip(members.iter().zip(&values)) {
        let (next, is_last) = following(done);
        // All ends of a value go on alike.
        let mut after = None;
        if !next.is_empty() {
            let to = edges.state(false)?;
            names.read(&mut edges, to, next)?;
            after = Some(separated(&mut edges, comma, to)?);
        }
        for state in member.value.states().filter(|state| member.value.is_accepting(*state)) {
            let from = ids[state.index()];
            after.iter().for_each(|after| edges.edge(from, b','..=b',', *after));
            if is_last {
                edges.edge(from, b'}'..=b'}', end);
            }
        }
    }
    edges.build_distinct()
}

/// The arrays of at least `min` and at most `max` items, of at least one if there is a `max`, and `comma` between two
/// of them. No item goes on with a comma or a bracket after its end.
///
/// Cost: O(n) for the edges of as many items as there are counts. As for [`object`], nothing is minimised.
///
/// # Errors
///
/// [`RegexError`] for a limit.
pub(crate) fn array(
    item: &Dfa,
    min: u32,
    max: Option<u32>,
    comma: &str,
    limits: &Limits,
) -> Result<Dfa, RegexError> {
    let mut edges = DfaBuilder::new(limits);
    let (start, end) = (edges.state(false)?, edges.state(true)?);
    // The last copy of an unbounded number is a loop.
    let copies = max.unwrap_or(min).max(1);
    let items: Vec<Vec<u32>> = (0..copies).map(|_| copied(&mut edges, item)).collect::<Result<_, _>>()?;
    let begin = |ids: &[u32]| ids[item.start().index()];
    let mut first = begin(&items[0]);
    if min == 0 {
        first = edges.state(false)?;
        edges.edge(first, b']'..=b']', end);
        for edge in item.edges(item.start()) {
            edges.edge(first, edge.bytes, items[0][edge.target.index()]);
        }
    }
    edges.edge(start, b'['..=b'[', first);
    for (count, ids) in (1..).zip(&items) {
        let next = items.get(count as usize).or(items.last().filter(|_| max.is_none()));
        let after = next.map(|next| separated(&mut edges, comma, begin(next))).transpose()?;
        for state in item.states().filter(|state| item.is_accepting(*state)) {
            let from = ids[state.index()];
            after.iter().for_each(|after| edges.edge(from, b','..=b',', *after));
            if count >= min {
                edges.edge(from, b']'..=b']', end);
            }
        }
    }
    edges.build_distinct()
}

/// States for those of `dfa`, with its edges. None accepts.
fn copied(edges: &mut DfaBuilder, dfa: &Dfa) -> Result<Vec<u32>, RegexError> {
    let ids = dfa.states().map(|_| edges.state(false)).collect::<Result<Vec<u32>, _>>()?;
    for state in dfa.states() {
        for edge in dfa.edges(state) {
            edges.edge(ids[state.index()], edge.bytes, ids[edge.target.index()]);
        }
    }
    Ok(ids)
}

/// The state before all of `comma` but its first byte, and then `to`.
fn separated(edges: &mut DfaBuilder, comma: &str, mut to: u32) -> Result<u32, RegexError> {
    for byte in comma.bytes().skip(1).rev() {
        let before = edges.state(false)?;
        edges.edge(before, byte..=byte, to);
        to = before;
    }
    Ok(to)
}

/// The states inside of names, one for each list of members whose names agree so far.
struct Names<'m> {
    members: &'m [Member],
    /// By member: the start of its value.
    starts: Vec<u32>,
    /// By members and bytes of their names that were read.
    known: HashMap<(Vec<usize>, usize), u32>,
}

impl Names<'_> {
    /// The edges from `from`, the state before the names of these members.
    fn read(&mut self, edges: &mut DfaBuilder, from: u32, of: Vec<usize>) -> Result<(), RegexError> {
        let members = self.members;
        let mut open = vec![(from, of, 0)];
        while let Some((from, mut left, depth)) = open.pop() {
            while let Some(first) = left.first().copied() {
                let byte = |member: usize| members[member].name.as_bytes()[depth];
                let (alike, others): (Vec<_>, _) =
                    left.iter().partition(|member| byte(**member) == byte(first));
                left = others;
                let to = if members[first].name.len() == depth + 1 {
                    self.starts[first]
                } else if let Some(known) = self.known.get(&(alike.clone(), depth + 1)) {
                    *known
                } else {
                    let new = edges.state(false)?;
                    self.known.insert((alike.clone(), depth + 1), new);
                    open.push((new, alike, depth + 1));
                    new
                };
                edges.edge(from, byte(first)..=byte(first), to);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_those_of_a_pattern() {
        let limits = Limits::default();
        for (item, min, max, comma, pattern) in [
            ("[0-9]+", 0, None, ",", r"\[([0-9]+(,[0-9]+)*)?\]"),
            ("1|22", 1, None, ", ", r"\[(1|22)(, (1|22))*\]"),
            ("1|22", 3, None, ",", r"\[(1|22)(,(1|22)){2,}\]"),
            ("\"[a,]*\"", 0, Some(1), ", ", r#"\[("[a,]*")?\]"#),
            ("[0-9]", 2, Some(4), ", ", r"\[[0-9](, [0-9]){1,3}\]"),
        ] {
            let item = Dfa::from_pattern(item, &limits).unwrap();
            assert_eq!(
                array(&item, min, max, comma, &limits),
                Dfa::from_pattern(pattern, &limits),
                "{pattern}"
            );
        }
    }

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
            (
                ", ",
                &[("\"ab\": ", "1", false), ("\"ac\": ", "2", false), ("\"xc\": ", "2", true)],
                r#"\{("ab": 1, )?("ac": 2, )?"xc": 2\}"#,
            ),
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
