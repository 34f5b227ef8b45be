//! Patterns with look-around as a list of nodes, parts before their whole, so that nothing recurses over what a user
//! nests and a part that is used twice is kept once.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use regex_syntax::hir::{
    self, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look,
};

use crate::{
    Dfa, Dialect, Limits, Pattern, RegexError,
    regex::{
        OPENINGS, PYTHON_WORD, known,
        parsed::{Parsed, read},
    },
};

/// A pattern of [`Patterns`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PatternId(pub(super) u32);

impl PatternId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The side on which a look-around looks, and whether the text there must match (`true`) or must not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LookAround {
    /// `(?=…)` and `(?!…)`.
    Ahead(bool),
    /// `(?<=…)` and `(?<!…)`.
    Behind(bool),
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Empty,
    Literal(Box<[u8]>),
    Class(Class),
    /// The texts of an automaton. A longer one is preferred.
    Automaton(Arc<Dfa>),
    /// A range of `parts`.
    Concatenation(u32, u32),
    Alternation(u32, u32),
    Repetition {
        item: PatternId,
        min: u32,
        /// [`u32::MAX`] is unbounded.
        max: u32,
        greedy: bool,
    },
    Look {
        ahead: bool,
        positive: bool,
        item: PatternId,
    },
}

/// Facts about a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    /// The lengths of the shortest and of the longest text, in bytes; [`u32::MAX`] is that or more.
    least: u32,
    most: u32,
    lazy: bool,
    looks: bool,
}

impl Facts {
    const EMPTY: Self = Self { least: 0, most: 0, lazy: false, looks: false };
}

/// Patterns that may look around, built from texts in the syntax of the `regex` crate with look-around, and from one
/// another. [`DfaAlgebra::in_context`](crate::dfa::DfaAlgebra::in_context) has their meaning.
#[derive(Clone, Debug)]
pub struct Patterns {
    limits: Limits,
    nodes: Vec<Node>,
    facts: Vec<Facts>,
    parts: Vec<PatternId>,
    /// By [`Look::as_repr`], and whether words are Python's.
    by_look: HashMap<(u32, bool), PatternId>,
}

impl Patterns {
    /// No patterns yet. The limits on the length and on the nesting of a pattern, and [`Limits::syntax_steps`] for each
    /// pattern, apply.
    pub fn new(limits: &Limits) -> Self {
        Self { limits: limits.clone(), nodes: vec![], facts: vec![], parts: vec![], by_look: HashMap::new() }
    }

