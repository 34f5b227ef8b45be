//! A context-free grammar as data: rules over terminals, written by the front ends and read by the engine.
//!
//! Expressions are stored in one flat list and refer to each other by number, parts before the whole. So the
//! nesting of user input costs memory alone: no step of this crate recurses over a tree, and neither does dropping
//! a grammar. A tree of boxes would be shorter to write and overflows the stack on sixty thousand brackets.
//!
//! A terminal is a literal, a regular language or a control token. Ordinary tokens do not occur in a grammar,
//! so the same grammar serves every vocabulary.

use std::sync::Arc;

use unskew_automata::Dfa;
use unskew_core::{
    TokenMask, id,
    ids::{Id, number},
};

use crate::{CountedUnits, Difference, Location, TokenBudget, TokenSet, choices::MemberChoice};

id! {
    /// A rule of a grammar.
    pub RuleId
}

id! {
    /// A terminal of a grammar.
    pub TerminalId
}

id! {
    /// An expression of a grammar.
    pub ExprId
}

impl RuleId {
    /// The index among the rules.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl TerminalId {
    /// The index among the terminals.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl ExprId {
    /// The index among the expressions. Parts precede their whole.
    pub const fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The form of an expression.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expr<'g> {
    /// The empty text.
    Empty,
    /// A terminal.
    Terminal(TerminalId),
    /// The language of a rule.
    Rule(RuleId),
    /// A concatenation of at least two parts.
    Sequence(&'g [ExprId]),
    /// A choice of at least two alternatives.
    Choice(&'g [ExprId]),
    /// A repetition.
    Repeat {
        /// The repeated expression.
        item: ExprId,
        /// The least number of repetitions.
        min: u32,
        /// The greatest number of repetitions; `None` is unbounded.
        max: Option<u32>,
    },
    /// Members in any order.
    Unordered(&'g Unordered),
}

/// Members that come in any order, each at most once, with other expressions any number of times between
/// them. All are rules, and none may be nullable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Unordered {
    /// The members, each with a flag: whether it is required.
    pub members: Box<[(RuleId, bool)]>,
    /// A rule that may occur any number of times.
    pub others: Option<RuleId>,
    /// The separator between neighbours. There is none before the first or after the last.
    pub separator: Option<RuleId>,
    /// The least number of members and others together.
    pub min: u32,
    /// The greatest number of members and others together; `None` is unbounded.
    pub max: Option<u32>,
    /// Choices between members, none of which is in two of them or has the flag. A group with choices has `min` 0 or
    /// 1, and no `max`.
    pub choices: Box<[MemberChoice]>,
}

impl Unordered {
    /// All rules that the group uses.
    pub fn rules(&self) -> impl Iterator<Item = RuleId> {
        self.members.iter().map(|(rule, _)| *rule).chain(self.others).chain(self.separator)
    }

    /// The number of required members, without those of choices.
    #[doc(hidden)]
    pub fn required(&self) -> u32 {
        number(self.members.iter().filter(|(_, required)| *required).count())
    }

    /// The number of its members, of those in choices once more, and of the ways of choices.
    pub(crate) fn size(&self) -> usize {
        let of_choice = |choice: &MemberChoice| choice.members().count() + choice.ways.len();
        self.members.len() + self.choices.iter().map(of_choice).sum::<usize>()
    }

    /// Whether no member, or no other than this one, has to be read.
    pub(crate) fn may_be_left(&self, but_for: Option<u32>) -> bool {
        self.members.iter().zip(0..).all(|((_, required), member)| !required || Some(member) == but_for)
            && self.choices.iter().all(|choice| choice.may_be_left(but_for))
            && self.min <= u32::from(but_for.is_some())
    }

    /// The same with other rules, without those that have none. A member that only ways without a text allow is left
    /// out too.
    #[doc(hidden)]
    pub fn with_rules(&self, mut new: impl FnMut(RuleId) -> Option<RuleId>) -> Self {
        let rules: Vec<Option<RuleId>> = self.members.iter().map(|(rule, _)| new(*rule)).collect();
        let has_text = |member: &u32| rules[*member as usize].is_some();
        let mut is_left: Vec<bool> = rules.iter().map(Option::is_some).collect();
        for choice in &self.choices {
            choice.members().for_each(|member| is_left[member as usize] = false);
            for way in choice.ways.iter().filter(|way| way.required.iter().all(has_text)) {
                way.allowed.iter().for_each(|member| is_left[*member as usize] = has_text(member));
            }
        }
        let (mut members, mut indices) = (vec![], vec![]);
        for (((_, required), rule), is_left) in self.members.iter().zip(rules).zip(is_left) {
            let made = rule.filter(|_| is_left);
            indices.push(made.map(|_| number(members.len())));
            members.extend(made.map(|rule| (rule, *required)));
        }
        Self {
            members: members.into(),
            others: self.others.and_then(&mut new),
            separator: self.separator.and_then(&mut new),
            min: self.min,
            max: self.max,
            choices: self.choices.iter().map(|choice| choice.renumbered(&indices)).collect(),
        }
    }
}

/// The language of a terminal.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Terminal {
    /// Exactly these bytes, at least one.
    Literal(Box<[u8]>),
    /// Any text that the automaton accepts, including the empty one if the automaton accepts it.
    Automaton(Arc<Dfa>),
    /// A regular language minus finitely many texts.
    Difference(Arc<Difference>),
    /// The texts of an automaton with a bounded number of units between two marks.
    Counted(Arc<CountedUnits>),
    /// A regular language, possibly minus finitely many texts, of which each text may occur once in a scope;
    /// see [`GrammarBuilder::distinct`](crate::GrammarBuilder::distinct).
    Distinct(Arc<Difference>),
    /// The control token of this name, such as `<|im_end|>`: the token, and not its text.
    ///
    /// If the token ends a sequence in the vocabulary, it is the end of the output: the output may end there, as it
    /// may at the end of the grammar. This end is no token of an output and of no mask, and any end-of-sequence id
    /// may represent it. Nothing may follow the token, which the engine (`GrammarConstraint` of `unskew-grammars`)
    /// checks.
    Token(Box<str>),
    /// The texts of an automaton, spelled by at most a number of whole tokens. It is written out when a constraint is
    /// compiled for a vocabulary.
    TokenBudget(Arc<TokenBudget>),
    /// One token of a set of ids and names, by its id and not its text. It is resolved when a constraint is compiled
    /// for a vocabulary. If the set is one token that ends a sequence, it is the end of the output, as for
    /// [`Token`](Self::Token).
    Tokens(Arc<TokenSet>),
    /// One token of a set, by its id: a token of text too, and not its text, which other tokens may spell. The set is
    /// as long as the vocabulary of the constraint.
    OneOf(Arc<TokenMask>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Node {
    Empty,
    Terminal(TerminalId),
    Rule(RuleId),
    /// A range of `parts`.
    Sequence(u32, u32),
    Choice(u32, u32),
    Repeat(ExprId, u32, Option<u32>),
    /// An index of `unordered`.
    Unordered(u32),
}

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) name: Box<str>,
    pub(super) body: Option<ExprId>,
    pub(super) location: Option<Location>,
    /// Whether the used texts of distinct terminals inside the rule are independent of those around it.
    pub(super) is_scope: bool,
    /// The name of the texts of the rule in reports of captures.
    pub(super) capture: Option<Arc<str>>,
    /// The temperature of the sampler for the texts of the rule.
    pub(super) temperature: Option<f64>,
    /// The rule from which this one was rewritten, where captures are found in that one.
    pub(super) origin: Option<Origin>,
}

/// A rule before its grammar was rewritten.
pub type Origin = (Arc<Grammar>, RuleId);

/// A context-free grammar with regular terminals. Immutable.
///
/// # Meaning
///
/// The language is defined over the text, without a lexer: a terminal matches any of its texts, and a text is
/// divided between adjacent terminals in every possible way. Where a name may follow `"int"`, `intx` is
/// accepted. Nothing is ignored between terminals unless the rules allow it.
///
/// # Example
///
/// Brackets: `value = "[" value* "]"`.
///
/// ```
/// use unskew_grammar::{Grammar, GrammarLimits};
///
/// let mut builder = Grammar::builder(&GrammarLimits::default());
/// let value = builder.rule("value");
/// let inner = builder.call(value);
/// let inner = builder.repeat(inner, 0, None);
/// let (open, close) = (builder.literal("["), builder.literal("]"));
/// let body = builder.sequence([open, inner, close]);
/// builder.define(value, body);
/// let grammar = builder.build(value)?;
/// assert_eq!(grammar.rules().count(), 1);
/// # Ok::<(), unskew_grammar::GrammarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grammar {
    pub(super) rules: Vec<Rule>,
    pub(super) terminals: Vec<Terminal>,
    pub(super) names: Vec<Box<str>>,
    pub(super) nodes: Vec<Node>,
    pub(super) parts: Vec<ExprId>,
    pub(super) unordered: Vec<Unordered>,
    pub(super) start: RuleId,
    /// The terminal that may follow any terminal without a meaning (`%ignore`).
    pub(super) ignored: Option<TerminalId>,
}

