//! Restrictions of texts that do not depend on their splitting: small automata over atoms.
//!
//! A normaliser that replaces a string leaves a text unchanged if the string does not occur in it; a normaliser that
//! strips leaves a text unchanged if it neither begins nor ends with white space. An added token that is matched as a
//! whole word must not occur as one. Each restriction is a regular language with an automaton of a few states, and
//! the automaton of marked texts is intersected with all of them ([`Marked::under`](super::marked::Marked::under)).

use super::{
    SplitError,
    limits::Budget,
    marked::{Ends, Marked, START},
};
use crate::dfa::{CharSet, atoms::Atoms, explore::Numbered, table::DEAD};

/// A restriction of the texts of a tokenizer, in the characters that its vocabulary spells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TextRule {
    /// The string does not occur.
    Without(String),
    /// The string does not occur as a whole word: between two characters that are not of a word, or the ends of the
    /// text.
    WithoutWord(String),
    /// The text does not begin or end with white space, as the flags say.
    Stripped {
        /// At its beginning.
        left: bool,
        /// At its end.
        right: bool,
        /// The characters that count as white space.
        white: White,
    },
    /// All texts. The states distinguish whether the last character is white space, which some added tokens strip.
    TellsSpace(White),
}

/// The characters that count as white space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum White {
    /// The white space of Unicode.
    All,
    /// The same without the space itself, which has another spelling at this stage.
    NotBlank,
}

/// The beginning of a text after an added token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Section {
    pub(crate) prefix: Prefix,
    /// The white space after it that the token strips.
    pub(crate) swallows: Option<White>,
}

/// Whether the tokenizer prepends a space to a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Prefix {
    Never,
    /// If the text does not begin with a space.
    IfMissing,
    Always,
}

impl Section {
    /// Adds the start of a text after an added token to `marked`. `blank` is the atom of the space; `is_white` holds
    /// for the atoms of the white space that [`swallows`](Self::swallows) names.
    ///
    /// The tokens of a prepended space spell it, and the decoded text contains it. So a text begins with a space. If
    /// a space is prepended to another space, no text has as many spaces as its tokens spell, unless the added token
    /// strips the first one.
    pub(super) fn add_to(self, marked: &mut Marked, blank: usize, is_white: impl Fn(usize) -> bool) -> u32 {
        let ends = marked.ends[START as usize];
        match (self.prefix, self.swallows) {
            (Prefix::Never, None) => START,
            (Prefix::Never, Some(_)) => marked.beginning(START, |atom| !is_white(atom), ends),
            (Prefix::Always, None) => marked.beginning(START, |_| false, ends),
            (Prefix::IfMissing, None) => marked.beginning(START, |atom| atom == blank, ends),
            // The prepended space is no white space at this stage, so nothing is stripped.
            (Prefix::IfMissing, Some(White::NotBlank)) => marked.beginning(START, |atom| atom == blank, ends),
            (Prefix::Always, Some(White::NotBlank)) => marked.beginning(START, |_| false, ends),
            (Prefix::IfMissing | Prefix::Always, Some(White::All)) => {
                let start = marked.beginning(START, |atom| atom == blank, ends);
                let behind = marked.targets(start, false)[blank];
                if behind != DEAD {
                    let inside = marked.beginning(behind, |atom| !is_white(atom), Ends::NEVER);
                    *marked.next_mut(start, false, blank) = inside;
                }
                start
            }
        }
    }
}

impl White {
    /// The characters of the set.
    pub(super) fn set(self) -> CharSet {
        ('\0'..='\u{3000}')
            .filter(|char| char.is_whitespace() && (self == Self::All || *char != ' '))
            .collect()
    }
}

/// A partial deterministic automaton over atoms that starts in state 0.
pub(super) struct Rule {
    /// By state and atom: a state or [`DEAD`].
    pub(super) next: Vec<Vec<u32>>,
    pub(super) ends: Vec<Ends>,
}

