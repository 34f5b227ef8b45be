//! The boundaries at which a tokenizer splits text, as one deterministic automaton over *marked text*: text with a
//! mark at each boundary between two pieces.
//!
//! An encoder writes only token sequences whose pieces end where its pre-tokenizer splits. The boundaries depend on
//! the whole text (a space belongs to the word after it, unless the text ends), so an engine that walks over tokens
//! needs an automaton that follows all open questions at once. This automaton accepts a marked text exactly if its
//! marks are those that the pre-tokenizer sets.
//!
//! ```text
//! pattern --pattern--> tree --nfa--> NFA with priorities --determinize--> Marked (one for each step)
//! Marked, Marked, ... --marked: product, minimal--> Marked --rules: restrictions of texts--> Marked
//! Marked --bytes, with the decision tree of dfa/utf8--> SplitDfa
//! ```
//!
//! All stages but the last run over *atoms* (`dfa/atoms`), classes of characters that no pattern distinguishes. A step
//! sees the text as the steps before it leave it: with U+2581 for each space, or in GPT-2's alphabet of bytes. The
//! text of the automaton is the text of the vocabulary, so the sets of a pattern are translated (`chars::View`).
//! Patterns after a byte-level step run over bytes: the automaton of all steps before them is first rewritten over
//! bytes, and these patterns may split inside of a character.
//!
//! The semantics is the one of the `tokenizers` library with `fancy-regex`: matches are found from left to right, at
//! each position the first one in the order of backtracking; a step splits each piece of the step before as if it
//! were a text. A pattern that has no exact automaton here is a [`SplitError`].
//!
//! Rejected: to recognise the patterns in use by their text and to write an automaton for each by hand. That is short
//! until the first model with a new pattern, and only a test per pattern would show that it is exact. Rejected too:
//! to split with the engine itself while tokens are chosen. It answers for whole texts, and a mask needs to know
//! whether *some* continuation of a prefix puts the marks right.

mod bytes;
mod chars;
mod determinize;
mod error;
mod limits;
mod marked;
mod nfa;
mod pattern;
#[cfg(test)]
mod refusal_tests;
mod rules;
#[cfg(test)]
mod tests;

use unskew_core::{SplitBehavior, SplitPattern};

use crate::{
    dfa::{ByteClasses, CharSet, atoms::Atoms, utf8::Tree},
    ids::{Id, SplitState},
};
pub use error::SplitError;
pub use limits::SplitLimits;
pub(crate) use rules::{Prefix, Section, TextRule, White};

use self::{
    chars::{Sets, View},
    determinize::{Kind, Pieces},
    limits::Budget,
    marked::Marked,
    nfa::{Nfa, Node},
    rules::Rule,
};

/// A deterministic automaton over bytes and marks. It accepts exactly the texts (valid UTF-8) that have a mark at
/// each boundary between two pieces and nowhere else: none at the start, none at the end.
///
/// Every state is reachable and reaches an accepting one, no two states have the same language, and states are
/// numbered breadth-first; so two automata of one language are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SplitDfa {
    /// The coarsest classes.
    pub(crate) classes: ByteClasses,
    /// `next[state * classes.len() + class]` is a state or [`DEAD`](crate::dfa::table::DEAD).
    next: Vec<u32>,
    /// Empty, or of the same shape: the transitions of the same automaton through the fallback tokens of bytes. From
    /// a boundary of characters a fallback transition begins a character without a token of its own; inside of such a
    /// character there are only fallback transitions.
    fallback: Vec<u32>,
    /// By state: the state after a mark, or [`DEAD`](crate::dfa::table::DEAD).
    mark: Vec<u32>,
    /// By state: whether the text may end here.
    accepting: Vec<bool>,
    /// By state: whether an added token that strips the white space before it may follow. Empty if no token strips.
    before_strip: Vec<bool>,
    start: u32,
    /// The start of a text after an added token, for each [`Section`] of the options.
    sections: Vec<u32>,
}

