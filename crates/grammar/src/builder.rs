//! The builder of a grammar: rules, terminals and expressions, in any order.

use std::sync::Arc;

use hashbrown::HashMap;
use unskew_automata::Dfa;
use unskew_core::{
    TokenMask,
    ids::{Id, number},
};

use crate::{
    Difference, GrammarError, GrammarLimits, Location, TokenSet,
    choices::MemberChoice,
    data::{ExprId, Grammar, Node, Rule, RuleId, Terminal, TerminalId, Unordered},
    terminal::{
        counted::Units,
        remaining::{Remaining, has_enough},
    },
};

impl Grammar {
    /// A builder of an empty grammar. It reads the limits [`nodes`](GrammarLimits::nodes) and
    /// [`regex`](GrammarLimits::regex).
    pub fn builder(limits: &GrammarLimits) -> GrammarBuilder {
        GrammarBuilder {
            rules: Vec::new(),
            terminals: Vec::new(),
            names: Vec::new(),
            nodes: Vec::new(),
            parts: Vec::new(),
            unordered: Vec::new(),
            grouped: 0,
            ids: HashMap::new(),
            counted: HashMap::new(),
            units: Vec::new(),
            ignored: None,
            limits: limits.clone(),
        }
    }

    /// A builder that already has all of this grammar, under the same ids.
    #[doc(hidden)]
    pub fn extended(&self, limits: &GrammarLimits) -> GrammarBuilder {
        let ids = self.terminals().map(|terminal| (self.terminal(terminal).clone(), terminal)).collect();
        let Self { rules, terminals, names, nodes, parts, unordered, ignored, .. } = self.clone();
        let grouped = unordered.iter().map(Unordered::size).sum();
        GrammarBuilder {
            rules,
            terminals,
            names,
            nodes,
            parts,
            unordered,
            grouped,
            ids,
            ignored,
            ..Self::builder(limits)
        }
    }
}

/// Builds a [`Grammar`], parts before the whole. Equal terminals become one.
#[derive(Clone, Debug)]
pub struct GrammarBuilder {
    pub(super) rules: Vec<Rule>,
    pub(super) terminals: Vec<Terminal>,
    pub(super) names: Vec<Box<str>>,
    pub(super) nodes: Vec<Node>,
    pub(super) parts: Vec<ExprId>,
    pub(super) unordered: Vec<Unordered>,
    /// The sum of their sizes. A schema asks for the size at each of its rules.
    pub(super) grouped: usize,
    pub(super) ids: HashMap<Terminal, TerminalId>,
    /// The automata of distinct terminals, by address, each with the number of its texts.
    pub(super) counted: HashMap<usize, (Arc<Dfa>, Arc<Remaining>)>,
    /// The marks and units of which any number was asked for.
    pub(super) units: Vec<Arc<Units>>,
    pub(super) ignored: Option<TerminalId>,
    pub(super) limits: GrammarLimits,
}

impl GrammarBuilder {
    /// A new rule without a body. Names are for messages, and several rules may have the same name.
    pub fn rule(&mut self, name: &str) -> RuleId {
        let id = RuleId::from_index(self.rules.len());
        let (name, body, location) = (name.into(), None, None);
        self.rules.push(Rule {
            name,
            body,
            location,
            is_scope: false,
            capture: None,
            temperature: None,
            origin: None,
        });
        id
    }

    /// Sets the body of `rule`. A second call replaces the body.
    pub fn define(&mut self, rule: RuleId, body: ExprId) {
        self.rules[rule.index()].body = Some(body);
    }

    /// Records the location at which the text of a grammar defines `rule`.
    pub fn locate(&mut self, rule: RuleId, location: Location) {
        self.rules[rule.index()].location = Some(location);
    }

    /// Makes `rule` a scope: the used texts of [distinct](Self::distinct) terminals inside it are independent
    /// of those around it. A scope may not begin with itself, which
    /// `GrammarConstraint` of `unskew-grammars` checks.
    pub fn scope(&mut self, rule: RuleId) {
        self.rules[rule.index()].is_scope = true;
    }

    /// The empty text.
    pub fn empty(&mut self) -> ExprId {
        self.push(Node::Empty)
    }

    /// The language of `rule`.
    pub fn call(&mut self, rule: RuleId) -> ExprId {
        self.push(Node::Rule(rule))
    }

