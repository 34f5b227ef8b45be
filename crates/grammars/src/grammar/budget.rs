//! Terminals with a budget of tokens: their texts are spelled by at most so many tokens, and these spell nothing else.
//!
//! A grammar is about text, and the number of tokens depends on the vocabulary. So such a terminal is written out when a
//! constraint is compiled: as rules over sets of tokens, one rule for each state of its automaton and each number of tokens
//! that are left. A state from which no text ends within the tokens that are left has no rule, so nothing leads to a dead
//! end.
//!
//! Tokens that cross the border of the terminal are left out, because they would belong to two budgets. Tried instead: to let the
//! budget force the end once it is spent, as other engines do. Where the text cannot end there, they go on or end in the middle.

use std::{borrow::Cow, sync::Arc};

use unskew_automata::{Dfa, StateId};
use unskew_core::{TokenMask, Vocabulary};

use super::data::{ExprId, Grammar, Node, Rule, RuleId, Terminal, TerminalId};
use crate::{
    GrammarError, GrammarLimits,
    ids::{Id, number},
};

/// The texts of an automaton, each spelled by at most a number of whole tokens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct TokenBudget {
    /// The texts.
    pub language: Arc<Dfa>,
    /// The greatest number of tokens.
    pub tokens: u32,
}

/// `grammar` with rules in the place of the terminals that have a budget. O(n s) for n tokens and s states of their automata, and
/// O(s t) rules for a budget of t tokens.
///
/// # Errors
///
/// [`GrammarError::BudgetTooLarge`] and [`GrammarError::TooManyNodes`].
pub(crate) fn written_out<'g>(
    grammar: &'g Grammar,
    vocabulary: &Vocabulary,
    limits: &GrammarLimits,
) -> Result<Cow<'g, Grammar>, GrammarError> {
    let budgets: Vec<(TerminalId, TokenBudget)> = grammar
        .terminals()
        .filter_map(|terminal| match grammar.terminal(terminal) {
            Terminal::TokenBudget(budget) => Some((terminal, TokenBudget::clone(budget))),
            _ => None,
        })
        .collect();
    if budgets.is_empty() {
        return Ok(Cow::Borrowed(grammar));
    }
    let mut made = grammar.clone();
    let mut bytes = 0;
    for (terminal, budget) in budgets {
        let name = grammar.terminal_name(terminal);
        let rule =
            Writer { grammar: &mut made, name, limits, bytes: &mut bytes }.write(&budget, vocabulary)?;
        let uses = made.nodes.iter_mut().filter(|node| matches!(node, Node::Terminal(of) if *of == terminal));
        uses.for_each(|node| *node = Node::Rule(rule));
        // No rule uses it any more.
        made.terminals[terminal.index()] = Terminal::Automaton(budget.language);
    }
    Ok(Cow::Owned(made))
}

struct Writer<'a> {
    grammar: &'a mut Grammar,
    name: &'a str,
    limits: &'a GrammarLimits,
    bytes: &'a mut usize,
}

