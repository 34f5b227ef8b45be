//! The automaton of all sequences that a tokenizer writes, in parts. Built once per tokenizer and shared by all
//! constraints.
//!
//! A sequence is canonical, `encode(decode(ids)) = ids`, under three conditions. The encoder must not rewrite the
//! text ([`crate::canonical::texts::facts`]). A token must end wherever the pre-tokenizer splits the text into
//! pieces ([`crate::split`]: an automaton over bytes and boundaries). Within a piece, no merge may join or break two
//! neighbouring tokens ([`crate::canonical::merges::forest`]). The third condition concerns pairs only, so the three
//! together are an automaton. Some models add exceptions: pieces that are looked up as a whole
//! ([`crate::canonical::merges::whole`]), characters that are spelled byte by byte, and added tokens.
//!
//! Tried instead: testing a pair of tokens by encoding both together with the whole encoder. With a pre-tokenizer
//! that test is not necessary: `1`, two blanks, a blank, `2` is canonical, and the blanks alone are not. Nor is it
//! sufficient: in `bas`, `'`, `Sa` under o200k the contraction belongs to the word.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use unskew_core::{Symbols, TokenId, TokenKind, Tokenization, UnicodeForm, Vocabulary};
use unskew_trie::ByteSet;

use crate::{
    canonical::{
        CanonicalError, MergeOrder, SplitLimits,
        merges::{
            derivation::{Derivations, NONE},
            forest::BigramRelation,
            whole::WholePieces,
        },
        texts::{
            added::TextDfa,
            facts::{AddedText, AfterControl, TextFacts},
            rewriting::check_dropped,
            utf8::characters_of,
        },
        token_set::bits,
    },
    ids::{MergeKey, SplitState, TextState},
    split::{Prefix, SplitDfa, SplitOptions},
};

/// The most tokens that merges may create from a piece that is written as one token. Searches recurse along these
/// sequences.
const WHOLE_PIECE_LIMIT: usize = 1_000;

/// The way in which an encoder writes a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Role {
    /// It is never written.
    Never = 0,
    /// It is a symbol or the result of merges.
    Merged = 1,
    /// It spells one byte of a character without a token.
    Fallback = 2,
    /// Merges do not create it. It is written only where it is a whole piece.
    Whole = 3,
}

/// All token sequences that a byte-pair tokenizer writes, as an automaton.
///
/// The tables depend on the tokenizer alone and are immutable. To use them with a vocabulary, padded or not, build a
/// [`CanonicalIndex`](crate::canonical::CanonicalIndex), from which constraints are built.
///
/// # Which tokenizers
///
/// The tokenizers library is the reference. Each step reads the text as the previous steps leave it. A pattern for a
/// space never matches after a normaliser that has replaced spaces by U+2581. After a byte-level step, a pattern
/// reads one character of GPT-2's alphabet for each byte.
///
/// | step | exact | refused, by a typed error |
/// |---|---|---|
/// | model | byte-pair encoding with its merges, `ignore_merges`, byte fallback (all byte tokens, some or none), unknown token fused or not | Unigram (the best sum of scores is no regular property), WordPiece, WordLevel, dropout, prefixes and suffixes of words; merges with a control token that the text does not always reveal |
/// | normaliser | NFC, NFD, NFKC, NFKD; `Lowercase`, `StripAccents`, `Nmt`, `BertNormalizer`; `Replace` of a string, or by a regex that does not match its own replacement; `Strip`; `Prepend` of a space, its mark, or a marker that a later `Replace` turns into a space; `ByteLevel` as the last step; sequences of these | `Precompiled`; two different Unicode forms; steps of which a later one may undo an earlier one; spaces around Chinese characters that a pre-tokenizer removes |
/// | pre-tokenizer | `Split` by string and by regex in all five behaviours, inverted or not; `ByteLevel` with and without its regex; `Metaspace`; `Digits`, `Punctuation`, `Whitespace`, `WhitespaceSplit`, `BertPreTokenizer`, `CharDelimiterSplit`, `FixedLength`; sequences of these, also after `ByteLevel` | `UnicodeScripts` (its table is private to the library); a space before each piece (`add_prefix_space`, or `Metaspace` that prepends, after another step); regexes that match the empty text, look behind, or look ahead further than one character |
/// | added tokens that are control tokens | all; a text that holds one is refused | `single_word` where another one touches it |
/// | added tokens that are text | found leftmost and longest, raw or normalised, overlapping with others or themselves, with `lstrip` and `rstrip`, after tokenizers that prepend | `single_word`; normalised ones that a step may rewrite together with the text beside them; stripping of white space that is part of another one |
pub struct TokenizerAutomaton {
    #[cfg(feature = "published")]
    pub(crate) fingerprint: u64,
    /// The [fingerprint](Vocabulary::fingerprint) of the vocabulary that the automaton was built for.
    pub(crate) vocabulary_fingerprint: u64,
    pub(crate) vocab_len: usize,
    pub(crate) roles: Vec<Role>,
    /// The tokens of role `Merged`, one bit each.
    pub(crate) merged: Vec<u32>,
    /// The tokens of role `Whole`.
    pub(crate) only_whole: Vec<u32>,
    /// By byte: the symbol of the text of that one byte, or [`NONE`].
    pub(crate) symbols: Vec<u32>,
    pub(crate) bigrams: BigramRelation,
    pub(crate) whole: WholePieces,
    /// By byte: the fallback token that spells it in a character without a token, or [`NONE`].
    pub(crate) fallback: Vec<u32>,
    /// The characters that symbols and fallback tokens spell; `None` if these are all.
    pub(crate) spelled: Option<Vec<(char, char)>>,
    /// The bytes for which the encoder may write no token. Empty for nearly all tokenizers: the splitter reads only
    /// the characters that are spelled, unless there are pieces with other characters that are looked up as a whole.
    pub(crate) unspelled: ByteSet,
    pub(crate) split: SplitDfa,
    pub(crate) text: TextDfa<TextState>,
    /// The Unicode form into which the normaliser brings texts.
    pub(crate) form: Option<UnicodeForm>,
    /// Added tokens that are text, in ascending order of ids.
    pub(crate) added: Vec<AddedText>,
    /// Indices into `added`, in the order of the contents.
    pub(crate) added_order: Vec<u32>,
    /// See [`TextFacts::controls`].
    controls: Vec<(u32, AfterControl)>,
}

