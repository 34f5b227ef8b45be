//! Diversion: a walk of its own for the few letters that lead elsewhere than all others.
//!
//! Consider a text that may also become something else, as after `</` in a line before `</think>`: all characters lead to one state
//! but `t`. Small letters are then mixed. Each of them would be walked by itself, and signs and symbols beyond ASCII likewise:
//! fourteen subtrees with thousands of tokens each where one [bulk acceptance](super::bulk) would do. So the walk begins in a state
//! of its own, [`DIVERTED`], from which the few letters lead where the others do. The tokens that begin with these letters are
//! taken out of its result, and walked from the true state. On 128,000 tokens that saves half of the instructions after `</`.
//!
//! A diversion is worth it only at the beginning of tokens: in [`Walk::nodes`] it saves one to three percent.

use unskew_core::{TokenId, WORD_BITS};

use super::{
    Kinds, Nodes, Verdict, Walk,
    sink::{contains, insert, unite},
};
use crate::{
    automaton::{ByteAutomaton, DIVERTED, MIXED},
    symbols::Symbol,
};

/// An automaton that leads certain bytes to the state to which most bytes lead.
struct Diverted<'a, A> {
    automaton: &'a mut A,
    start: u32,
    /// The state to which most bytes lead.
    next: u32,
    /// The bytes that lead elsewhere, one bit each.
    elsewhere: u128,
    /// The tokens that begin with these bytes, in words of a mask.
    beginning: &'a [u32],
}

impl<A: ByteAutomaton> ByteAutomaton for Diverted<'_, A> {
    #[inline]
    fn class(&self, byte: u8) -> u8 {
        self.automaton.class(byte)
    }

    #[inline]
    fn step(&mut self, state: u32, byte: u8) -> u32 {
        match state {
            DIVERTED if byte < 128 && self.elsewhere >> byte & 1 != 0 => self.next,
            DIVERTED => self.automaton.step(self.start, byte),
            state => self.automaton.step(state, byte),
        }
    }

    #[inline]
    fn verdict(&mut self, state: u32) -> Verdict {
        self.automaton.verdict(state)
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        !contains(self.beginning, token) && self.automaton.admits(state, token)
    }
}

impl<A: ByteAutomaton> Walk<'_, A, &mut Kinds> {
    /// Walks the first quotient from `start`, if a few letters lead elsewhere than all others, and if the tokens that begin with
    /// the others can be allowed at once.
    pub(super) fn diverted(&mut self, start: u32) -> bool {
        let quotients = self.quotients;
        let whole = quotients.whole();
        let Some((next, elsewhere)) = self.elsewhere(start) else { return false };
        let beginning = self.beginning_with(elsewhere);
        let mut automaton =
            Diverted { automaton: &mut *self.automaton, start, next, elsewhere, beginning: &beginning };
        let mut walk = Walk::new(self.tables, &mut automaton, &mut *self.sink);
        walk.path.resize(whole.height as usize + 1, DIVERTED);
        let root = whole.first as usize;
        let nodes = Nodes { first: root, end: whole.end as usize, root, base: 0 };
        if !walk.below(whole.summary, DIVERTED, 0, nodes) {
            return false;
        }
        self.sink.remove(&beginning);

        let base = self.path.len();
        self.path.resize(base + whole.height as usize + 1, start);
        for byte in bytes_of(elsewhere) {
            let Some(at) = self.child(Symbol::of_ascii(byte)) else { continue };
            if !byte.is_ascii_alphanumeric() {
                self.nodes(Nodes { first: at, end: quotients.nodes[at].end as usize, root, base });
            } else {
                let members = quotients.members_of(at).iter();
                let members: Vec<_> =
                    members.filter(|member| member.char == char::from(byte)).copied().collect();
                self.some_members(&members, at, start, root);
            }
        }
        self.path.truncate(base);
        true
    }

    /// The state `next` to which most letters lead from `start`, if text goes on from it; with the few bytes of ASCII that do not
    /// lead to `next`, and that lead from `next` where most bytes do, one bit each. `None` if that is not worth a walk of its own.
    fn elsewhere(&mut self, start: u32) -> Option<(u32, u128)> {
        let [a, e, o] = [b'a', b'e', b'o'].map(|byte| self.automaton.step(start, byte));
        let next = if a == e || a == o { a } else { e };
        if next >= MIXED || next != a && e != o {
            return None;
        }
        let after = self.uniform_step(next)?.next;
        let mut elsewhere = 0u128;
        let mut byte = 0u8;
        while byte < 128 {
            let last = self.runs.last_of(byte).min(127);
            if self.automaton.step(start, byte) != next && self.automaton.step(next, byte) == after {
                elsewhere |= (byte..=last).fold(0, |bits, byte| bits | 1 << byte);
            }
            byte = last + 1;
        }
        // A sign that few tokens hold is only an exception.
        let is_mixed = bytes_of(elsewhere).any(|byte| byte.is_ascii_alphanumeric());
        let is_worth_it = is_mixed || elsewhere & self.quotients.postings.many != 0;
        let are_few = elsewhere.count_ones() <= self.quotients.tuning.diverted_letters;
        (is_worth_it && are_few).then_some((next, elsewhere))
    }

    /// The tokens of the first quotient that begin with one of these bytes, in words of a mask.
    fn beginning_with(&self, bytes: u128) -> Vec<u32> {
        let (trie, quotients) = (self.trie, self.quotients);
        let mut words = vec![0; self.sink.len.div_ceil(WORD_BITS)];
        for byte in bytes_of(bytes) {
            let Some(at) = self.child(Symbol::of_ascii(byte)) else { continue };
            let summary = quotients.nodes[at].summary.map(|summary| quotients.summary(summary));
            let below = summary.and_then(|summary| summary.below_mask);
            if let Some(below) = below.filter(|_| !byte.is_ascii_alphanumeric()) {
                unite(&mut words, quotients.mask(below));
                insert(&mut words, quotients.own(at).iter().copied());
            } else {
                let members = quotients.members_of(at).iter();
                for member in members.filter(|member| member.char == char::from(byte)) {
                    insert(&mut words, trie.below(member.node.index()).iter().copied());
                }
            }
        }
        words
    }

    /// The node of the first quotient for this symbol.
    fn child(&self, symbol: Symbol) -> Option<usize> {
        let (quotients, whole) = (self.quotients, self.quotients.whole());
        let mut at = whole.first as usize;
        while at < whole.end as usize {
            if quotients.nodes[at].symbol() == symbol {
                return Some(at);
            }
            at = quotients.nodes[at].end as usize;
        }
        None
    }
}

/// The numbers of the bits of `set`.
fn bytes_of(set: u128) -> impl Iterator<Item = u8> {
    (0..128u8).filter(move |byte| set >> byte & 1 != 0)
}
