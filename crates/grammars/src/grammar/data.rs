//! A context-free grammar as data: rules over terminals, as the front ends leave it and the engine takes it.
//!
//! Expressions lie in one flat list and refer to each other by number, parts before the whole. So nothing that a user
//! writes can nest deeper than memory allows: no step of this crate recurses over a tree, and dropping a grammar does not
//! either. A tree of boxes would be shorter to write and overflows the stack on sixty thousand brackets.
//!
//! A terminal is a literal, a regular language, or a control token. It says nothing of tokens otherwise: the same grammar
//! serves every vocabulary.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::Dfa;

use crate::{
    Counted, Except, GrammarError, GrammarLimits, Location,
    terminal::remaining::{Remaining, has_enough},
};

/// A rule of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RuleId(pub(crate) u32);

/// A terminal of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TerminalId(pub(crate) u32);

/// An expression of a grammar.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExprId(pub(crate) u32);

impl RuleId {
    /// Its place among the rules.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl TerminalId {
    /// Its place among the terminals.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ExprId {
    /// Its place among the expressions. Parts come before the whole.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What an expression is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Expr<'g> {
    /// The empty text.
    Empty,
    /// A terminal.
    Terminal(TerminalId),
    /// What a rule stands for.
    Rule(RuleId),
    /// One after the other. At least two.
    Sequence(&'g [ExprId]),
    /// Any of these. At least two.
    Choice(&'g [ExprId]),
    /// At least `min` times and, where there is a `max`, at most so many times.
    Repeat {
        /// What is repeated.
        item: ExprId,
        /// The fewest times.
        min: u32,
        /// The most times.
        max: Option<u32>,
    },
    /// Members in any order.
    Unordered(&'g Unordered),
}

/// Members that come in any order, each once at most, and others between them any number of times. They are rules, and
/// none may be empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Unordered {
    /// Rules, and whether each must come.
    pub members: Box<[(RuleId, bool)]>,
    /// What may come any number of times.
    pub others: Option<RuleId>,
    /// What stands between two that come one after the other. Nothing is put in front of the first or behind the last.
    pub separator: Option<RuleId>,
    /// The fewest members and others together.
    pub min: u32,
    /// The most.
    pub max: Option<u32>,
}

impl Unordered {
    /// All rules that it uses.
    pub fn rules(&self) -> impl Iterator<Item = RuleId> {
        self.members.iter().map(|(rule, _)| *rule).chain(self.others).chain(self.separator)
    }

    /// How many of the members must come.
    pub(crate) fn required(&self) -> u32 {
        id(self.members.iter().filter(|(_, required)| *required).count())
    }
}

/// What a terminal matches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Terminal {
    /// Exactly these bytes, at least one.
    Literal(Box<[u8]>),
    /// Any text that the automaton accepts. The empty one is allowed too where it accepts it.
    Automaton(Arc<Dfa>),
    /// Any text of a regular language but some.
    Except(Arc<Except>),
    /// A bounded number of units between two marks.
    Counted(Arc<Counted>),
    /// Any text of a regular language, perhaps but some, that was not used in the scope before; see
    /// [`GrammarBuilder::distinct`].
    Distinct(Arc<Except>),
    /// The control token of this name, such as `<|im_end|>`: a token, and not its text.
    ///
    /// Where the vocabulary ends a sequence with it, it is the end of the output: the output may end there, as it may where the
    /// grammar ends. The end is no token of an output and of no mask, and any end-of-sequence id may write it. Nothing may
    /// follow it, which [`GrammarConstraint`](crate::GrammarConstraint) checks.
    Token(Box<str>),
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Empty,
    Terminal(TerminalId),
    Rule(RuleId),
    /// From here to there in `parts`.
    Sequence(u32, u32),
    Choice(u32, u32),
    Repeat(ExprId, u32, Option<u32>),
    /// Its place in `unordered`.
    Unordered(u32),
}

#[derive(Clone, Debug)]
struct Rule {
    name: Box<str>,
    body: Option<ExprId>,
    place: Option<Location>,
    /// Whether texts that may not come twice are another matter in it than around it.
    is_scope: bool,
}

/// A context-free grammar with regular terminals. Immutable.
///
/// # Meaning
///
/// The language is that of the text without any lexer: a terminal stands for each of its texts, and neighbours may be
/// read apart in every possible way. Where `"int"` may be followed by a name, `intx` is accepted. Nothing is ignored
/// between terminals unless the rules say so. Another meaning may be
/// [asked for](crate::GrammarConstraint::with_maximal_munch).
///
/// # Example
///
/// Brackets: `value = "[" value* "]"`.
///
/// ```
/// use unskew_grammars::{Grammar, GrammarLimits};
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
/// # Ok::<(), unskew_grammars::GrammarError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Grammar {
    rules: Vec<Rule>,
    terminals: Vec<Terminal>,
    names: Vec<Box<str>>,
    nodes: Vec<Node>,
    parts: Vec<ExprId>,
    unordered: Vec<Unordered>,
    start: RuleId,
    /// What may stand behind any terminal and means nothing.
    ignored: Option<TerminalId>,
}