/// Indices into `added`, in the order of the contents.
pub(crate) fn order_of(added: &[AddedText]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..).take(added.len()).collect();
    order.sort_by(|one, other| added[*one as usize].content.cmp(&added[*other as usize].content));
    order
}

impl TokenizerAutomaton {
    /// The automaton of the tokenizer with this vocabulary and tokenization.
    ///
    /// `vocabulary` may have more ids than the tokenizer knows: the rows of a model are often padded.
    ///
    /// Cost: O(m log m) for m merges; about 20 ms for 32,000 tokens and 100 ms for 128,000, and about 70 bytes a
    /// token.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] names the step of the tokenizer that cannot be followed exactly.
    pub fn new(vocabulary: &Vocabulary, tokenization: &Tokenization) -> Result<Self, CanonicalError> {
        Self::with_order(vocabulary, tokenization, MergeOrder::LowestRank)
    }

    /// As [`new`](Self::new), for an encoder that applies its merges in another order.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_order(
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
        order: MergeOrder,
    ) -> Result<Self, CanonicalError> {
        Self::with_limits(vocabulary, tokenization, order, &SplitLimits::default())
    }

    /// As [`with_order`](Self::with_order), with other bounds on the cost of the split patterns.
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn with_limits(
        vocabulary: &Vocabulary,
        tokenization: &Tokenization,
        order: MergeOrder,
        limits: &SplitLimits,
    ) -> Result<Self, CanonicalError> {
        let facts = TextFacts::new(vocabulary, tokenization, limits)?;
        let len = vocabulary.len();
        for (rank, merge) in tokenization.merges.merges().iter().enumerate() {
            let ids = [merge.left, merge.right, merge.result];
            if let Some(token) = ids.into_iter().find(|token| token.index() >= len) {
                return Err(CanonicalError::ForeignMerge { rank, token, ids: len });
            }
        }
        let mut roles = vec![Role::Never; len];
        let mut fallback = vec![NONE; 256];
        if let Symbols::Characters { fallback: tokens } = &tokenization.symbols {
            // The encoder also writes fallback tokens that are no text. Their output decodes to another text, so
            // they are skipped.
            for (byte, token) in tokens.iter().filter(|(_, token)| vocabulary.kind(*token) == TokenKind::Text)
            {
                fallback[usize::from(*byte)] = token.0;
                roles[token.index()] = Role::Fallback;
            }
        }
        // The tokens that pieces may consist of.
        let mut of_pieces: Vec<bool> = roles
            .iter()
            .zip(0..)
            .map(|(role, id)| *role == Role::Never && vocabulary.kind(TokenId(id)) == TokenKind::Text)
            .collect();
        for token in tokenization.unwritten.iter().filter(|token| token.index() < len) {
            of_pieces[token.index()] = false;
        }
        let is_model = |token: TokenId| of_pieces[token.index()];
        let symbols = symbols(vocabulary, tokenization, is_model);
        check_dropped(tokenization, |char| {
            // Where a step writes its mark, the vocabulary has a space.
            let char = if facts.forbidden.contains(&char) { ' ' } else { char };
            let mut buffer = [0; 4];
            let bytes = char.encode_utf8(&mut buffer).as_bytes();
            match tokenization.symbols {
                Symbols::Bytes => bytes.iter().all(|byte| symbols.contains_key(&[*byte][..])),
                Symbols::Characters { .. } => {
                    symbols.contains_key(bytes)
                        || bytes.iter().all(|byte| fallback[usize::from(*byte)] != NONE)
                }
            }
        })?;
        let text_of = |token: u32| vocabulary.text(TokenId(token)).unwrap_or_default();
        let writes_space = facts.puts_spaces
            || !facts.forbidden.is_empty()
            || facts.added.iter().any(|added| facts.sections[added.section].prefix != Prefix::Never);
        if writes_space && !symbols.contains_key(&b" "[..]) {
            return Err(CanonicalError::NoBlank);
        }
        let trees = Derivations::new(
            len,
            |token| text_of(token).len(),
            symbols
                .values()
                .copied()
                .chain(fallback.iter().filter(|token| **token != NONE).map(|token| TokenId(*token))),
            &tokenization.merges,
            order,
        );
        let spelled = spelled(&symbols, &fallback, &tokenization.symbols);
        let mut whole = WholePieces::default();
        let mut has_unspelled_pieces = false;
        for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
            if !is_model(token) {
                continue;
            }
            roles[token.index()] = if trees.is_reachable(token.0) {
                Role::Merged
            } else if tokenization.whole_pieces {
                match merged(text, &symbols, &fallback, tokenization, order) {
                    Some(piece) => insert_whole(&mut whole, token, &piece)?,
                    None => has_unspelled_pieces = true,
                }
                Role::Whole
            } else {
                Role::Never
            };
        }
        if tokenization.whole_pieces {
            // A piece that reads like the name of a token becomes that token, even if the token spells another text.
            let bytes = (0..=255u8).zip(&fallback).filter(|(_, token)| **token != NONE);
            let added: HashSet<TokenId> = tokenization.added.iter().map(|added| added.id).collect();
            let controls = vocabulary.control_tokens().filter(|(id, _)| !added.contains(id));
            let names = bytes
                .map(|(byte, token)| (TokenId(*token), format!("<0x{byte:02X}>")))
                .chain(controls.map(|(token, name)| (token, name.into_owned())));
            for (token, name) in names.filter(|(_, name)| !name.is_empty()) {
                if let Some(piece) = merged(name.as_bytes(), &symbols, &fallback, tokenization, order) {
                    insert_whole(&mut whole, token, &piece)?;
                }
            }
        }
        let known: Option<Vec<char>> = match &tokenization.symbols {
            Symbols::Bytes => None,
            Symbols::Characters { .. } => {
                let characters =
                    symbols.keys().filter_map(|text| std::str::from_utf8(text).ok()?.chars().next());
                let mut characters: Vec<char> = characters.collect();
                characters.sort_unstable();
                characters.dedup();
                Some(characters)
            }
        };
        let mut kept = facts.kept;
        kept.extend(spelled.clone().filter(|_| !has_unspelled_pieces));
        let options = SplitOptions {
            forbidden: &facts.forbidden,
            kept: &kept,
            blank: facts.blank,
            by_bytes: facts.by_bytes,
            rules: &facts.rules,
            absent: &facts.absent,
            sections: &facts.sections,
            known: known.as_deref(),
        };
        let mut split = SplitDfa::new(&tokenization.splits, &options, limits)?;
        // The lists grew state by state and are kept for long.
        split.shrink_to_fit();
        let mut by_byte = vec![NONE; 256];
        for (text, token) in &symbols {
            if let [byte] = text[..] {
                by_byte[usize::from(byte)] = token.0;
            }
        }
        // Of characters, the second table of the splitter reads those without a symbol.
        let is_unspelled = |byte: &u8| match tokenization.symbols {
            Symbols::Bytes => by_byte[usize::from(*byte)] == NONE,
            Symbols::Characters { .. } => fallback[usize::from(*byte)] == NONE && split.reads_fallback(*byte),
        };
        let unspelled = (0..=255u8).filter(|byte| has_unspelled_pieces && is_unspelled(byte)).collect();
        let bigrams = BigramRelation::new(trees, &tokenization.merges);
        let (merged, only_whole) = sets_of_roles(&roles);
        Ok(Self {
            #[cfg(feature = "published")]
            fingerprint: super::fingerprint::fingerprint(vocabulary, tokenization, order),
            vocabulary_fingerprint: vocabulary.fingerprint(),
            vocab_len: len,
            roles,
            merged,
            only_whole,
            symbols: by_byte,
            bigrams,
            whole,
            fallback,
            spelled,
            unspelled,
            split,
            text: facts.dfa,
            form: facts.form,
            added_order: order_of(&facts.added),
            added: facts.added,
            controls: facts.controls,
        })
    }

    /// The number of ids that the automaton covers.
    pub fn vocab_len(&self) -> usize {
        self.vocab_len
    }

    /// The number of classes of tokens that forbid the same right neighbours. These classes are the states of the
    /// automaton of one piece.
    pub fn classes(&self) -> usize {
        self.bigrams.class_token.len()
    }

    /// Whether `right` may follow `left` inside one piece: the pair test, a walk along the edges of two merge trees.
    ///
    /// False for tokens that the encoder writes in no piece. Where the tokenizer splits texts into pieces, the test
    /// does not concern neighbours in different pieces.
    pub fn may_follow(&self, left: TokenId, right: TokenId) -> bool {
        let is_written = |token: TokenId| {
            matches!(self.roles.get(token.index()), Some(Role::Merged | Role::Fallback))
                && self.bigrams.trees.is_reachable(token.0)
        };
        is_written(left) && is_written(right) && self.bigrams.may_follow(left.0, right.0)
    }

    /// The tokens that must not follow `token` inside one piece, in ascending order. Empty for a token that the
    /// encoder writes in no piece.
    pub fn forbidden_after(&self, token: TokenId) -> Vec<TokenId> {
        let mut forbidden = Vec::new();
        if self.bigrams.trees.key.get(token.index()).is_some_and(|key| *key != MergeKey::NEVER) {
            self.bigrams.forbidden_next(token.0, |token| forbidden.push(TokenId(token)));
        }
        forbidden.sort_unstable();
        forbidden.dedup();
        forbidden
    }

    /// The index of `token` among the added tokens that are text.
    pub(crate) fn number_of_added(&self, token: u32) -> Option<usize> {
        self.added.binary_search_by_key(&token, |added| added.token).ok()
    }

    /// The start of the text after `token`, a control token or a token that counts as one; `None` if it is not known.
    pub(crate) fn after_control(&self, token: u32) -> Option<SplitState> {
        let known =
            self.controls.binary_search_by_key(&token, |(other, _)| *other).map(|at| self.controls[at].1);
        match known {
            Ok(AfterControl::Unknown) => None,
            Ok(AfterControl::Section(section)) => self.split.section(section),
            Err(_) => Some(self.split.start()),
        }
    }

    /// Whether `token` has the role [`Role::Merged`]: a symbol or the result of merges.
    #[inline]
    pub(crate) fn is_merged(&self, token: u32) -> bool {
        self.merged.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 != 0)
    }

    /// The memory of the tables, in bytes.
    pub fn memory_usage(&self) -> usize {
        let Self { split, text, .. } = self;
        let lists = [&self.merged, &self.only_whole, &self.symbols, &self.fallback, &self.added_order];
        let added = self.added.iter().map(|added| size_of_val(added) + added.content.len());
        lists.iter().map(|list| size_of_val(&list[..])).sum::<usize>()
            + self.roles.len()
            + self.spelled.as_ref().map_or(0, |spelled| size_of_val(&spelled[..]))
            + split.memory_usage()
            + text.memory_usage()
            + added.sum::<usize>()
            + self.bigrams.memory_usage()
            + self.whole.memory_usage()
    }
}