impl Writer<'_> {
    fn write(mut self, budget: &TokenBudget, vocabulary: &Vocabulary) -> Result<RuleId, GrammarError> {
        let dfa = &*budget.language;
        let steps = self.steps(dfa, vocabulary)?;
        let least = least(dfa, &steps);
        // By state: its rule for the tokens that are left. A rule that is itself alone has no text.
        let mut shorter: Vec<Option<RuleId>> = vec![None; steps.len()];
        for left in 0..=budget.tokens {
            let mut rules = vec![None; steps.len()];
            for (state, targets) in steps.iter().enumerate() {
                if least[state].is_none_or(|least| least > left) {
                    continue;
                }
                let mut ways: Vec<ExprId> = Vec::new();
                if dfa.is_accepting(StateId::from_index(state)) {
                    ways.push(self.push(Node::Empty));
                }
                for (target, set) in targets {
                    let Some(next) = shorter[*target] else { continue };
                    let parts = [self.push(Node::Terminal(*set)), self.push(Node::Rule(next))];
                    ways.push(self.list(&parts, Node::Sequence));
                }
                let body = if let [only] = ways[..] { only } else { self.list(&ways, Node::Choice) };
                rules[state] = Some(self.rule(body));
                if self.grammar.nodes.len() > self.limits.nodes {
                    return Err(GrammarError::TooManyNodes { limit: self.limits.nodes });
                }
            }
            shorter = rules;
        }
        Ok(shorter[dfa.start().index()].unwrap_or_else(|| {
            let own = RuleId::from_index(self.grammar.rules.len());
            let body = self.push(Node::Rule(own));
            self.rule(body)
        }))
    }

    /// By state: the states after a token, each with the terminal of the tokens that lead there.
    fn steps(
        &mut self,
        dfa: &Dfa,
        vocabulary: &Vocabulary,
    ) -> Result<Vec<Vec<(usize, TerminalId)>>, GrammarError> {
        let mut steps = Vec::with_capacity(dfa.len());
        for state in dfa.states() {
            let mut sets: Vec<(usize, TokenMask)> = Vec::new();
            for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
                let Some(target) = dfa.run(state, text) else { continue };
                let at = match sets.iter().position(|(known, _)| *known == target.index()) {
                    Some(at) => at,
                    None => {
                        *self.bytes += vocabulary.len().div_ceil(8);
                        let limit = self.limits.budget_bytes;
                        if *self.bytes > limit {
                            let name = self.name.to_owned();
                            return Err(GrammarError::BudgetTooLarge { name, limit });
                        }
                        sets.push((target.index(), TokenMask::new(vocabulary.len())));
                        sets.len() - 1
                    }
                };
                sets[at].1.as_mut().insert(token);
            }
            let targets = sets.into_iter().map(|(target, set)| (target, self.terminal(set)));
            steps.push(targets.collect());
        }
        Ok(steps)
    }

    fn terminal(&mut self, set: TokenMask) -> TerminalId {
        let set = Terminal::OneOf(Arc::new(set));
        let known = self.grammar.terminals.iter().position(|known| *known == set);
        let at = known.unwrap_or_else(|| {
            self.grammar.terminals.push(set);
            self.grammar.names.push(format!("a token of {}", self.name).into());
            self.grammar.terminals.len() - 1
        });
        TerminalId::from_index(at)
    }

    fn push(&mut self, node: Node) -> ExprId {
        self.grammar.nodes.push(node);
        ExprId::from_index(self.grammar.nodes.len() - 1)
    }

    fn list(&mut self, parts: &[ExprId], node: impl Fn(u32, u32) -> Node) -> ExprId {
        let first = number(self.grammar.parts.len());
        self.grammar.parts.extend_from_slice(parts);
        self.push(node(first, number(self.grammar.parts.len())))
    }

    fn rule(&mut self, body: ExprId) -> RuleId {
        let rule = Rule {
            name: self.name.into(),
            body: Some(body),
            location: None,
            is_scope: false,
            capture: None,
            origin: None,
        };
        self.grammar.rules.push(rule);
        RuleId::from_index(self.grammar.rules.len() - 1)
    }
}

/// By state: the least number of tokens to an accepting state.
fn least(dfa: &Dfa, steps: &[Vec<(usize, TerminalId)>]) -> Vec<Option<u32>> {
    let accepting = dfa.states().map(|state| dfa.is_accepting(state).then_some(0));
    let mut least: Vec<Option<u32>> = accepting.collect();
    for tokens in 1.. {
        let reaches = |targets: &[(usize, TerminalId)]| {
            targets.iter().any(|(target, _)| least[*target] == Some(tokens - 1))
        };
        let new: Vec<usize> =
            (0..steps.len()).filter(|state| least[*state].is_none() && reaches(&steps[*state])).collect();
        if new.is_empty() {
            break;
        }
        new.into_iter().for_each(|state| least[state] = Some(tokens));
    }
    least
}
