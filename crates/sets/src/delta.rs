//! Items added to a set and removed from it, without building it again.
//!
//! A delta is small and lies beside its set: what is removed is a filter over the set's items, and what is added a second,
//! small set that is read along. [`Delta::compact_to`] makes one set of the two when the delta has grown: one pass over the
//! items, which are in order already.

use std::{
    collections::BTreeSet,
    io::{Cursor as Bytes, Seek, Write},
    path::Path,
    sync::Arc,
};

use twox_hash::XxHash3_64;
use unskew_core::{TokenId, Vocabulary};

use crate::{
    ItemSet, SetBuilder, SetError, SetFileError, SetLimits, Subset,
    build::new_file_beside,
    write::{SetWriter, Shape},
};

const MAGIC: &[u8; 12] = b"unskew delta";
const VERSION: u32 = 1;
/// Magic, version, checksum.
const SUMMED: usize = 24;

/// What is added to a set and removed from it.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_core::TokenId;
/// use unskew_sets::{Delta, SetBuilder, SetConstraint};
///
/// let mut builder = SetBuilder::new(10);
/// builder.push(&[TokenId(1)])?;
/// let set = Arc::new(builder.build()?.0);
///
/// let mut delta = Delta::new(&set);
/// assert!(delta.add(&set, &[TokenId(2)])?);
/// assert!(delta.remove(&set, &[TokenId(1)])?);
/// assert!(!delta.remove(&set, &[TokenId(9)])?); // was not there
/// let constraint = SetConstraint::with_delta(Arc::clone(&set), &delta, 10)?;
/// # let _ = constraint;
/// assert_eq!(delta.compact(&set)?.items().collect::<Vec<_>>(), [[TokenId(2)]]);
/// # Ok::<(), unskew_sets::SetError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// Of the set that this belongs to.
    identity: u64,
    len: u32,
    /// Not in the set.
    added: BTreeSet<Vec<TokenId>>,
    removed: BTreeSet<u32>,
    vocabulary: Option<Arc<Vocabulary>>,
}

impl Delta {
    /// No change to `set`.
    pub fn new(set: &ItemSet) -> Self {
        Self {
            identity: set.identity(),
            len: set.len() as u32,
            added: BTreeSet::new(),
            removed: BTreeSet::new(),
            vocabulary: None,
        }
    }

    /// The same delta, which refuses to add tokens that are no text of `vocabulary`.
    ///
    /// # Errors
    ///
    /// [`SetFileError::OtherTokenizer`].
    pub fn for_vocabulary(
        mut self,
        set: &ItemSet,
        vocabulary: Arc<Vocabulary>,
    ) -> Result<Self, SetFileError> {
        set.check_vocabulary(&vocabulary)?;
        self.vocabulary = Some(vocabulary);
        Ok(self)
    }

    /// Adds an item. Answers whether it was not there.
    ///
    /// # Errors
    ///
    /// [`SetError`] where a token does not belong into an output, or the item has more than the default of
    /// [`SetLimits::item_tokens`]; [`SetError::OtherSet`] where this is the delta of another set.
    pub fn add(&mut self, set: &ItemSet, item: &[TokenId]) -> Result<bool, SetError> {
        self.check(set)?;
        let line = self.added.len() as u64 + 1;
        let limit = SetLimits::default().item_tokens;
        if item.len() > limit {
            return Err(SetError::TooLong { line, tokens: item.len(), limit });
        }
        if let Some(token) = item.iter().copied().find(|token| token.index() >= set.vocab_len()) {
            return Err(SetError::NoSuchToken { line, token, vocab_len: set.vocab_len() });
        }
        if let Some(vocabulary) = &self.vocabulary {
            let is_text = |token: &TokenId| vocabulary.text(*token).is_some_and(|text| !text.is_empty());
            if let Some(token) = item.iter().copied().find(|token| !is_text(token)) {
                return Err(SetError::NotText { line, token });
            }
        }
        Ok(match set.find(item) {
            Some(place) => self.removed.remove(&place),
            None => self.added.insert(item.to_vec()),
        })
    }

    /// Removes an item. Answers whether it was there.
    ///
    /// # Errors
    ///
    /// [`SetError::OtherSet`].
    pub fn remove(&mut self, set: &ItemSet, item: &[TokenId]) -> Result<bool, SetError> {
        self.check(set)?;
        Ok(match set.find(item) {
            Some(place) => self.removed.insert(place),
            None => self.added.remove(item),
        })
    }

    /// How many items are added and how many removed.
    pub fn counts(&self) -> (usize, usize) {
        (self.added.len(), self.removed.len())
    }

    fn check(&self, set: &ItemSet) -> Result<(), SetError> {
        if self.identity == set.identity() {
            return Ok(());
        }
        let (found, expected) = (self.len.into(), set.len() as u64);
        Err(SetError::OtherSet { what: "delta", found, expected })
    }

    /// What is left of the set, if something is gone, and the set of what is added, if something is.
    pub(crate) fn layers(&self, set: &ItemSet) -> Result<(Option<Subset>, Option<ItemSet>), SetError> {
        self.check(set)?;
        let left = (!self.removed.is_empty()).then(|| {
            let mut left = Subset::all(set.len());
            self.removed.iter().for_each(|place| left.remove(*place));
            left
        });
        let added = if self.added.is_empty() {
            None
        } else {
            let mut builder = SetBuilder::new(set.vocab_len());
            self.added.iter().try_for_each(|item| builder.push(item))?;
            Some(builder.build()?.0)
        };
        Ok((left, added))
    }

