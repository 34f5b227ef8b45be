//! The walk of an automaton over a vocabulary that fills a mask: on quotients where possible, on bytes elsewhere.
//!
//! Five things make the walk fast, and none of them changes the mask:
//!
//! - On a [quotient](crate::quotient), all tokens of equal shape are one node. A node is entered if the automaton leads all
//!   characters of its last symbol to one state. Otherwise its members are walked one by one.
//! - Below a node all tokens may lead on: the symbols below are known, and the automaton stays in its state with all of them
//!   (`[^"]*`), or goes from state to state (`.{0,100}`). Then all tokens below are allowed at once, by a union of masks if they
//!   are many.
//! - If all tokens below lead on but for a few exceptions (`[^"]*`), only the exceptions are walked to ([`cover`]).
//! - Where a few letters lead elsewhere than all others at the beginning, as where a text may also be a keyword, these are
//!   walked by themselves ([`divert`]).
//! - The state to which a symbol beyond ASCII leads is looked up once for each state of a walk.
//!
//! Tried instead: to keep for each state the symbols that lead to one place, so that the symbols below a node are compared with
//! them at once. That saves a third of the second point and costs as much elsewhere. Tried also: the fourth point at every node.
//! That saves one to three percent on the masks where it applies, and nothing in a grammar with many keywords.
//!
//! Measured over 58 regexes and 1,600 masks, first visits, in microseconds:
//!
//! | vocabulary | walk | median | 99th percentile | largest |
//! |---|---|---|---|---|
//! | 128,000 tokens | this one | 4 | 93 | 212 |
//! | 100,000 tokens | this one | 4 | 78 | 197 |
//! | 100,000 tokens | before exceptions were walked alone | - | 154 | 376 |
//!
//! Over an earlier suite the walk over bytes took 2 (median) and 1,393 (largest). So a mask of few tokens costs two to three
//! microseconds more than by the walk over bytes.

mod cover;
mod divert;

use cover::{ENDLESS, Front, Link, symbols_of};

use unskew_core::{TokenId, TokenMask, WORD_BITS};

use crate::{
    quotient::{Facts, Member, NONE, Quotient, Quotients},
    symbols::{DIGIT, LOWER, MAX_SYMBOLS, Runs, Symbols, UPPER},
    trie::{ByteTrie, Node},
};

/// No state: a [`ByteAutomaton`] has no transition there.
pub const DEAD: u32 = u32::MAX;

/// Not all characters of a symbol lead to one state.
pub(crate) const MIXED: u32 = u32::MAX - 1;

/// Not looked up yet.
const UNKNOWN: u32 = u32::MAX - 2;

/// The most states in a row that are looked at to decide whether all tokens below a node are allowed. Longer tokens are walked one
/// by one. Where a string is counted, a limit of 20 costs a quarter more instructions, and a limit of 40 a tenth.
const CHAIN: usize = 64;

/// The tokens that are allowed among those that end in a state of a [`ByteAutomaton`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// All tokens.
    All,
    /// No token. Longer tokens may be allowed.
    None,
    /// Some tokens: [`ByteAutomaton::admits`] decides for each.
    Each,
    /// All tokens, as tokens of this kind: see [`TokenTrie::fill_kinds`](crate::TokenTrie::fill_kinds). Elsewhere the same as
    /// [`All`](Self::All).
    Kind(u8),
}

impl Verdict {
    /// The kind of all tokens, if all are allowed.
    #[inline]
    fn kind(self) -> Option<u8> {
        match self {
            Self::All => Some(0),
            Self::Kind(kind) => Some(kind),
            Self::None | Self::Each => None,
        }
    }
}

/// The place for the tokens that a walk allows.
pub(crate) trait Sink {
    /// Adds tokens of this kind.
    fn insert(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>);

    /// The words of the mask of this kind's tokens, where it is worth one: for many tokens at once.
    fn words(&mut self, kind: u8) -> &mut [u32];
}

#[inline]
fn insert(words: &mut [u32], tokens: impl Iterator<Item = TokenId>) {
    for token in tokens {
        words[token.index() / WORD_BITS] |= 1 << (token.index() % WORD_BITS);
    }
}

fn unite(words: &mut [u32], more: &[u32]) {
    words.iter_mut().zip(more).for_each(|(word, more)| *word |= more);
}

/// One mask for all kinds.
impl Sink for &mut [u32] {
    #[inline]
    fn insert(&mut self, _kind: u8, tokens: impl Iterator<Item = TokenId>) {
        insert(self, tokens);
    }

