//! Items added to a set and removed from it, without building it again.
//!
//! A delta is small and lies in a file next to its set. The removed items are a filter over the set's items. The
//! added items are a second, small set that is read along. When the delta has grown, [`Delta::compact_to`] makes one
//! set of the two, in one pass over the items, which are in order already.
//!
//! A delta names its set by the set's content, lineage and generation. The generation is the number of compactions
//! since the set was built. A compacted set names the changes that became part of it. A delta that stays next to its
//! set after the compaction is therefore recognised, and every other delta that does not fit is an error.
//! [`SetStore`](crate::SetStore) keeps the two together.
//!
//! ```text
//! "unskew delta"  version: u32  checksum: u64  lineage: u64  generation: u64  identity of the set: u64
//! items of the set: u32  removed: u32, their places ..  added: u32, each its length and tokens ..
//! ```
//!
//! The checksum, XXH3, covers all bytes after it, and its seed is the version. Version 1 has neither lineage nor
//! generation nor a seed. The reader takes version 1 as changes to a set that was never compacted.
//!
//! Subsets hold items of the set alone. The items that a delta adds are in no subset, and subsets keep their items
//! through a compaction.

use std::{
    collections::BTreeSet,
    io::{BufRead, Cursor as Bytes, Seek, Write},
    path::Path,
    sync::Arc,
};

use twox_hash::XxHash3_64;
use unskew_core::{TokenId, Vocabulary};
use unskew_files::NewFile;

use crate::{
    ItemSet, SetBuilder, SetError, SetFileError, SetLimits, Subset,
    build::write::{SetWriter, Shape},
    error::Line,
    item_set::layout::Origin,
    lines::{Failed, Form, Found, encode_lines, shown},
    subset::subsets_to_bytes,
};

const MAGIC: &[u8; 12] = b"unskew delta";
const VERSION: u32 = 2;
/// As [`VERSION`], but the file names its set by its identity alone.
const WITHOUT_LINEAGE: u32 = 1;
/// The length of magic, version and checksum.
const SUMMED: usize = 24;
/// The place of the changes: lineage, generation and identity stand in front of them.
const CHANGES: usize = SUMMED + 24;

/// The checksum of all bytes after it; the version in front of it is the seed.
fn checksum(version: u32, bytes: &[u8]) -> u64 {
    let seed = if version == WITHOUT_LINEAGE { 0 } else { u64::from(version) };
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Counts of the lines of a text that changed a delta.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct DeltaReport {
    /// Items that were added or removed.
    pub changed: u64,
    /// Lines that changed nothing: the item to be added was there already, or an earlier line has the same item.
    pub unchanged: u64,
    /// Lines without text.
    pub blank: u64,
}

/// The items that are added to a set and removed from it.
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
    /// The identity of the delta's set.
    identity: u64,
    lineage: u64,
    generation: u64,
    len: u32,
    /// Items that are not in the set.
    added: BTreeSet<Vec<TokenId>>,
    removed: BTreeSet<u32>,
    vocabulary: Option<Arc<Vocabulary>>,
}

impl Delta {
    /// No change to `set`.
    pub fn new(set: &ItemSet) -> Self {
        Self {
            identity: set.identity(),
            lineage: set.layout().origin.lineage,
            generation: set.layout().origin.generation,
            len: set.len() as u32,
            added: BTreeSet::new(),
            removed: BTreeSet::new(),
            vocabulary: None,
        }
    }

    /// The same delta; it refuses to add tokens that are no text of `vocabulary`.
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

    /// Adds an item. Returns whether the item was not there.
    ///
    /// # Errors
    ///
    /// [`SetError`] where a token cannot be part of an output, or the item has more than the default of
    /// [`SetLimits::item_tokens`]; [`SetError::OtherSet`] where this is the delta of another set.
    pub fn add(&mut self, set: &ItemSet, item: &[TokenId]) -> Result<bool, SetError> {
        self.check(set)?;
        self.add_from(self.added.len() as u64 + 1, set, item)
    }

    fn add_from(&mut self, line: Line, set: &ItemSet, item: &[TokenId]) -> Result<bool, SetError> {
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

    /// Removes an item. Returns whether the item was there.
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

    /// Adds every line of a text, as `encode` writes it. After an error the delta is unchanged.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add), and as [`SetBuilder::push_lines`] with the line.
    ///
    /// # Panics
    ///
    /// If the delta has no [vocabulary](Self::for_vocabulary): it then does not know the texts of the tokens.
    /// [`remove_lines`](Self::remove_lines) panics for the same reason.
    pub fn add_lines<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        set: &ItemSet,
        text: impl BufRead,
        encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
    ) -> Result<DeltaReport, SetError> {
        self.edit(set, text, encode, |delta, line, _, item| delta.add_from(line, set, item))
    }

