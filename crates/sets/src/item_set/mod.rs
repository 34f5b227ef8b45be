//! A set of token sequences as sorted columns, and the steps of a prefix through them.
//!
//! The items are sorted by their tokens, each item in front of those that it begins. Column *t* holds token *t* of
//! every item that has one, in that order, so a column has no padding. Next to each token a bit says whether the item
//! ends with this token. That bit is the end-of-keyword column of a sorted array, in the place of a token id that no
//! vocabulary has.
//!
//! **A prefix is an interval of one column**: the items that begin with the prefix and are longer stand side by side,
//! and the tokens that may follow are the distinct values of that interval. A token is one search in the interval.
//! The interval of the longer prefix, in the next column, begins at the place of the run minus the number of items
//! that end in front of it; the bits of the column count those items (`Ends`). Only the first item of a run can end
//! with the run's token, because no item is twice in a set. One look therefore gives both ends of the new interval.
//!
//! Two steps are look-ups and no searches. For the first column, the set of its tokens with their ranks: `O(1)`. For
//! the second and third one, the tokens that follow the prefixes with the most items (`wide`).
//!
//! Tried instead:
//!
//! - *A matrix of rows* (the paper's): a matrix is full of padding, and every step searches all of it.
//! - *Groups of items by length*, each a matrix: there is no padding, but each prefix has as many intervals as there
//!   are lengths.
//! - *A trie by child ranges* (STATIC's): a prefix is a node, and its children lie together. A trie takes eight bytes
//!   a node where the columns take two or four bytes a token. Below the second level there are about as many nodes as
//!   tokens.

pub(crate) mod column;
mod items;
pub(crate) mod layout;
mod memory;
pub(crate) mod wide;

use std::{fmt, path::Path, sync::Arc};

use twox_hash::XxHash3_64;
use unskew_core::{MaskMut, TokenId, TokenMask, Vocabulary, WORD_BITS};

pub use self::items::Items;
use crate::error::SetFileError;
use column::{Ends, Tokens};
use layout::{FIRST_STARTS, FIRST_TOKENS, FOLLOWERS, Layout, Part, SUBSETS, WIDE};
use memory::Memory;
use wide::{Followers, Wide};

/// Intervals of at most this many items are scanned for a token and not searched.
const SCAN: usize = 16;

/// The number of tokens of an interval that go into a mask together, without a search for equal ones among them,
/// unless all are equal. Inserting a token twice takes less time than finding where each run ends.
const CHUNK: usize = 8;

/// Calls a function that is generic over the width of a token.
macro_rules! by_width {
    ($self:ident . $function:ident ( $($argument:expr),* )) => {
        match $self.layout.width {
            1 => $self.$function::<1>($($argument),*),
            2 => $self.$function::<2>($($argument),*),
            _ => $self.$function::<4>($($argument),*),
        }
    };
}

/// Items that are known beforehand, as token sequences: sorted, without duplicates, immutable, in memory or in a mapped
/// file. A [`SetBuilder`](crate::SetBuilder) makes a set; [`open`](Self::open) opens one.
///
/// Memory, for *n* tokens in all: `n` times 1, 2 or 4 bytes (for up to 256, 65,536 or more ids), 1.07 bits each for the
/// ends, and at most a twenty-fourth of the tokens again for prefixes with many items.
///
/// # Example
///
/// ```
/// use unskew_core::TokenId;
/// use unskew_sets::SetBuilder;
///
/// let mut builder = SetBuilder::new(10);
/// for item in [&[3, 1, 4][..], &[3, 1], &[2, 7]] {
///     builder.push(&item.iter().copied().map(TokenId).collect::<Vec<_>>())?;
/// }
/// let (set, _) = builder.build()?;
///
/// let prefix = set.step(&set.start(), TokenId(3)).unwrap();
/// assert_eq!((prefix.items(), prefix.item()), (2, None));
/// let item = set.step(&prefix, TokenId(1)).unwrap();
/// assert_eq!(item.item(), Some(1)); // 3 1 is the second item in order
/// assert_eq!(set.item(2).unwrap(), [TokenId(3), TokenId(1), TokenId(4)]);
/// # Ok::<(), unskew_sets::SetError>(())
/// ```
#[derive(Clone)]
pub struct ItemSet {
    bytes: Arc<Memory>,
    layout: Layout,
    /// The tokens of the first column.
    first: TokenMask,
    /// The number of first tokens in front of each word of `first`.
    ranks: Vec<u32>,
    wide: Wide,
}