    /// The items of `set` as this changes them, in order.
    fn items<'a>(&'a self, set: &'a ItemSet) -> impl Iterator<Item = Vec<u32>> {
        let kept = (0..).zip(set.items()).filter(|(place, _)| !self.removed.contains(place));
        let mut kept = kept.map(|(_, item)| item).peekable();
        let mut added = self.added.iter().peekable();
        std::iter::from_fn(move || {
            let kept_is_next = match (kept.peek(), added.peek()) {
                (Some(kept), Some(added)) => kept < *added,
                (kept, _) => kept.is_some(),
            };
            let item = if kept_is_next { kept.next() } else { added.next().cloned() };
            item.map(|item| item.into_iter().map(u32::from).collect())
        })
    }

    fn compact_into<W: Write + Seek>(&self, set: &ItemSet, out: W) -> Result<W, SetError> {
        self.check(set)?;
        let mut shape = Shape::default();
        self.items(set).try_for_each(|item| shape.count(item.len()))?;
        let mut writer = SetWriter::new(out, &shape, set.vocab_len(), set.fingerprint())?;
        self.items(set).try_for_each(|item| writer.push(&item))?;
        writer.finish()
    }

    /// One set of the two, in memory. Subsets that were saved with `set` are gone, as the places of items change.
    ///
    /// # Errors
    ///
    /// [`SetError::OtherSet`].
    pub fn compact(&self, set: &ItemSet) -> Result<ItemSet, SetError> {
        let bytes = self.compact_into(set, Bytes::new(Vec::new()))?.into_inner();
        Ok(ItemSet::from_bytes(bytes).expect("what was written can be read"))
    }

    /// As [`compact`](Self::compact), into a file, which may be that of `set`: it has its name only when it is complete.
    ///
    /// # Errors
    ///
    /// [`SetError::OtherSet`], and [`SetError::Io`].
    pub fn compact_to(&self, set: &ItemSet, path: impl AsRef<Path>) -> Result<(), SetError> {
        let file = self.compact_into(set, new_file_beside(path.as_ref())?)?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    /// The delta as bytes, for [`from_bytes`](Self::from_bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.resize(SUMMED, 0);
        bytes.extend(self.identity.to_le_bytes());
        let mut put = |number: usize| {
            let number = u32::try_from(number).expect("a delta is small");
            bytes.extend(number.to_le_bytes());
        };
        put(self.len as usize);
        put(self.removed.len());
        self.removed.iter().for_each(|place| put(*place as usize));
        put(self.added.len());
        for item in &self.added {
            put(item.len());
            item.iter().for_each(|token| put(token.index()));
        }
        let checksum = XxHash3_64::oneshot(&bytes[SUMMED..]);
        bytes[SUMMED - 8..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The delta to `set` that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`SetFileError`], with [`Invalid`](SetFileError::Invalid) also where it is one to another set.
    pub fn from_bytes(bytes: &[u8], set: &ItemSet) -> Result<Self, SetFileError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SetFileError::Magic)?;
        let cut_off = SetFileError::Length { len: bytes.len() as u64, expected: SUMMED as u64 };
        let Some((version, rest)) = rest.split_first_chunk() else { return Err(cut_off) };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(SetFileError::Version { version, supported: VERSION });
        }
        let Some((checksum, rest)) = rest.split_first_chunk() else { return Err(cut_off) };
        let (found, expected) = (XxHash3_64::oneshot(rest), u64::from_le_bytes(*checksum));
        if found != expected {
            return Err(SetFileError::Checksum { part: "delta", found, expected });
        }
        let delta = Self::read(rest, set).ok_or(SetFileError::Invalid { part: "changes" })?;
        let invalid = SetFileError::Invalid { part: "changes" };
        let fits = delta.check(set).is_ok()
            && delta.removed.last().is_none_or(|place| *place < delta.len)
            && delta.added.iter().all(|item| set.find(item).is_none());
        if fits { Ok(delta) } else { Err(invalid) }
    }

    fn read(rest: &[u8], set: &ItemSet) -> Option<Self> {
        let (identity, rest) = rest.split_first_chunk()?;
        let (words, []) = rest.as_chunks::<4>() else { return None };
        let mut words = words.iter().map(|word| u32::from_le_bytes(*word));
        let len = words.next()?;
        let mut removed = BTreeSet::new();
        for _ in 0..words.next()? {
            removed.insert(words.next()?);
        }
        let mut added = BTreeSet::new();
        for _ in 0..words.next()? {
            let tokens = words.next()? as usize;
            if tokens > words.len() {
                return None;
            }
            let item: Vec<TokenId> = words.by_ref().take(tokens).map(TokenId).collect();
            if item.iter().any(|token| token.index() >= set.vocab_len()) {
                return None;
            }
            added.insert(item);
        }
        let is_all = words.next().is_none();
        is_all.then_some(Self {
            identity: u64::from_le_bytes(*identity),
            len,
            added,
            removed,
            vocabulary: None,
        })
    }
}