/// The sets of characters that a rule distinguishes.
pub(super) fn sets(rule: &TextRule, word: &CharSet) -> Vec<CharSet> {
    let letters = |text: &str| text.chars().map(|letter| CharSet::from_iter([letter])).collect::<Vec<_>>();
    match rule {
        TextRule::Without(text) => letters(text),
        TextRule::WithoutWord(text) => {
            let mut sets = letters(text);
            sets.push(word.clone());
            sets
        }
        TextRule::Stripped { white, .. } | TextRule::TellsSpace(white) => vec![white.set()],
    }
}

impl Rule {
    /// The automaton of `rule`. `members` has the sets of [`sets`], each as a flag by atom.
    pub(super) fn new(
        rule: &TextRule,
        members: &[&[bool]],
        atoms: &Atoms,
        budget: &mut Budget<'_>,
    ) -> Result<Self, SplitError> {
        let made = match rule {
            TextRule::Without(_) => {
                Self::explored(Progress::default(), atoms.count, budget, |state, atom| {
                    let next = state.matched.iter().copied().chain([0]).filter(|at| members[*at][atom]);
                    let matched: Vec<usize> = next.map(|at| at + 1).collect();
                    (!matched.contains(&members.len())).then_some(Progress { matched, ..Progress::default() })
                })
            }
            TextRule::WithoutWord(_) => {
                let (letters, word) = members.split_at(members.len() - 1);
                Self::explored(Progress::default(), atoms.count, budget, |state, atom| {
                    let is_word = word[0][atom];
                    // The string was read, and it is a whole word unless this character continues the word.
                    if state.matched.contains(&letters.len()) && !is_word {
                        return None;
                    }
                    let begins = (!state.flag).then_some(0);
                    let open = state.matched.iter().copied().filter(|at| *at < letters.len()).chain(begins);
                    let matched = open.filter(|at| letters[*at][atom]).map(|at| at + 1).collect();
                    Some(Progress { matched, flag: is_word, is_begun: true })
                })
            }
            TextRule::Stripped { left, .. } => {
                Self::explored(Progress::default(), atoms.count, budget, |state, atom| {
                    let is_space = members[0][atom];
                    let refused = *left && is_space && !state.is_begun;
                    (!refused).then_some(Progress { matched: vec![], flag: is_space, is_begun: true })
                })
            }
            TextRule::TellsSpace(_) => Self::explored(Progress::default(), atoms.count, budget, |_, atom| {
                Some(Progress { flag: members[0][atom], ..Progress::default() })
            }),
        };
        let (next, states) = made?;
        let ends = states.iter().map(|state| match rule {
            TextRule::Without(_) => Ends::ANYHOW,
            TextRule::WithoutWord(_) if state.matched.contains(&(members.len() - 1)) => Ends::NEVER,
            TextRule::WithoutWord(_) => Ends::ANYHOW,
            TextRule::Stripped { right, .. } if *right && state.flag => Ends::NEVER,
            TextRule::Stripped { .. } => Ends::ANYHOW,
            TextRule::TellsSpace(_) if state.flag => Ends::NOT_STRIPPED,
            TextRule::TellsSpace(_) => Ends::ANYHOW,
        });
        Ok(Self { ends: ends.collect(), next })
    }

    /// All states that `step` reaches from `start`.
    fn explored(
        start: Progress,
        atoms: usize,
        budget: &mut Budget<'_>,
        step: impl Fn(&Progress, usize) -> Option<Progress>,
    ) -> Result<(Vec<Vec<u32>>, Numbered<Progress>), SplitError> {
        let mut found = Numbered::from_iter([start]);
        let mut next: Vec<Vec<u32>> = Vec::new();
        while let Some(state) = found.get_index(next.len()).cloned() {
            let mut row = vec![DEAD; atoms];
            for (atom, target) in row.iter_mut().enumerate() {
                budget.spend(1 + state.matched.len())?;
                let Some(behind) = step(&state, atom) else { continue };
                *target = budget.number(&mut found, behind)?;
            }
            next.push(row);
        }
        Ok((next, found))
    }
}

/// The progress of a rule in the text.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Progress {
    /// The lengths of all prefixes of the string that are suffixes of the text.
    matched: Vec<usize>,
    /// Whether the last character is in the set of the rule.
    flag: bool,
    /// Whether a character was read, for the rules that depend on it.
    is_begun: bool,
}
