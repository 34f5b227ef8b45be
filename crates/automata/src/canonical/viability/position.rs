//! A position in a text: the constraint and the tokenizer's automata, read in parallel byte by byte.
//!
//! A position consists of a state of the constraint's DFA, a state of the text DFA (texts without added tokens), a
//! state of the automaton of texts in normalisation form, and a state of the splitter. Bytes are read within a
//! piece. A **boundary** asserts that a piece ends and leads to a *piece start*, a position in which the next piece
//! begins. After a token both may be possible for a while: whether two blanks are a piece depends on the text after
//! them.
//!
//! A position contains these states themselves. So it stays valid when caches are filled or dropped, and two
//! constraints of one pattern agree on it. Tried instead: numbers of the positions of a product. They are half as
//! long and depend on the table that assigned them.

use std::collections::HashMap;

use unskew_core::TokenId;

use super::language::LazyDfa;
use crate::{
    StateId,
    canonical::{texts::added::TextDfa, tokenizer::automaton::TokenizerAutomaton},
    ids::{FormState, SplitState, TextState},
    split::SplitDfa,
};

/// One state of each of the automata.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Position {
    pub(crate) regex: StateId,
    pub(crate) text: TextState,
    pub(crate) form: FormState,
    pub(crate) split: SplitState,
    /// Whether a piece begins here, so that no token of the piece precedes the position.
    pub(crate) at_piece_start: bool,
}

/// The automata of a constraint and a tokenizer.
pub(crate) struct Automata<'a, L> {
    pub(crate) language: &'a L,
    pub(crate) tokenizer: &'a TokenizerAutomaton,
    /// The texts in the tokenizer's normalisation form, if the encoder leaves only these unchanged; otherwise all
    /// texts.
    pub(crate) form: &'static TextDfa<FormState>,
    /// [`Tuning::few_added`](crate::canonical::tuning::Tuning::few_added).
    pub(crate) few_added: usize,
}

impl<L> Clone for Automata<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L> Copy for Automata<'_, L> {}

impl<'a, L: LazyDfa> Automata<'a, L> {
    pub(crate) fn start(&self) -> Position {
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        let regex = self.language.start();
        Position {
            regex,
            text: text.start(),
            form: self.form.start(),
            split: split.start(),
            at_piece_start: true,
        }
    }

    #[inline]
    pub(crate) fn step(&self, from: Position, byte: u8) -> Option<Position> {
        self.step_to(from, byte, |split, state| split.step(state, byte))
    }

    /// Calls `visit` with the position after each of `bytes` that can be read.
    pub(crate) fn steps(&self, from: Position, bytes: &[u8], mut visit: impl FnMut(Position)) {
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        // As [`step`](Self::step). The row of the splitter is looked up once.
        let split_row = split.row(from.split);
        for byte in bytes.iter().copied() {
            let Some(split) = split_row.step(byte) else { continue };
            let Some(regex) = self.language.step(from.regex, byte) else { continue };
            if let (Some(text), Some(form)) = (text.step(from.text, byte), self.form.step(from.form, byte)) {
                visit(Position { regex, text, form, split, at_piece_start: false });
            }
        }
    }

    /// The position after a fallback token of `byte`.
    pub(crate) fn step_fallback(&self, from: Position, byte: u8) -> Option<Position> {
        match self.tokenizer.split.has_fallback() {
            true => self.step_to(from, byte, |split, state| split.step_fallback(state, byte)),
            false => None,
        }
    }

    /// The position after `byte`, where `split_step` is one of the transition functions of the splitter.
    #[inline]
    fn step_to(
        &self,
        from: Position,
        byte: u8,
        split_step: impl Fn(&SplitDfa, SplitState) -> Option<SplitState>,
    ) -> Option<Position> {
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        let regex = self.language.step(from.regex, byte)?;
        let split = split_step(split, from.split)?;
        let (text, form) = (text.step(from.text, byte)?, self.form.step(from.form, byte)?);
        Some(Position { regex, text, form, split, at_piece_start: false })
    }

    pub(crate) fn run(&self, from: Position, bytes: &[u8]) -> Option<Position> {
        if !self.language.is_costly() {
            return bytes.iter().try_fold(from, |at, byte| self.step(at, *byte));
        }
        // The constraint comes last.
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        let after = bytes.iter().try_fold(from, |at, byte| {
            let split = split.step(at.split, *byte)?;
            let (text, form) = (text.step(at.text, *byte)?, self.form.step(at.form, *byte)?);
            Some(Position { text, form, split, at_piece_start: false, ..at })
        })?;
        Some(Position { regex: self.language.run(from.regex, bytes)?, ..after })
    }

    /// The piece start after a boundary at `from`.
    #[inline]
    pub(crate) fn mark(&self, from: Position) -> Option<Position> {
        let split = self.tokenizer.split.mark(from.split)?;
        Some(Position { split, at_piece_start: true, ..from })
    }

    /// Whether the splitter accepts: the text may end here.
    #[inline]
    pub(crate) fn may_end(&self, at: Position) -> bool {
        self.tokenizer.split.is_accepting(at.split)
    }

    #[inline]
    pub(crate) fn is_accepting(&self, at: Position) -> bool {
        self.may_end(at) && self.language.is_accepting(at.regex)
    }