impl Grammar {
    /// The grammar of `text` followed by an output of this grammar. Outputs must begin with `text` after a
    /// prompt was [healed](unskew_trie::heal). O(n) for n rules and expressions.
    #[must_use]
    pub fn behind(&self, text: &[u8]) -> Self {
        if text.is_empty() {
            return self.clone();
        }
        let mut grammar = self.clone();
        let literal = Terminal::Literal(text.into());
        let terminal = match grammar.terminals.iter().position(|terminal| *terminal == literal) {
            Some(found) => found,
            None => {
                grammar.terminals.push(literal);
                grammar.names.push(format!("{:?}", String::from_utf8_lossy(text)).into());
                grammar.terminals.len() - 1
            }
        };
        let (first, first_part) = (grammar.nodes.len(), grammar.parts.len());
        grammar.nodes.push(Node::Terminal(TerminalId::from_index(terminal)));
        grammar.nodes.push(Node::Rule(self.start));
        grammar.parts.extend([ExprId::from_index(first), ExprId::from_index(first + 1)]);
        grammar.nodes.push(Node::Sequence(number(first_part), number(first_part + 2)));
        let body = Some(ExprId::from_index(first + 2));
        grammar.rules.push(Rule {
            body,
            capture: None,
            temperature: None,
            origin: None,
            ..self.rules[self.start.index()].clone()
        });
        grammar.start = RuleId::from_index(grammar.rules.len() - 1);
        grammar
    }

