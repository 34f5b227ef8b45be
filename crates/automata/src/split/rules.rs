//! Restrictions of texts that have nothing to do with where they are split: small automata over atoms.
//!
//! A normaliser that replaces a string leaves those texts alone in which the string does not occur; one that strips leaves
//! those alone that do not begin or end with white space. An added token that is matched as a whole word must not occur as
//! one. Each is a regular language, so it is an automaton of a few states, and the automaton of marked texts is cut down to
//! what all of them accept ([`Marked::under`](super::marked::Marked::under)).

use super::{
    SplitError,
    chars::{Atoms, CharSet},
    limits::{Budget, Numbered},
    marked::{Ends, Marked, START},
};
use crate::dfa::table::DEAD;

/// A restriction of the texts of a tokenizer, in the characters that its vocabulary spells.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum TextRule {
    /// This string does not occur.
    Without(String),
    /// This string does not occur as a whole word: between two characters that are not of a word, or the ends of the text.
    WithoutWord(String),
    /// The text begins or ends with no white space, where that is asked for.
    Stripped {
        /// At its beginning.
        left: bool,
        /// At its end.
        right: bool,
        /// Which characters are taken for white space.
        white: White,
    },
    /// All texts; but it is told apart whether white space is last, which some added tokens take for themselves.
    TellsSpace(White),
}

/// Which characters are taken for white space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum White {
    /// All that Unicode says.
    All,
    /// All but the space itself, which is spelled otherwise by then.
    NotBlank,
}

/// What a text begins with behind an added token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Section {
    pub(crate) prefix: Prefix,
    /// The white space that the token takes for itself.
    pub(crate) swallows: Option<White>,
}

/// Whether a space is put in front of a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Prefix {
    Never,
    /// Where the text does not begin with one.
    IfMissing,
    Always,
}

impl Section {
    /// Adds where such a text starts to `marked`. `blank` is the atom of the space; `is_white` says of an atom whether it is
    /// white space as [`swallows`](Self::swallows) says.
    ///
    /// A space that the tokenizer puts there is spelled by its tokens, and the text holds it when it is read again. So a text
    /// begins with one. Where a space is put in front of another one, no text has as many spaces as its tokens spell, unless
    /// the token in front takes the first one for itself.
    pub(super) fn add_to(self, marked: &mut Marked, blank: usize, is_white: impl Fn(usize) -> bool) -> u32 {
        let ends = marked.ends[START as usize];
        match (self.prefix, self.swallows) {
            (Prefix::Never, None) => START,
            (Prefix::Never, Some(_)) => marked.beginning(START, |atom| !is_white(atom), ends),
            (Prefix::Always, None) => marked.beginning(START, |_| false, ends),
            (Prefix::IfMissing, None) => marked.beginning(START, |atom| atom == blank, ends),
            // The space that is written is no white space then, and nothing is taken.
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
    /// The characters.
    pub(super) fn set(self) -> CharSet {
        let chars: Vec<char> = ('\0'..='\u{3000}')
            .filter(|char| char.is_whitespace() && (self == Self::All || *char != ' '))
            .collect();
        CharSet::from_chars(&chars)
    }
}

/// A partial deterministic automaton over atoms that starts in state 0.
pub(super) struct Rule {
    /// By state, by atom: a state or [`DEAD`].
    pub(super) next: Vec<Vec<u32>>,
    pub(super) ends: Vec<Ends>,
}

/// The sets of characters that a rule tells apart.
pub(super) fn sets(rule: &TextRule, word: &CharSet) -> Vec<CharSet> {
    let letters = |text: &str| text.chars().map(|letter| CharSet::from_chars(&[letter])).collect::<Vec<_>>();
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
    /// The automaton of `rule`. `members` has the sets of [`sets`], each as the atoms that it is made of.
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
                    // The string is there, and it is a word unless one goes on with this character.
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

    /// All that `step` leads to from `start`.
    fn explored(
        start: Progress,
        atoms: usize,
        budget: &mut Budget<'_>,
        step: impl Fn(&Progress, usize) -> Option<Progress>,
    ) -> Result<(Vec<Vec<u32>>, Vec<Progress>), SplitError> {
        let mut found = Numbered::new([start]);
        let mut next: Vec<Vec<u32>> = Vec::new();
        while let Some(state) = found.states.get(next.len()).cloned() {
            let mut row = vec![DEAD; atoms];
            for (atom, target) in row.iter_mut().enumerate() {
                budget.spend(1 + state.matched.len())?;
                let Some(behind) = step(&state, atom) else { continue };
                *target = found.number(behind, budget)?;
            }
            next.push(row);
        }
        Ok((next, found.states))
    }
}

/// How far a rule has read.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Progress {
    /// How many characters of the string the end of the text may be: all numbers that fit.
    matched: Vec<usize>,
    /// Whether the last character is one of the set that the rule asks for.
    flag: bool,
    /// Whether anything was read, where that matters.
    is_begun: bool,
}