/// A prefix of items: an interval of the column after its last token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Cursor {
    /// The number of tokens.
    pub(crate) depth: u32,
    /// The interval in column `depth`: the items that are longer than the prefix.
    pub(crate) lo: u32,
    pub(crate) hi: u32,
    /// The first item with this prefix; the others follow it.
    pub(crate) first_item: u32,
    /// Whether the prefix is an item; that item is then the first.
    pub(crate) ends: bool,
    /// The number of the prefix's entry in `wide`; 0 where there is none.
    pub(crate) wide: u32,
}

impl Cursor {
    /// The number of tokens of the prefix.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }

    /// The number of items that begin with the prefix, itself included.
    pub fn items(&self) -> usize {
        (self.hi - self.lo) as usize + usize::from(self.ends)
    }

    /// The items that begin with the prefix, as places in the order of the set.
    pub fn range(&self) -> std::ops::Range<u32> {
        self.first_item..self.first_item + u32::from(self.ends) + (self.hi - self.lo)
    }

    /// The prefix's own place in the order of the set, if it is an item.
    pub fn item(&self) -> Option<u32> {
        self.ends.then_some(self.first_item)
    }

    /// The item that stands at `place` of the column.
    pub(crate) fn item_at(&self, place: u32) -> u32 {
        self.first_item + u32::from(self.ends) + (place - self.lo)
    }
}

impl ItemSet {
    /// Opens a set in a file by mapping the file: in milliseconds, also for large files. The header and the index are
    /// checked here, the columns by [`verify`](Self::verify). A fault in a column that is not verified gives wrong
    /// answers and nothing worse.
    ///
    /// The file has a shared advisory lock while it is open. The file must not be changed in place during that time:
    /// write another file and rename it, as [`SetBuilder::build_to`](crate::SetBuilder::build_to) does.
    ///
    /// # Errors
    ///
    /// [`SetFileError`], also where the set was built for other tokens than those of `vocabulary`.
    pub fn open(path: impl AsRef<Path>, vocabulary: &Vocabulary) -> Result<Self, SetFileError> {
        let set = Self::open_any(path)?;
        set.check_vocabulary(vocabulary)?;
        Ok(set)
    }

    /// As [`open`](Self::open), without a look at the vocabulary.
    ///
    /// # Errors
    ///
    /// [`SetFileError`].
    pub fn open_any(path: impl AsRef<Path>) -> Result<Self, SetFileError> {
        let path = path.as_ref();
        let no_file = |source| SetFileError::Io { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(no_file)?.len() == 0 {
            return Err(SetFileError::Magic);
        }
        Self::new(Memory::File(mmap_guard::map_file(path).map_err(no_file)?))
    }

    /// The set in `bytes`, the bytes of a file. A large set is copied into huge pages where the system has them. With
    /// `std::fs::read`, a set of millions of items that is asked often is therefore faster than an [opened](Self::open)
    /// one.
    ///
    /// # Errors
    ///
    /// [`SetFileError`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, SetFileError> {
        Self::new(Memory::new(bytes))
    }

    fn new(bytes: Memory) -> Result<Self, SetFileError> {
        let layout = Layout::read(&bytes)?;
        let (first, ranks, wide) = Default::default();
        let mut set = Self { bytes: Arc::new(bytes), layout, first, ranks, wide };
        for (part, section) in
            [("first tokens", FIRST_TOKENS), ("first starts", FIRST_STARTS), ("wide prefixes", WIDE)]
        {
            set.verify_part(part, set.layout.sections[section])?;
        }
        by_width!(set.index_first())?;
        Ok(set)
    }

