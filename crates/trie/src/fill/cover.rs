//! Covers: allowing at once all tokens below a node but for exceptions.
//!
//! In a text that ends with a quote nearly every token leads on, and the walk would visit the thousands of nodes of tokens with
//! signs one by one. So where small letters lead to one state, the walk finds out which other symbols lead there too, and over how
//! many steps that goes on in the same way (a [`Link`]). All tokens of these symbols are allowed at once, as a mask. Only nodes
//! that end with other symbols, or are deeper, are walked; there are lists of them. On 128,000 tokens, at the beginning of a field
//! of a table (`[^,"\n]{0,30}`), the walk visited 8,000 nodes without covers, and visits 800 with them.
//!
//! Tried instead: to ask of every node, also of those with few tokens below, whether all tokens below lead on. That visits a fifth
//! fewer nodes, and takes an eighth to a quarter more instructions. Tried also: to keep at each node which symbols are below it, so
//! that subtrees without exceptions are passed over. That left 4,000 nodes at that field, a line of memory or two each.

use super::{ByteAutomaton, CHAIN, MIXED, Nodes, Sink, UNKNOWN, Walk, insert};
use unskew_core::{TokenId, WORD_BITS};

use crate::{
    quotient::{Facts, NONE, SHORT, SymbolSet},
    symbols::{DIGIT, LOWER, Symbols, UPPER},
};

/// The state to which most symbols lead from a state.
#[derive(Clone, Copy)]
pub(super) struct Link {
    /// The state to which small letters lead. Without such a state there is no link.
    pub(super) next: u32,
    /// The symbols of ASCII that lead there too, one bit each.
    pub(super) ascii: u128,
    /// Whether all symbols beyond ASCII lead there; known only where `len` is known.
    pub(super) wide: bool,
    /// The least number of steps from state to state over which these symbols lead on; tokens that end in these states are all
    /// allowed and of one kind. 0 if the number is not known, [`ENDLESS`] if the steps never end.
    pub(super) len: u8,
    pub(super) kind: u8,
}

pub(super) const ENDLESS: u8 = u8::MAX;

/// The least number of tokens below a node for which a cover is worth it, where the exceptions are known.
const COVER: u32 = if cfg!(test) { 4 } else { 48 };

/// The number of tokens for which one exception is permitted. At 16 the four signs that end a sentence are too many: twice as many
/// instructions at each place of one.
const EXCEPTIONS: usize = if cfg!(test) { 1 } else { 10 };

/// The greatest depth of nested covers: each takes a call.
const COVERS: u8 = 4;

/// The symbols that tokens begin with.
#[derive(Clone, Copy)]
pub(super) struct Front {
    /// The symbols of ASCII, one bit each.
    pub(super) ascii: u128,
    pub(super) has_wide: bool,
    /// The number of characters.
    pub(super) chars: usize,
}

/// The ASCII symbols of a set, one bit each, and whether it has others.
#[inline]
pub(super) fn symbols_of(set: &SymbolSet) -> (u128, bool) {
    (u128::from(set[1]) << 64 | u128::from(set[0]), set[2] | set[3] != 0)
}