    /// A pattern, which is a part of a text. A text alone is in the dialect of the `regex` crate, with look-around.
    ///
    /// # Errors
    ///
    /// [`RegexError`]: syntax, a back-reference, look-ahead inside look-behind, or a limit.
    pub fn pattern<'t>(&mut self, pattern: impl Into<Pattern<'t>>) -> Result<PatternId, RegexError> {
        let parsed = read(pattern.into(), &self.limits, false)?;
        Ok(self.parsed(&parsed))
    }

    pub(crate) fn parsed(&mut self, parsed: &Parsed) -> PatternId {
        let reader = Reader { patterns: self, dialect: parsed.dialect, stack: vec![] };
        hir::visit(&parsed.hir, reader).unwrap_or_else(|never| match never {})
    }

    /// Exactly this text.
    pub fn text(&mut self, text: &[u8]) -> PatternId {
        let bytes = length(text.len());
        match text {
            [] => self.push(Node::Empty, Facts::EMPTY),
            text => {
                self.push(Node::Literal(text.into()), Facts { least: bytes, most: bytes, ..Facts::EMPTY })
            }
        }
    }

    /// The texts of an automaton, longer ones before shorter ones.
    pub fn automaton(&mut self, dfa: Arc<Dfa>) -> PatternId {
        let (least, most) = lengths(&dfa);
        self.push(Node::Automaton(dfa), Facts { least, most, ..Facts::EMPTY })
    }

    /// The parts one after another.
    pub fn concatenation(&mut self, parts: &[PatternId]) -> PatternId {
        if let [only] = parts {
            return *only;
        }
        let facts = parts.iter().fold(Facts::EMPTY, |sum, part| {
            let part = self.facts[part.index()];
            Facts {
                least: sum.least.saturating_add(part.least),
                most: sum.most.saturating_add(part.most),
                lazy: sum.lazy | part.lazy,
                looks: sum.looks | part.looks,
            }
        });
        let (first, end) = self.list(parts);
        self.push(Node::Concatenation(first, end), facts)
    }

    /// One of the alternatives, an earlier one before a later one. Without alternatives there is no text.
    pub fn alternation(&mut self, alternatives: &[PatternId]) -> PatternId {
        if let [only] = alternatives {
            return *only;
        }
        let facts = alternatives.iter().map(|part| self.facts[part.index()]);
        let facts = facts.reduce(|all, part| Facts {
            least: all.least.min(part.least),
            most: all.most.max(part.most),
            lazy: all.lazy | part.lazy,
            looks: all.looks | part.looks,
        });
        let (first, end) = self.list(alternatives);
        self.push(Node::Alternation(first, end), facts.unwrap_or(Facts::EMPTY))
    }

    /// `item` at least `min` and at most `max` times, without `max` any number of times. `greedy` is whether more
    /// repetitions come before fewer.
    pub fn repetition(&mut self, item: PatternId, min: u32, max: Option<u32>, greedy: bool) -> PatternId {
        let of_item = self.facts[item.index()];
        let (mut min, mut max) = (min, max.unwrap_or(u32::MAX));
        // A condition that holds once holds any number of times.
        if of_item.most == 0 {
            (min, max) = (min.min(1), max.min(1));
        }
        let most = if of_item.most == 0 { 0 } else { of_item.most.saturating_mul(max) };
        let lazy = of_item.lazy || (!greedy && min != max);
        let facts = Facts { least: of_item.least.saturating_mul(min), most, lazy, looks: of_item.looks };
        self.push(Node::Repetition { item, min, max, greedy }, facts)
    }

    /// The empty text where `item` matches, or does not match, beside it.
    pub fn look(&mut self, look: LookAround, item: PatternId) -> PatternId {
        let (ahead, positive) = match look {
            LookAround::Ahead(positive) => (true, positive),
            LookAround::Behind(positive) => (false, positive),
        };
        self.push(Node::Look { ahead, positive, item }, Facts { looks: true, ..Facts::EMPTY })
    }

    /// Whether the pattern has a lazy repetition outside of look-around.
    pub fn is_lazy(&self, pattern: PatternId) -> bool {
        self.facts[pattern.index()].lazy
    }

    /// Whether the pattern looks around, at anchors and word boundaries too.
    pub fn looks(&self, pattern: PatternId) -> bool {
        self.facts[pattern.index()].looks
    }

    /// The lengths of the shortest and of the longest text if all look-arounds hold, in bytes; `None` if the longest is
    /// unbounded or not known.
    pub fn lengths(&self, pattern: PatternId) -> (u32, Option<u32>) {
        let facts = self.facts[pattern.index()];
        (facts.least, Some(facts.most).filter(|most| *most != u32::MAX))
    }

    pub(super) fn node(&self, pattern: PatternId) -> &Node {
        &self.nodes[pattern.index()]
    }

    pub(super) fn parts(&self, first: u32, end: u32) -> &[PatternId] {
        &self.parts[first as usize..end as usize]
    }

    pub(super) fn can_be_empty(&self, pattern: PatternId) -> bool {
        self.facts[pattern.index()].least == 0
    }

    fn push(&mut self, node: Node, facts: Facts) -> PatternId {
        self.nodes.push(node);
        self.facts.push(facts);
        PatternId(length(self.nodes.len() - 1))
    }

    fn list(&mut self, parts: &[PatternId]) -> (u32, u32) {
        let first = length(self.parts.len());
        self.parts.extend_from_slice(parts);
        (first, length(self.parts.len()))
    }

    fn class(&mut self, class: Class) -> PatternId {
        let (least, most) = match &class {
            Class::Unicode(class) => (class.minimum_len(), class.maximum_len()),
            Class::Bytes(class) => (class.minimum_len(), class.maximum_len()),
        };
        let facts =
            Facts { least: length(least.unwrap_or(0)), most: length(most.unwrap_or(0)), ..Facts::EMPTY };
        self.push(Node::Class(class), facts)
    }

    fn both(&mut self, left: PatternId, right: PatternId) -> PatternId {
        self.concatenation(&[left, right])
    }

    /// The meaning of an anchor or a word boundary in look-ahead and look-behind.
    fn assertion(&mut self, look: Look, python: bool) -> PatternId {
        if let Some(known) = self.by_look.get(&(look.as_repr(), python)) {
            return *known;
        }
        use LookAround::{Ahead, Behind};
        let made = match look {
            Look::Start | Look::End => {
                // A look-behind begins between two characters.
                let any = match look {
                    Look::Start => {
                        Class::Unicode(ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]))
                    }
                    _ => Class::Bytes(ClassBytes::new([ClassBytesRange::new(0, 255)])),
                };
                let any = self.class(any);
                self.look(if look == Look::Start { Behind(false) } else { Ahead(false) }, any)
            }
            Look::StartLF | Look::EndLF => {
                let line = self.text(b"\n");
                let (limit, side) = match look {
                    Look::StartLF => (self.assertion(Look::Start, python), Behind(true)),
                    _ => (self.assertion(Look::End, python), Ahead(true)),
                };
                let line = self.look(side, line);
                self.alternation(&[limit, line])
            }
            // Not between `\r` and `\n`.
            Look::StartCRLF | Look::EndCRLF => {
                let (feed, back) = (self.text(b"\n"), self.text(b"\r"));
                let (limit, after, before) = match look {
                    Look::StartCRLF => (Look::Start, Behind(true), Ahead(false)),
                    _ => (Look::End, Ahead(true), Behind(false)),
                };
                let (sure, unsure) = if look == Look::StartCRLF { (feed, back) } else { (back, feed) };
                let limit = self.assertion(limit, python);
                let sure_line = self.look(after, sure);
                let line = self.look(after, unsure);
                let not_between = self.look(before, sure);
                let line = self.both(line, not_between);
                self.alternation(&[limit, sure_line, line])
            }
            _ => {
                let word = match look {
                    Look::WordAscii
                    | Look::WordAsciiNegate
                    | Look::WordStartAscii
                    | Look::WordEndAscii
                    | Look::WordStartHalfAscii
                    | Look::WordEndHalfAscii => "[0-9A-Za-z_]",
                    _ if python => PYTHON_WORD,
                    _ => r"\w",
                };
                let word = self.class(Class::Unicode(known(word).expect("a class")));
                let [before, not_before] = [true, false].map(|positive| self.look(Behind(positive), word));
                let [after, not_after] = [true, false].map(|positive| self.look(Ahead(positive), word));
                match look {
                    Look::WordStartHalfAscii | Look::WordStartHalfUnicode => not_before,
                    Look::WordEndHalfAscii | Look::WordEndHalfUnicode => not_after,
                    Look::WordStartAscii | Look::WordStartUnicode => self.both(not_before, after),
                    Look::WordEndAscii | Look::WordEndUnicode => self.both(before, not_after),
                    Look::WordAscii | Look::WordUnicode => {
                        let sides = [self.both(before, not_after), self.both(not_before, after)];
                        self.alternation(&sides)
                    }
                    _ => {
                        let sides = [self.both(before, after), self.both(not_before, not_after)];
                        self.alternation(&sides)
                    }
                }
            }
        };
        self.by_look.insert((look.as_repr(), python), made);
        made
    }
}