impl Grammar {
    /// A builder of an empty grammar. Of the limits it needs [`nodes`](GrammarLimits::nodes) and
    /// [`regex`](GrammarLimits::regex).
    pub fn builder(limits: &GrammarLimits) -> GrammarBuilder {
        GrammarBuilder {
            rules: Vec::new(),
            terminals: Vec::new(),
            names: Vec::new(),
            nodes: Vec::new(),
            parts: Vec::new(),
            unordered: Vec::new(),
            ids: HashMap::new(),
            counted: HashMap::new(),
            ignored: None,
            limits: limits.clone(),
        }
    }

    /// The grammar of the same outputs behind `text`: what they must begin with after a prompt was
    /// [healed](unskew_trie::heal).
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
        grammar.nodes.push(Node::Terminal(TerminalId(id(terminal))));
        grammar.nodes.push(Node::Rule(self.start));
        grammar.parts.extend([ExprId(id(first)), ExprId(id(first + 1))]);
        grammar.nodes.push(Node::Sequence(id(first_part), id(first_part + 2)));
        let body = Some(ExprId(id(first + 2)));
        grammar.rules.push(Rule { body, ..self.rules[self.start.index()].clone() });
        grammar.start = RuleId(id(grammar.rules.len() - 1));
        grammar
    }

    /// The rule that whole outputs are made of.
    pub fn start(&self) -> RuleId {
        self.start
    }

    /// All rules, in the order in which they were made.
    pub fn rules(&self) -> impl ExactSizeIterator<Item = RuleId> + use<> {
        (0..u32::try_from(self.rules.len()).expect("limited")).map(RuleId)
    }

    /// The name of `rule`.
    pub fn rule_name(&self, rule: RuleId) -> &str {
        &self.rules[rule.index()].name
    }

    /// What `rule` stands for.
    pub fn body(&self, rule: RuleId) -> ExprId {
        self.rules[rule.index()].body.expect("the builder has seen to it")
    }

    /// Where the text of the grammar defines `rule`, if it comes from a text.
    pub fn rule_place(&self, rule: RuleId) -> Option<Location> {
        self.rules[rule.index()].place
    }

    /// Whether the rule is a [scope](GrammarBuilder::scope).
    pub fn is_scope(&self, rule: RuleId) -> bool {
        self.rules[rule.index()].is_scope
    }

    /// The number of expressions.
    pub fn expressions(&self) -> usize {
        self.nodes.len()
    }

    /// All expressions: parts before the whole.
    pub fn expression_ids(&self) -> impl ExactSizeIterator<Item = ExprId> + use<> {
        (0..u32::try_from(self.nodes.len()).expect("limited")).map(ExprId)
    }

    /// What `expr` is.
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

    /// All terminals, in the order in which they were made. No two are equal.
    pub fn terminals(&self) -> impl ExactSizeIterator<Item = TerminalId> + use<> {
        (0..u32::try_from(self.terminals.len()).expect("limited")).map(TerminalId)
    }

    /// What `terminal` matches.
    pub fn terminal(&self, terminal: TerminalId) -> &Terminal {
        &self.terminals[terminal.index()]
    }

    /// What may stand behind any terminal and means nothing.
    pub(crate) fn ignored(&self) -> Option<TerminalId> {
        self.ignored
    }

    /// How the terminal was first called: its name, pattern, or literal in quotes.
    pub fn terminal_name(&self, terminal: TerminalId) -> &str {
        &self.names[terminal.index()]
    }
}

