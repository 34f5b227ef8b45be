//! From a grammar to forms: its rules, its expressions and its terminals.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use unskew_automata::{Dfa, Limits, dfa::DfaAlgebra};
use unskew_grammar::{
    BudgetLanguage, CountedUnits, Difference, Expr, ExprId, Grammar, GrammarError, RuleId, Terminal,
    TerminalId, TokenSet,
    kit::fixpoint::{productive, wholes},
};

use super::{
    Loosening, LooseningKind, automata,
    forms::{FormId, Forms, Written},
    members::Memory,
};

/// What is left out so that a text fits, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub(super) enum Effort {
    /// Nothing that can be written.
    All,
    /// The texts that a terminal leaves out.
    Exclusions,
    /// Lengths beside other conditions, too.
    Lengths,
    /// Members in any order are not remembered, too.
    Orders,
}

impl Effort {
    pub(super) const EACH: [Self; 4] = [Self::All, Self::Exclusions, Self::Lengths, Self::Orders];
}

/// How deep terminals with a budget of tokens may have grammars with such terminals in them.
const MAX_NESTED: u32 = 16;

/// The greatest product of the states of a terminal and its length that is written out.
const MAX_LENGTH: u64 = 1 << 13;

pub(super) struct Translation<'a> {
    pub(super) forms: Forms,
    /// The names of forms that become rules.
    pub(super) names: HashMap<FormId, String>,
    pub(super) loosened: Vec<Loosening>,
    effort: Effort,
    limits: &'a Limits,
    /// The most forms.
    most: usize,
    /// Automata by their addresses.
    known: HashMap<*const Dfa, (Arc<Dfa>, FormId)>,
    nested: u32,
}

/// A part of a grammar that is written with more texts, and the expression that has it.
type Found = (LooseningKind, ExprId);

impl<'a> Translation<'a> {
    pub(super) fn new(effort: Effort, limits: &'a Limits, most: usize) -> Self {
        let (forms, names, loosened) = (Forms::default(), HashMap::new(), vec![]);
        Self { forms, names, loosened, effort, limits, most, known: HashMap::new(), nested: 0 }
    }

    /// The rule of the texts of `grammar`.
    pub(super) fn grammar(&mut self, grammar: &Grammar) -> Result<Written, GrammarError> {
        let productive = productive(grammar);
        let start = grammar.body(grammar.start());
        if !productive[start.index()] {
            return Err(GrammarError::Empty { reason: "no rule ends".to_owned() });
        }
        let reached = reached(grammar, &productive);
        let rules: Vec<Option<Written>> = grammar
            .rules()
            .map(|rule| {
                let body = grammar.body(rule).index();
                (productive[body] && reached[body]).then(|| self.forms.rule(grammar.rule_name(rule)))
            })
            .collect();
        let mut found: Vec<Found> = vec![];
        let mut terminals: HashMap<TerminalId, FormId> = HashMap::new();
        let mut made: Vec<Option<FormId>> = vec![None; grammar.expressions()];
        for expr in grammar.expression_ids().filter(|expr| reached[expr.index()]) {
            let of = |part: &ExprId| made[part.index()];
            let form = match grammar.expr(expr) {
                Expr::Empty => Some(self.forms.empty()),
                Expr::Terminal(terminal) => Some(match terminals.get(&terminal) {
                    Some(known) => {
                        found.extend(self.loosening(grammar.terminal(terminal)).map(|kind| (kind, expr)));
                        *known
                    }
                    None => {
                        let (form, kinds) = self.terminal(grammar, terminal)?;
                        found.extend(kinds.into_iter().map(|kind| (kind, expr)));
                        terminals.insert(terminal, form);
                        form
                    }
                }),
                Expr::Rule(rule) => rules[rule.index()].map(|rule| self.forms.call(rule)),
                Expr::Sequence(parts) => {
                    let parts: Option<Vec<FormId>> = parts.iter().map(of).collect();
                    parts.map(|parts| self.forms.sequence(parts))
                }
                Expr::Choice(parts) => {
                    let parts: Vec<FormId> = parts.iter().filter_map(of).collect();
                    (!parts.is_empty()).then(|| self.forms.choice(parts))
                }
                Expr::Repeat { item, min, max } => match of(&item) {
                    Some(item) => Some(self.forms.repeat(item, min, max)),
                    None => (min == 0).then(|| self.forms.empty()),
                },
                Expr::Unordered(group) => {
                    let group = group.with_rules(|rule| rules[rule.index()].map(|_| rule));
                    let most = if self.effort >= Effort::Orders { Memory::None } else { Memory::All };
                    let of_rule = |rule: RuleId| rules[rule.index()].expect("the group has no others");
                    let (form, memory) = self.forms.group(&group, most, of_rule);
                    found.extend((memory != Memory::All).then_some((LooseningKind::Members, expr)));
                    form
                }
            };
            made[expr.index()] = form;
            if self.forms.len() > self.most {
                return Err(GrammarError::GbnfTooLarge { limit: self.most });
            }
        }
        for rule in grammar.rules() {
            if let (Some(written), Some(body)) = (rules[rule.index()], made[grammar.body(rule).index()]) {
                self.forms.define(written, body);
                // A grammar that was rewritten has its captures in the one before.
                let before = grammar.origin(rule).map(|(before, _)| before);
                let has_captures = before.is_some_and(|of| of.rules().any(|rule| of.capture(rule).is_some()));
                if has_captures || grammar.capture(rule).is_some() {
                    found.push((LooseningKind::Captures, grammar.body(rule)));
                }
                if grammar.temperature(rule).is_some() {
                    found.push((LooseningKind::Temperatures, grammar.body(rule)));
                }
            }
        }
        self.report(grammar, &found);
        Ok(rules[grammar.start().index()].expect("the start has a text"))
    }