    #[inline]
    fn words(&mut self, _kind: u8) -> &mut [u32] {
        self
    }
}

/// The tokens of one kind: see [`TokenTrie::fill_kinds`](crate::TokenTrie::fill_kinds).
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_enums, reason = "few and many")]
pub enum KindTokens {
    /// The tokens in no order; a token may occur several times.
    Few(Vec<TokenId>),
    /// Many tokens, as a mask.
    Many(TokenMask),
}

impl KindTokens {
    /// The most tokens of a kind that are kept as a list. More tokens are kept as a mask.
    pub(crate) const FEW: usize = if cfg!(test) { 4 } else { 1_024 };

    /// The mask of the tokens, over `len` ids.
    pub fn into_mask(self, len: usize) -> TokenMask {
        match self {
            Self::Many(mask) => mask,
            Self::Few(tokens) => {
                let mut mask = TokenMask::new(len);
                insert(mask.as_mut().into_words(), tokens.into_iter());
                mask
            }
        }
    }
}

/// The tokens of each kind. Most kinds have few tokens, and passing over a mask for each of these kinds would be much of the work.
pub(crate) struct Kinds {
    sets: Vec<KindTokens>,
    /// The mask that tokens were added to last, taken out of its place in `sets`, with its kind: mostly the next token is of the
    /// same kind.
    last: TokenMask,
    kind: Option<u8>,
    len: usize,
}

impl Kinds {
    /// No tokens yet, over `len` ids.
    pub(crate) fn new(len: usize) -> Self {
        Self { sets: Vec::new(), last: TokenMask::new(0), kind: None, len }
    }

    /// The tokens of each kind, with the last mask in its place.
    pub(crate) fn into_sets(mut self) -> Vec<KindTokens> {
        self.put_back();
        self.sets
    }

    fn put_back(&mut self) {
        if let Some(kind) = self.kind.take() {
            self.sets[usize::from(kind)] =
                KindTokens::Many(std::mem::replace(&mut self.last, TokenMask::new(0)));
        }
    }

    /// The tokens of a kind, unless its mask is the last one.
    fn set(&mut self, kind: u8) -> &mut KindTokens {
        let at = usize::from(kind);
        if at >= self.sets.len() {
            self.sets.resize(at + 1, KindTokens::Few(Vec::new()));
        }
        &mut self.sets[at]
    }

    /// Makes the mask of this kind the last one.
    #[cold]
    fn turn_to(&mut self, kind: u8) {
        self.put_back();
        let set = std::mem::replace(self.set(kind), KindTokens::Few(Vec::new()));
        (self.last, self.kind) = (set.into_mask(self.len), Some(kind));
    }

    /// Removes `tokens`, in words of a mask, from all kinds.
    fn remove(&mut self, tokens: &[u32]) {
        self.put_back();
        for set in &mut self.sets {
            match set {
                KindTokens::Few(few) => {
                    few.retain(|token| {
                        tokens[token.index() / WORD_BITS] >> (token.index() % WORD_BITS) & 1 == 0
                    });
                }
                KindTokens::Many(mask) => {
                    mask.as_mut()
                        .into_words()
                        .iter_mut()
                        .zip(tokens)
                        .for_each(|(word, tokens)| *word &= !tokens);
                }
            }
        }
    }

    /// Adds tokens of a kind whose mask is not the last one.
    #[inline(never)]
    fn insert_elsewhere(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>) {
        match self.set(kind) {
            KindTokens::Few(few) => {
                if few.capacity() == 0 {
                    few.reserve(KindTokens::FEW / 4);
                }
                few.extend(tokens);
                if few.len() > KindTokens::FEW {
                    self.turn_to(kind);
                }
            }
            KindTokens::Many(_) => {
                self.turn_to(kind);
                insert(self.last.as_mut().into_words(), tokens);
            }
        }
    }
}

impl Sink for &mut Kinds {
    #[inline(always)]
    fn insert(&mut self, kind: u8, tokens: impl Iterator<Item = TokenId>) {
        if self.kind == Some(kind) {
            insert(self.last.as_mut().into_words(), tokens);
        } else {
            self.insert_elsewhere(kind, tokens);
        }
    }

    #[inline]
    fn words(&mut self, kind: u8) -> &mut [u32] {
        if self.kind != Some(kind) {
            self.turn_to(kind);
        }
        self.last.as_mut().into_words()
    }
}