/// Further facts about a tokenizer that the automaton depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SplitOptions<'a> {
    /// Characters that no text may contain.
    pub(crate) forbidden: &'a [char],
    /// Lists of ranges of characters: a text contains only characters that are in every list.
    pub(crate) kept: &'a [Vec<(char, char)>],
    /// The spelling of a space before the first step, if it is not a space.
    pub(crate) blank: Option<char>,
    /// Whether the text is spelled in GPT-2's alphabet of bytes before the first step.
    pub(crate) by_bytes: bool,
    /// Restrictions of the texts.
    pub(crate) rules: &'a [TextRule],
    /// Patterns that must not match anywhere, and the spelling of a space for each.
    pub(crate) absent: &'a [(String, Option<char>)],
    /// The ways in which texts start after added tokens.
    pub(crate) sections: &'a [Section],
    /// For models with characters as symbols: the characters that have a token of their own, sorted. `None` if
    /// symbols are bytes.
    pub(crate) known: Option<&'a [char]>,
}

/// A step that splits at the matches of its pattern.
struct Step {
    nfa: Nfa,
    pieces: Pieces,
    /// Its number, from 1.
    number: usize,
}

impl SplitDfa {
    /// The automaton of the steps `splits`, in order.
    ///
    /// # Errors
    ///
    /// [`SplitError`] if a step has no exact automaton here, or a limit is exceeded.
    pub(crate) fn new(
        splits: &[SplitPattern],
        options: &SplitOptions<'_>,
        limits: &SplitLimits,
    ) -> Result<Self, SplitError> {
        let mut budget = Budget::new(limits);
        let mut view = match options.blank {
            _ if options.by_bytes => View::Bytes,
            Some(mark) => View::Blanks(mark),
            None => View::Text,
        };
        // Patterns over characters are collected apart from patterns over bytes.
        let (mut sets, mut byte_sets) = (Sets::default(), Sets::default());
        let (mut steps, mut byte_steps): (Vec<Step>, Vec<Step>) = (Vec::new(), Vec::new());
        for (pattern, blank) in options.absent {
            let view = blank.map_or(View::Text, View::Blanks);
            let ast = pattern::parse(pattern, 0, view, &mut sets, &mut budget)?;
            steps.push(Step { nfa: nfa::compile(&ast, 0, &mut budget)?, pieces: Pieces::Between, number: 0 });
        }
        for (index, split) in splits.iter().enumerate() {
            let over_bytes = view == View::Bytes;
            let (steps, sets) =
                if over_bytes { (&mut byte_steps, &mut byte_sets) } else { (&mut steps, &mut sets) };
            steps.extend(step(split, index + 1, &mut view, sets, &mut budget)?);
        }
        let word = match options.rules.iter().any(|rule| matches!(rule, TextRule::WithoutWord(_))) {
            true => pattern::word(&mut budget)?,
            false => CharSet::default(),
        };
        let (atoms, own) = atoms_of(&steps, &sets, &own_sets(options, &word), &mut budget)?;
        let mut marked = in_sequence(Marked::whole(atoms.count), &steps, &atoms, &mut budget)?;
        let mut own = own.iter().copied();
        let mut next_own = || own.next().map_or(&[][..], |set| &atoms.members[set][..]);
        marked.forbid(next_own());
        for _ in options.kept {
            let dropped: Vec<bool> = next_own().iter().map(|kept| !kept).collect();
            marked.forbid(&dropped);
        }
        for rule in options.rules {
            let members: Vec<&[bool]> = rules::sets(rule, &word).iter().map(|_| next_own()).collect();
            let rule = Rule::new(rule, &members, &atoms, &mut budget)?;
            marked = marked.under(&rule, &mut budget)?.reduced(&mut budget)?;
        }
        for section in options.sections {
            let white = next_own();
            let blank = next_own().iter().position(|is_blank| *is_blank).unwrap_or(0);
            let start = section.add_to(&mut marked, blank, |atom| white[atom]);
            marked.sections.push(start);
        }
        let marked = marked.reduced(&mut budget)?;

        // The stages above do not depend on the tokens of single characters.
        let known: Option<CharSet> = options.known.map(|known| known.iter().copied().collect());
        let fine = match &known {
            None => None,
            Some(known) => {
                let own = own_sets(options, &word);
                let of_steps = used(&steps, &sets);
                let all: Vec<&CharSet> = of_steps.into_iter().chain(&own).chain([known]).collect();
                budget.spend(all.iter().map(|set| 4 * set.ranges().len()).sum())?;
                Some(Atoms::new(&all))
            }
        };
        let fine = fine.as_ref().unwrap_or(&atoms);
        let mut coarse = vec![None; fine.count];
        let mut runs = atoms.runs.iter().peekable();
        for (low, _, atom) in &fine.runs {
            while runs.next_if(|run| run.1 < *low).is_some() {}
            coarse[*atom as usize] = runs.peek().map(|run| run.2 as usize);
        }
        let unknown: Option<Vec<bool>> = known
            .as_ref()
            .and_then(|_| fine.members.last())
            .map(|known| known.iter().map(|known| !known).collect());
        let mut steps = 0;
        let tree = Tree::new(fine, &mut steps);
        budget.spend(steps)?;
        let split = bytes::expand(&marked, &tree, &coarse, unknown.as_deref(), &mut budget)?;
        if byte_steps.is_empty() {
            return Ok(split);
        }

        let (atoms, _) = atoms_of(&byte_steps, &byte_sets, &bytes::classes(&split), &mut budget)?;
        let marked = in_sequence(bytes::marked(&split, &atoms), &byte_steps, &atoms, &mut budget)?;
        Ok(bytes::assembled(&marked, &atoms))
    }
}