impl fmt::Debug for TokenizerAutomaton {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenizerAutomaton")
            .field("vocab_len", &self.vocab_len)
            .field("classes", &self.classes())
            .field("split_states", &self.split.len())
            .finish_non_exhaustive()
    }
}

/// The tokens of role `Merged`, one bit each, and a list of the tokens of role `Whole`.
pub(crate) fn sets_of_roles(roles: &[Role]) -> (Vec<u32>, Vec<u32>) {
    let all = |of: Role| -> Vec<u32> {
        let word = |roles: &[Role]| {
            (0..).zip(roles).fold(0, |word, (bit, role)| word | u32::from(*role == of) << bit)
        };
        roles.chunks(32).map(word).collect()
    };
    (all(Role::Merged), bits(&all(Role::Whole)).collect())
}

/// The symbol of each one-symbol text. Of two tokens with one text, the symbol is the one that takes part in merges.
fn symbols(
    vocabulary: &Vocabulary,
    tokenization: &Tokenization,
    is_model: impl Fn(TokenId) -> bool,
) -> HashMap<Vec<u8>, TokenId> {
    let is_symbol = |text: &[u8]| match tokenization.symbols {
        Symbols::Bytes => text.len() == 1,
        Symbols::Characters { .. } => {
            text.len() <= 4 && std::str::from_utf8(text).is_ok_and(|text| text.chars().count() == 1)
        }
    };
    let mut symbols: HashMap<Vec<u8>, TokenId> = HashMap::new();
    let mut doubled = false;
    for (token, text) in vocabulary.text_tokens().filter(|(token, text)| is_symbol(text) && is_model(*token))
    {
        doubled |= symbols.contains_key(text);
        symbols.entry(text.to_vec()).or_insert(token);
    }
    if doubled {
        for merge in tokenization.merges.merges() {
            for part in [merge.left, merge.right].into_iter().filter(|part| is_model(*part)) {
                if let Some(symbol) = vocabulary.text(part).and_then(|text| symbols.get_mut(text)) {
                    *symbol = part;
                }
            }
        }
    }
    symbols
}