/// An automaton over bytes that tells which tokens are allowed, for [`TokenTrie::fill`](crate::TokenTrie::fill).
///
/// States are numbers below `u32::MAX - 3`. The methods may change the automaton, since an automaton that is built during the walk
/// needs that. The same question must have the same answer for the duration of a walk, except that a verdict of
/// [`Each`](Verdict::Each) may become another.
pub trait ByteAutomaton {
    /// The class of `byte`: the automaton never distinguishes bytes of one class. Classes matter only for speed, so every byte may
    /// be a class of its own.
    fn class(&self, byte: u8) -> u8;

    /// The state after `byte`, or [`DEAD`] if no token with these bytes is allowed.
    fn step(&mut self, state: u32, byte: u8) -> u32;

    /// The tokens that are allowed among those that end in `state`.
    fn verdict(&mut self, state: u32) -> Verdict {
        let _ = state;
        Verdict::All
    }

    /// Whether `token`, which ends in `state`, is allowed. The walk calls this only where the verdict is [`Verdict::Each`], and may
    /// call it for the same token more than once.
    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        let _ = (state, token);
        true
    }
}

/// A table as a [`ByteAutomaton`]: a token is allowed if it is read to its end.
///
/// # Example
///
/// ```
/// use unskew_core::{TokenId, TokenMask, Vocabulary};
/// use unskew_trie::{DEAD, DenseTable, TokenTrie};
///
/// let mut builder = Vocabulary::builder();
/// for text in ["a", "ab", "b", "ba"] {
///     builder.text(text.as_bytes());
/// }
/// let trie = TokenTrie::new(builder.build()?)?;
///
/// // `a` and then any number of `b`. The classes are: anything else, `a`, `b`.
/// let mut classes = [0; 256];
/// (classes[usize::from(b'a')], classes[usize::from(b'b')]) = (1, 2);
/// let mut table = DenseTable { classes: &classes, width: 3, next: &[DEAD, 1, DEAD, DEAD, DEAD, 1] };
/// let mut mask = TokenMask::new(4);
/// trie.fill(&mut table, 0, mask.as_mut());
/// assert_eq!(mask.ids().collect::<Vec<_>>(), [TokenId(0), TokenId(1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::exhaustive_structs, reason = "it is made by naming its fields")]
pub struct DenseTable<'a> {
    /// The class of each byte.
    pub classes: &'a [u8; 256],
    /// The number of classes.
    pub width: usize,
    /// `next[state * width + class]` is a state or [`DEAD`].
    pub next: &'a [u32],
}

impl ByteAutomaton for DenseTable<'_> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * self.width + usize::from(self.class(byte))]
    }
}

/// Puts into `sink` the tokens that `automaton` allows from `start`.
pub(crate) fn fill<A: ByteAutomaton, S: Sink>(
    trie: &ByteTrie,
    irregular: &ByteTrie,
    quotients: &Quotients,
    automaton: &mut A,
    start: u32,
    sink: S,
) {
    let mut walk = Walk::new(trie, quotients, automaton, sink);
    walk.quotient(quotients.all[0], start);
    walk.bytes(irregular, 0, irregular.len(), 0, start);
}

/// As [`fill`], with the tokens of each kind separately.
pub(crate) fn fill_kinds<A: ByteAutomaton>(
    trie: &ByteTrie,
    irregular: &ByteTrie,
    quotients: &Quotients,
    automaton: &mut A,
    start: u32,
    kinds: &mut Kinds,
) {
    let mut walk = Walk::new(trie, quotients, automaton, kinds);
    if !walk.diverted(start) {
        walk.quotient(quotients.all[0], start);
    }
    walk.bytes(irregular, 0, irregular.len(), 0, start);
}

#[cfg(test)]
pub(crate) fn is_diverted<A: ByteAutomaton>(
    trie: &ByteTrie,
    quotients: &Quotients,
    automaton: &mut A,
    start: u32,
    kinds: &mut Kinds,
) -> bool {
    Walk::new(trie, quotients, automaton, kinds).diverted(start)
}

