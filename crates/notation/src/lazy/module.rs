//! Rules that were written out as automata, and the grammar that is made of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarBuilder, GrammarError, GrammarLimits, RuleId, Terminal, TerminalId,
};

/// A rule that was written out, as an automaton.
#[derive(Default)]
pub(super) struct Module {
    pub(super) states: Vec<State>,
    /// Whether any race excluded a text.
    pub(super) changed: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) accepting: bool,
    pub(super) edges: Vec<(Edge, usize)>,
    /// The lazy terminals of the edges. A capture takes them first.
    pub(super) lazy: Vec<TerminalId>,
}

#[derive(Clone)]
pub(super) enum Edge {
    Terminal(TerminalId),
    Rule(RuleId),
    /// A terminal, restricted to part of its texts.
    Cut(TerminalId, Terminal),
}

impl Module {
    /// Drops the edges to states that cannot reach an end.
    pub(super) fn trim(&mut self) {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (from, state) in self.states.iter().enumerate() {
            state.edges.iter().for_each(|(_, to)| before[*to].push(from));
        }
        let mut ends: Vec<bool> = self.states.iter().map(|state| state.accepting).collect();
        let mut open: Vec<usize> = (0..ends.len()).filter(|state| ends[*state]).collect();
        while let Some(state) = open.pop() {
            for from in &before[state] {
                if !std::mem::replace(&mut ends[*from], true) {
                    open.push(*from);
                }
            }
        }
        for state in &mut self.states {
            state.edges.retain(|(_, to)| ends[*to]);
        }
    }
}

/// The grammar of the modules and of the rules that they call.
pub(super) fn emit(
    grammar: &Grammar,
    modules: &BTreeMap<RuleId, Module>,
    limits: &GrammarLimits,
) -> Result<Grammar, GrammarError> {
    let mut builder = Grammar::builder(limits);
    let mut rules: HashMap<RuleId, RuleId> = HashMap::new();
    let mut called: Vec<RuleId> = Vec::new();
    let mut rule_of = |builder: &mut GrammarBuilder, called: &mut Vec<RuleId>, rule: RuleId| {
        *rules.entry(rule).or_insert_with(|| {
            called.push(rule);
            builder.rule_like(grammar, rule)
        })
    };
    // Rules that are written out are states, so their captures are found by the rules as they were.
    let origin = grammar.has_readings().then(|| Arc::new(grammar.clone()));
    let start = rule_of(&mut builder, &mut called, grammar.start());
    let mut made: HashMap<ExprId, ExprId> = HashMap::new();
    while let Some(rule) = called.pop() {
        let own = rule_of(&mut builder, &mut called, rule);
        if let Some(module) = modules.get(&rule) {
            // It has no keys, and its states may begin with one another.
            builder.unscoped(own);
            let name = grammar.rule_name(rule);
            let reached = module.reached();
            // States go on at one another, and the origin is that of the whole text of the rule.
            let has_origin = origin.is_some();
            let states: HashMap<usize, RuleId> = reached
                .iter()
                .map(|state| (*state, if *state == 0 && !has_origin { own } else { builder.rule(name) }))
                .collect();
            if let Some(origin) = &origin {
                builder.origin(own, (Arc::clone(origin), rule));
                let body = builder.call(states[&0]);
                builder.define(own, body);
            }
            for state in reached {
                let State { accepting, edges, lazy } = &module.states[state];
                let mut behind: BTreeMap<(bool, usize), Vec<ExprId>> = BTreeMap::new();
                for (edge, to) in edges {
                    let terminal = match edge {
                        Edge::Terminal(terminal) | Edge::Cut(terminal, _) => Some(terminal),
                        Edge::Rule(_) => None,
                    };
                    let is_last = terminal.is_none_or(|terminal| !lazy.contains(terminal));
                    let symbol = match edge {
                        Edge::Terminal(terminal) => builder.known_terminal(
                            grammar.terminal(*terminal).clone(),
                            grammar.terminal_name(*terminal),
                        ),
                        Edge::Cut(terminal, cut) => {
                            builder.known_terminal(cut.clone(), grammar.terminal_name(*terminal))
                        }
                        Edge::Rule(callee) => {
                            let callee = rule_of(&mut builder, &mut called, *callee);
                            builder.call(callee)
                        }
                    };
                    behind.entry((is_last, *to)).or_default().push(symbol);
                }
                let mut alternatives: Vec<ExprId> = Vec::new();
                for ((_, to), symbols) in behind {
                    let symbols = builder.choice(symbols);
                    let next = (!module.states[to].edges.is_empty()).then(|| builder.call(states[&to]));
                    alternatives.push(builder.sequence([symbols].into_iter().chain(next)));
                }
                if *accepting {
                    alternatives.push(builder.empty());
                }
                let body = builder.choice(alternatives);
                builder.define(states[&state], body);
            }
            continue;
        }
        // Parts precede their whole, and nothing recurses.
        let mut open = vec![grammar.body(rule)];
        while let Some(&expr) = open.last() {
            let parts: &[ExprId] = match grammar.expr(expr) {
                Expr::Sequence(parts) | Expr::Choice(parts) => parts,
                Expr::Repeat { ref item, .. } => &[*item],
                _ => &[],
            };
            let missing: Vec<ExprId> =
                parts.iter().copied().filter(|part| !made.contains_key(part)).collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            open.pop();
            if made.contains_key(&expr) {
                continue;
            }
            let callee = |builder: &mut GrammarBuilder, rule| Some(rule_of(builder, &mut called, rule));
            let new = builder.copied(grammar, expr, |part| made.get(&part).copied(), callee);
            made.insert(expr, new);
        }
        builder.define(own, made[&grammar.body(rule)]);
    }
    builder.build(start)
}

impl Module {
    /// The states that are reachable from the first, including it. States without edges are left out, except
    /// the first.
    fn reached(&self) -> BTreeSet<usize> {
        let mut reached: BTreeSet<usize> = [0].into();
        let mut open = vec![0];
        while let Some(state) = open.pop() {
            for (_, to) in &self.states[state].edges {
                if !self.states[*to].edges.is_empty() && reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached
    }
}