    /// Reads the first tokens and the wide prefixes, and checks their order.
    fn index_first<const W: usize>(&mut self) -> Result<(), SetFileError> {
        let invalid = |part| SetFileError::Invalid { part };
        let mut first = TokenMask::new(self.layout.vocab_len as usize);
        let mut last = None;
        for token in Tokens::<W>::new(self.section(FIRST_TOKENS)).iter() {
            if token >= self.layout.vocab_len || last.is_some_and(|last| last >= token) {
                return Err(invalid("first tokens"));
            }
            last = Some(token);
            first.as_mut().insert(TokenId(token));
        }
        let rows = self.column_len(0);
        let starts = Tokens::<4>::new(self.section(FIRST_STARTS));
        let increases = (1..starts.len()).all(|at| starts.get(at - 1) < starts.get(at));
        if !increases || starts.len() > 0 && (starts.get(0) != 0 || starts.get(starts.len() - 1) >= rows) {
            return Err(invalid("first starts"));
        }
        let followers = self.section(FOLLOWERS).len();
        self.wide = Wide::read::<W>(self.section(WIDE), followers, self.layout.vocab_len)?;
        self.ranks = first
            .words()
            .iter()
            .scan(0, |rank, word| {
                let before = *rank;
                *rank += word.count_ones();
                Some(before)
            })
            .collect();
        self.first = first;
        Ok(())
    }

    /// Compares all checksums: reads the whole set.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Checksum`] of the first part whose checksum differs, or [`SetFileError::Invalid`] where there
    /// are bytes other than zero between the parts.
    pub fn verify(&self) -> Result<(), SetFileError> {
        let mut end = self.layout.header_len();
        for (name, part) in self.layout.parts() {
            self.verify_part(name, part)?;
            if self.bytes[end..part.begin].iter().any(|byte| *byte != 0) {
                return Err(SetFileError::Invalid { part: "gaps" });
            }
            end = part.begin + part.len;
        }
        Ok(())
    }

    pub(crate) fn verify_part(&self, part: &'static str, place: Part) -> Result<(), SetFileError> {
        let found = XxHash3_64::oneshot(place.of(&self.bytes));
        let expected = place.checksum;
        if found == expected { Ok(()) } else { Err(SetFileError::Checksum { part, found, expected }) }
    }

    /// Whether the set was built for the tokens of `vocabulary`; padding of the vocabulary does not matter. The ids
    /// of a set that was built from numbers alone only have to be ids of `vocabulary`.
    ///
    /// # Errors
    ///
    /// [`SetFileError::OtherTokenizer`].
    pub fn check_vocabulary(&self, vocabulary: &Vocabulary) -> Result<(), SetFileError> {
        let (file, tokenizer) = (self.layout.fingerprint, vocabulary.fingerprint());
        let fits = if file == 0 { self.vocab_len() <= vocabulary.len() } else { file == tokenizer };
        if fits { Ok(()) } else { Err(SetFileError::OtherTokenizer { file, tokenizer }) }
    }

