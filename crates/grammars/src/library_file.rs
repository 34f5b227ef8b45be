//! A library of subterminal trees as a file, so that a process begins with the nodes that another has made.
//!
//! What is kept is what takes long to make: automata, nodes, and what joins of automata have become. Tries of what is left of tokens
//! are made again where they are asked for, and so are the lists of tokens by their bytes and counted units without bounds. Nodes
//! and groups keep their numbers, since keys name parents by them; the groups of all tokens have the same numbers in every
//! library over a vocabulary.
//!
//! ```text
//! "unskew trees"  version: u32  checksum: u64  fingerprint: u64  ids: u32
//! automata: count, each: states, each: accepting: u8, edges: count, each: first: u8, last: u8, target: u32
//! joined: count, each: number: u32, state: u32, what comes behind, 0: u8 or 1: u8 and number: u32
//! nodes: count, each: key, id: u32, tokens inside, groups of exits, extending: 4 x u64
//! ```
//!
//! Numbers are little-endian, counts are u32, and a list is its count and what it has. The checksum, XXH3 of all that follows it,
//! finds accidents. Beyond that it is checked that every number names something, so that no bytes can make a library that
//! panics; who writes a file with the right checksum decides what its masks allow.
//!
//! Tried instead: `serde`. Its formats would be the layout of private types, and all that is checked here would be checked in
//! another pass.

use std::{
    fs, io,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
};

use twox_hash::XxHash3_64;
use unskew_automata::{Dfa, DfaEdges, Limits};
use unskew_core::{TokenId, TokenMask, TokenTrie, Vocabulary, words_for};

use crate::{
    TreeLibrary,
    joined::NextKey,
    remainders::{Exits, Group},
    trees::{KeptNodes, Key, Language, Node, Tokens},
};

const MAGIC: &[u8; 12] = b"unskew trees";

/// To be raised whenever the layout changes, or what a node or a number means.
const VERSION: u32 = 1;

/// Where the checksum ends, and behind it what it is of.
const SUMMED: usize = MAGIC.len() + 4 + 8;