    /// Adds what was loosened, once for each place: the nearest rule that a text names, or a schema.
    fn report(&mut self, grammar: &Grammar, found: &[Found]) {
        if found.is_empty() {
            return;
        }
        let wholes = wholes(grammar);
        let mut of_body: HashMap<ExprId, Vec<RuleId>> = HashMap::new();
        let mut is_schema = false;
        for rule in grammar.rules() {
            of_body.entry(grammar.body(rule)).or_default().push(rule);
            is_schema |= grammar.rule_name(rule).starts_with('#');
        }
        let is_place = |rule: RuleId| {
            rule == grammar.start()
                || grammar.rule_name(rule).starts_with('#')
                || !is_schema && grammar.rule_location(rule).is_some()
        };
        let mut known: HashMap<ExprId, Vec<RuleId>> = HashMap::new();
        for (kind, expr) in found {
            let places = known.entry(*expr).or_insert_with(|| {
                let (mut open, mut places) = (vec![*expr], vec![]);
                let mut seen: HashSet<ExprId> = HashSet::from_iter([*expr]);
                while let Some(expr) = open.pop() {
                    let rules = of_body.get(&expr).map_or(&[][..], |rules| rules);
                    let own: Vec<RuleId> = rules.iter().copied().filter(|rule| is_place(*rule)).collect();
                    if own.is_empty() {
                        open.extend(wholes[expr.index()].iter().filter(|whole| seen.insert(**whole)));
                    }
                    places.extend(own);
                }
                places
            });
            for rule in places {
                let new = Loosening::new(*kind, grammar.rule_name(*rule));
                if !self.loosened.contains(&new) {
                    self.loosened.push(new);
                }
            }
        }
    }

    /// What is loosened in each use of a terminal, if that is known of its kind.
    fn loosening(&self, terminal: &Terminal) -> Option<LooseningKind> {
        match terminal {
            Terminal::Distinct(_) => Some(LooseningKind::Repeats),
            Terminal::Difference(_) if self.effort >= Effort::Exclusions => Some(LooseningKind::Exclusions),
            Terminal::Counted(counted) if !counted.is_all() && !self.is_written_out(counted) => {
                Some(LooseningKind::Lengths)
            }
            Terminal::TokenBudget(_) => Some(LooseningKind::Tokens),
            _ => None,
        }
    }

    fn is_written_out(&self, counted: &CountedUnits) -> bool {
        let (_, max) = counted.bounds();
        let size = u64::from(max.unwrap_or(u32::MAX)) * counted.dfa().len() as u64;
        self.effort < Effort::Lengths && size <= MAX_LENGTH
    }