    /// The bytes of a file that holds this set.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.layout.items as usize
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.layout.items == 0
    }

    /// The number of tokens of the longest item.
    pub fn longest(&self) -> usize {
        self.layout.columns.len()
    }

    /// The number of tokens of all items together.
    pub fn tokens(&self) -> u64 {
        self.layout.columns.iter().map(|column| u64::from(column.len)).sum()
    }

    /// The limit of token ids: every id is below it.
    pub fn vocab_len(&self) -> usize {
        self.layout.vocab_len as usize
    }

    /// The bytes of a token.
    pub fn token_bytes(&self) -> usize {
        self.layout.width
    }

    /// The fingerprint of the vocabulary that the set was built for; 0 where it was built from numbers alone.
    pub fn fingerprint(&self) -> u64 {
        self.layout.fingerprint
    }

    pub(crate) fn identity(&self) -> u64 {
        self.layout.identity()
    }

    /// The memory of the set, in bytes: the file, whose pages the system takes back when it needs to if the file is
    /// mapped, and the index of the first column. The struct itself is not counted.
    pub fn memory_usage(&self) -> usize {
        let index = size_of_val(self.first.words()) + size_of_val(&self.ranks[..]) + self.wide.memory_usage();
        self.bytes.len() + index
    }

    /// The bytes of a section.
    pub(crate) fn section(&self, section: usize) -> &[u8] {
        self.layout.sections[section].of(&self.bytes)
    }

    /// The length and the tokens of each column, as bytes.
    #[cfg(feature = "wgpu")]
    pub(crate) fn columns(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.layout.columns.iter().map(|column| (column.len, column.tokens.of(&self.bytes)))
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    pub(crate) fn subsets_part(&self) -> Part {
        self.layout.sections[SUBSETS]
    }

    #[inline]
    pub(crate) fn column_len(&self, depth: u32) -> u32 {
        self.layout.columns.get(depth as usize).map_or(0, |column| column.len)
    }

    /// The tokens of a column; none beyond the last.
    #[inline]
    fn column<const W: usize>(&self, depth: u32) -> Tokens<'_, W> {
        let part = self.layout.columns.get(depth as usize).map(|column| column.tokens).unwrap_or_default();
        Tokens::new(part.of(&self.bytes))
    }

    /// The tokens of a prefix's interval.
    #[inline]
    fn interval<const W: usize>(&self, cursor: &Cursor) -> Tokens<'_, W> {
        let column = self.column::<W>(cursor.depth);
        let hi = (cursor.hi as usize).min(column.len());
        column.slice((cursor.lo as usize).min(hi), hi)
    }

    /// The empty prefix.
    pub fn start(&self) -> Cursor {
        Cursor { hi: self.column_len(0), ends: self.layout.has_empty, ..Cursor::default() }
    }

    /// The prefix `cursor` followed by `token`, or `None` where no item begins with the longer prefix.
    ///
    /// Cost: O(log n) for an interval of n items, O(1) for the empty prefix.
    #[inline]
    pub fn step(&self, cursor: &Cursor, token: TokenId) -> Option<Cursor> {
        by_width!(self.step_in(cursor, token.0))
    }

    fn step_in<const W: usize>(&self, cursor: &Cursor, token: u32) -> Option<Cursor> {
        if cursor.depth == 0 {
            let rank = self.first_rank(token)?;
            let starts = Tokens::<4>::new(self.section(FIRST_STARTS));
            let rank_after = rank as usize + 1;
            let end = if rank_after < starts.len() { starts.get(rank_after) } else { self.column_len(0) };
            return Some(self.descend(cursor, starts.get(rank as usize), end));
        }
        let (begin, end) = self.interval::<W>(cursor).run_of(token)?;
        Some(self.descend(cursor, cursor.lo + begin as u32, cursor.lo + end as u32))
    }

    /// The rank of `token` among the first tokens.
    #[inline]
    fn first_rank(&self, token: u32) -> Option<u32> {
        let (word, bit) = (token as usize / WORD_BITS, token as usize % WORD_BITS);
        let bits = *self.first.words().get(word)?;
        (bits >> bit & 1 == 1).then(|| self.ranks[word] + (bits & ((1 << bit) - 1)).count_ones())
    }

    /// The prefix that extends `cursor` by the token of the run at `begin..end` of the column.
    #[inline]
    fn descend(&self, cursor: &Cursor, begin: u32, end: u32) -> Cursor {
        let ends = Ends::new(self.layout.columns[cursor.depth as usize].ends.of(&self.bytes));
        // Items are distinct and the shorter item comes first: at most the first item of the run ends here.
        let (ended, first_ends) = ends.at(begin);
        // In a damaged file these numbers may be anything.
        let len = self.column_len(cursor.depth + 1);
        let lo = begin.saturating_sub(ended).min(len);
        let hi = lo.saturating_add(end - begin - u32::from(first_ends)).min(len);
        let (depth, first_item) = (cursor.depth + 1, cursor.item_at(begin));
        Cursor { depth, lo, hi, first_item, ends: first_ends, wide: self.wide.find(depth, lo, hi) }
    }

    /// Whether some item begins with the prefix and `token`: as [`step`](Self::step), but without the next prefix.
    #[inline]
    pub fn has_child(&self, cursor: &Cursor, token: TokenId) -> bool {
        by_width!(self.has_child_in(cursor, token.0))
    }

    #[inline]
    fn has_child_in<const W: usize>(&self, cursor: &Cursor, token: u32) -> bool {
        if cursor.depth == 0 {
            return self.first.contains(TokenId(token));
        }
        let interval = self.interval::<W>(cursor);
        if interval.len() <= SCAN {
            return interval.contains(token);
        }
        self.followers(cursor, interval).contains(token)
    }

    /// Reads one token of the prefix's interval, so that the next question finds the interval in the cache.
    #[inline]
    pub(crate) fn touch(&self, cursor: &Cursor) {
        by_width!(self.touch_in(cursor));
    }

    #[inline]
    fn touch_in<const W: usize>(&self, cursor: &Cursor) {
        let interval = self.interval::<W>(cursor);
        if cursor.depth > 0 && interval.len() > 0 {
            std::hint::black_box(interval.get(interval.len() / 2));
        }
    }

    /// Parallel Prefix-Verification for one sequence: whether each of `candidates` may follow the prefix.
    pub(crate) fn have_children(&self, cursor: &Cursor, candidates: &[TokenId], valid: &mut [bool]) {
        by_width!(self.have_children_in(cursor, candidates, valid));
    }

    fn have_children_in<const W: usize>(&self, cursor: &Cursor, candidates: &[TokenId], valid: &mut [bool]) {
        let answers = valid.iter_mut().zip(candidates.iter().map(|token| token.0));
        if cursor.depth == 0 {
            return answers.for_each(|(valid, token)| *valid = self.first.contains(TokenId(token)));
        }
        let interval = self.interval::<W>(cursor);
        if interval.len() == 1 {
            let only = interval.get(0);
            answers.for_each(|(valid, token)| *valid = token == only);
        } else if interval.len() <= SCAN {
            answers.for_each(|(valid, token)| *valid = interval.contains(token));
        } else {
            // Tried instead: eight or ten searches in step. They were no faster or slower, because the processor
            // overlaps independent searches by itself.
            let followers = self.followers(cursor, interval);
            answers.for_each(|(valid, token)| *valid = followers.contains(token));
        }
    }

    /// The tokens that follow a prefix: the stored list or bits, or the prefix's interval.
    #[inline]
    fn followers<'a, const W: usize>(&'a self, cursor: &Cursor, interval: Tokens<'a, W>) -> Followers<'a, W> {
        let kept = self.wide.followers(cursor.wide, self.section(FOLLOWERS), self.layout.vocab_len);
        kept.unwrap_or(Followers::Sorted(interval))
    }

    /// Adds every token that may follow the prefix to `mask`.
    ///
    /// Cost: O(c log(n / c)) for c tokens and n items; for short prefixes with many items, O(c) or one pass over the
    /// mask.
    pub fn insert_children(&self, cursor: &Cursor, mask: &mut MaskMut<'_>) {
        by_width!(self.insert_children_in(cursor, mask));
    }

    fn insert_children_in<const W: usize>(&self, cursor: &Cursor, mask: &mut MaskMut<'_>) {
        if cursor.depth == 0 {
            return self.first.ids().for_each(|token| mask.insert(token));
        }
        // Columns that are not verified may hold ids beyond the mask.
        let len = mask.len();
        let mut insert = |token: u32| {
            if (token as usize) < len {
                mask.insert(TokenId(token));
            }
        };
        let interval = self.interval::<W>(cursor);
        match self.wide.followers::<W>(cursor.wide, self.section(FOLLOWERS), self.layout.vocab_len) {
            Some(Followers::Bits(words)) => {
                return mask.union_words(words.iter().map(|word| u32::from_le_bytes(*word)));
            }
            Some(Followers::Sorted(list)) => return list.iter().for_each(insert),
            None => {}
        }
        let mut at = 0;
        while at + CHUNK <= interval.len() {
            let (first, last) = (interval.get(at), interval.get(at + CHUNK - 1));
            if first == last {
                insert(first);
                at = interval.run_end(at);
            } else {
                interval.slice(at, at + CHUNK).iter().for_each(&mut insert);
                at += CHUNK;
            }
        }
        interval.slice(at, interval.len()).iter().for_each(insert);
    }

    /// Calls `each` with every token that may follow the prefix, in order, and with the begin and the end of its run
    /// in the column. `each` returns the first place that it still wants; runs in front of that place are skipped.
    pub(crate) fn runs(&self, cursor: &Cursor, each: &mut dyn FnMut(u32, u32, u32) -> u32) {
        by_width!(self.runs_in(cursor, each));
    }

    fn runs_in<const W: usize>(&self, cursor: &Cursor, each: &mut dyn FnMut(u32, u32, u32) -> u32) {
        let interval = self.interval::<W>(cursor);
        let mut at = 0;
        while at < interval.len() {
            let end = interval.run_end(at);
            let next = each(interval.get(at), cursor.lo + at as u32, cursor.lo + end as u32);
            at = end.max(next.saturating_sub(cursor.lo) as usize);
        }
    }

    /// The only token that may follow the prefix, if there is one; whether the prefix is an item does not matter. O(1).
    pub fn only_child(&self, cursor: &Cursor) -> Option<TokenId> {
        by_width!(self.only_child_in(cursor))
    }

    fn only_child_in<const W: usize>(&self, cursor: &Cursor) -> Option<TokenId> {
        let interval = self.interval::<W>(cursor);
        let last = interval.len().checked_sub(1)?;
        let token = interval.get(0);
        (token == interval.get(last) && token < self.layout.vocab_len).then_some(TokenId(token))
    }

    /// The place of an item in the order of the set.
    pub fn find(&self, item: &[TokenId]) -> Option<u32> {
        let step = |cursor: Cursor, token: &TokenId| self.step(&cursor, *token);
        item.iter().try_fold(self.start(), step)?.item()
    }

    /// The tokens of the item at a place in the order of the set; `None` beyond the last.
    ///
    /// Cost: two memory accesses for each token.
    pub fn item(&self, place: u32) -> Option<Vec<TokenId>> {
        if place >= self.layout.items {
            return None;
        }
        let mut tokens = Vec::new();
        let Some(mut at) = place.checked_sub(u32::from(self.layout.has_empty)) else { return Some(tokens) };
        for (depth, column) in (0..).zip(&self.layout.columns) {
            if at >= column.len {
                // The file is damaged.
                break;
            }
            tokens.push(TokenId(self.token_at(depth, at)));
            let (ended, ends) = Ends::new(column.ends.of(&self.bytes)).at(at);
            if ends {
                break;
            }
            at = at.saturating_sub(ended);
        }
        Some(tokens)
    }

    fn token_at(&self, depth: u32, at: u32) -> u32 {
        match self.layout.width {
            1 => self.column::<1>(depth).get(at as usize),
            2 => self.column::<2>(depth).get(at as usize),
            _ => self.column::<4>(depth).get(at as usize),
        }
    }

    /// Every item in order. Each column is read from its beginning to its end; there is no search.
    pub fn items(&self) -> Items<'_> {
        Items { set: self, next: 0, places: vec![0; self.layout.columns.len()] }
    }
}

impl fmt::Debug for ItemSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemSet")
            .field("items", &self.len())
            .field("longest", &self.longest())
            .field("tokens", &self.tokens())
            .field("token_bytes", &self.token_bytes())
            .finish_non_exhaustive()
    }
}
