//! The slow oracle of maximal munch: a scanner that reads every terminal anew for every byte, and J. Earley's
//! recogniser (1970) over the pieces that it cuts off. Item sets are filled by repeated passes until nothing
//! is new. The oracle shares the grammar and the DFAs of its terminals with the engine, and nothing else.

use std::collections::BTreeSet;

use unskew_grammars::{Expr, Grammar, Terminal, TerminalId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Symbol {
    Terminal(TerminalId),
    Other(usize),
}

/// A grammar as plain productions. Productions without a text are left out.
#[derive(Debug)]
pub(crate) struct Munch<'g> {
    grammar: &'g Grammar,
    productions: Vec<(usize, Vec<Symbol>)>,
    start: usize,
}

/// A production, the number of symbols read, and the column in which it began.
type Item = (usize, usize, usize);

/// A text with its cuts.
#[derive(Clone, Debug)]
pub(crate) struct Cut<'m> {
    munch: &'m Munch<'m>,
    columns: Vec<BTreeSet<Item>>,
    /// The read part of the open terminal.
    piece: Vec<u8>,
}

impl<'g> Munch<'g> {
    pub(crate) fn new(grammar: &'g Grammar) -> Self {
        let expressions = grammar.expressions();
        let rule = |index: usize| Symbol::Other(expressions + index);
        let mut next = expressions + grammar.rules().len();
        let mut productions: Vec<(usize, Vec<Symbol>)> = Vec::new();
        for name in grammar.rules() {
            productions.push((expressions + name.index(), vec![Symbol::Other(grammar.body(name).index())]));
        }
        for expr in grammar.expression_ids() {
            let mut add = |parts: Vec<Symbol>| productions.push((expr.index(), parts));
            match grammar.expr(expr) {
                Expr::Empty => add(vec![]),
                Expr::Terminal(terminal) => {
                    add(vec![Symbol::Terminal(terminal)]);
                    if is_text(grammar.terminal(terminal), b"") {
                        add(vec![]);
                    }
                }
                Expr::Rule(called) => add(vec![rule(called.index())]),
                Expr::Sequence(parts) => {
                    add(parts.iter().map(|part| Symbol::Other(part.index())).collect());
                }
                Expr::Choice(parts) => {
                    parts.iter().for_each(|part| add(vec![Symbol::Other(part.index())]));
                }
                Expr::Repeat { item, min, max: Some(max) } => {
                    (min..=max).for_each(|count| add(vec![Symbol::Other(item.index()); count as usize]));
                }
                Expr::Repeat { item, min, max: None } => {
                    let mut parts = vec![Symbol::Other(item.index()); min as usize];
                    parts.push(Symbol::Other(next));
                    add(parts);
                    productions.push((next, vec![]));
                    productions.push((next, vec![Symbol::Other(item.index()), Symbol::Other(next)]));
                    next += 1;
                }
                other => panic!("no productions of {other:?}"),
            }
        }
        let mut productive = vec![false; next];
        loop {
            let before = productive.clone();
            for (name, parts) in &productions {
                productive[*name] |= parts.iter().all(|part| match part {
                    Symbol::Terminal(_) => true,
                    Symbol::Other(other) => productive[*other],
                });
            }
            if productive == before {
                break;
            }
        }
        let keep = |part: &Symbol| !matches!(part, Symbol::Other(other) if !productive[*other]);
        productions.retain(|(_, parts)| parts.iter().all(keep));
        Self { grammar, productions, start: expressions + grammar.start().index() }
    }

    /// The state before the first byte.
    pub(crate) fn begin(&self) -> Cut<'_> {
        let first = (0..self.productions.len()).filter(|at| self.productions[*at].0 == self.start);
        let mut cut =
            Cut { munch: self, columns: vec![first.map(|at| (at, 0, 0)).collect()], piece: Vec::new() };
        cut.close();
        cut
    }
}

impl Cut<'_> {
    /// Reads a byte. Returns whether any terminal continues.
    pub(crate) fn push(&mut self, byte: u8) -> bool {
        let longer = [&self.piece[..], &[byte]].concat();
        if self.goes_on(&longer) {
            self.piece = longer;
            return true;
        }
        if self.piece.is_empty() || !self.end() {
            return false;
        }
        self.piece = vec![byte];
        self.goes_on(&[byte])
    }

    pub(crate) fn is_accepting(&self) -> bool {
        let mut at_end = self.clone();
        if !self.piece.is_empty() && !at_end.end() {
            return false;
        }
        let productions = &self.munch.productions;
        at_end.columns.last().unwrap().iter().any(|(production, dot, begin)| {
            let (name, parts) = &productions[*production];
            *name == self.munch.start && *dot == parts.len() && *begin == 0
        })
    }

    /// The terminals that are read in parallel.
    fn open(&self) -> Vec<TerminalId> {
        let items = self.columns.last().unwrap().iter();
        let next = items.filter_map(|(production, dot, _)| self.munch.productions[*production].1.get(*dot));
        next.filter_map(|next| if let Symbol::Terminal(terminal) = next { Some(*terminal) } else { None })
            .collect()
    }

    fn goes_on(&self, piece: &[u8]) -> bool {
        self.open().into_iter().any(|terminal| begins_text(self.munch.grammar.terminal(terminal), piece))
    }

    /// Cuts off the open piece. Returns whether it is a text of some terminal.
    fn end(&mut self) -> bool {
        let mut next: BTreeSet<Item> = BTreeSet::new();
        for (production, dot, begin) in self.columns.last().unwrap() {
            if let Some(Symbol::Terminal(terminal)) = self.munch.productions[*production].1.get(*dot)
                && is_text(self.munch.grammar.terminal(*terminal), &self.piece)
            {
                next.insert((*production, dot + 1, *begin));
            }
        }
        let found = !next.is_empty();
        self.columns.push(next);
        self.close();
        self.piece.clear();
        found
    }

    /// Fills the last column.
    fn close(&mut self) {
        let productions = &self.munch.productions;
        let last = self.columns.len() - 1;
        loop {
            let mut more: Vec<Item> = Vec::new();
            for (production, dot, begin) in &self.columns[last] {
                match productions[*production].1.get(*dot) {
                    Some(Symbol::Terminal(_)) => {}
                    Some(Symbol::Other(name)) => {
                        let called = (0..productions.len()).filter(|at| productions[*at].0 == *name);
                        more.extend(called.map(|at| (at, 0, last)));
                    }
                    None => {
                        let ended = Symbol::Other(productions[*production].0);
                        let callers = self.columns[*begin].iter();
                        let callers = callers
                            .filter(|(caller, dot, _)| productions[*caller].1.get(*dot) == Some(&ended));
                        more.extend(callers.map(|(caller, dot, begin)| (*caller, dot + 1, *begin)));
                    }
                }
            }
            let before = self.columns[last].len();
            self.columns[last].extend(more);
            if self.columns[last].len() == before {
                return;
            }
        }
    }
}

fn is_text(terminal: &Terminal, text: &[u8]) -> bool {
    match terminal {
        Terminal::Literal(literal) => **literal == *text,
        Terminal::Automaton(dfa) => dfa.accepts(text),
        other => panic!("no texts of {other:?}"),
    }
}

fn begins_text(terminal: &Terminal, text: &[u8]) -> bool {
    match terminal {
        Terminal::Literal(literal) => literal.starts_with(text),
        Terminal::Automaton(dfa) => dfa.run(dfa.start(), text).is_some(),
        other => panic!("no texts of {other:?}"),
    }
}