    /// Exactly this text. The empty text is [`empty`](Self::empty).
    pub fn literal(&mut self, text: impl AsRef<[u8]>) -> ExprId {
        let text = text.as_ref();
        if text.is_empty() {
            return self.empty();
        }
        let terminal = Terminal::Literal(text.into());
        // The name is the `Debug` form of the text. Most literals are printable ASCII, and a grammar may have
        // many, so these take a shorter path.
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

    /// Any text that `dfa` accepts. `name` is for messages.
    pub fn automaton(&mut self, name: &str, dfa: impl Into<Arc<Dfa>>) -> ExprId {
        self.terminal(Terminal::Automaton(dfa.into()), || name.to_owned())
    }

    /// As [`automaton`](Self::automaton), for a shared automaton.
    #[doc(hidden)]
    pub fn shared_automaton(&mut self, name: &str, dfa: &Arc<Dfa>) -> ExprId {
        self.terminal(Terminal::Automaton(Arc::clone(dfa)), || name.to_owned())
    }

    /// Any text that `dfa` accepts, except `texts`; `None` if no text remains. `name` is for messages.
    ///
    /// The language is the same as that of the difference automaton. This form is better if many parts of a
    /// grammar exclude different texts from one language, because they share its subterminal trees.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammar::{Grammar, GrammarLimits};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let name = Arc::new(Dfa::from_pattern("[a-z]+", &Limits::default())?);
    /// let other = builder.difference("other name", &name, ["id", "type"]).expect("there are others");
    /// let start = builder.rule("start");
    /// builder.define(start, other);
    /// assert!(builder.build(start).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn difference(
        &mut self,
        name: &str,
        dfa: &Arc<Dfa>,
        texts: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) -> Option<ExprId> {
        let difference = Difference::new(Arc::clone(dfa), texts)?;
        let is_whole = difference.texts().len() == 0;
        let terminal = match is_whole {
            true => Terminal::Automaton(Arc::clone(dfa)),
            false => Terminal::Difference(Arc::new(difference)),
        };
        Some(self.terminal(terminal, || name.to_owned()))
    }