    /// The same with another terminal for each, or with none, which has no text.
    ///
    /// # Errors
    ///
    /// The first of `each`.
    pub(crate) fn with_terminals<E>(
        &self,
        mut each: impl FnMut(TerminalId) -> Result<Option<Terminal>, E>,
    ) -> Result<Self, E> {
        let mut grammar = self.clone();
        // A rule that is itself alone has no text.
        let nothing = RuleId::from_index(grammar.rules.len());
        let mut is_used = false;
        for terminal in self.terminals() {
            match each(terminal)? {
                Some(made) => grammar.terminals[terminal.index()] = made,
                None => {
                    let uses = grammar.nodes.iter_mut();
                    let uses = uses.filter(|node| matches!(node, Node::Terminal(of) if *of == terminal));
                    uses.for_each(|node| *node = Node::Rule(nothing));
                    is_used = true;
                }
            }
        }
        if is_used {
            let body = Some(ExprId::from_index(grammar.nodes.len()));
            grammar.nodes.push(Node::Rule(nothing));
            grammar.rules.push(Rule {
                name: "nothing".into(),
                body,
                location: None,
                is_scope: false,
                capture: None,
                temperature: None,
                origin: None,
            });
        }
        Ok(grammar)
    }

    /// The start rule, which derives whole outputs.
    pub fn start(&self) -> RuleId {
        self.start
    }