/// Why a file is not a library of subterminal trees.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeFileError {
    /// The file cannot be read or written.
    #[error("the file of subterminal trees {path} cannot be used: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another kind of file, or an empty one.
    #[error("this is no file of subterminal trees: it does not begin with \"unskew trees\"")]
    Magic,
    /// The file was written by another version of this library.
    #[error(
        "the subterminal trees are of version {found} and this library reads version {VERSION}: save them again"
    )]
    Version {
        /// The file's version.
        found: u32,
    },
    /// The file was damaged.
    #[error(
        "the checksum of the subterminal trees is {found:016x} and should be {expected:016x}: copy or save them again"
    )]
    Checksum {
        /// The checksum of what the file holds.
        found: u64,
        /// The checksum that it names.
        expected: u64,
    },
    /// The trees are those of another vocabulary.
    #[error(
        "the subterminal trees are of another vocabulary ({file:016x}, this one is {vocabulary:016x}): save those of this one"
    )]
    Vocabulary {
        /// The fingerprint in the file.
        file: u64,
        /// The fingerprint of the vocabulary at hand.
        vocabulary: u64,
    },
    /// The automata alone take more memory than the library may.
    #[error(
        "the automata of the subterminal trees take {bytes} bytes or more, and the limit of the library is {limit}: raise it"
    )]
    TooLarge {
        /// What they take at least.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The file says what no library writes.
    #[error("the file of subterminal trees is impossible: {0}")]
    Invalid(&'static str),
}

impl TreeLibrary {
    /// What the library keeps as the bytes of a file, for [`from_bytes`](Self::from_bytes). What other threads add meanwhile may or
    /// may not be in it.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kept = self.lock();
        let mut bytes = MAGIC.to_vec();
        put(&mut bytes, VERSION);
        bytes.extend(0u64.to_le_bytes());
        bytes.extend(self.vocabulary().fingerprint().to_le_bytes());
        put(&mut bytes, self.ids());

        // Those that something was found out about: most were met once, in one grammar.
        let mut used: Vec<u32> = kept.nodes.keys().map(|key| key.language().0).collect();
        for ((number, _, next), made) in &kept.joined {
            used.push(*number);
            used.extend(made.iter().map(|(number, _)| *number));
            match next {
                NextKey::Literal(_) => {}
                NextKey::Once(number) => used.push(*number),
                NextKey::Many(numbers) => used.extend(numbers),
            }
        }
        used.sort_unstable();
        used.dedup();
        let renumbered = |number: u32| used.partition_point(|used| *used < number);
        let automata = kept.automata.iter().map(|(dfa, number)| (*number, dfa));
        let mut automata: Vec<_> =
            automata.filter(|(number, _)| used.binary_search(number).is_ok()).collect();
        automata.sort_unstable_by_key(|(number, _)| *number);
        put_count(&mut bytes, automata.len());
        automata.iter().for_each(|(_, dfa)| put_automaton(&mut bytes, dfa));

        put_count(&mut bytes, kept.joined.len());
        let mut joined: Vec<Vec<u8>> = Vec::with_capacity(kept.joined.len());
        for ((number, state, next), result) in &kept.joined {
            let mut entry = Vec::new();
            put_count(&mut entry, renumbered(*number));
            put(&mut entry, *state);
            match next {
                NextKey::Literal(text) => {
                    entry.push(0);
                    put_text(&mut entry, text);
                }
                NextKey::Once(number) => {
                    entry.push(1);
                    put_count(&mut entry, renumbered(*number));
                }
                NextKey::Many(numbers) => {
                    entry.push(2);
                    put_count(&mut entry, numbers.len());
                    numbers.iter().for_each(|number| put_count(&mut entry, renumbered(*number)));
                }
            }
            match result {
                None => entry.push(0),
                Some((number, _)) => {
                    entry.push(1);
                    put_count(&mut entry, renumbered(*number));
                }
            }
            joined.push(entry);
        }
        // In one order, so that the same library is the same file.
        joined.sort_unstable();
        joined.iter().for_each(|entry| bytes.extend(entry));

        let mut nodes: Vec<(&Key, &Arc<Node>)> = kept.nodes.iter().collect();
        nodes.sort_unstable_by_key(|(_, node)| node.id);
        put_count(&mut bytes, nodes.len());
        for (key, node) in nodes {
            put_key(&mut bytes, *key, renumbered(key.language().0));
            put_node(&mut bytes, node);
        }
        let checksum = XxHash3_64::oneshot(&bytes[SUMMED..]);
        bytes[SUMMED - 8..SUMMED].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Writes [`to_bytes`](Self::to_bytes) to a file.
    ///
    /// # Errors
    ///
    /// [`TreeFileError::Io`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), TreeFileError> {
        let path = path.as_ref();
        fs::write(path, self.to_bytes()).map_err(|source| TreeFileError::Io { path: path.to_owned(), source })
    }

    /// The library that [`to_bytes`](Self::to_bytes) wrote, for the same tokens: `vocabulary` may be padded otherwise. Else as
    /// [`new`](Self::new), and it grows on from there. Nodes beyond `limit` are left out.
    ///
    /// # Errors
    ///
    /// [`TreeFileError`] where the bytes are damaged or of another vocabulary.
    ///
    /// # Example
    ///
    /// ```
    /// use std::sync::Arc;
    /// use unskew_core::{TokenTrie, Vocabulary};
    /// use unskew_grammars::TreeLibrary;
    ///
    /// let mut vocabulary = Vocabulary::builder();
    /// for text in ["a", "b", "ab"] {
    ///     vocabulary.text(text.as_bytes());
    /// }
    /// let vocabulary = Arc::new(vocabulary.build()?);
    /// let trie = Arc::new(TokenTrie::new(&vocabulary)?);
    /// let library = TreeLibrary::new(Arc::clone(&vocabulary), Arc::clone(&trie), 64 << 20);
    /// // .. compile grammars with it, make masks ..
    /// let again = TreeLibrary::from_bytes(vocabulary, trie, 64 << 20, &library.to_bytes())?;
    /// assert_eq!(again.size(), library.size());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_bytes(
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limit: usize,
        bytes: &[u8],
    ) -> Result<Self, TreeFileError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(TreeFileError::Magic)?;
        let mut texts = TokenMask::new(vocabulary.len());
        vocabulary.text_tokens().for_each(|(token, _)| texts.as_mut().insert(token));
        let mut reader = Reader { rest, vocabulary: &vocabulary, texts: texts.words() };
        let found = reader.number()?;
        if found != VERSION {
            return Err(TreeFileError::Version { found });
        }
        let expected = u64::from_le_bytes(reader.take()?);
        let found = XxHash3_64::oneshot(reader.rest);
        if found != expected {
            return Err(TreeFileError::Checksum { found, expected });
        }
        let file = u64::from_le_bytes(reader.take()?);
        let own = vocabulary.fingerprint();
        if file != own {
            return Err(TreeFileError::Vocabulary { file, vocabulary: own });
        }
        let ids = reader.number()?;
        let kept = reader.kept(limit, ids)?;
        if !reader.rest.is_empty() {
            return Err(TreeFileError::Invalid("something follows its end"));
        }
        let library = Self::new(Arc::clone(&vocabulary), trie, limit);
        if library.ids() > ids {
            return Err(TreeFileError::Invalid("there are fewer numbers than bytes that tokens begin with"));
        }
        Ok(library.with_kept(kept, ids))
    }

    /// The library of a file that [`save`](Self::save) wrote, as [`from_bytes`](Self::from_bytes).
    ///
    /// # Errors
    ///
    /// As there, and [`TreeFileError::Io`].
    pub fn load(
        vocabulary: Arc<Vocabulary>,
        trie: Arc<TokenTrie>,
        limit: usize,
        path: impl AsRef<Path>,
    ) -> Result<Self, TreeFileError> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| TreeFileError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(vocabulary, trie, limit, &bytes)
    }
}