/// Builds a [`Grammar`], parts before the whole. Equal terminals become one.
#[derive(Clone, Debug)]
pub struct GrammarBuilder {
    rules: Vec<Rule>,
    terminals: Vec<Terminal>,
    names: Vec<Box<str>>,
    nodes: Vec<Node>,
    parts: Vec<ExprId>,
    unordered: Vec<Unordered>,
    ids: HashMap<Terminal, TerminalId>,
    /// Automata of distinct terminals, by their address, and how many texts they have.
    counted: HashMap<usize, (Arc<Dfa>, u32)>,
    ignored: Option<TerminalId>,
    limits: GrammarLimits,
}

impl GrammarBuilder {
    /// A new rule without a body. Two rules may have one name; it is only shown to people.
    pub fn rule(&mut self, name: &str) -> RuleId {
        let id = RuleId(id(self.rules.len()));
        self.rules.push(Rule { name: name.into(), body: None, place: None, is_scope: false });
        id
    }

    /// Makes `body` what `rule` stands for. A second body of a rule replaces the first.
    pub fn define(&mut self, rule: RuleId, body: ExprId) {
        self.rules[rule.index()].body = Some(body);
    }

    /// Remembers where the text of a grammar defines `rule`.
    pub fn place(&mut self, rule: RuleId, place: Location) {
        self.rules[rule.index()].place = Some(place);
    }

    /// Makes `rule` a scope: what its texts say in terminals that are [distinct](Self::distinct) has nothing to do with what
    /// is said around it. A scope may not begin with itself, which [`GrammarConstraint`](crate::GrammarConstraint) checks.
    pub fn scope(&mut self, rule: RuleId) {
        self.rules[rule.index()].is_scope = true;
    }

    /// The empty text.
    pub fn empty(&mut self) -> ExprId {
        self.push(Node::Empty)
    }

    /// What `rule` stands for.
    pub fn call(&mut self, rule: RuleId) -> ExprId {
        self.push(Node::Rule(rule))
    }