/// Turns a tree into nodes.
struct Reader<'p> {
    patterns: &'p mut Patterns,
    dialect: Dialect,
    /// The finished parts of the open nodes.
    stack: Vec<PatternId>,
}

impl hir::Visitor for Reader<'_> {
    type Output = PatternId;
    type Err = std::convert::Infallible;

    fn finish(mut self) -> Result<PatternId, Self::Err> {
        Ok(self.stack.pop().expect("every node was made"))
    }

    fn visit_post(&mut self, hir: &Hir) -> Result<(), Self::Err> {
        let patterns = &mut *self.patterns;
        let mut pop = || self.stack.pop().expect("the parts were made");
        let made = match hir.kind() {
            HirKind::Empty => patterns.text(b""),
            HirKind::Literal(literal) => patterns.text(&literal.0),
            HirKind::Class(class) => patterns.class(class.clone()),
            HirKind::Look(look) => patterns.assertion(*look, self.dialect == Dialect::Python),
            HirKind::Capture(capture) => {
                let item = pop();
                let opening = OPENINGS.iter().find(|(opening, ..)| capture.name.as_deref() == Some(opening));
                match opening {
                    None => item,
                    Some((_, true, positive)) => patterns.look(LookAround::Ahead(*positive), item),
                    Some((_, false, positive)) => patterns.look(LookAround::Behind(*positive), item),
                }
            }
            HirKind::Repetition(repetition) => {
                let item = pop();
                patterns.repetition(item, repetition.min, repetition.max, repetition.greedy)
            }
            HirKind::Concat(parts) => {
                let parts = self.stack.split_off(self.stack.len() - parts.len());
                patterns.concatenation(&parts)
            }
            HirKind::Alternation(parts) => {
                let parts = self.stack.split_off(self.stack.len() - parts.len());
                patterns.alternation(&parts)
            }
        };
        self.stack.push(made);
        Ok(())
    }
}

/// The lengths of the shortest and of the longest text of an automaton.
fn lengths(dfa: &Dfa) -> (u32, u32) {
    let mut before = vec![0; dfa.len()];
    for edge in dfa.states().flat_map(|state| dfa.edges(state)) {
        before[edge.target.index()] += 1;
    }
    let mut least = vec![u32::MAX; dfa.len()];
    least[dfa.start().index()] = 0;
    let (mut near, mut shortest) = (VecDeque::from([dfa.start()]), u32::MAX);
    while let Some(state) = near.pop_front() {
        if dfa.is_accepting(state) {
            shortest = least[state.index()];
            break;
        }
        for edge in dfa.edges(state) {
            if least[edge.target.index()] == u32::MAX {
                least[edge.target.index()] = least[state.index()] + 1;
                near.push_back(edge.target);
            }
        }
    }
    // Every state is reachable and reaches an end, so a state that is never free of edges into it is on a loop.
    let (mut most, mut done) = (vec![0; dfa.len()], 0);
    let mut free = if before[dfa.start().index()] == 0 { vec![dfa.start()] } else { vec![] };
    while let Some(state) = free.pop() {
        done += 1;
        for edge in dfa.edges(state) {
            let target = edge.target.index();
            most[target] = most[target].max(most[state.index()] + 1);
            before[target] -= 1;
            if before[target] == 0 {
                free.push(edge.target);
            }
        }
    }
    let longest =
        dfa.states().filter(|state| dfa.is_accepting(*state)).map(|state| most[state.index()]).max();
    (shortest, if done == dfa.len() { longest.unwrap_or(0) } else { u32::MAX })
}

pub(super) fn length(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