struct Walk<'a, A, S> {
    trie: &'a ByteTrie,
    quotients: &'a Quotients,
    automaton: &'a mut A,
    runs: Runs,
    sink: S,
    /// The states along the present prefix. Those of a nested quotient come after those of the outer one.
    states: Vec<u32>,
    /// The state to which each symbol leads from a state, or [`UNKNOWN`].
    rows: Vec<[u32; MAX_SYMBOLS]>,
    seen: Vec<Seen>,
    /// A hash table from states to their index in `seen`: pairs of a state and an index, with [`NONE`] in empty slots.
    slots: Vec<(u32, u32)>,
    /// The state whose row was looked up last, and the index of the row.
    last: (u32, u32),
    /// The classes of the ASCII bytes that are symbols by themselves: one byte of each class, and all its bytes as bits.
    classes: Vec<(u8, u128)>,
    /// All tokens but those with certain symbols, in words of a mask, for [`cover`](Self::cover).
    plain: Vec<u32>,
    /// The ASCII symbols that `plain` leaves out, and whether it leaves out symbols beyond ASCII.
    plain_of: Option<(u128, bool)>,
    /// The symbols in front of the quotient that is walked.
    front: Front,
    /// The depth of nested covers.
    covers: u8,
}

/// The facts that are known of a state.
struct Seen {
    /// The index of the state's row, or [`NONE`].
    row: u32,
    /// The state to which all characters beyond ASCII lead, or [`UNKNOWN`].
    any: u32,
    link: Option<Link>,
}

/// Some nodes of a quotient.
#[derive(Clone, Copy)]
struct Nodes {
    first: usize,
    end: usize,
    /// The first node of the quotient.
    root: usize,
    /// The index in `states` of the state in front of the quotient.
    base: usize,
}

impl<'a, A: ByteAutomaton, S: Sink> Walk<'a, A, S> {
    fn new(trie: &'a ByteTrie, quotients: &'a Quotients, automaton: &'a mut A, sink: S) -> Self {
        let runs = Runs::new(automaton);
        Self {
            trie,
            quotients,
            automaton,
            runs,
            sink,
            states: vec![],
            rows: vec![],
            seen: vec![],
            slots: vec![],
            last: (NONE, 0),
            classes: vec![],
            plain: vec![],
            plain_of: None,
            front: Front { ascii: 0, has_wide: false, chars: 0 },
            covers: 0,
        }
    }

    /// Walks a quotient from `start`, except the tokens of the empty string.
    fn quotient(&mut self, quotient: Quotient, start: u32) {
        let base = self.states.len();
        self.states.resize(base + quotient.height as usize + 1, start);
        let root = quotient.first as usize;
        let nodes = Nodes { first: root, end: quotient.end as usize, root, base };
        if !self.below(quotient.facts, start, 0, nodes) {
            self.nodes(nodes);
        }
        self.states.truncate(base);
    }

    /// Walks nodes of a quotient. The first of them has a state for the symbols in front of it.
    fn nodes(&mut self, nodes: Nodes) {
        let quotients = self.quotients;
        let Nodes { first, end, root, base } = nodes;
        let mut at = first;
        while at < end {
            let node = quotients.nodes[at];
            let state = self.states[base + node.depth()];
            let symbol = node.symbol();
            let next = match symbol {
                LOWER | UPPER | DIGIT => Symbols::ascii_target(self.automaton, &self.runs, state, symbol),
                0..128 => self.automaton.step(state, symbol),
                _ => self.wide_target(state, symbol),
            };
            match next {
                DEAD => at = node.end as usize,
                MIXED => {
                    self.members(at, state, root);
                    at = node.end as usize;
                }
                next => {
                    self.states[base + node.depth() + 1] = next;
                    let own = node.first_token as usize..quotients.nodes[at + 1].first_token as usize;
                    if node.facts == NONE {
                        self.add(next, &quotients.tokens[own]);
                        at += 1;
                    } else {
                        match quotients.facts[node.facts as usize].own_mask {
                            NONE => self.add(next, &quotients.tokens[own]),
                            mask => self.add_many(next, &quotients.tokens[own], mask),
                        }
                        let below = Nodes { first: at + 1, end: node.end as usize, ..nodes };
                        at = if self.below(node.facts, next, node.depth() + 1, below) {
                            below.end
                        } else {
                            at + 1
                        };
                    }
                }
            }
        }
    }

    /// Walks on from the members of a node of the quotient that begins at `root`. The automaton goes into the node's last symbol
    /// from `state`.
    fn members(&mut self, at: usize, state: u32, root: usize) {
        self.some_members(self.quotients.members_of(at), at, state, root);
    }

