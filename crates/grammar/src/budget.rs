//! Terminals with a budget of tokens: their texts are spelled by at most so many tokens, and these spell nothing else.
//!
//! A grammar is about text, and the number of tokens depends on the vocabulary. So such a terminal is written out
//! when a constraint is compiled: as rules over sets of tokens, one rule for each state of its texts and each number
//! of tokens that are left. A state from which no text ends within the tokens that are left has no rule, so nothing
//! leads to a dead end.
//!
//! The states are those of an automaton. For texts of a grammar that recurs they are the states of a constraint of
//! its own, as far as so many tokens lead ([`Walk`]): the budget bounds how deep they nest. They may be many, so
//! there is a limit.
//!
//! Tokens that cross the border of the terminal are left out, because they would belong to two budgets. Tried
//! instead: to let the budget force the end once it is spent, as other engines do. Where the text cannot end there,
//! they go on or end in the middle.

use std::{
    borrow::Cow,
    hash::{Hash, Hasher},
    sync::Arc,
};

use unskew_automata::{Dfa, StateId};
use unskew_core::{
    TokenId, TokenMask, Vocabulary,
    ids::{Id, number},
};

use crate::{
    GrammarError, GrammarLimits,
    builder::GrammarBuilder,
    data::{ExprId, Grammar, Node, Rule, RuleId, Terminal, TerminalId},
};

/// The texts of a language, each spelled by at most a number of whole tokens.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct TokenBudget {
    /// The texts.
    pub language: BudgetLanguage,
    /// The greatest number of tokens.
    pub tokens: u32,
}

/// The texts of a [`TokenBudget`].
#[derive(Clone, Debug)]
pub enum BudgetLanguage {
    /// Those of an automaton.
    Automaton(Arc<Dfa>),
    /// Those of a grammar, which may recur. Two are equal if they are the same one.
    Grammar(Arc<Grammar>),
}

impl PartialEq for BudgetLanguage {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Automaton(left), Self::Automaton(right)) => left == right,
            (Self::Grammar(left), Self::Grammar(right)) => Arc::ptr_eq(left, right),
            _ => false,
        }
    }
}

impl Eq for BudgetLanguage {}

impl Hash for BudgetLanguage {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Automaton(dfa) => dfa.hash(state),
            Self::Grammar(grammar) => Arc::as_ptr(grammar).hash(state),
        }
    }
}

impl GrammarBuilder {
    /// A text of `language` that at most `tokens` whole tokens spell: see [`Terminal::TokenBudget`]. `name` is shown
    /// to people.
    pub fn token_budget(&mut self, name: &str, language: Arc<Dfa>, tokens: u32) -> ExprId {
        self.budget(name, BudgetLanguage::Automaton(language), tokens)
    }

    /// A text of `grammar`, which may recur, that at most `tokens` whole tokens spell: see [`Terminal::TokenBudget`].
    /// Names of its parts ([`capture`](Self::capture)) are not reported. `name` is shown to people.
    ///
    /// Compiling for a vocabulary finds all states that so many tokens reach. They are within
    /// [`GrammarLimits::budget_bytes`], and are too many for a grammar of deep nests, such as that of JSON, and more
    /// than a few tokens.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_core::{Constraint, TokenId, Vocabulary};
    /// use unskew_grammar::{Grammar, GrammarLimits};
    /// use unskew_grammars::GrammarConstraint;
    /// use unskew_notation::from_gbnf;
    /// use unskew_trie::TokenTrie;
    ///
    /// let limits = GrammarLimits::default();
    /// let brackets = from_gbnf(r#"root ::= "(" root? ")""#, &limits)?;
    /// let mut builder = Grammar::builder(&limits);
    /// let (few, end) = (builder.token_budget_of("few", brackets, 3), builder.literal(")"));
    /// let (start, body) = (builder.rule("start"), builder.sequence([few, end]));
    /// builder.define(start, body);
    ///
    /// let mut tokens = Vocabulary::builder();
    /// let [open, close, closes] = ["(", ")", "))"].map(|text| tokens.text(text.as_bytes()));
    /// let trie = Arc::new(TokenTrie::new(tokens.build()?)?);
    /// let constraint = GrammarConstraint::new(&builder.build(start)?, trie, &limits)?;
    /// let accepts = |output: &[TokenId]| {
    ///     let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
    ///     output.iter().all(|token| constraint.advance(&mut scratch, &mut state, *token).is_ok())
    ///         && constraint.is_accepting(&state)
    /// };
    /// assert!(accepts(&[open, close, close]) && accepts(&[open, open, closes, close]));
    /// assert!(!accepts(&[open, open, close, close, close])); // four tokens in the brackets
    /// assert!(!accepts(&[open, closes])); // a token crosses the border
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn token_budget_of(&mut self, name: &str, grammar: impl Into<Arc<Grammar>>, tokens: u32) -> ExprId {
        self.budget(name, BudgetLanguage::Grammar(grammar.into()), tokens)
    }

