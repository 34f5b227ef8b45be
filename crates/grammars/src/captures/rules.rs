//! The rules of a grammar as Earley's algorithm takes them: productions of symbols, one nonterminal for each rule and
//! expression.

use std::{collections::HashMap, sync::Arc};

use unskew_core::{TokenMask, Vocabulary};
use unskew_grammar::{
    Expr, Grammar, GrammarError, GrammarLimits, Terminal, TerminalId, TokenSet,
    kit::{
        budget::{self, Left, TokenSteps},
        terminal::reading,
    },
};

use super::CaptureError;
use crate::network::token_sets::{Resolved, resolve};

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Symbol {
    Terminal(u32),
    Nonterminal(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Production {
    pub(super) of: u32,
    pub(super) parts: Box<[Symbol]>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Nonterminal {
    /// In the order of the alternatives.
    pub(super) productions: Vec<u32>,
    pub(super) captures: Option<Arc<str>>,
    pub(super) temperature: Option<f64>,
    /// The round of any number of rounds; then the productions are that many rounds and one more, and none.
    pub(super) round: Option<Symbol>,
    pub(super) is_nullable: bool,
    /// The rules from which it was rewritten, with the one that it was, where they have captures.
    pub(super) origin: Option<(Arc<Rules>, u32)>,
}

/// The texts of a terminal.
#[derive(Clone, Debug)]
pub(super) enum Reads {
    Text(Terminal),
    /// One token of a set.
    Tokens(Arc<TokenMask>),
    /// The end of the output.
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) nonterminals: Vec<Nonterminal>,
    pub(super) productions: Vec<Production>,
    pub(super) terminals: Vec<Reads>,
    /// By terminal.
    pub(super) names: Vec<Arc<str>>,
    pub(super) start: u32,
}

impl Rules {
    /// The rules, or why readings of the grammar are not followed.
    pub(super) fn new(
        grammar: &Grammar,
        vocabulary: &Vocabulary,
        limits: &GrammarLimits,
    ) -> Result<Result<Self, CaptureError>, GrammarError> {
        let limit = limits.capture_items;
        // Rounds that are counted are written out here, and nowhere else.
        let rounds = |expr| match grammar.expr(expr) {
            Expr::Repeat { min, max, .. } => max.unwrap_or(min).max(min) as usize,
            _ => 0,
        };
        if grammar.expression_ids().map(rounds).fold(0, usize::saturating_add) > limit {
            return Ok(Err(CaptureError::TooCostly { limit }));
        }
        let (rules, expressions) = (grammar.rules().len(), grammar.expressions());
        let mut made = Self {
            nonterminals: vec![Nonterminal::default(); rules + expressions],
            productions: Vec::new(),
            terminals: Vec::with_capacity(grammar.terminals().len()),
            names: grammar.terminals().map(|terminal| grammar.terminal_name(terminal).into()).collect(),
            start: number(grammar.start().index()),
        };
        for terminal in grammar.terminals() {
            made.terminals.push(reads(grammar, terminal, vocabulary)?);
        }
        let of_expr = |expr: unskew_grammar::ExprId| match grammar.expr(expr) {
            Expr::Terminal(terminal) => Symbol::Terminal(number(terminal.index())),
            Expr::Rule(rule) => Symbol::Nonterminal(number(rule.index())),
            _ => Symbol::Nonterminal(number(rules + expr.index())),
        };
        let mut origins: HashMap<*const Grammar, Arc<Self>> = HashMap::new();
        for rule in grammar.rules() {
            if let Some((origin, of)) = grammar.origin(rule) {
                let known = origins.get(&Arc::as_ptr(origin)).cloned();
                let rules = match known {
                    Some(rules) => rules,
                    None => {
                        let written = budget::written_out(origin, vocabulary, limits, &unread)?;
                        match Self::new(&written, vocabulary, limits)? {
                            Ok(rules) => Arc::new(rules),
                            Err(error) => return Ok(Err(error)),
                        }
                    }
                };
                origins.insert(Arc::as_ptr(origin), Arc::clone(&rules));
                made.nonterminals[rule.index()].origin = Some((rules, number(of.index())));
            }
            made.nonterminals[rule.index()].captures = grammar.capture(rule).cloned();
            made.nonterminals[rule.index()].temperature = grammar.temperature(rule);
            made.produce(rule.index(), [of_expr(grammar.body(rule))]);
        }
        for expr in grammar.expression_ids() {
            let own = rules + expr.index();
            match grammar.expr(expr) {
                Expr::Terminal(_) | Expr::Rule(_) => {}
                Expr::Empty => made.produce(own, []),
                Expr::Sequence(parts) => made.produce(own, parts.iter().map(|part| of_expr(*part))),
                Expr::Choice(parts) => {
                    parts.iter().for_each(|part| made.produce(own, [of_expr(*part)]));
                }
                Expr::Repeat { item, min, max } => made.repeat(own, of_expr(item), min, max),
                Expr::Unordered(_) => {
                    return Ok(Err(CaptureError::Unsupported { construct: "members in any order" }));
                }
            }
        }
        made.find_nullable();
        Ok(match made.endless() {
            Some(found) => {
                let rule = grammar.rules().find(|rule| rule.index() == found);
                let rule = rule.map_or_else(String::new, |rule| grammar.rule_name(rule).to_owned());
                Err(CaptureError::Endless { rule })
            }
            None => Ok(made),
        })
    }

    pub(super) fn memory_usage(&self) -> usize {
        let parts = self.productions.iter().map(|production| size_of_val(&*production.parts)).sum::<usize>();
        let listed = self.nonterminals.iter().map(|of| size_of_val(&*of.productions)).sum::<usize>();
        parts
            + listed
            + size_of_val(&*self.nonterminals)
            + size_of_val(&*self.productions)
            + size_of_val(&*self.terminals)
    }

    fn produce(&mut self, of: usize, parts: impl IntoIterator<Item = Symbol>) {
        self.nonterminals[of].productions.push(number(self.productions.len()));
        self.productions.push(Production { of: number(of), parts: parts.into_iter().collect() });
    }

    fn nonterminal(&mut self) -> (usize, Symbol) {
        self.nonterminals.push(Nonterminal::default());
        let at = self.nonterminals.len() - 1;
        (at, Symbol::Nonterminal(number(at)))
    }

    fn repeat(&mut self, own: usize, item: Symbol, min: u32, max: Option<u32>) {
        let least = std::iter::repeat_n(item, min as usize);
        let Some(max) = max else {
            let (any, symbol) = self.nonterminal();
            self.produce(any, [symbol, item]);
            self.produce(any, []);
            self.nonterminals[any].round = Some(item);
            self.produce(own, least.chain([symbol]));
            return;
        };
        // The rounds that are not needed: one and the others, or none.
        let mut rest: Option<Symbol> = None;
        for _ in min..max {
            let (at, symbol) = self.nonterminal();
            self.produce(at, [item].into_iter().chain(rest));
            self.produce(at, []);
            rest = Some(symbol);
        }
        self.produce(own, least.chain(rest));
    }

    pub(super) fn is_nullable(&self, symbol: Symbol) -> bool {
        match symbol {
            Symbol::Nonterminal(at) => self.nonterminals[at as usize].is_nullable,
            Symbol::Terminal(at) => match &self.terminals[at as usize] {
                Reads::Text(terminal) => reading::accepts(terminal, reading::start(terminal)),
                Reads::Tokens(_) => false,
                // It is at the end alone, which the reading of the terminal checks.
                Reads::End => false,
            },
        }
    }

    fn find_nullable(&mut self) {
        loop {
            let mut is_new = false;
            for at in 0..self.productions.len() {
                let of = self.productions[at].of as usize;
                if !self.nonterminals[of].is_nullable
                    && self.productions[at].parts.iter().all(|part| self.is_nullable(*part))
                {
                    self.nonterminals[of].is_nullable = true;
                    is_new = true;
                }
            }
            if !is_new {
                return;
            }
        }
    }

    /// A nonterminal that may read a text through itself alone.
    fn endless(&self) -> Option<usize> {
        let alone = |of: usize| {
            let own = &self.nonterminals[of];
            let productions = own.productions.iter().map(|at| &self.productions[*at as usize]);
            let mut next: Vec<usize> = Vec::new();
            if let Some(Symbol::Nonterminal(round)) = own.round {
                next.push(round as usize);
                return next;
            }
            for Production { parts, .. } in productions {
                let full =
                    parts.iter().filter(|part| !self.is_nullable(**part) && !self.may_be_end(**part)).count();
                for part in parts {
                    let rest = full - usize::from(!self.is_nullable(*part) && !self.may_be_end(*part));
                    if let (Symbol::Nonterminal(part), 0) = (*part, rest) {
                        next.push(part as usize);
                    }
                }
            }
            next
        };
        // 1 while it is open, 2 once no cycle leads through it.
        let mut seen = vec![0u8; self.nonterminals.len()];
        for first in 0..seen.len() {
            if seen[first] != 0 {
                continue;
            }
            let mut open = vec![(first, alone(first))];
            seen[first] = 1;
            while let Some((of, next)) = open.last_mut() {
                match next.pop() {
                    None => {
                        seen[*of] = 2;
                        open.pop();
                    }
                    Some(next) if seen[next] == 0 => {
                        seen[next] = 1;
                        open.push((next, alone(next)));
                    }
                    Some(next) if seen[next] == 1 => {
                        let begin = open.iter().position(|(of, _)| *of == next).unwrap_or(0);
                        return open[begin..].iter().map(|(of, _)| *of).min();
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }

    fn may_be_end(&self, symbol: Symbol) -> bool {
        matches!(symbol, Symbol::Terminal(at) if matches!(self.terminals[at as usize], Reads::End))
    }
}

fn reads(grammar: &Grammar, terminal: TerminalId, vocabulary: &Vocabulary) -> Result<Reads, GrammarError> {
    let of_set = |set: &TokenSet| {
        Ok(match resolve(set, grammar.terminal_name(terminal), vocabulary)? {
            Resolved::End => Reads::End,
            Resolved::Tokens(tokens) => Reads::Tokens(Arc::new(tokens)),
        })
    };
    match grammar.terminal(terminal) {
        Terminal::Token(name) => of_set(&TokenSet::of_name(name)),
        Terminal::Tokens(set) => of_set(set),
        Terminal::OneOf(mask) => Ok(Reads::Tokens(Arc::clone(mask))),
        Terminal::TokenBudget(_) => unreachable!("it is written out before"),
        text => Ok(Reads::Text(text.clone())),
    }
}

/// The states of a grammar with a budget are those of a constraint, which stands above captures.
pub(super) fn unread(_: &Grammar, _: u32, left: &mut Left<'_>) -> Result<TokenSteps, GrammarError> {
    Err(GrammarError::BudgetUnread { name: left.name.to_owned() })
}

fn number(index: usize) -> u32 {
    u32::try_from(index).expect("limits keep grammars below 2^32 parts")
}