    /// As [`members`](Self::members), from some of the members.
    fn some_members(&mut self, mut members: &[Member], at: usize, state: u32, root: usize) {
        let (trie, quotients) = (self.trie, self.quotients);
        let mut front = None;
        while let Some(Member { char, .. }) = members.first().copied() {
            let mut buffer = [0; 4];
            let char_of = char::from_u32(char).expect("members end with characters");
            let mut next = state;
            for byte in char_of.encode_utf8(&mut buffer).bytes() {
                next = self.automaton.step(next, byte);
                if next == DEAD {
                    break;
                }
            }
            let same = members.partition_point(|member| member.char == char);
            if next != DEAD {
                for member in &members[..same] {
                    let node = trie.nodes[member.node as usize];
                    let own =
                        node.first_token as usize..trie.nodes[member.node as usize + 1].first_token as usize;
                    self.add(next, &trie.tokens[own]);
                    let below = member.node as usize + 1..node.end as usize;
                    if below.is_empty() {
                        continue;
                    }
                    match member.quotient {
                        NONE => self.bytes(trie, below.start, below.end, node.depth() + 1, next),
                        quotient => {
                            let behind = *front.get_or_insert_with(|| {
                                self.front_of(root, at + 1, quotients.nodes[at].depth() + 1)
                            });
                            let before = std::mem::replace(&mut self.front, behind);
                            self.quotient(quotients.all[quotient as usize], next);
                            self.front = before;
                        }
                    }
                }
            }
            members = &members[same..];
        }
    }

    /// Walks nodes of a byte trie. The first of them is `depth` bytes deep, its own byte not counted.
    fn bytes(&mut self, trie: &ByteTrie, first: usize, end: usize, depth: usize, start: u32) {
        let base = self.states.len();
        self.states.push(start);
        let mut at = first;
        while at < end {
            let node: Node = trie.nodes[at];
            let level = base + node.depth() - depth;
            match self.automaton.step(self.states[level], node.byte()) {
                DEAD => at = node.end as usize,
                next => {
                    if level + 1 == self.states.len() {
                        self.states.push(next);
                    } else {
                        self.states[level + 1] = next;
                    }
                    at += 1;
                    let own = node.first_token as usize..trie.nodes[at].first_token as usize;
                    self.add(next, &trie.tokens[own]);
                }
            }
        }
        self.states.truncate(base);
    }

    /// Allows `tokens`, which end in `state`, as far as the state's verdict permits.
    #[inline(always)]
    fn add(&mut self, state: u32, tokens: &[TokenId]) {
        if tokens.is_empty() {
            return;
        }
        match self.automaton.verdict(state) {
            Verdict::All => self.sink.insert(0, tokens.iter().copied()),
            Verdict::Kind(kind) => self.sink.insert(kind, tokens.iter().copied()),
            Verdict::Each => self.add_each(state, tokens),
            Verdict::None => {}
        }
    }

    /// Allows the tokens of `tokens`, which end in `state`, that the automaton admits.
    #[inline(never)]
    fn add_each(&mut self, state: u32, tokens: &[TokenId]) {
        for token in tokens {
            if self.automaton.admits(state, *token) {
                self.sink.insert(0, std::iter::once(*token));
            }
        }
    }

    /// As [`add`](Self::add), for tokens that also exist as a mask.
    fn add_many(&mut self, state: u32, tokens: &[TokenId], mask: u32) {
        match self.automaton.verdict(state).kind() {
            Some(kind) => unite(self.sink.words(kind), self.quotients.mask(mask)),
            None => self.add(state, tokens),
        }
    }

    /// Allows all tokens below a node, if one look shows that all of them are allowed from `state`, or [nearly all of
    /// them](Self::cover). `depth` is the depth of the node's children.
    fn below(&mut self, facts: u32, state: u32, depth: usize, nodes: Nodes) -> bool {
        if facts == NONE {
            return false;
        }
        let facts = self.quotients.facts[facts as usize];
        if facts.below.0 == facts.below.1 {
            return false;
        }
        let (ascii, has_wide) = symbols_of(&self.quotients.sets[facts.set as usize]);
        let kind = match self.link(state).filter(|link| ascii & link.ascii != 0) {
            Some(link) if ascii & !link.ascii == 0 => {
                let link = self.chain(state);
                if link.len == 0 {
                    return false;
                }
                if !has_wide || link.wide {
                    if facts.height as usize > usize::from(link.len) && link.len != ENDLESS {
                        return self.cover(facts, state, link, depth, nodes);
                    }
                    Some(link.kind)
                } else if self.any(state) == MIXED {
                    // The symbols beyond ASCII are looked at one by one.
                    self.whole_kind(facts, state)
                } else {
                    return self.cover(facts, state, link, depth, nodes);
                }
            }
            Some(link) => return self.cover(facts, state, link, depth, nodes),
            None => self.whole_kind(facts, state),
        };
        let Some(kind) = kind else { return false };
        match facts.below_mask {
            NONE => {
                let below = facts.below.0 as usize..facts.below.1 as usize;
                self.sink.insert(kind, self.quotients.tokens[below].iter().copied());
            }
            mask => unite(self.sink.words(kind), self.quotients.mask(mask)),
        }
        true
    }