    fn terminal(
        &mut self,
        grammar: &Grammar,
        terminal: TerminalId,
    ) -> Result<(FormId, Vec<LooseningKind>), GrammarError> {
        let name = grammar.terminal_name(terminal);
        let language = grammar.terminal(terminal);
        let mut kinds: Vec<LooseningKind> = self.loosening(language).into_iter().collect();
        let no_text = || unwritten(name, "is not text in UTF-8", "write it with whole characters");
        let form = match language {
            Terminal::Literal(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| no_text())?;
                return Ok((self.forms.text(text), kinds));
            }
            Terminal::Automaton(dfa) => self.automaton(name, dfa)?,
            Terminal::Difference(difference) => self.difference(name, difference)?,
            Terminal::Distinct(difference) => {
                if self.effort >= Effort::Exclusions && difference.texts().len() > 0 {
                    kinds.push(LooseningKind::Exclusions);
                }
                self.difference(name, difference)?
            }
            Terminal::Counted(counted) if counted.is_all() => self.repetition(name, counted)?,
            Terminal::Counted(counted) if self.is_written_out(counted) => {
                let dfa = counted.made(&mut DfaAlgebra::new(self.limits));
                self.automaton(name, &Arc::new(dfa.map_err(|source| of_terminal(name, source))?))?
            }
            Terminal::Counted(counted) => self.automaton(name, counted.dfa())?,
            Terminal::TokenBudget(budget) => match &budget.language {
                BudgetLanguage::Automaton(dfa) => self.automaton(name, dfa)?,
                BudgetLanguage::Grammar(inner) if self.nested < MAX_NESTED => {
                    self.nested += 1;
                    let rule = self.grammar(inner)?;
                    self.nested -= 1;
                    self.forms.call(rule)
                }
                BudgetLanguage::Grammar(_) => {
                    return Err(unwritten(
                        name,
                        "has budgets of tokens inside each other",
                        "nest them less deep",
                    ));
                }
            },
            Terminal::Token(token) => self.forms.token(token),
            Terminal::Tokens(set) => self.tokens(name, set)?,
            Terminal::OneOf(_) => {
                return Err(unwritten(
                    name,
                    "is a set of tokens of one vocabulary",
                    "name the tokens by their ids",
                ));
            }
        };
        self.names.entry(form).or_insert_with(|| name.to_owned());
        Ok((form, kinds))
    }

    fn automaton(&mut self, name: &str, dfa: &Arc<Dfa>) -> Result<FormId, GrammarError> {
        if let Some((_, known)) = self.known.get(&Arc::as_ptr(dfa)) {
            return Ok(*known);
        }
        if !automata::is_text(dfa, self.limits).map_err(|source| of_terminal(name, source))? {
            return Err(unwritten(name, "is not text in UTF-8", "write it with whole characters"));
        }
        let form = self.forms.automaton(name, dfa);
        self.known.insert(Arc::as_ptr(dfa), (Arc::clone(dfa), form));
        Ok(form)
    }

    fn difference(&mut self, name: &str, difference: &Difference) -> Result<FormId, GrammarError> {
        if difference.texts().len() == 0 || self.effort >= Effort::Exclusions {
            return self.automaton(name, difference.base());
        }
        let made =
            difference.made(&mut DfaAlgebra::new(self.limits)).map_err(|source| of_terminal(name, source))?;
        self.automaton(name, &Arc::new(made))
    }

    fn repetition(&mut self, name: &str, counted: &CountedUnits) -> Result<FormId, GrammarError> {
        let (open, close) = counted.marks();
        let no_text = |_| unwritten(name, "is not text in UTF-8", "write it with whole characters");
        let open = std::str::from_utf8(open).map_err(no_text)?;
        let close = std::str::from_utf8(close).map_err(no_text)?;
        let (open, close) = (self.forms.text(open), self.forms.text(close));
        let unit = self.automaton("character", counted.unit())?;
        self.names.entry(unit).or_insert_with(|| "character".to_owned());
        let (min, max) = counted.bounds();
        let units = self.forms.repeat(unit, min, max);
        Ok(self.forms.sequence([open, units, close]))
    }

    /// One token of `set`.
    fn tokens(&mut self, name: &str, set: &TokenSet) -> Result<FormId, GrammarError> {
        /// The most tokens that are listed.
        const MOST: u64 = 1000;
        let listed: u64 = set.ranges.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
        let way_out = "list the tokens that are allowed";
        if listed > MOST {
            return Err(unwritten(name, "has more than 1,000 tokens", way_out));
        }
        let ids = set.ranges.iter().flat_map(|(first, last)| *first..=*last).map(|id| format!("<[{id}]>"));
        let notations: Vec<String> = set.names.iter().map(ToString::to_string).chain(ids).collect();
        match (&notations[..], set.complement) {
            ([only], true) => Ok(self.forms.token(&format!("!{only}"))),
            ([], _) | (_, true) => {
                Err(unwritten(name, "is all tokens but several, and llama.cpp excludes one", way_out))
            }
            (several, false) => {
                let several: Vec<FormId> =
                    several.iter().map(|notation| self.forms.token(notation)).collect();
                Ok(self.forms.choice(several))
            }
        }
    }
}

/// By expression, whether the start reaches it over expressions that have a text.
fn reached(grammar: &Grammar, productive: &[bool]) -> Vec<bool> {
    let mut reached = vec![false; grammar.expressions()];
    let mut open = vec![grammar.body(grammar.start())];
    while let Some(expr) = open.pop() {
        if !productive[expr.index()] || std::mem::replace(&mut reached[expr.index()], true) {
            continue;
        }
        match grammar.expr(expr) {
            Expr::Sequence(parts) | Expr::Choice(parts) => open.extend(parts),
            Expr::Repeat { item, .. } => open.push(item),
            Expr::Rule(rule) => open.push(grammar.body(rule)),
            Expr::Unordered(group) => open.extend(group.rules().map(|rule| grammar.body(rule))),
            Expr::Empty | Expr::Terminal(_) => {}
        }
    }
    reached
}

fn unwritten(name: &str, reason: &'static str, way_out: &'static str) -> GrammarError {
    GrammarError::NotInGbnf { name: name.to_owned(), reason, way_out }
}

fn of_terminal(name: &str, source: unskew_automata::RegexError) -> GrammarError {
    GrammarError::Terminal { name: name.to_owned(), location: None, source }
}