    fn budget(&mut self, name: &str, language: BudgetLanguage, tokens: u32) -> ExprId {
        self.terminal(Terminal::TokenBudget(Arc::new(TokenBudget { language, tokens })), || name.to_owned())
    }
}

/// The states of texts, by tokens. The first is the start.
#[derive(Default, Debug)]
pub struct TokenSteps {
    /// By state: whether a text may end there.
    pub accepting: Vec<bool>,
    /// By state: the states after a token, each with the tokens that lead there.
    pub edges: Vec<Vec<(u32, TokenMask)>>,
}

/// The bytes that sets of tokens may still take.
#[derive(Debug)]
pub struct Left<'a> {
    /// The name of the terminal.
    pub name: &'a str,
    /// The number in the beginning.
    pub limit: usize,
    /// The number that is left.
    pub bytes: usize,
}

impl Left<'_> {
    /// Takes `bytes` of them.
    pub fn take(&mut self, bytes: usize) -> Result<(), GrammarError> {
        let (name, limit) = (self.name, self.limit);
        let too_large = || GrammarError::BudgetTooLarge { name: name.to_owned(), limit };
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }

    /// Adds an edge.
    pub fn edge(
        &mut self,
        edges: &mut Vec<(u32, TokenMask)>,
        target: u32,
        token: TokenId,
        tokens: usize,
    ) -> Result<(), GrammarError> {
        let at = match edges.iter().position(|(known, _)| *known == target) {
            Some(at) => at,
            None => {
                self.take(tokens.div_ceil(8))?;
                edges.push((target, TokenMask::new(tokens)));
                edges.len() - 1
            }
        };
        edges[at].1.as_mut().insert(token);
        Ok(())
    }
}

/// Finds the states that at most so many tokens reach in the texts of a grammar.
pub(crate) type Walk<'a> = dyn Fn(&Grammar, u32, &mut Left<'_>) -> Result<TokenSteps, GrammarError> + 'a;

/// `grammar` with rules in the place of the terminals that have a budget. O(n s) for n tokens and s states of their
/// texts, and O(s t) rules for a budget of t tokens.
///
/// # Errors
///
/// [`GrammarError::BudgetTooLarge`], [`GrammarError::TooManyNodes`], and those of `walk`.
pub fn written_out<'g>(
    grammar: &'g Grammar,
    vocabulary: &Vocabulary,
    limits: &GrammarLimits,
    walk: &Walk<'_>,
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
    let mut left = Left { name: "", limit: limits.budget_bytes, bytes: limits.budget_bytes };
    for (terminal, budget) in budgets {
        left.name = grammar.terminal_name(terminal);
        let steps = match &budget.language {
            BudgetLanguage::Automaton(dfa) => of_automaton(dfa, vocabulary, &mut left)?,
            BudgetLanguage::Grammar(texts) => walk(texts, budget.tokens, &mut left)?,
        };
        let rule = Writer { grammar: &mut made, name: left.name, limits }.write(steps, budget.tokens)?;
        let uses = made.nodes.iter_mut().filter(|node| matches!(node, Node::Terminal(of) if *of == terminal));
        uses.for_each(|node| *node = Node::Rule(rule));
        // No rule uses it any more.
        made.terminals[terminal.index()] = Terminal::Literal(b" ".as_slice().into());
    }
    Ok(Cow::Owned(made))
}

