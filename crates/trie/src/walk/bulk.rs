//! Bulk acceptance: all tokens below a node are allowed at once, but for exceptions.
//!
//! In a text that ends with a quote nearly every token leads on, and the walk would visit the thousands of nodes of
//! tokens with signs one by one. So where small letters lead to one state, the walk finds out which other symbols
//! lead there too, and over how many steps that goes on in the same way (a [`UniformStep`]). All tokens of these
//! symbols are allowed at once, as a mask. Only nodes that end with other symbols, or are deeper, are walked; there
//! are lists of them. On 128,000 tokens, at the beginning of a field of a table (`[^,"\n]{0,30}`), the walk visited
//! 8,000 nodes without bulk acceptance, and visits 800 with it.
//!
//! Tried instead: to ask of every node, also of those with few tokens below, whether all tokens below lead on. That
//! visits a fifth fewer nodes, and takes an eighth to a quarter more instructions. Tried also: to keep at each node
//! which symbols are below it, so that subtrees without exceptions are passed over. That left 4,000 nodes at that
//! field, a line of memory or two each.

use unskew_core::{TokenId, WORD_BITS};

use super::{
    Nodes, Sink, Walk,
    sink::{contains, insert},
    uniform::{ENDLESS, UniformStep},
};
use crate::{
    automaton::ByteAutomaton,
    quotient::{Exceptions, Summary},
    symbols::Symbol,
};

/// The symbols that tokens begin with.
#[derive(Clone, Copy, Default)]
pub(super) struct Prefix {
    /// The symbols of ASCII, one bit each.
    pub(super) ascii: u128,
    pub(super) has_non_ascii: bool,
    /// The number of characters.
    pub(super) chars: usize,
}

/// The symbols whose tokens a mask leaves out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Excluded {
    /// The symbols of ASCII, one bit each.
    ascii: u128,
    /// Whether all symbols beyond ASCII are excluded.
    non_ascii: bool,
}