fn put(bytes: &mut Vec<u8>, number: u32) {
    bytes.extend(number.to_le_bytes());
}

fn put_count(bytes: &mut Vec<u8>, count: usize) {
    put(bytes, u32::try_from(count).expect("bounded memory"));
}

fn put_text(bytes: &mut Vec<u8>, text: &[u8]) {
    put_count(bytes, text.len());
    bytes.extend(text);
}

fn put_automaton(bytes: &mut Vec<u8>, dfa: &Dfa) {
    put_count(bytes, dfa.len());
    for state in dfa.states() {
        bytes.push(u8::from(dfa.is_accepting(state)));
        put_count(bytes, dfa.edges(state).count());
        for edge in dfa.edges(state) {
            bytes.extend([*edge.bytes.start(), *edge.bytes.end()]);
            put_count(bytes, edge.target.index());
        }
    }
}

/// `number` is that of the automaton in the file.
fn put_key(bytes: &mut Vec<u8>, key: Key, number: usize) {
    let (kind, parent) = match key {
        Key::Root(_, state) => (0, (state, 0)),
        Key::Inside(_, state) => (1, (state, 0)),
        Key::Child(parent, _) => (2, parent),
    };
    bytes.push(kind);
    put(bytes, parent.0);
    put(bytes, parent.1);
    put_count(bytes, number);
    match key.language().1 {
        None => bytes.push(0),
        Some((min, max)) => {
            bytes.push(if max.is_none() { 1 } else { 2 });
            put(bytes, min);
            put(bytes, max.unwrap_or(0));
        }
    }
}

fn put_node(bytes: &mut Vec<u8>, node: &Node) {
    put(bytes, node.id);
    match &node.inside {
        Tokens::Few(tokens) => {
            bytes.push(0);
            put_count(bytes, tokens.len());
            tokens.iter().for_each(|token| put(bytes, token.0));
        }
        Tokens::Many(words) => {
            bytes.push(1);
            // Without padding, of which there may be another number.
            let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            put_count(bytes, used);
            words[..used].iter().for_each(|word| put(bytes, *word));
        }
    }
    put_count(bytes, node.exits.groups.len());
    for group in &node.exits.groups {
        bytes.push(group.byte);
        put(bytes, group.id);
        put_count(bytes, group.tokens().len());
        for (token, left) in group.tokens() {
            put(bytes, token.0);
            put(bytes, *left);
        }
    }
    node.extending.words().into_iter().for_each(|word| bytes.extend(word.to_le_bytes()));
}