struct Writer<'a> {
    grammar: &'a mut Grammar,
    name: &'a str,
    limits: &'a GrammarLimits,
}

impl Writer<'_> {
    fn write(mut self, steps: TokenSteps, tokens: u32) -> Result<RuleId, GrammarError> {
        let (least, depths) = (least(&steps), depths(&steps));
        let sets: Vec<Vec<(u32, TerminalId)>> = steps
            .edges
            .into_iter()
            .map(|edges| edges.into_iter().map(|(target, set)| (target, self.terminal(set))).collect())
            .collect();
        // By state: its rule for the tokens that are left. A rule that is itself alone has no text.
        let mut shorter: Vec<Option<RuleId>> = vec![None; steps.accepting.len()];
        for left in 0..=tokens {
            let mut rules = vec![None; steps.accepting.len()];
            for (state, targets) in sets.iter().enumerate() {
                let is_reached = depths[state].is_some_and(|depth| depth <= tokens - left);
                if !is_reached || least[state].is_none_or(|least| least > left) {
                    continue;
                }
                let mut ways: Vec<ExprId> = Vec::new();
                if steps.accepting[state] {
                    ways.push(self.push(Node::Empty));
                }
                for (target, set) in targets {
                    let Some(next) = shorter[*target as usize] else { continue };
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
        Ok(shorter.first().copied().flatten().unwrap_or_else(|| {
            let own = RuleId::from_index(self.grammar.rules.len());
            let body = self.push(Node::Rule(own));
            self.rule(body)
        }))
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
            temperature: None,
            origin: None,
        };
        self.grammar.rules.push(rule);
        RuleId::from_index(self.grammar.rules.len() - 1)
    }
}

/// The states of an automaton.
fn of_automaton(dfa: &Dfa, vocabulary: &Vocabulary, left: &mut Left<'_>) -> Result<TokenSteps, GrammarError> {
    let mut steps = TokenSteps::default();
    // The start comes first.
    let place = |state: StateId| match state.index() {
        at if at == dfa.start().index() => 0,
        at if at < dfa.start().index() => number(at + 1),
        at => number(at),
    };
    let mut states: Vec<StateId> = dfa.states().collect();
    states.sort_unstable_by_key(|state| place(*state));
    for state in states {
        let mut edges = Vec::new();
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            if let Some(target) = dfa.run(state, text) {
                left.edge(&mut edges, place(target), token, vocabulary.len())?;
            }
        }
        steps.accepting.push(dfa.is_accepting(state));
        steps.edges.push(edges);
    }
    Ok(steps)
}

/// By state: the least number of tokens to a state where a text may end.
fn least(steps: &TokenSteps) -> Vec<Option<u32>> {
    let mut before: Vec<Vec<u32>> = vec![vec![]; steps.edges.len()];
    for (state, edges) in (0..).zip(&steps.edges) {
        edges.iter().for_each(|(target, _)| before[*target as usize].push(state));
    }
    let ends = (0..).zip(&steps.accepting).filter(|(_, accepting)| **accepting).map(|(state, _)| state);
    distances(ends.collect(), steps.edges.len(), |state| before[state as usize].iter().copied())
}

/// By state: the least number of tokens from the start.
fn depths(steps: &TokenSteps) -> Vec<Option<u32>> {
    let start = if steps.edges.is_empty() { vec![] } else { vec![0] };
    distances(start, steps.edges.len(), |state| steps.edges[state as usize].iter().map(|(target, _)| *target))
}

/// By state: the number of steps from the nearest one of `from`.
fn distances<N: Iterator<Item = u32>>(
    mut from: Vec<u32>,
    states: usize,
    next: impl Fn(u32) -> N,
) -> Vec<Option<u32>> {
    let mut found = vec![None; states];
    from.iter().for_each(|state| found[*state as usize] = Some(0));
    for distance in 1.. {
        let mut new = vec![];
        for to in from.iter().flat_map(|state| next(*state)) {
            if found[to as usize].is_none() {
                found[to as usize] = Some(distance);
                new.push(to);
            }
        }
        if new.is_empty() {
            break;
        }
        from = new;
    }
    found
}