    /// Removes every line of a text, as `encode` writes it. After an error the delta is unchanged.
    ///
    /// # Errors
    ///
    /// [`SetError::NoSuchItem`] where a line is no item and no earlier line has removed it, and as
    /// [`SetBuilder::push_lines`] with the line.
    pub fn remove_lines<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        &mut self,
        set: &ItemSet,
        text: impl BufRead,
        encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
    ) -> Result<DeltaReport, SetError> {
        // The same line may come twice.
        let mut gone = BTreeSet::new();
        self.edit(set, text, encode, |delta, line, text, item| {
            if delta.remove(set, item)? {
                gone.insert(item.to_vec());
                return Ok(true);
            }
            if gone.contains(item) {
                Ok(false)
            } else {
                Err(SetError::NoSuchItem { line, text: shown(text) })
            }
        })
    }

    fn edit<E: Failed>(
        &mut self,
        set: &ItemSet,
        text: impl BufRead,
        encode: impl Fn(&str) -> Result<Vec<TokenId>, E> + Sync,
        mut each: impl FnMut(&mut Self, Line, &str, &[TokenId]) -> Result<bool, SetError>,
    ) -> Result<DeltaReport, SetError> {
        self.check(set)?;
        let vocabulary = Arc::clone(self.vocabulary.as_ref().expect("a delta for a vocabulary"));
        let line_bytes = SetLimits::default().line_bytes;
        let form = Form { vocabulary: &vocabulary, prefix: "", line_bytes };
        let (mut changed, mut report) = (self.clone(), DeltaReport::default());
        encode_lines(text, form, &mut 0, encode, |found| {
            match found {
                Found::Item(line, text, item) => match each(&mut changed, line, text, &item)? {
                    true => report.changed += 1,
                    false => report.unchanged += 1,
                },
                Found::Blank(_) => report.blank += 1,
                Found::Progress(..) => {}
            }
            Ok(())
        })?;
        *self = changed;
        Ok(report)
    }

    /// The number of added items and the number of removed items.
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

    /// The items that the delta leaves of the set, or `None` if all are left, and the set of the added items, or
    /// `None` if there are none.
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

    /// The items of a subset of `set` that the delta does not remove.
    pub(crate) fn left_of(&self, set: &ItemSet, subset: &Subset) -> Result<Subset, SetError> {
        self.check(set)?;
        let mut left = subset.clone();
        let gone = self.removed.iter().filter(|place| subset.contains(**place));
        gone.for_each(|place| left.remove(*place));
        Ok(left)
    }

    /// Whether the delta changes nothing.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// The items of `set` with the changes, in order. A set's item comes with its place in `set`, an added item with
    /// `None`.
    ///
    /// # Errors
    ///
    /// [`SetError::OtherSet`].
    pub fn items<'a>(
        &'a self,
        set: &'a ItemSet,
    ) -> Result<impl Iterator<Item = (Option<u32>, Vec<TokenId>)>, SetError> {
        self.check(set)?;
        let kept = (0..).zip(set.items()).filter(|(place, _)| !self.removed.contains(place));
        let mut kept = kept.peekable();
        let mut added = self.added.iter().peekable();
        Ok(std::iter::from_fn(move || {
            let kept_is_next = match (kept.peek(), added.peek()) {
                (Some((_, kept)), Some(added)) => kept < *added,
                (kept, _) => kept.is_some(),
            };
            if kept_is_next {
                return kept.next().map(|(place, item)| (Some(place), item));
            }
            added.next().map(|item| (None, item.clone()))
        }))
    }

    fn compact_into<W: Write + Seek>(&self, set: &ItemSet, out: W) -> Result<W, SetError> {
        let mut shape = Shape::default();
        let names = set.subset_names()?;
        let old: Vec<Subset> = names.iter().map(|name| set.subset(name)).collect::<Result<_, _>>()?;
        self.items(set)?.try_for_each(|(_, item)| shape.count(item.len()))?;
        let mut new = vec![Subset::none(shape.items as usize); old.len()];
        let origin = Origin {
            lineage: self.lineage,
            generation: self.generation.saturating_add(1),
            absorbed: XxHash3_64::oneshot(&self.to_bytes()[CHANGES..]),
        };
        let writer = SetWriter::new(out, &shape, set.vocab_len(), set.fingerprint())?;
        let mut writer = writer.from(origin);
        let mut tokens = Vec::new();
        for ((before, item), now) in self.items(set)?.zip(0..) {
            tokens.clear();
            tokens.extend(item.into_iter().map(u32::from));
            writer.push(&tokens)?;
            for (old, new) in old.iter().zip(&mut new) {
                if before.is_some_and(|before| old.contains(before)) {
                    new.insert(now);
                }
            }
        }
        let named: Vec<(&str, &Subset)> = names.iter().map(String::as_str).zip(&new).collect();
        writer.finish(subsets_to_bytes(&named))
    }

    /// One set of `set` and the changes, in memory. A subset that was saved with `set` keeps those of its items that
    /// are left.
    ///
    /// # Errors
    ///
    /// [`SetError::OtherSet`], and [`SetError::File`] where the subsets are damaged.
    pub fn compact(&self, set: &ItemSet) -> Result<ItemSet, SetError> {
        let bytes = self.compact_into(set, Bytes::new(Vec::new()))?.into_inner();
        Ok(ItemSet::from_bytes(bytes).expect("what was written can be read"))
    }

    /// As [`compact`](Self::compact), into a file, which may be that of `set`: the file gets its name only when the
    /// new set is complete. [`SetChanger::compact`](crate::SetChanger::compact) also removes the changes.
    ///
    /// # Errors
    ///
    /// As [`compact`](Self::compact), [`SetError::Write`] and [`SetError::Io`].
    pub fn compact_to(&self, set: &ItemSet, path: impl AsRef<Path>) -> Result<(), SetError> {
        Ok(self.compact_into(set, NewFile::create(path)?)?.commit()?)
    }

    /// The delta as bytes, for [`from_bytes`](Self::from_bytes).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.resize(SUMMED, 0);
        [self.lineage, self.generation, self.identity].iter().for_each(|id| bytes.extend(id.to_le_bytes()));
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
        let checksum = checksum(VERSION, &bytes[SUMMED..]);
        bytes[SUMMED - 8..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Writes the delta to a file. The file gets its name only when the delta is complete.
    ///
    /// # Errors
    ///
    /// [`SetFileError::Write`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SetFileError> {
        Ok(unskew_files::write(path, &self.to_bytes())?)
    }

    /// Reads the delta to `set` in a file.
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes), and [`SetFileError::Io`].
    pub fn open(path: impl AsRef<Path>, set: &ItemSet) -> Result<Self, SetFileError> {
        let path = path.as_ref();
        let bytes =
            std::fs::read(path).map_err(|source| SetFileError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes, set)
    }

    /// The delta to `set` that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// [`SetFileError`]: [`OtherSet`](SetFileError::OtherSet) where the delta belongs to another set,
    /// [`Absorbed`](SetFileError::Absorbed) where `set` was compacted with the delta, and
    /// [`OtherGeneration`](SetFileError::OtherGeneration) where `set` is of another generation and lacks the delta.
    /// Subsets do not matter.
    pub fn from_bytes(bytes: &[u8], set: &ItemSet) -> Result<Self, SetFileError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SetFileError::NoDelta)?;
        let invalid = || SetFileError::Invalid { part: "changes" };
        let (version, rest) = rest.split_first_chunk().ok_or_else(invalid)?;
        let version = u32::from_le_bytes(*version);
        if ![WITHOUT_LINEAGE, VERSION].contains(&version) {
            return Err(SetFileError::Version { version, supported: VERSION });
        }
        let (expected, mut rest) = rest.split_first_chunk().ok_or_else(invalid)?;
        let (found, expected) = (checksum(version, rest), u64::from_le_bytes(*expected));
        if found != expected {
            return Err(SetFileError::Checksum { part: "delta", found, expected });
        }
        let mut long = || -> Option<u64> {
            let (long, behind) = rest.split_first_chunk()?;
            rest = behind;
            Some(u64::from_le_bytes(*long))
        };
        let of = if version == VERSION {
            (|| Some([long()?, long()?, long()?]))()
        } else {
            // The set of these changes had never been compacted.
            long().map(|identity| [identity, 0, identity])
        };
        let [lineage, generation, identity] = of.ok_or_else(invalid)?;
        let changes = rest;
        let len = changes.first_chunk().map(|len| u32::from_le_bytes(*len)).ok_or_else(invalid)?;
        let origin = set.layout().origin;
        let expected = origin.generation;
        if lineage == origin.lineage && generation != expected {
            let is_in_it = generation.checked_add(1) == Some(expected)
                && XxHash3_64::oneshot(changes) == origin.absorbed;
            return Err(if is_in_it {
                SetFileError::Absorbed
            } else {
                SetFileError::OtherGeneration { found: generation, expected }
            });
        }
        if lineage != origin.lineage || identity != set.identity() {
            return Err(SetFileError::OtherSet { found: len.into(), expected: set.len() as u64 });
        }
        let delta = Self::read(changes, set).ok_or_else(invalid)?;
        let fits = delta.len as usize == set.len()
            && delta.removed.last().is_none_or(|place| *place < delta.len)
            && delta.added.iter().all(|item| set.find(item).is_none());
        if fits { Ok(delta) } else { Err(invalid()) }
    }

    fn read(changes: &[u8], set: &ItemSet) -> Option<Self> {
        let (words, []) = changes.as_chunks::<4>() else { return None };
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
        is_all.then_some(Self { len, added, removed, ..Self::new(set) })
    }
}