/// The characters that `symbols` and fallback tokens spell; `None` if these are all.
fn spelled(
    symbols: &HashMap<Vec<u8>, TokenId>,
    fallback: &[u32],
    kind: &Symbols,
) -> Option<Vec<(char, char)>> {
    let mut characters = match kind {
        Symbols::Bytes => characters_of(|byte| symbols.contains_key(&[byte][..])),
        Symbols::Characters { .. } => characters_of(|byte| fallback[usize::from(byte)] != NONE),
    }?;
    if let Symbols::Characters { .. } = kind {
        characters.extend(symbols.keys().filter_map(|text| std::str::from_utf8(text).ok()?.chars().next()));
        characters.sort_unstable();
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    for character in characters {
        match ranges.last_mut() {
            Some((_, last)) if u32::from(character) <= u32::from(*last) + 1 => *last = character,
            _ => ranges.push((character, character)),
        }
    }
    Some(ranges)
}

/// Adds the sequence that merges would create from the text of `token`, which is looked up as a whole.
fn insert_whole(whole: &mut WholePieces, token: TokenId, piece: &[u32]) -> Result<(), CanonicalError> {
    if piece.len() > WHOLE_PIECE_LIMIT {
        let (tokens, limit) = (piece.len(), WHOLE_PIECE_LIMIT);
        return Err(CanonicalError::WholePieceTooLong { token, tokens, limit });
    }
    whole.insert(piece);
    Ok(())
}

/// The sequence that merges create from a piece. `None` if the piece has a character without a token.
fn merged(
    text: &[u8],
    symbols: &HashMap<Vec<u8>, TokenId>,
    fallback: &[u32],
    tokenization: &Tokenization,
    order: MergeOrder,
) -> Option<Vec<u32>> {
    let mut piece = Vec::new();
    let mut push = |symbol: &[u8]| match symbols.get(symbol) {
        Some(token) => {
            piece.push(token.0);
            Some(())
        }
        None => symbol.iter().try_for_each(|byte| {
            let token = fallback[usize::from(*byte)];
            (token != NONE).then(|| piece.push(token))
        }),
    };
    match tokenization.symbols {
        Symbols::Bytes => text.chunks(1).try_for_each(&mut push)?,
        Symbols::Characters { .. } => {
            std::str::from_utf8(text)
                .ok()?
                .chars()
                .try_for_each(|character| push(character.encode_utf8(&mut [0; 4]).as_bytes()))?;
        }
    }
    crate::canonical::merges::encode::merge(&mut piece, &tokenization.merges, order);
    Some(piece)
}