    /// Exactly this text. The empty one is [`empty`](Self::empty).
    pub fn literal(&mut self, text: impl AsRef<[u8]>) -> ExprId {
        let text = text.as_ref();
        if text.is_empty() {
            return self.empty();
        }
        let terminal = Terminal::Literal(text.into());
        // As text is printed for debugging. Most is plain, and there may be many.
        let name = || match text.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            true => {
                let mut name = String::with_capacity(text.len() + 4);
                name.push('"');
                for byte in text {
                    if matches!(byte, b'"' | b'\\') {
                        name.push('\\');
                    }
                    name.push(char::from(*byte));
                }
                name.push('"');
                name
            }
            false => format!("{:?}", String::from_utf8_lossy(text)),
        };
        self.terminal(terminal, name)
    }

    /// Any text that `dfa` accepts. `name` is shown to people.
    pub fn automaton(&mut self, name: &str, dfa: impl Into<Arc<Dfa>>) -> ExprId {
        self.terminal(Terminal::Automaton(dfa.into()), || name.to_owned())
    }

    /// As [`automaton`](Self::automaton), of one that is shared.
    pub(crate) fn shared_automaton(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        self.terminal(Terminal::Automaton(Arc::clone(dfa)), || name.to_owned())
    }

    /// Any text that `dfa` accepts but `texts`; `None` if there is none. `name` is shown to people.
    ///
    /// It is the same as the automaton of the difference, and better where many parts of a grammar leave different texts out of
    /// one language: they share its subterminal trees.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let name = Arc::new(Dfa::from_pattern("[a-z]+", &Limits::default())?);
    /// let other = builder.except("other name", &name, ["id", "type"]).expect("there are others");
    /// let start = builder.rule("start");
    /// builder.define(start, other);
    /// assert!(builder.build(start).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn except(
        &mut self,
        name: &str,
        dfa: &Arc<Dfa>,
        texts: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Option<ExprId> {
        let except = Except::new(Arc::clone(dfa), texts)?;
        let is_whole = except.texts().len() == 0;
        let terminal = match is_whole {
            true => Terminal::Automaton(Arc::clone(dfa)),
            false => Terminal::Except(Arc::new(except)),
        };
        Some(self.terminal(terminal, || name.to_owned()))
    }

    /// Any text that `dfa` accepts but `texts`, and that no distinct terminal had before in the same [scope](Self::scope): in
    /// the innermost one around it, or, where there is none, in the whole text. Texts are compared byte by byte.
    ///
    /// A scope must not run out of texts: `most` says how many it takes of all distinct terminals together, which is for the
    /// rules to see to. `None` is any number of them.
    ///
    /// A text must end where the next byte says so: what may follow it begins with no byte with which it goes on. Constraints
    /// refuse other grammars ([`GrammarError::AmbiguousEnd`]), for there the sets of texts that a scope may have used are more
    /// than can be kept. Where rules read the same bytes in several ways, as texts and as something else, these sets are kept
    /// for each of the ways, and their number may double with each such text.
    ///
    /// # Errors
    ///
    /// [`GrammarError::FewTexts`]: there are fewer than `most`, or, without that, than 2^32.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// // set = "{" name* "}", no name twice
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let name = Arc::new(Dfa::from_pattern("[a-z]+;", &Limits::default())?);
    /// let name = builder.distinct("name", &name, [""; 0], None)?;
    /// let (open, close) = (builder.literal("{"), builder.literal("}"));
    /// let names = builder.repeat(name, 0, None);
    /// let set = builder.rule("set");
    /// let body = builder.sequence([open, names, close]);
    /// builder.define(set, body);
    /// builder.scope(set);
    /// assert!(builder.build(set).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn distinct(
        &mut self,
        name: &str,
        dfa: &Arc<Dfa>,
        texts: impl IntoIterator<Item = impl AsRef<[u8]>>,
        most: Option<u32>,
    ) -> Result<ExprId, GrammarError> {
        let (_, all) = *self
            .counted
            .entry(Arc::as_ptr(dfa).addr())
            .or_insert_with(|| (Arc::clone(dfa), Remaining::new(dfa).of(dfa.start())));
        match Except::new(Arc::clone(dfa), texts) {
            Some(except) if has_enough(&except, all, most) => {
                Ok(self.terminal(Terminal::Distinct(Arc::new(except)), || name.to_owned()))
            }
            _ => Err(GrammarError::FewTexts { name: name.to_owned() }),
        }
    }

    /// `open`, at least `min` units and, where there is a `max`, at most so many, and `close`. A text of `unit` must end where no
    /// other goes on, and `close` must begin as none does. `name` is shown to people.
    ///
    /// It is the same as the automaton of these texts, which has a copy of the unit for each; this takes no more memory for
    /// more of them, and all bounds share their subterminal trees.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Uncountable`].
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let character = Arc::new(Dfa::from_pattern(r#"[^"\\]|\\."#, &Limits::default())?);
    /// let body = builder.counted("string", "\"", &character, "\"", 1, Some(500))?;
    /// let start = builder.rule("start");
    /// builder.define(start, body);
    /// assert!(builder.build(start).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counted(
        &mut self,
        name: &str,
        open: impl AsRef<[u8]>,
        unit: &Arc<Dfa>,
        close: impl AsRef<[u8]>,
        min: u32,
        max: Option<u32>,
    ) -> Result<ExprId, GrammarError> {
        let counted = Counted::new(open.as_ref(), unit, close.as_ref(), (min, max))
            .map_err(|reason| GrammarError::Uncountable { name: name.to_owned(), reason })?;
        Ok(self.terminal(Terminal::Counted(Arc::new(counted)), || name.to_owned()))
    }

    /// Any text that `pattern` matches as a whole; for the syntax see [`Dfa::from_pattern`]. `name` is shown to people.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Terminal`].
    pub fn regex(&mut self, name: &str, pattern: &str) -> Result<ExprId, GrammarError> {
        let dfa = Dfa::from_pattern(pattern, &self.limits.regex)
            .map_err(|source| GrammarError::Terminal { name: name.to_owned(), location: None, source })?;
        Ok(self.automaton(name, dfa))
    }

    /// `terminal` is what may stand behind any other and means nothing.
    pub(crate) fn ignore(&mut self, terminal: ExprId) {
        if let Node::Terminal(terminal) = self.nodes[terminal.index()] {
            self.ignored = Some(terminal);
        }
    }

    /// The control token of this name. One that ends a sequence is the end of the output: see [`Terminal::Token`].
    pub fn token(&mut self, name: &str) -> ExprId {
        self.terminal(Terminal::Token(name.into()), || name.to_owned())
    }

    /// One after the other; of none, the empty text.
    pub fn sequence(&mut self, parts: impl IntoIterator<Item = ExprId>) -> ExprId {
        match self.list(parts) {
            Ok((first, end)) => self.push(Node::Sequence(first, end)),
            Err(Some(only)) => only,
            Err(None) => self.empty(),
        }
    }

    /// Any of these, in no order.
    ///
    /// # Panics
    ///
    /// If there are none: a choice of nothing matches nothing.
    pub fn choice(&mut self, alternatives: impl IntoIterator<Item = ExprId>) -> ExprId {
        match self.list(alternatives) {
            Ok((first, end)) => self.push(Node::Choice(first, end)),
            Err(only) => only.expect("a choice has alternatives"),
        }
    }

    /// `item` at least `min` times and, where there is a `max`, at most so many times.
    ///
    /// # Panics
    ///
    /// If `max` is less than `min`.
    pub fn repeat(&mut self, item: ExprId, min: u32, max: Option<u32>) -> ExprId {
        assert!(max.is_none_or(|max| min <= max), "a repetition of at least {min} and at most {max:?}");
        match (min, max) {
            (1, Some(1)) => item,
            (_, Some(0)) => self.empty(),
            _ => self.push(Node::Repeat(item, min, max)),
        }
    }

    /// `item` or nothing.
    pub fn optional(&mut self, item: ExprId) -> ExprId {
        self.repeat(item, 0, Some(1))
    }

    /// Members in any order, each once at most and, where it says `true`, once; between them `others` any number of times; at
    /// least `min` of both and, where there is a `max`, at most so many, with `separator` between neighbours. No member may be
    /// empty, which [`GrammarConstraint`](crate::GrammarConstraint) checks.
    ///
    /// A text may name a member once only: where two members begin alike, each takes its turn.
    ///
    /// # Example
    ///
    /// `ab`, `ba`, and `b`:
    ///
    /// ```
    /// use unskew_grammars::{Grammar, GrammarLimits};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let (a, b) = (builder.literal("a"), builder.literal("b"));
    /// let body = builder.unordered([(a, false), (b, true)], None, None, 0, None);
    /// let start = builder.rule("start");
    /// builder.define(start, body);
    /// assert!(builder.build(start).is_ok());
    /// ```
    pub fn unordered(
        &mut self,
        members: impl IntoIterator<Item = (ExprId, bool)>,
        others: Option<ExprId>,
        separator: Option<ExprId>,
        min: u32,
        max: Option<u32>,
    ) -> ExprId {
        let members =
            members.into_iter().map(|(member, required)| (self.as_rule("member", member), required));
        let members = members.collect();
        let others = others.map(|others| self.as_rule("other member", others));
        let separator = separator.map(|separator| self.as_rule("separator", separator));
        let body = self.unordered_body(Unordered { members, others, separator, min, max });
        let rule = self.rule("members in any order");
        self.define(rule, body);
        self.call(rule)
    }

    /// The body of a rule: of nothing else is it a part, so that it begins and ends where a rule does.
    pub(crate) fn unordered_body(&mut self, unordered: Unordered) -> ExprId {
        self.unordered.push(unordered);
        self.push(Node::Unordered(id(self.unordered.len() - 1)))
    }

    /// `expr`, as a rule.
    fn as_rule(&mut self, name: &str, expr: ExprId) -> RuleId {
        if let Node::Rule(rule) = self.nodes[expr.index()] {
            return rule;
        }
        let rule = self.rule(name);
        self.define(rule, expr);
        rule
    }

    /// The grammar whose outputs `start` stands for. Rules that it does not reach are kept.
    ///
    /// # Errors
    ///
    /// [`GrammarError::UndefinedRule`] and [`GrammarError::TooManyNodes`].
    pub fn build(self, start: RuleId) -> Result<Grammar, GrammarError> {
        let size = self.size();
        let Self { rules, terminals, names, nodes, parts, unordered, ignored, limits, .. } = self;
        if let Some(rule) = rules.iter().find(|rule| rule.body.is_none()) {
            return Err(GrammarError::UndefinedRule { name: rule.name.to_string() });
        }
        if size > limits.nodes {
            return Err(GrammarError::TooManyNodes { limit: limits.nodes });
        }
        Ok(Grammar { rules, terminals, names, nodes, parts, unordered, start, ignored })
    }

    /// The number of rules, terminals and nodes of expressions so far, as [`GrammarLimits::nodes`] counts them.
    pub fn size(&self) -> usize {
        let members: usize = self.unordered.iter().map(|unordered| unordered.members.len()).sum();
        self.rules.len() + self.terminals.len() + self.nodes.len() + self.parts.len() + members
    }

    /// A use of `terminal`, of any kind.
    pub(crate) fn known_terminal(&mut self, terminal: Terminal, name: &str) -> ExprId {
        self.terminal(terminal, || name.to_owned())
    }

    fn terminal(&mut self, terminal: Terminal, name: impl FnOnce() -> String) -> ExprId {
        let next = TerminalId(id(self.terminals.len()));
        let terminals = &mut self.terminals;
        let names = &mut self.names;
        let found = *self.ids.entry(terminal).or_insert_with_key(|terminal| {
            terminals.push(terminal.clone());
            names.push(name().into());
            next
        });
        self.push(Node::Terminal(found))
    }

    /// Where the parts lie; else the only one, or nothing.
    fn list(&mut self, parts: impl IntoIterator<Item = ExprId>) -> Result<(u32, u32), Option<ExprId>> {
        let first = self.parts.len();
        self.parts.extend(parts);
        match self.parts.len() - first {
            0 | 1 => Err(self.parts.drain(first..).next()),
            _ => Ok((id(first), id(self.parts.len()))),
        }
    }

    fn push(&mut self, node: Node) -> ExprId {
        self.nodes.push(node);
        ExprId(id(self.nodes.len() - 1))
    }
}

/// As a number of four bytes.
///
/// # Panics
///
/// Beyond 2^32 nodes, which is more than a hundred gigabytes of them.
fn id(index: usize) -> u32 {
    u32::try_from(index).expect("a grammar of less than 2^32 nodes")
}