    /// The kind of all tokens below, if all are allowed as one kind. That is so if the symbols below all lead from `state` to one
    /// state, all from there to one state, and so on to the depth of the longest string, and if every token that ends in one of
    /// these states is allowed as that kind.
    fn whole_kind(&mut self, facts: Facts, mut state: u32) -> Option<u8> {
        let mut kind = None;
        let set = self.quotients.sets[facts.set as usize];
        for step in 0..facts.height as usize {
            let mut next = UNKNOWN;
            for (index, mut word) in set.into_iter().enumerate() {
                while word != 0 {
                    let symbol = (index * 64) as u8 + word.trailing_zeros() as u8;
                    word &= word - 1;
                    let target = match symbol {
                        LOWER | UPPER | DIGIT => {
                            Symbols::ascii_target(self.automaton, &self.runs, state, symbol)
                        }
                        0..128 => self.automaton.step(state, symbol),
                        _ => self.wide_target(state, symbol),
                    };
                    if target >= MIXED || (next != UNKNOWN && next != target) {
                        return None;
                    }
                    next = target;
                }
            }
            let found = self.automaton.verdict(next).kind()?;
            if *kind.get_or_insert(found) != found {
                return None;
            }
            if next == state {
                return kind;
            }
            if step == CHAIN {
                return None;
            }
            state = next;
        }
        kind
    }

    /// The state to which a symbol beyond ASCII leads; see [`Symbols::target`].
    #[inline]
    fn wide_target(&mut self, state: u32, symbol: u8) -> u32 {
        let place = if self.last.0 == state { self.last.1 } else { self.row(state) };
        let known = self.rows[place as usize][usize::from(symbol)];
        if known != UNKNOWN {
            return known;
        }
        let target = self.quotients.symbols.target(self.automaton, &mut self.runs, state, symbol);
        self.rows[place as usize][usize::from(symbol)] = target;
        target
    }

    /// The index of the row of `state`, which is made if it is new.
    #[cold]
    fn row(&mut self, state: u32) -> u32 {
        let place = self.seen(state);
        if self.seen[place].row == NONE {
            let mut row = [UNKNOWN; MAX_SYMBOLS];
            // One question answers for all symbols beyond ASCII where they lead to one state, as they often do.
            let any = self.any(state);
            if any != MIXED {
                row[128..].fill(any);
            }
            self.seen[place].row = self.rows.len() as u32;
            self.rows.push(row);
        }
        self.last = (state, self.seen[place].row);
        self.last.1
    }

    /// The state to which all characters beyond ASCII lead from `state`, or [`MIXED`].
    fn any(&mut self, state: u32) -> u32 {
        let place = self.seen(state);
        if self.seen[place].any == UNKNOWN {
            self.seen[place].any = self.quotients.symbols.any_target(self.automaton, &mut self.runs, state);
        }
        self.seen[place].any
    }

    /// The index of `state` in `seen`, which is made if it is new.
    fn seen(&mut self, state: u32) -> usize {
        if self.seen.len() * 2 >= self.slots.len() {
            let len = (self.slots.len() * 2).max(32);
            let old = std::mem::replace(&mut self.slots, vec![(NONE, 0); len]);
            for pair in old.into_iter().filter(|pair| pair.0 != NONE) {
                let slot = self.slot(pair.0);
                self.slots[slot] = pair;
            }
        }
        let slot = self.slot(state);
        if self.slots[slot].0 == NONE {
            self.slots[slot] = (state, self.seen.len() as u32);
            self.seen.push(Seen { row: NONE, any: UNKNOWN, link: None });
        }
        self.slots[slot].1 as usize
    }

    /// The slot of `state` in the hash table, or the empty slot for it.
    fn slot(&self, state: u32) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = (state.wrapping_mul(0x9e37_79b9) >> 7) as usize & last;
        while self.slots[slot].0 != state && self.slots[slot].0 != NONE {
            slot = (slot + 1) & last;
        }
        slot
    }
}