impl<A: ByteAutomaton, S: Sink> Walk<'_, A, S> {
    /// Covers the tokens below a node where most of them lead on, as in a text that ends with a quote. Allows these tokens at once,
    /// except tokens with other symbols and tokens that are too long, and walks only to the exceptions.
    pub(super) fn cover(&mut self, facts: Facts, state: u32, link: Link, depth: usize, nodes: Nodes) -> bool {
        let quotients = self.quotients;
        let (ascii, has_wide) = symbols_of(&quotients.sets[facts.set as usize]);
        let others = ascii & !link.ascii;
        let is_large = facts.below_mask != NONE;
        let is_small = facts.below.1 - facts.below.0 < COVER;
        if is_small || others & quotients.with.many != 0 || self.covers == COVERS {
            return false;
        }
        // The symbols in front of the nodes must be no exceptions.
        let with_wide = self.any(state) == link.next;
        let front = self.front_of(nodes.root, nodes.first, depth);
        if front.ascii & others != 0 || front.has_wide && !with_wide {
            return false;
        }
        let is_same = self.plain_of.is_some_and(|(plain_others, plain_wide)| {
            plain_others & (ascii | front.ascii) == others
                && (plain_wide == with_wide || !has_wide && !front.has_wide)
        });
        // A few tokens are not worth passes over whole masks.
        if !is_large && !is_same {
            return false;
        }
        let link = self.chain(state);
        let len = match link.len {
            ENDLESS => usize::MAX,
            len => usize::from(len),
        };
        let longest = front.chars.saturating_add(len);
        if len == 0 || longest < SHORT || !is_large && facts.height as usize > len {
            return false;
        }
        let too_long = quotients.with.long.partition_point(|(chars, _)| *chars as usize > longest);
        let too_long = &quotients.with.long[..too_long];
        if is_large && too_long.len() * EXCEPTIONS > (facts.below.1 - facts.below.0) as usize {
            return false;
        }
        if !is_same && !self.make_plain(others, with_wide, facts) {
            return false;
        }
        if is_large {
            // The tokens that are too long are put back afterwards.
            let mut long: Vec<TokenId> = Vec::new();
            for (_, token) in too_long {
                let (word, bit) =
                    (&mut self.plain[token.index() / WORD_BITS], 1 << (token.index() % WORD_BITS));
                if *word & bit != 0 {
                    *word &= !bit;
                    long.push(*token);
                }
            }
            let below = quotients.mask(facts.below_mask);
            if below.iter().zip(&self.plain).any(|(below, plain)| below & plain != 0) {
                let words = self.sink.words(link.kind).iter_mut();
                words.zip(below).zip(&self.plain).for_each(|((word, below), plain)| *word |= below & plain);
            }
            insert(&mut self.plain, long.into_iter());
        } else {
            let below = &quotients.tokens[facts.below.0 as usize..facts.below.1 as usize];
            let plain = &self.plain;
            let is_in =
                |token: &&TokenId| plain[token.index() / WORD_BITS] >> (token.index() % WORD_BITS) & 1 != 0;
            self.sink.insert(link.kind, below.iter().filter(is_in).copied());
        }

        // The states after symbols that lead on.
        let mut chain = vec![state];
        while chain.len() <= (facts.height as usize).min(len) {
            let last = self.link(chain[chain.len() - 1]).expect("as long as the chain is, there are links");
            chain.push(last.next);
        }
        let wide = has_wide && !with_wide;
        let among = nodes.first..nodes.end;
        let exceptions = quotients.exceptions(among, nodes.root, others, wide, len.saturating_add(depth));
        self.covers += 1;
        let mut done = nodes.first;
        for (index, mut bits) in exceptions.into_iter().enumerate() {
            while bits != 0 {
                let at = nodes.first + index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // Not below another exception.
                if at >= done {
                    let node = quotients.nodes[at];
                    self.states[nodes.base + node.depth()] = chain[node.depth() - depth];
                    self.nodes(Nodes { first: at, end: node.end as usize, ..nodes });
                    done = node.end as usize;
                }
            }
        }
        self.covers -= 1;
        true
    }

    /// Makes the mask of all tokens but those with certain symbols, if the latter are few compared with the tokens of `facts`.
    fn make_plain(&mut self, others: u128, with_wide: bool, facts: Facts) -> bool {
        let quotients = self.quotients;
        let held = |symbol: &usize| others >> symbol & 1 != 0;
        let lists = || (0..128usize).filter(held).map(|symbol| &quotients.with.symbol[symbol]);
        if lists().map(Vec::len).sum::<usize>() * EXCEPTIONS > (facts.below.1 - facts.below.0) as usize {
            return false;
        }
        let all = quotients.mask(quotients.facts[quotients.all[0].facts as usize].below_mask);
        self.plain.clear();
        self.plain.extend_from_slice(all);
        if !with_wide {
            self.plain.iter_mut().zip(&quotients.with.wide).for_each(|(word, wide)| *word &= !wide);
        }
        for list in lists() {
            for token in list {
                self.plain[token.index() / WORD_BITS] &= !(1 << (token.index() % WORD_BITS));
            }
        }
        self.plain_of = Some((others, with_wide));
        true
    }

    /// The state to which small letters lead from `state`, with the other symbols that lead there. `None` if small letters do not
    /// all lead to one state.
    pub(super) fn link(&mut self, state: u32) -> Option<Link> {
        let next = Symbols::ascii_target(self.automaton, &self.runs, state, LOWER);
        if next >= MIXED {
            return None;
        }
        let place = self.seen(state);
        if let Some(link) = self.seen[place].link {
            return Some(link);
        }
        if self.classes.is_empty() {
            for byte in (0..0x80u8).filter(|byte| !byte.is_ascii_alphanumeric()) {
                let class = self.automaton.class(byte);
                let known = self.classes.iter_mut().find(|(other, _)| self.automaton.class(*other) == class);
                match known {
                    Some((_, bytes)) => *bytes |= 1 << byte,
                    None => self.classes.push((byte, 1 << byte)),
                }
            }
        }
        let mut ascii = 1 << LOWER;
        for symbol in [UPPER, DIGIT] {
            if Symbols::ascii_target(self.automaton, &self.runs, state, symbol) == next {
                ascii |= 1 << symbol;
            }
        }
        for (byte, bytes) in &self.classes {
            if self.automaton.step(state, *byte) == next {
                ascii |= bytes;
            }
        }
        let link = Link { next, ascii, wide: false, len: 0, kind: 0 };
        self.seen[place].link = Some(link);
        Some(link)
    }

    /// The link of `state`, which has one, with its length.
    pub(super) fn chain(&mut self, state: u32) -> Link {
        let mut path: Vec<(usize, Link)> = Vec::new();
        let mut at = state;
        let mut behind = loop {
            let Some(mut link) = self.link(at) else { break None };
            if link.len > 0 || path.len() == CHAIN {
                break (link.len > 0).then_some(link);
            }
            let Some(kind) = self.automaton.verdict(link.next).kind() else { break None };
            (link.kind, link.wide) = (kind, self.any(at) == link.next);
            let place = self.seen(at);
            if link.next == at {
                link.len = ENDLESS;
                self.seen[place].link = Some(link);
                break Some(link);
            }
            path.push((place, link));
            at = link.next;
        };
        for (place, mut link) in path.into_iter().rev() {
            let goes_on = |behind: &Link| {
                behind.kind == link.kind && link.ascii & !behind.ascii == 0 && (behind.wide || !link.wide)
            };
            link.len = match behind.filter(goes_on).map(|behind| behind.len) {
                Some(ENDLESS) => ENDLESS,
                Some(len) => (len + 1).min(ENDLESS - 1),
                None => 1,
            };
            self.seen[place].link = Some(link);
            behind = Some(link);
        }
        behind.unwrap_or(Link { next: UNKNOWN, ascii: 0, wide: false, len: 0, kind: 0 })
    }

    /// The symbols in front of the node `first`, which is `depth` deep in the quotient that begins at `root`.
    pub(super) fn front_of(&self, root: usize, first: usize, depth: usize) -> Front {
        let (nodes, mut front, mut at) = (&self.quotients.nodes, self.front, root);
        front.chars += depth;
        for _ in 0..depth {
            // The last node in front of `first` is above it, or is a leaf and its parent.
            while (nodes[at].end as usize) < first {
                at = nodes[at].end as usize;
            }
            match nodes[at].symbol() {
                symbol @ 0..128 => front.ascii |= 1 << symbol,
                _ => front.has_wide = true,
            }
            at += 1;
        }
        front
    }
}