/// The questions of the canonical engine. The stages of the construction read the tables themselves.
impl SplitDfa {
    /// The number of states.
    pub(crate) fn len(&self) -> usize {
        self.accepting.len()
    }

    /// All states, in ascending order.
    pub(crate) fn states(&self) -> impl DoubleEndedIterator<Item = SplitState> + use<> {
        (0..self.len()).map(SplitState::from_index)
    }

    /// The state before any text.
    #[inline]
    pub(crate) fn start(&self) -> SplitState {
        SplitState::of(self.start)
    }

    /// The state at the start of a text after an added token. `section` is the index of its [`Section`].
    pub(crate) fn section(&self, section: usize) -> Option<SplitState> {
        SplitState::of_entry(self.sections[section])
    }

    /// The state after `byte`, without the transitions of fallback tokens.
    #[inline]
    pub(crate) fn step(&self, state: SplitState, byte: u8) -> Option<SplitState> {
        SplitState::of_entry(self.next[self.entry(state, byte)])
    }

    /// The state after a fallback token of `byte`.
    #[inline]
    pub(crate) fn step_fallback(&self, state: SplitState, byte: u8) -> Option<SplitState> {
        self.fallback.get(self.entry(state, byte)).and_then(|next| SplitState::of_entry(*next))
    }

    fn entry(&self, state: SplitState, byte: u8) -> usize {
        state.index() * self.classes.len() + usize::from(self.classes.get(byte))
    }

