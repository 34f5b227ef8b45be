//! Terminals whose texts may not come twice: the names of an object, the items of an array without repetitions.
//!
//! A terminal of that kind ([`Terminal::Distinct`](crate::Terminal::Distinct)) is read as any other, but a text that a scope has
//! used is no text of it any more. No grammar and no automaton of a useful size says that, for it takes a memory; so there are
//! two parsers. **One tracks**: each of its items has the texts that were used, kept once as a number, and each of its readings
//! of such a terminal has its text. It reads what is really written, and the state of a sequence is a place of it. **The other
//! makes masks** and knows nothing of used texts: it has few states, which come again and again, and its masks are shared by
//! all that differ only in what was used. A mask is made at the place that is left of the sequence's once the texts are dropped.
//! What it then has too much are the tokens that end a used text, that come to where only used ones are left, or that write
//! two texts at once. They are few, they are [found](crate::mask::tracked), and each is read by the parser that tracks.
//!
//! There are no dead ends: such a terminal has more texts than a scope takes, and a text goes on only where one is left that was
//! not used.
//!
//! Tried instead:
//!
//! - The texts in every place. Masks of two objects with different names then have nothing in common.
//! - Both parsers side by side, each reading the tokens. Where a text is read in two ways and one of them has ended, the one
//!   without a memory goes on with both, and its masks have too much that is nowhere near a used text.

use std::sync::Arc;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::versions::{EMPTY, Map, Versions};
use crate::{ids::NONE, network::terminals::Terminals};

/// A set of texts that were used.
pub(crate) type Used = u32;

/// No text was used.
pub(crate) const NOTHING: Used = 0;

/// In a frame: what the ended rule leaves.
pub(crate) const INHERITED: Used = u32::MAX;

/// A whole text, by its number.
pub(crate) type Text = u32;

/// The beginning of a text of a terminal, by its number: the state of a reading that is tracked.
pub(crate) type Begun = u32;

/// Sets of texts, kept once in the order in which the texts came.
#[derive(Debug)]
pub(crate) struct UsedTexts {
    sets: Vec<Set>,
    ids: HashMap<(Used, Text), Used>,
    versions: Versions,
    /// How many texts were looked at.
    pub(crate) looks: u64,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    /// All texts but the last one.
    others: Used,
    last: Text,
    len: u32,
    /// Its texts, if they are more than [`FEW`].
    texts: Map,
}

/// So many texts are sooner looked through than searched.
const FEW: u32 = 8;

impl Default for UsedTexts {
    fn default() -> Self {
        let nothing = Set { others: NOTHING, last: NONE, len: 0, texts: EMPTY };
        Self { sets: vec![nothing], ids: HashMap::new(), versions: Versions::default(), looks: 0 }
    }
}

impl UsedTexts {
    /// The set with one text more. O(log n) for n texts.
    pub(crate) fn with(&mut self, used: Used, text: Text) -> Used {
        if let Some(known) = self.ids.get(&(used, text)) {
            return *known;
        }
        let next = u32::try_from(self.sets.len()).expect("bounded memory");
        let Set { len, mut texts, .. } = self.sets[used as usize];
        if len >= FEW {
            if len == FEW {
                let all: SmallVec<[Text; FEW as usize]> = self.texts(used).collect();
                texts = all.into_iter().fold(EMPTY, |texts, text| self.versions.with(texts, text, 0));
            }
            texts = self.versions.with(texts, text, 0);
        }
        self.sets.push(Set { others: used, last: text, len: len + 1, texts });
        self.ids.insert((used, text), next);
        next
    }

    /// The last text of a set and the others; `None` if there is none.
    pub(crate) fn last(&self, used: Used) -> Option<(Used, Text)> {
        let Set { others, last, len, .. } = self.sets[used as usize];
        (len > 0).then_some((others, last))
    }

    /// The texts of a set, the last one first.
    fn texts(&self, used: Used) -> impl Iterator<Item = Text> {
        std::iter::successors(self.last(used), |(others, _)| self.last(*others)).map(|(_, text)| text)
    }

    /// O(log n) for n texts.
    pub(crate) fn contains(&mut self, used: Used, text: Text) -> bool {
        let Set { len, texts, .. } = self.sets[used as usize];
        self.looks += 1 + u64::from(len.min(FEW));
        if len > FEW {
            return self.versions.get(texts, text).is_some();
        }
        self.texts(used).any(|other| other == text)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.sets.len() * (2 * size_of::<Set>() + 40) + self.versions.memory_usage()
    }
}

#[derive(Clone, Copy, Debug)]
struct Beginning {
    terminal: u32,
    /// Before its last byte; [`NONE`] if that is its first.
    before: Begun,
    byte: u8,
    /// Of the scanner.
    state: u32,
    /// Its number as a whole text, once it was one; else [`NONE`].
    text: Text,
}

/// Beginnings of texts, and whole texts, each kept once.
#[derive(Default, Debug)]
pub(crate) struct Texts {
    beginnings: Vec<Beginning>,
    /// By terminal or beginning, and whether it is a terminal; and byte.
    ids: HashMap<(u32, bool, u8), Begun>,
    texts: Vec<Arc<[u8]>>,
    text_ids: HashMap<Arc<[u8]>, Text>,
    bytes: usize,
}