/// What is left to read.
struct Reader<'a> {
    rest: &'a [u8],
    vocabulary: &'a Vocabulary,
    /// The tokens that have a text, in words of a mask.
    texts: &'a [u32],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], TreeFileError> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or(TreeFileError::Invalid("it ends too early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u32, TreeFileError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// A number below `limit`, which is the number of what it may name.
    fn below(&mut self, limit: usize) -> Result<u32, TreeFileError> {
        let number = self.number()?;
        if (number as usize) < limit {
            Ok(number)
        } else {
            Err(TreeFileError::Invalid("a number names nothing"))
        }
    }

    /// The number of things that take `bytes` bytes each at least.
    fn count(&mut self, bytes: usize) -> Result<usize, TreeFileError> {
        let count = self.number()? as usize;
        if count <= self.rest.len() / bytes {
            Ok(count)
        } else {
            Err(TreeFileError::Invalid("there is less in it than it says"))
        }
    }

    fn text(&mut self) -> Result<Box<[u8]>, TreeFileError> {
        let count = self.count(1)?;
        let (text, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(text.into())
    }

    /// All that a library of at most `limit` bytes keeps, with numbers below `ids`.
    fn kept(&mut self, limit: usize, ids: u32) -> Result<KeptNodes, TreeFileError> {
        let mut kept = KeptNodes::default();
        let fits = |kept: &KeptNodes| match kept.bytes <= limit {
            true => Ok(()),
            false => Err(TreeFileError::TooLarge { bytes: kept.bytes, limit }),
        };
        let mut automata: Vec<Arc<Dfa>> = Vec::new();
        for _ in 0..self.count(9)? {
            let dfa = Arc::new(self.automaton(limit)?);
            if kept.add_automaton(&dfa) as usize != automata.len() {
                return Err(TreeFileError::Invalid("two automata are equal"));
            }
            automata.push(dfa);
            fits(&kept)?;
        }
        let numbered = |number: u32| (number, Arc::clone(&automata[number as usize]));
        for _ in 0..self.count(14)? {
            let number = self.below(automata.len())?;
            let state = self.below(automata[number as usize].len())?;
            let next = match self.take()? {
                [0] => NextKey::Literal(self.text()?),
                [1] => NextKey::Once(self.below(automata.len())?),
                [2] => NextKey::Many(
                    (0..self.count(4)?).map(|_| self.below(automata.len())).collect::<Result<_, _>>()?,
                ),
                _ => return Err(TreeFileError::Invalid("what an automaton is joined with is of no kind")),
            };
            let made = match self.take()? {
                [0] => None,
                [1] => Some(numbered(self.below(automata.len())?)),
                _ => return Err(TreeFileError::Invalid("what automata were joined to is of no kind")),
            };
            kept.add_joined((number, state, next), made);
            fits(&kept)?;
        }
        for _ in 0..self.count(58)? {
            let key = self.key(&automata, ids)?;
            let node = self.node(ids)?;
            if kept.bytes < limit {
                kept.add_node(key, Arc::new(node));
            }
        }
        Ok(kept)
    }

    fn automaton(&mut self, limit: usize) -> Result<Dfa, TreeFileError> {
        let invalid = TreeFileError::Invalid("an automaton is not a minimal one");
        let states = self.count(5)?;
        let limits = Limits { dfa_states: usize::MAX, dfa_bytes: limit, ..Limits::default() };
        let mut edges = DfaEdges::new(&limits);
        let first = self.rest;
        let mut list: Vec<(u32, RangeInclusive<u8>, u32)> = Vec::new();
        for from in 0..states {
            let [accepting] = self.take()?;
            if accepting > 1 || edges.state(accepting == 1).is_err() {
                return Err(invalid);
            }
            for _ in 0..self.count(6)? {
                let [first, last] = self.take()?;
                if first > last {
                    return Err(invalid);
                }
                list.push((u32::try_from(from).expect("counted"), first..=last, self.below(states)?));
            }
        }
        for (from, bytes, to) in list {
            edges.edge(from, bytes, to);
        }
        let written = &first[..first.len() - self.rest.len()];
        let dfa = edges.build().map_err(|_| invalid)?;
        // In any other form its states would have other numbers.
        let mut again = Vec::with_capacity(written.len() + 4);
        put_automaton(&mut again, &dfa);
        if again.get(4..) == Some(written) {
            Ok(dfa)
        } else {
            Err(TreeFileError::Invalid("an automaton is not a minimal one"))
        }
    }

    fn key(&mut self, automata: &[Arc<Dfa>], ids: u32) -> Result<Key, TreeFileError> {
        let [kind] = self.take()?;
        let parent = (self.number()?, self.number()?);
        let number = self.below(automata.len())?;
        let bounds = match self.take()? {
            [0] => None,
            [bounds @ 1..=2] => {
                let (min, max) = (self.number()?, self.number()?);
                Some((min, (bounds == 2).then_some(max)))
            }
            _ => return Err(TreeFileError::Invalid("bounds are of no kind")),
        };
        let language: Language = (number, bounds);
        match kind {
            0 => Ok(Key::Root(language, parent.0)),
            1 => Ok(Key::Inside(language, parent.0)),
            2 if parent.0 < ids => Ok(Key::Child(parent, language)),
            _ => Err(TreeFileError::Invalid("a node has no place")),
        }
    }

    fn node(&mut self, ids: u32) -> Result<Node, TreeFileError> {
        let vocabulary = self.vocabulary;
        let id = self.below(ids as usize)?;
        let token = |id: u32| {
            let token = TokenId(id);
            match vocabulary.text(token) {
                Some(text) => Ok((token, text)),
                None => Err(TreeFileError::Invalid("a token has no text")),
            }
        };
        let inside = match self.take()? {
            [0] => {
                let tokens = (0..self.count(4)?).map(|_| Ok(token(self.number()?)?.0));
                Tokens::Few(tokens.collect::<Result<_, TreeFileError>>()?)
            }
            [1] => {
                let words = (0..self.count(4)?).map(|_| self.number());
                let mut words = words.collect::<Result<Vec<u32>, _>>()?;
                let texts = self.texts.iter().chain(std::iter::repeat(&0));
                if words.iter().zip(texts).any(|(word, texts)| word & !texts != 0) {
                    return Err(TreeFileError::Invalid("a token has no text"));
                }
                words.resize(words_for(vocabulary.len()), 0);
                Tokens::Many(words.into())
            }
            _ => return Err(TreeFileError::Invalid("a set of tokens is of no kind")),
        };
        let mut groups: Vec<Group> = Vec::new();
        for _ in 0..self.count(9)? {
            let [byte] = self.take()?;
            let id = self.below(ids as usize)?;
            let tokens = (0..self.count(8)?).map(|_| {
                let (token, text) = token(self.number()?)?;
                let left = self.number()?;
                let at = text.len().checked_sub(left as usize);
                match at.and_then(|at| text.get(at)) {
                    Some(first) if *first == byte => Ok((token, left)),
                    _ => Err(TreeFileError::Invalid("a token does not end so")),
                }
            });
            let tokens = tokens.collect::<Result<_, TreeFileError>>()?;
            if groups.last().is_some_and(|last| last.byte >= byte) {
                return Err(TreeFileError::Invalid("groups of tokens are in no order"));
            }
            let group = Group::new(byte, id, tokens);
            if group.tokens().is_empty() {
                return Err(TreeFileError::Invalid("a group has no tokens"));
            }
            groups.push(group);
        }
        let mut extending = [0u64; 4];
        for word in &mut extending {
            *word = u64::from_le_bytes(self.take()?);
        }
        Ok(Node::kept(id, inside, Exits::of_groups(groups), extending.into()))
    }
}
