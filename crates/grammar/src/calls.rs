//! The calls between rules as a graph, and the rules that lead to themselves.

use petgraph::{algo::kosaraju_scc, graph::DiGraph};

use crate::RuleId;

/// A graph of calls between rules.
pub(super) struct Calls {
    graph: DiGraph<(), ()>,
    /// By rule: whether it has an edge to itself.
    pub(super) direct: Vec<bool>,
}

impl Calls {
    pub(super) fn new(rules: usize) -> Self {
        let mut graph = DiGraph::with_capacity(rules, rules);
        for _ in 0..rules {
            graph.add_node(());
        }
        Self { graph, direct: vec![false; rules] }
    }

    pub(super) fn add(&mut self, from: RuleId, to: RuleId) {
        self.graph.add_edge(node(from), node(to), ());
        self.direct[from.index()] |= from == to;
    }

    /// By rule: whether a path leads from it to itself.
    pub(super) fn in_cycles(&self) -> Vec<bool> {
        let mut found = self.direct.clone();
        for component in kosaraju_scc(&self.graph).iter().filter(|component| component.len() > 1) {
            component.iter().for_each(|node| found[node.index()] = true);
        }
        found
    }
}

fn node(rule: RuleId) -> petgraph::graph::NodeIndex {
    petgraph::graph::NodeIndex::new(rule.index())
}