    /// Any text that `dfa` accepts, except `texts` and except the texts that a distinct terminal has matched
    /// before in the same [scope](Self::scope). The scope is the innermost one around the terminal, or the
    /// whole output if there is none. Texts are compared byte by byte.
    ///
    /// A scope must not run out of texts. `most` is the greatest number of distinct terminals in one scope,
    /// all of them together; the caller guarantees that the rules keep it. `None` is unbounded.
    ///
    /// The next byte must show the end of a text: no byte that may follow a text may also continue it. Constraints
    /// reject other grammars ([`GrammarError::AmbiguousEnd`]), because a scope would then have more possible sets
    /// of used texts than can be stored. If the rules can read the same bytes in several ways, as texts and as
    /// something else, the sets are stored for each way, and their number may double with each such text.
    ///
    /// # Errors
    ///
    /// [`GrammarError::FewTexts`] if there are fewer texts than `most`, or, without `most`, fewer than
    /// `2^32 - 1`; and if the empty text is one of them.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_automata::{Dfa, Limits};
    /// use unskew_grammar::{Grammar, GrammarLimits};
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
        let known = self.counted.entry(Arc::as_ptr(dfa).addr());
        let (_, remaining) = known.or_insert_with(|| (Arc::clone(dfa), Arc::new(Remaining::new(dfa))));
        let all = remaining.of(dfa.start());
        match Difference::new(Arc::clone(dfa), texts) {
            Some(difference) if has_enough(&difference, all, most) => {
                let difference = difference.counted(remaining);
                Ok(self.terminal(Terminal::Distinct(Arc::new(difference)), || name.to_owned()))
            }
            _ => Err(GrammarError::FewTexts { name: name.to_owned() }),
        }
    }

    /// Any text that `pattern` matches as a whole; [`Dfa::from_pattern`] documents the syntax. `name` is for
    /// messages.
    ///
    /// # Errors
    ///
    /// [`GrammarError::Terminal`].
    pub fn regex(&mut self, name: &str, pattern: &str) -> Result<ExprId, GrammarError> {
        let dfa = Dfa::from_pattern(pattern, &self.limits.regex)
            .map_err(|source| GrammarError::Terminal { name: name.to_owned(), location: None, source })?;
        Ok(self.automaton(name, dfa))
    }

    /// Makes `terminal` the one that may follow any terminal without a meaning.
    #[doc(hidden)]
    pub fn ignore(&mut self, terminal: ExprId) {
        if let Node::Terminal(terminal) = self.nodes[terminal.index()] {
            self.ignored = Some(terminal);
        }
    }

    /// The control token of this name. A token that ends a sequence is the end of the output: see
    /// [`Terminal::Token`].
    pub fn token(&mut self, name: &str) -> ExprId {
        self.terminal(Terminal::Token(name.into()), || name.to_owned())
    }

    /// One token of `set`, by its id: see [`Terminal::Tokens`]. `name` is shown to people.
    pub fn tokens(&mut self, name: &str, set: TokenSet) -> ExprId {
        self.terminal(Terminal::Tokens(Arc::new(set)), || name.to_owned())
    }

    /// One token of `tokens`, by its id. A token of text counts as itself here, and other spellings of its text do
    /// not. `name` is shown to people.
    ///
    /// The constraint takes those of `tokens` that a mask may hold: no end of a sequence, no unused id, no token
    /// without a text.
    ///
    /// # Panics
    ///
    /// If there are none.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_core::{Constraint, TokenMask, Vocabulary};
    /// use unskew_grammar::{Grammar, GrammarLimits};
    /// use unskew_grammars::GrammarConstraint;
    /// use unskew_trie::TokenTrie;
    ///
    /// let mut vocabulary = Vocabulary::builder();
    /// let [a, b, ab] = ["a", "b", "ab"].map(|text| vocabulary.text(text.as_bytes()));
    /// let vocabulary = Arc::new(vocabulary.build()?);
    /// let trie = Arc::new(TokenTrie::new(Arc::clone(&vocabulary))?);
    ///
    /// let limits = GrammarLimits::default();
    /// let mut builder = Grammar::builder(&limits);
    /// let mut set = TokenMask::new(vocabulary.len());
    /// set.as_mut().insert(ab);
    /// let (token, text, start) = (builder.one_of("the token ab", set), builder.literal("a"), builder.rule("start"));
    /// let body = builder.choice([token, text]);
    /// builder.define(start, body);
    /// let constraint = GrammarConstraint::new(&builder.build(start)?, trie, &limits)?;
    ///
    /// let (mut scratch, state) = (constraint.scratch(), constraint.start());
    /// let mut mask = TokenMask::new(3);
    /// constraint.fill_mask(&mut scratch, &state, mask.as_mut());
    /// assert_eq!(mask.ids().collect::<Vec<_>>(), [a, ab]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn one_of(&mut self, name: &str, tokens: TokenMask) -> ExprId {
        assert!(!tokens.none(), "one token of none");
        self.terminal(Terminal::OneOf(Arc::new(tokens)), || name.to_owned())
    }

    /// The concatenation of the parts; the empty text if there are none.
    pub fn sequence(&mut self, parts: impl IntoIterator<Item = ExprId>) -> ExprId {
        match self.list(parts) {
            Ok((first, end)) => self.push(Node::Sequence(first, end)),
            Err(Some(only)) => only,
            Err(None) => self.empty(),
        }
    }

    /// A choice of the alternatives. Their order has no meaning.
    ///
    /// # Panics
    ///
    /// If there are no alternatives: such a choice would match nothing.
    pub fn choice(&mut self, alternatives: impl IntoIterator<Item = ExprId>) -> ExprId {
        match self.list(alternatives) {
            Ok((first, end)) => self.push(Node::Choice(first, end)),
            Err(only) => only.expect("a choice has alternatives"),
        }
    }

    /// `item` at least `min` and at most `max` times. Without `max` the number is unbounded.
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

    /// `item` or the empty text.
    pub fn optional(&mut self, item: ExprId) -> ExprId {
        self.repeat(item, 0, Some(1))
    }

    /// Members in any order, each at most once, with `others` any number of times between them. A member with
    /// the flag `true` is required. There are at least `min` and at most `max` members and others together,
    /// with `separator` between neighbours. No member may be nullable, which
    /// `GrammarConstraint` of `unskew-grammars` checks.
    ///
    /// A member occurs once even if two members share a prefix: each reading of the text uses up the member
    /// that it chose.
    ///
    /// # Example
    ///
    /// `ab`, `ba`, and `b`:
    ///
    /// ```
    /// use unskew_grammar::{Grammar, GrammarLimits};
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
        self.group(members, others, separator, (min, max), Box::default())
    }

    /// Members in any order, at least one, with choices between them. A text fits each of `choices`, whose members do
    /// not have the flag and are in no other choice. For the rest it is [`unordered`](Self::unordered); a separator
    /// must have a text.
    ///
    /// Use it where conditions on members are independent of each other: as alternatives they multiply.
    ///
    /// # Example
    ///
    /// `a` alone, `b` alone or `c`, and with `b` also `d`:
    ///
    /// ```
    /// use unskew_grammar::{Grammar, GrammarLimits, MemberChoice, MemberWay};
    ///
    /// let mut builder = Grammar::builder(&GrammarLimits::default());
    /// let members = ["a", "b", "c", "d"].map(|text| (builder.literal(text), false));
    /// let ways = [vec![(0, true)], vec![(1, true), (3, false)], vec![(2, true)]];
    /// let choice = MemberChoice::new(ways.map(MemberWay::new));
    /// let body = builder.unordered_with_choices(members, [choice], None, None);
    /// let start = builder.rule("start");
    /// builder.define(start, body);
    /// assert!(builder.build(start).is_ok());
    /// ```
    ///
    /// # Panics
    ///
    /// If a choice has a member that is not in the list, has the flag, or is in another choice.
    pub fn unordered_with_choices(
        &mut self,
        members: impl IntoIterator<Item = (ExprId, bool)>,
        choices: impl IntoIterator<Item = MemberChoice>,
        others: Option<ExprId>,
        separator: Option<ExprId>,
    ) -> ExprId {
        let members: Vec<(ExprId, bool)> = members.into_iter().collect();
        let choices: Box<[MemberChoice]> = choices.into_iter().collect();
        let mut choice_of: Vec<Option<usize>> = vec![None; members.len()];
        for (index, choice) in choices.iter().enumerate() {
            for member in choice.members() {
                assert!(!members[member as usize].1, "a member of a choice has no flag");
                let known = choice_of[member as usize].replace(index);
                assert!(known.is_none_or(|known| known == index), "a member is in two choices");
            }
        }
        self.group(members, others, separator, (1, None), choices)
    }

    fn group(
        &mut self,
        members: impl IntoIterator<Item = (ExprId, bool)>,
        others: Option<ExprId>,
        separator: Option<ExprId>,
        (min, max): (u32, Option<u32>),
        choices: Box<[MemberChoice]>,
    ) -> ExprId {
        let members =
            members.into_iter().map(|(member, required)| (self.as_rule("member", member), required));
        let members = members.collect();
        let others = others.map(|others| self.as_rule("other member", others));
        let separator = separator.map(|separator| self.as_rule("separator", separator));
        let body = self.unordered_body(Unordered { members, others, separator, min, max, choices });
        let rule = self.rule("members in any order");
        self.define(rule, body);
        self.call(rule)
    }

    /// A group, to be used as the whole body of a rule and as no part of another expression, so that it
    /// begins and ends where a rule does.
    pub(crate) fn unordered_body(&mut self, unordered: Unordered) -> ExprId {
        self.grouped += unordered.size();
        self.unordered.push(unordered);
        self.push(Node::Unordered(number(self.unordered.len() - 1)))
    }

    /// `expr` as a rule.
    fn as_rule(&mut self, name: &str, expr: ExprId) -> RuleId {
        if let Node::Rule(rule) = self.nodes[expr.index()] {
            return rule;
        }
        let rule = self.rule(name);
        self.define(rule, expr);
        rule
    }

    /// The grammar with the start rule `start`. Rules that the start does not reach are kept.
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

    /// The number of rules, terminals and expression nodes so far, as [`GrammarLimits::nodes`] counts them.
    pub fn size(&self) -> usize {
        self.rules.len() + self.terminals.len() + self.nodes.len() + self.parts.len() + self.grouped
    }

    /// A use of `terminal`, of any kind.
    #[doc(hidden)]
    pub fn known_terminal(&mut self, terminal: Terminal, name: &str) -> ExprId {
        self.terminal(terminal, || name.to_owned())
    }

    pub(super) fn terminal(&mut self, terminal: Terminal, name: impl FnOnce() -> String) -> ExprId {
        let next = TerminalId::from_index(self.terminals.len());
        let terminals = &mut self.terminals;
        let names = &mut self.names;
        let found = *self.ids.entry(terminal).or_insert_with_key(|terminal| {
            terminals.push(terminal.clone());
            names.push(name().into());
            next
        });
        self.push(Node::Terminal(found))
    }

    /// The range of the parts in `self.parts`; `Err` with the only part, or with `None`, if there are fewer than two.
    fn list(&mut self, parts: impl IntoIterator<Item = ExprId>) -> Result<(u32, u32), Option<ExprId>> {
        let first = self.parts.len();
        self.parts.extend(parts);
        match self.parts.len() - first {
            0 | 1 => Err(self.parts.drain(first..).next()),
            _ => Ok((number(first), number(self.parts.len()))),
        }
    }

    fn push(&mut self, node: Node) -> ExprId {
        self.nodes.push(node);
        ExprId::from_index(self.nodes.len() - 1)
    }
}
