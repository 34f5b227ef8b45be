//! Printers of automata, for people: a table for the terminal and a graph for Graphviz.
//!
//! Every automaton of this crate becomes a [`Diagram`]: a graph of petgraph, with the edges between two states drawn
//! as one. petgraph's own printer writes it for Graphviz, since it knows the syntax and its escapes.
//!
//! Tried instead: strings assembled in this file. That was shorter for one automaton and not for three, and strings
//! cannot be searched for cycles or laid out.

#[cfg(feature = "published")]
mod published;

use std::{fmt::Write, ops::RangeInclusive};

use petgraph::{
    dot::{Config, Dot, RankDir},
    graph::{DiGraph, NodeIndex},
    visit::EdgeRef,
};

use crate::{Dfa, StateId};

/// An automaton as a graph with labels, for [`dot`] and [`table`] to print.
///
/// A `&Dfa` converts into it. So do the automata over tokens of `published`: a `&LiftedDfa`, and a `&MergedDfa` with
/// the `&Vocabulary` that spells its tokens.
#[derive(Clone, Debug)]
pub struct Diagram {
    graph: DiGraph<Node, String>,
}

/// A state, or the point that marks the start.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// `None` for the point.
    state: Option<StateId>,
    accepting: bool,
}

impl Diagram {
    /// The diagram of `states`, in this order. Each has a flag for acceptance and its edges. The first is the start.
    fn new(states: impl Iterator<Item = (StateId, bool, Vec<(StateId, String)>)>) -> Self {
        let mut graph = DiGraph::new();
        let mut nodes = std::collections::HashMap::new();
        let states: Vec<_> = states.collect();
        for (state, accepting, _) in &states {
            nodes.insert(*state, graph.add_node(Node { state: Some(*state), accepting: *accepting }));
        }
        let begin = graph.add_node(Node { state: None, accepting: false });
        graph.add_edge(begin, NodeIndex::new(0), String::new());
        for (state, _, edges) in states {
            for (target, label) in edges {
                graph.add_edge(nodes[&state], nodes[&target], label);
            }
        }
        Self { graph }
    }
}

impl From<&Dfa> for Diagram {
    fn from(dfa: &Dfa) -> Self {
        Self::new(dfa.states().map(|state| {
            let edges = dfa.edges(state).map(|edge| (edge.target, bytes(&edge.bytes)));
            (state, dfa.is_accepting(state), by_target(edges))
        }))
    }
}

/// The automaton in the language of Graphviz: `dot -Tsvg` draws it. Accepting states have a double border.
///
/// # Example
///
/// ```
/// use unskew_automata::{Dfa, Limits, debug};
///
/// let dfa = Dfa::from_pattern("[0-9a]x?", &Limits::default())?;
/// assert!(debug::dot(&dfa).contains(r#"0 -> 1 [ label = "0-9 a" ]"#));
/// # Ok::<(), unskew_automata::RegexError>(())
/// ```
pub fn dot(automaton: impl Into<Diagram>) -> String {
    let Diagram { graph } = automaton.into();
    let named = graph.map(
        |_, node| node.state.map(|state| state.to_string()).unwrap_or_default(),
        |_, label| label.clone(),
    );
    let shape = |node: NodeIndex| match graph[node] {
        Node { state: None, .. } => "shape = point ",
        Node { accepting: true, .. } => "shape = doublecircle ",
        Node { accepting: false, .. } => "shape = circle ",
    };
    let config = [Config::RankDir(RankDir::LR)];
    let node_attributes = |_, (node, _): (NodeIndex, &String)| shape(node).to_owned();
    Dot::with_attr_getters(&named, &config, &|_, _| String::new(), &node_attributes).to_string()
}

/// The automaton as lines of text: one line for each state with its edges, and `*` before accepting states. The first
/// state is the start.
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
pub fn table(automaton: impl Into<Diagram>) -> String {
    let Diagram { graph } = automaton.into();
    let states = || graph.node_weights().filter_map(|node| Some((node.state?, node.accepting)));
    let width = states().map(|(state, _)| state.to_string().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (index, (state, accepting)) in states().enumerate() {
        let mark = if accepting { '*' } else { ' ' };
        // petgraph iterates from the newest edge to the oldest.
        let mut edges: Vec<String> = graph
            .edges(NodeIndex::new(index))
            .filter_map(|edge| Some(format!("{} -> {}", edge.weight(), graph[edge.target()].state?)))
            .collect();
        edges.reverse();
        let line = format!("{mark}{:<width$}  {}", state.index(), edges.join(", "));
        writeln!(text, "{}", line.trim_end()).expect("a string can always be written to");
    }
    text
}

/// The edges by target, in the order in which targets first appear, each with all its labels.
fn by_target(edges: impl Iterator<Item = (StateId, String)>) -> Vec<(StateId, String)> {
    let mut places = std::collections::HashMap::new();
    let mut labels: Vec<(StateId, String)> = Vec::new();
    for (target, label) in edges {
        let place = *places.entry(target).or_insert(labels.len());
        match labels.get_mut(place) {
            Some((_, all)) => {
                all.push(' ');
                all.push_str(&label);
            }
            None => labels.push((target, label)),
        }
    }
    labels
}

fn bytes(range: &RangeInclusive<u8>) -> String {
    // A byte that also separates items, ranges or edges in the output is written in hexadecimal.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn special_bytes_are_escaped() {
        let dfa = Dfa::from_pattern(r#"[-, "\\é]"#, &Limits::default()).unwrap();
        assert_eq!(table(&dfa), " 0  \\x20 \" \\x2c-\\x2d \\ -> 1, \\xc3 -> 2\n*1\n 2  \\xa9 -> 1\n");
        assert!(dot(&dfa).contains(r#"0 -> 1 [ label = "\\x20 \" \\x2c-\\x2d \\" ]"#), "{}", dot(&dfa));
    }
}