impl Texts {
    /// The text of one byte of `terminal`; or [`NONE`].
    pub(crate) fn first(&mut self, terminals: &Terminals, terminal: u32, byte: u8) -> Begun {
        if let Some(known) = self.ids.get(&(terminal, true, byte)) {
            return *known;
        }
        let state = terminals.first(terminal, terminals.class(byte));
        self.add((terminal, true, byte), Beginning { terminal, before: NONE, byte, state, text: NONE })
    }

    /// One byte more; or [`NONE`].
    pub(crate) fn step(&mut self, terminals: &Terminals, begun: Begun, byte: u8) -> Begun {
        if let Some(known) = self.ids.get(&(begun, false, byte)) {
            return *known;
        }
        let Beginning { terminal, state, .. } = self.beginnings[begun as usize];
        let state = terminals.step(terminal, state, terminals.class(byte));
        self.add((begun, false, byte), Beginning { terminal, before: begun, byte, state, text: NONE })
    }

    fn add(&mut self, key: (u32, bool, u8), beginning: Beginning) -> Begun {
        if beginning.state == NONE {
            return NONE;
        }
        let id = u32::try_from(self.beginnings.len()).expect("bounded memory");
        self.beginnings.push(beginning);
        self.ids.insert(key, id);
        id
    }

    /// `before`, or nothing for [`NONE`], and these bytes behind it, as the beginning of a text of `terminal`; or [`NONE`].
    pub(crate) fn begun(
        &mut self,
        terminals: &Terminals,
        terminal: u32,
        before: Begun,
        bytes: &[u8],
    ) -> Begun {
        let mut bytes = bytes.iter();
        let first = match before {
            NONE => bytes.next().map_or(NONE, |first| self.first(terminals, terminal, *first)),
            before => before,
        };
        bytes
            .try_fold(first, |begun, byte| (begun != NONE).then(|| self.step(terminals, begun, *byte)))
            .unwrap_or(NONE)
    }

    /// The state of the scanner.
    #[inline]
    pub(crate) fn state(&self, begun: Begun) -> u32 {
        self.beginnings[begun as usize].state
    }

    /// A beginning without its last byte, or [`NONE`]; and that byte.
    #[inline]
    pub(crate) fn last(&self, begun: Begun) -> (Begun, u8) {
        let Beginning { before, byte, .. } = self.beginnings[begun as usize];
        (before, byte)
    }

    /// All beginnings of a beginning but those of `from`, the longest one first; each with its last byte.
    pub(crate) fn since(&self, from: Begun, begun: Begun) -> impl Iterator<Item = (Begun, u8)> {
        let at = move |begun: Begun| (begun != from && begun != NONE).then(|| (begun, self.last(begun).1));
        std::iter::successors(at(begun), move |(begun, _)| at(self.last(*begun).0))
    }

    /// The bytes of a beginning behind those of `from`, which it begins with; all for [`NONE`].
    pub(crate) fn bytes(&self, from: Begun, begun: Begun) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.since(from, begun).map(|(_, byte)| byte).collect();
        bytes.reverse();
        bytes
    }

    /// A beginning as a whole text.
    pub(crate) fn whole(&mut self, begun: Begun) -> Text {
        let known = self.beginnings[begun as usize].text;
        if known != NONE {
            return known;
        }
        let text = self.text(&self.bytes(NONE, begun));
        self.beginnings[begun as usize].text = text;
        text
    }

    /// The number of a text.
    pub(crate) fn text(&mut self, bytes: &[u8]) -> Text {
        if let Some(known) = self.text_ids.get(bytes) {
            return *known;
        }
        let id = u32::try_from(self.texts.len()).expect("bounded memory");
        let bytes: Arc<[u8]> = bytes.into();
        self.bytes += bytes.len();
        self.texts.push(Arc::clone(&bytes));
        self.text_ids.insert(bytes, id);
        id
    }

    /// The bytes of a whole text.
    pub(crate) fn of(&self, text: Text) -> &Arc<[u8]> {
        &self.texts[text as usize]
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes + self.beginnings.len() * 3 * size_of::<Beginning>() + self.texts.len() * 96
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_kept_once() {
        let mut used = UsedTexts::default();
        let one = used.with(NOTHING, 7);
        let two = used.with(one, 8);
        assert_eq!(used.with(NOTHING, 7), one);
        assert_ne!(one, two);
        assert_eq!(used.texts(two).collect::<Vec<_>>(), [8, 7]);
        assert!(used.contains(two, 7) && !used.contains(one, 8) && !used.contains(NOTHING, 7));
    }

    #[test]
    fn large_sets_have_their_texts_and_no_others() {
        let mut used = UsedTexts::default();
        let sets: Vec<Used> = (0..40)
            .scan(NOTHING, |set, text| {
                *set = used.with(*set, 3 * text);
                Some(*set)
            })
            .collect();
        for (len, set) in (1..).zip(sets) {
            assert!(
                (0..130).all(|text| used.contains(set, text) == (text % 3 == 0 && text < 3 * len)),
                "{len}"
            );
        }
    }
}