    /// The added tokens and those by id that may follow, and the positions after them. The text between two of them
    /// is encoded by itself.
    pub(crate) fn added(&self, at: Position) -> impl Iterator<Item = (u32, Position)> + use<'a, L> {
        let automata = *self;
        let added = self.added_numbers(at.regex).filter_map(move |number| automata.added_one(at, number));
        added.chain(self.by_id(at))
    }

    /// The tokens that the constraint reads by their ids, and the positions after them.
    pub(crate) fn by_id(&self, at: Position) -> impl Iterator<Item = (u32, Position)> + use<'a, L> {
        let automata = *self;
        let tokens = match self.language.has_ids() && self.may_end(at) {
            true => self.language.by_id(at.regex),
            false => Vec::new(),
        };
        let after = move |(TokenId(token), regex)| {
            let after = match automata.tokenizer.number_of_added(token) {
                Some(number) => automata.after_added(at, number)?,
                None => Position {
                    text: automata.tokenizer.text.start(),
                    form: automata.form.start(),
                    split: automata.tokenizer.after_control(token)?,
                    at_piece_start: true,
                    ..at
                },
            };
            Some((token, Position { regex, ..after }))
        };
        tokens.into_iter().filter_map(after)
    }

    /// The numbers of the added tokens that the constraint may read from `state`. If there are many added tokens, a
    /// prefix search finds those that it reads.
    pub(crate) fn added_numbers(&self, state: StateId) -> impl Iterator<Item = usize> + use<L> {
        let count = self.tokenizer.added.len();
        let (all, read) = match count <= self.few_added {
            true => (0..count, Vec::new()),
            false => (0..0, self.read_added(state)),
        };
        all.chain(read)
    }

    /// The added token with this number and the position after it, if it may follow.
    pub(crate) fn added_one(&self, at: Position, number: usize) -> Option<(u32, Position)> {
        let after = self.after_added(at, number)?;
        let added = &self.tokenizer.added[number];
        let regex = self.language.run(at.regex, &added.content)?;
        Some((added.token, Position { regex, ..after }))
    }

    /// The position after the added token with this number, for a constraint that stays where it is.
    fn after_added(&self, at: Position, number: usize) -> Option<Position> {
        let TokenizerAutomaton { split, text, added, .. } = self.tokenizer;
        let added = &added[number];
        let ends = if added.strips { split.may_be_stripped(at.split) } else { split.is_accepting(at.split) };
        if !ends {
            return None;
        }
        let (text, split) = (text.step_added(at.text, number)?, split.section(added.section)?);
        // The normaliser also reads an added token that is matched after normalisation.
        let form = match added.normalized {
            true => added.content.iter().try_fold(at.form, |form, byte| self.form.step(form, *byte))?,
            false => self.form.start(),
        };
        Some(Position { text, form, split, at_piece_start: true, ..at })
    }

    /// The numbers of the added tokens that the constraint reads from `state`, in ascending order. O(log n) for n
    /// tokens and each prefix that the constraint reads.
    fn read_added(&self, state: StateId) -> Vec<usize> {
        let TokenizerAutomaton { added, added_order, .. } = self.tokenizer;
        let content = |place: usize| &added[added_order[place] as usize].content[..];
        let mut found = Vec::new();
        // Ranges of tokens with a common prefix, the length of the prefix, and the state after it.
        let mut open = vec![(0..added_order.len(), 0, state)];
        while let Some((range, depth, state)) = open.pop() {
            let mut begin = range.start;
            while begin < range.end {
                let Some(byte) = content(begin).get(depth).copied() else {
                    found.push(added_order[begin] as usize);
                    begin += 1;
                    continue;
                };
                let same = added_order[begin..range.end]
                    .partition_point(|number| added[*number as usize].content.get(depth) == Some(&byte));
                if let Some(next) = self.language.step(state, byte) {
                    open.push((begin..begin + same, depth + 1, next));
                }
                begin += same;
            }
        }
        found.sort_unstable();
        found
    }

    /// Columns: classes of bytes that none of the automata distinguishes. Returns the column of each byte, and a
    /// byte of each column. Bytes that the constraint never reads share one column.
    pub(crate) fn columns(&self) -> (Box<[u8; 256]>, Vec<u8>) {
        let TokenizerAutomaton { split, text, .. } = self.tokenizer;
        let mut used = [false; 256];
        self.language.bytes().iter().for_each(|byte| used[usize::from(byte)] = true);
        let mut columns: HashMap<Option<[u8; 4]>, u8> = HashMap::new();
        let mut classes = Box::new([0; 256]);
        let mut bytes = Vec::new();
        for byte in 0..=255u8 {
            let [text, form, split] =
                [&text.classes, &self.form.classes, &split.classes].map(|classes| classes.get(byte));
            let key = used[usize::from(byte)].then(|| [self.language.class(byte), text, form, split]);
            let next = bytes.len();
            classes[usize::from(byte)] = *columns.entry(key).or_insert_with(|| {
                bytes.push(byte);
                u8::try_from(next).expect("256 bytes have at most 256 columns")
            });
        }
        (classes, bytes)
    }
}