    /// All rules, in the order of their creation.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = RuleId> + use<> {
        (0..self.rules.len()).map(RuleId::from_index)
    }

    /// The name of `rule`.
    pub fn rule_name(&self, rule: RuleId) -> &str {
        &self.rules[rule.index()].name
    }

    /// The body of `rule`.
    pub fn body(&self, rule: RuleId) -> ExprId {
        self.rules[rule.index()].body.expect("the builder has seen to it")
    }

    /// The location at which the text of the grammar defines `rule`, if the grammar was read from a text.
    pub fn rule_location(&self, rule: RuleId) -> Option<Location> {
        self.rules[rule.index()].location
    }

    /// Whether the rule is a [scope](crate::GrammarBuilder::scope).
    pub fn is_scope(&self, rule: RuleId) -> bool {
        self.rules[rule.index()].is_scope
    }

    /// The name of the texts of the rule in reports of captures.
    pub fn capture(&self, rule: RuleId) -> Option<&Arc<str>> {
        self.rules[rule.index()].capture.as_ref()
    }

    /// The temperature of the sampler for the texts of the rule.
    pub fn temperature(&self, rule: RuleId) -> Option<f64> {
        self.rules[rule.index()].temperature
    }

    /// The rule from which `rule` was rewritten, in which its captures are found.
    #[doc(hidden)]
    pub fn origin(&self, rule: RuleId) -> Option<&Origin> {
        self.rules[rule.index()].origin.as_ref()
    }

    /// Whether parts of outputs are named, or have a temperature.
    #[doc(hidden)]
    pub fn has_readings(&self) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.capture.is_some() || rule.temperature.is_some() || rule.origin.is_some())
    }

    /// The number of expressions.
    pub fn expressions(&self) -> usize {
        self.nodes.len()
    }

    /// All expressions. Parts precede their whole.
    pub fn expression_ids(&self) -> impl ExactSizeIterator<Item = ExprId> + use<> {
        (0..self.nodes.len()).map(ExprId::from_index)
    }

    /// The form of `expr`.
    pub fn expr(&self, expr: ExprId) -> Expr<'_> {
        let parts = |first: u32, end: u32| &self.parts[first as usize..end as usize];
        match self.nodes[expr.index()] {
            Node::Empty => Expr::Empty,
            Node::Terminal(terminal) => Expr::Terminal(terminal),
            Node::Rule(rule) => Expr::Rule(rule),
            Node::Sequence(first, end) => Expr::Sequence(parts(first, end)),
            Node::Choice(first, end) => Expr::Choice(parts(first, end)),
            Node::Repeat(item, min, max) => Expr::Repeat { item, min, max },
            Node::Unordered(at) => Expr::Unordered(&self.unordered[at as usize]),
        }
    }

    /// All terminals, in the order of their creation. No two are equal.
    pub fn terminals(&self) -> impl ExactSizeIterator<Item = TerminalId> + use<> {
        (0..self.terminals.len()).map(TerminalId::from_index)
    }

    /// The language of `terminal`.
    pub fn terminal(&self, terminal: TerminalId) -> &Terminal {
        &self.terminals[terminal.index()]
    }

    /// The terminal that may follow any terminal without a meaning (`%ignore`).
    #[doc(hidden)]
    pub fn ignored(&self) -> Option<TerminalId> {
        self.ignored
    }

    /// The first name given to the terminal: its name, its pattern, or its literal in quotes.
    pub fn terminal_name(&self, terminal: TerminalId) -> &str {
        &self.names[terminal.index()]
    }
}