    /// The transitions of a state, for many [steps](Self::step) from it.
    #[inline]
    pub(crate) fn row(&self, state: SplitState) -> SplitRow<'_> {
        let width = self.classes.len();
        SplitRow { classes: &self.classes, next: &self.next[state.index() * width..][..width] }
    }

    /// The state after a boundary.
    #[inline]
    pub(crate) fn mark(&self, state: SplitState) -> Option<SplitState> {
        SplitState::of_entry(self.mark[state.index()])
    }

    /// Whether the text may end in this state.
    #[inline]
    pub(crate) fn is_accepting(&self, state: SplitState) -> bool {
        self.accepting[state.index()]
    }

    /// Whether the text may end here before an added token that strips the white space before it.
    pub(crate) fn may_be_stripped(&self, state: SplitState) -> bool {
        *self.before_strip.get(state.index()).unwrap_or(&self.accepting[state.index()])
    }

    /// Whether some characters are spelled by fallback tokens.
    #[inline]
    pub(crate) fn has_fallback(&self) -> bool {
        !self.fallback.is_empty()
    }

    /// Whether some state reads a fallback token of `byte`.
    pub(crate) fn reads_fallback(&self, byte: u8) -> bool {
        self.states().any(|state| self.step_fallback(state, byte).is_some())
    }

    /// Gives back the memory that the lists reserved while they grew.
    pub(crate) fn shrink_to_fit(&mut self) {
        [&mut self.next, &mut self.fallback, &mut self.mark].into_iter().for_each(Vec::shrink_to_fit);
    }

    /// In bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let lists = [&self.next, &self.fallback, &self.mark, &self.sections];
        lists.iter().map(|list| size_of_val(&list[..])).sum::<usize>()
            + self.accepting.len()
            + self.before_strip.len()
    }
}

/// The transitions of a state of the splitter.
#[derive(Clone, Copy)]
pub(crate) struct SplitRow<'a> {
    classes: &'a ByteClasses,
    next: &'a [u32],
}

impl SplitRow<'_> {
    /// The state after `byte`.
    #[inline]
    pub(crate) fn step(self, byte: u8) -> Option<SplitState> {
        SplitState::of_entry(self.next[usize::from(self.classes.get(byte))])
    }
}

/// Whether `pattern` certainly matches nowhere in `text`, also if `text` is a part of another text.
///
/// # Errors
///
/// [`SplitError`] if the pattern has no exact automaton here.
pub(crate) fn matches_nothing_in(
    pattern: &str,
    text: &str,
    limits: &SplitLimits,
) -> Result<bool, SplitError> {
    let removed =
        SplitPattern::Regex { pattern: pattern.to_owned(), behavior: SplitBehavior::Removed, invert: false };
    let mut budget = Budget::new(limits);
    let step = step(&removed, 1, &mut View::Text, &mut Sets::default(), &mut budget)?;
    let is_plain = step.is_some_and(|Step { nfa, .. }| {
        nfa.looks.is_empty() && !nfa.nodes.iter().any(|node| matches!(node, Node::Start { .. }))
    });
    let without = SplitDfa::new(&[removed], &SplitOptions::default(), limits)?;
    let end = text.bytes().try_fold(without.start(), |state, byte| without.step(state, byte));
    Ok(is_plain && end.is_some())
}

/// The sets that `options` need, in the order in which they are read.
fn own_sets(options: &SplitOptions<'_>, word: &CharSet) -> Vec<CharSet> {
    let mut own = vec![options.forbidden.iter().copied().collect()];
    let range = |(low, high): &(char, char)| (u32::from(*low), u32::from(*high));
    own.extend(options.kept.iter().map(|kept| CharSet::new(kept.iter().map(range))));
    own.extend(options.rules.iter().flat_map(|rule| rules::sets(rule, word)));
    for section in options.sections {
        own.push(section.swallows.map_or_else(CharSet::default, White::set));
        own.push(CharSet::from_iter([' ']));
    }
    own
}

/// The sets of `sets` that patterns of `steps` read; an empty set replaces each other one.
fn used<'a>(steps: &[Step], sets: &'a Sets) -> Vec<&'a CharSet> {
    static EMPTY: CharSet = CharSet::EMPTY;
    let mut is_used = vec![false; sets.len()];
    for Step { nfa, .. } in steps {
        for node in &nfa.nodes {
            if let Node::Set { set, .. } = node {
                is_used[*set] = true;
            }
        }
        for (set, _) in &nfa.looks {
            is_used[*set] = true;
        }
    }
    is_used.iter().enumerate().map(|(set, used)| if *used { sets.get(set) } else { &EMPTY }).collect()
}