impl<A: ByteAutomaton, S: Sink> Walk<'_, A, S> {
    /// Allows at once the tokens below a node where most of them lead on, as in a text that ends with a quote, and
    /// walks only to the exceptions: tokens with symbols that do not lead on as `step` does, and tokens that are
    /// longer than its run. False, with nothing allowed, where that is not worth it.
    pub(super) fn accept_bulk(
        &mut self,
        summary: Summary,
        state: u32,
        step: UniformStep,
        depth: usize,
        nodes: Nodes,
    ) -> bool {
        let quotients = self.quotients;
        let tuning = &quotients.tuning;
        let symbols = quotients.set(summary.symbols);
        let (ascii, has_non_ascii) = (symbols.ascii(), symbols.has_non_ascii());
        let others = ascii & !step.ascii;
        let is_large = summary.below_mask.is_some();
        let is_small = summary.tokens_below() < tuning.bulk_tokens;
        if is_small || others & quotients.postings.many != 0 || self.bulk_depth == tuning.bulk_depth {
            return false;
        }
        // The symbols in front of the nodes must be no exceptions.
        let with_non_ascii = self.non_ascii_target(state) == step.next;
        let prefix = self.prefix_of(nodes.root, nodes.first, depth);
        if prefix.ascii & others != 0 || prefix.has_non_ascii && !with_non_ascii {
            return false;
        }
        let is_same = self.excluded.is_some_and(|excluded| {
            excluded.ascii & (ascii | prefix.ascii) == others
                && (excluded.non_ascii != with_non_ascii || !has_non_ascii && !prefix.has_non_ascii)
        });
        // A few tokens are not worth passes over whole masks.
        if !is_large && !is_same {
            return false;
        }
        let step = self.uniform_run(state);
        let len = match step.run {
            ENDLESS => usize::MAX,
            run => usize::from(run),
        };
        let longest = prefix.chars.saturating_add(len);
        if len == 0 || longest < tuning.short_symbols || !is_large && summary.height as usize > len {
            return false;
        }
        let too_long = quotients.postings.longer_than(longest);
        if is_large && too_long.len() * tuning.tokens_per_exception > summary.tokens_below() as usize {
            return false;
        }
        if !is_same && !self.include_all_but(Excluded { ascii: others, non_ascii: !with_non_ascii }, summary)
        {
            return false;
        }
        match summary.below_mask {
            Some(below) => {
                // The tokens that are too long are put back afterwards.
                let mut long: Vec<TokenId> = Vec::new();
                for (_, token) in too_long {
                    let (word, bit) =
                        (&mut self.included[token.index() / WORD_BITS], 1 << (token.index() % WORD_BITS));
                    if *word & bit != 0 {
                        *word &= !bit;
                        long.push(*token);
                    }
                }
                let below = quotients.mask(below);
                if below.iter().zip(&self.included).any(|(below, included)| below & included != 0) {
                    let words = self.sink.words(step.kind).iter_mut();
                    words
                        .zip(below)
                        .zip(&self.included)
                        .for_each(|((word, below), included)| *word |= below & included);
                }
                insert(&mut self.included, long.into_iter());
            }
            None => {
                let included = &self.included;
                let below = quotients.below(&summary).iter().copied();
                self.sink.insert(step.kind, below.filter(|token| contains(included, *token)));
            }
        }

        // The states after symbols that lead on.
        let mut chain = vec![state];
        while chain.len() <= (summary.height as usize).min(len) {
            let last = self.uniform_step(chain[chain.len() - 1]).expect("each state of the run has a step");
            chain.push(last.next);
        }
        let exceptions = Exceptions {
            ascii: others,
            non_ascii: has_non_ascii && !with_non_ascii,
            depth: len.saturating_add(depth),
        };
        let exceptions = quotients.exceptions(nodes.first..nodes.end, nodes.root, exceptions);
        self.bulk_depth += 1;
        let mut done = nodes.first;
        for (index, mut bits) in exceptions.into_iter().enumerate() {
            while bits != 0 {
                let at = nodes.first + index * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                // Not below another exception.
                if at >= done {
                    let node = quotients.nodes[at];
                    self.path[nodes.base + node.depth()] = chain[node.depth() - depth];
                    self.nodes(Nodes { first: at, end: node.end as usize, ..nodes });
                    done = node.end as usize;
                }
            }
        }
        self.bulk_depth -= 1;
        true
    }

    /// Makes the mask of all tokens but those with excluded symbols, if the latter are few compared with the tokens
    /// below the node of `summary`.
    fn include_all_but(&mut self, excluded: Excluded, summary: Summary) -> bool {
        let quotients = self.quotients;
        let Some(all) = quotients.all_tokens() else { return false };
        let held = |symbol: &Symbol| excluded.ascii >> symbol.0 & 1 != 0;
        let lists = || (0..128u8).map(Symbol).filter(held).map(|symbol| quotients.postings.holding(symbol));
        let exceptions: usize = lists().map(<[TokenId]>::len).sum();
        if exceptions * quotients.tuning.tokens_per_exception > summary.tokens_below() as usize {
            return false;
        }
        self.included.clear();
        self.included.extend_from_slice(all);
        if excluded.non_ascii {
            let words = self.included.iter_mut().zip(&quotients.postings.non_ascii);
            words.for_each(|(word, non_ascii)| *word &= !non_ascii);
        }
        for list in lists() {
            for token in list {
                self.included[token.index() / WORD_BITS] &= !(1 << (token.index() % WORD_BITS));
            }
        }
        self.excluded = Some(excluded);
        true
    }

    /// The symbols in front of the node `first`, which is `depth` deep in the quotient that begins at `root`.
    pub(super) fn prefix_of(&self, root: usize, first: usize, depth: usize) -> Prefix {
        let (nodes, mut prefix, mut at) = (&self.quotients.nodes, self.prefix, root);
        prefix.chars += depth;
        for _ in 0..depth {
            // The last node in front of `first` is above it, or is a leaf and its parent.
            while (nodes[at].end as usize) < first {
                at = nodes[at].end as usize;
            }
            match nodes[at].symbol() {
                symbol if symbol.is_ascii() => prefix.ascii |= 1 << symbol.0,
                _ => prefix.has_non_ascii = true,
            }
            at += 1;
        }
        prefix
    }
}