/// The atoms of all sets that patterns of `steps` read, and of the sets `own`; and the indices of the members of
/// `own`.
fn atoms_of(
    steps: &[Step],
    sets: &Sets,
    own: &[CharSet],
    budget: &mut Budget<'_>,
) -> Result<(Atoms, Vec<usize>), SplitError> {
    let used: Vec<&CharSet> = used(steps, sets).into_iter().chain(own).collect();
    budget.spend(used.iter().map(|set| 4 * set.ranges().len()).sum())?;
    Ok((Atoms::new(&used), (sets.len()..used.len()).collect()))
}

/// The texts of `first`, with each piece split by `steps` in order.
fn in_sequence(
    first: Marked,
    steps: &[Step],
    atoms: &Atoms,
    budget: &mut Budget<'_>,
) -> Result<Marked, SplitError> {
    let mut marked = first;
    for Step { nfa, pieces, number } in steps {
        let next = determinize::determinize(nfa, *pieces, atoms, *number, budget)?.reduced(budget)?;
        marked = marked.then(&next, budget)?.reduced(budget)?;
    }
    Ok(marked)
}

/// The step `split`; `None` if it never splits. `view` is the step's view of texts, and becomes that of the next
/// step.
fn step(
    split: &SplitPattern,
    number: usize,
    view: &mut View,
    sets: &mut Sets,
    budget: &mut Budget<'_>,
) -> Result<Option<Step>, SplitError> {
    let refused = |reason: &str| SplitError::UnsupportedStep { step: number, reason: reason.to_owned() };
    let (ast, behavior, invert) = match split {
        SplitPattern::Regex { pattern, behavior, invert } => {
            (pattern::parse(pattern, number, *view, sets, budget)?, *behavior, *invert)
        }
        SplitPattern::Literal { text, behavior, invert } => {
            (pattern::literal(text, number, *view, sets, budget)?, *behavior, *invert)
        }
        SplitPattern::Metaspace { replacement, split, .. } => {
            if *view == View::Bytes {
                return Err(refused("it follows a byte-level step"));
            }
            *view = View::Blanks(*replacement);
            if !*split {
                return Ok(None);
            }
            let mark = replacement.to_string();
            (pattern::literal(&mark, number, *view, sets, budget)?, SplitBehavior::MergedWithNext, false)
        }
        SplitPattern::ByteLevel => {
            *view = View::Bytes;
            return Ok(None);
        }
        SplitPattern::PrefixSpace => return Ok(None),
        SplitPattern::Other(name) => return Err(refused(&format!("`{name}` is not expressed as a pattern"))),
        _ => return Err(refused("it is of a kind that is not known here")),
    };
    let pieces = match (behavior, invert) {
        // Matches and the texts between them are pieces alike, so `invert` changes nothing.
        (SplitBehavior::Isolated, _) => Pieces::Both,
        // Tokens cannot spell a text that has a removed part.
        (SplitBehavior::Removed, true) => Pieces::Matches,
        (SplitBehavior::Removed, false) => Pieces::Between,
        (SplitBehavior::Contiguous, _) => Pieces::Joined(Kind::Match, Kind::Match),
        (SplitBehavior::MergedWithPrevious, false) | (SplitBehavior::MergedWithNext, true) => {
            Pieces::Joined(Kind::Between, Kind::Match)
        }
        (SplitBehavior::MergedWithPrevious, true) | (SplitBehavior::MergedWithNext, false) => {
            Pieces::Joined(Kind::Match, Kind::Between)
        }
    };
    Ok(Some(Step { nfa: nfa::compile(&ast, number, budget)?, pieces, number }))
}
