//! Diversion: a walk of its own for the few letters that lead elsewhere than all others.
//!
//! Consider a text that may also become something else, as after `</` in a line before `</think>`: all characters lead to one state
//! but `t`. Small letters are then mixed. Each of them would be walked by itself, and signs and symbols beyond ASCII likewise:
//! fourteen subtrees with thousands of tokens each where one [cover](super::cover) would do. So the walk begins in a state of its
//! own, [`DIVERTED`], from which the few letters lead where the others do. The tokens that begin with these letters are taken out
//! of its result, and walked from the true state. On 128,000 tokens that saves half of the instructions after `</`.
//!
//! A diversion is worth it only at the beginning of tokens: in [`Walk::nodes`] it saves one to three percent.

use super::{ByteAutomaton, Kinds, MIXED, Nodes, Verdict, Walk, insert, unite};
use crate::{quotient::NONE, symbols::ascii};
use unskew_core::{TokenId, WORD_BITS};

/// The state in which a diverted walk begins.
const DIVERTED: u32 = u32::MAX - 3;

/// The most letters that may lead elsewhere.
const FEW: u32 = 4;

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
        self.beginning[token.index() / WORD_BITS] >> (token.index() % WORD_BITS) & 1 == 0
            && self.automaton.admits(state, token)
    }
}

impl<A: ByteAutomaton> Walk<'_, A, &mut Kinds> {
    /// Walks the first quotient from `start`, if a few letters lead elsewhere than all others, and if the tokens that begin with
    /// the others can be allowed at once.
    pub(super) fn diverted(&mut self, start: u32) -> bool {
        let quotients = self.quotients;
        let whole = quotients.all[0];
        let Some((next, elsewhere)) = self.elsewhere(start) else { return false };
        let beginning = self.beginning_with(elsewhere);
        let mut automaton =
            Diverted { automaton: &mut *self.automaton, start, next, elsewhere, beginning: &beginning };
        let mut walk = Walk::new(self.trie, quotients, &mut automaton, &mut *self.sink);
        walk.states.resize(whole.height as usize + 1, DIVERTED);
        let root = whole.first as usize;
        let nodes = Nodes { first: root, end: whole.end as usize, root, base: 0 };
        if !walk.below(whole.facts, DIVERTED, 0, nodes) {
            return false;
        }
        self.sink.remove(&beginning);

        let base = self.states.len();
        self.states.resize(base + whole.height as usize + 1, start);
        for byte in bytes_of(elsewhere) {
            let Some(at) = self.child(ascii(byte)) else { continue };
            if !byte.is_ascii_alphanumeric() {
                self.nodes(Nodes { first: at, end: quotients.nodes[at].end as usize, root, base });
            } else {
                let members = quotients.members_of(at).iter();
                let members: Vec<_> =
                    members.filter(|member| member.char == u32::from(byte)).copied().collect();
                self.some_members(&members, at, start, root);
            }
        }
        self.states.truncate(base);
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
        let behind = self.link(next)?.next;
        let mut elsewhere = 0u128;
        let mut byte = 0u8;
        while byte < 128 {
            let last = self.runs.last_of(byte).min(127);
            if self.automaton.step(start, byte) != next && self.automaton.step(next, byte) == behind {
                elsewhere |= (byte..=last).fold(0, |bits, byte| bits | 1 << byte);
            }
            byte = last + 1;
        }
        // A sign that few tokens hold is only an exception.
        let is_mixed = bytes_of(elsewhere).any(|byte| byte.is_ascii_alphanumeric());
        let is_worth_it = is_mixed || elsewhere & self.quotients.with.many != 0;
        (is_worth_it && elsewhere.count_ones() <= FEW).then_some((next, elsewhere))
    }

    /// The tokens of the first quotient that begin with one of these bytes, in words of a mask.
    fn beginning_with(&self, bytes: u128) -> Vec<u32> {
        let (trie, quotients) = (self.trie, self.quotients);
        let mut words = vec![0; self.sink.len.div_ceil(WORD_BITS)];
        for byte in bytes_of(bytes) {
            let Some(at) = self.child(ascii(byte)) else { continue };
            let node = quotients.nodes[at];
            let facts = quotients.facts.get(node.facts as usize).filter(|facts| facts.below_mask != NONE);
            if let Some(facts) = facts.filter(|_| !byte.is_ascii_alphanumeric()) {
                unite(&mut words, quotients.mask(facts.below_mask));
                let own = node.first_token as usize..quotients.nodes[at + 1].first_token as usize;
                insert(&mut words, quotients.tokens[own].iter().copied());
            } else {
                for member in quotients.members_of(at).iter().filter(|member| member.char == u32::from(byte))
                {
                    let node = trie.nodes[member.node as usize];
                    let tokens =
                        node.first_token as usize..trie.nodes[node.end as usize].first_token as usize;
                    insert(&mut words, trie.tokens[tokens].iter().copied());
                }
            }
        }
        words
    }

    /// The node of the first quotient for this symbol.
    fn child(&self, symbol: u8) -> Option<usize> {
        let (quotients, whole) = (self.quotients, self.quotients.all[0]);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{DEAD, TokenTrie};
    use unskew_core::{TokenMask, Vocabulary};

    /// Text without a quote, whose characters are counted or not. From the start some letters lead to a state of their own, and
    /// from there back into the text.
    #[derive(Clone, Debug)]
    struct Text {
        elsewhere: Vec<u8>,
        /// The most characters; more than ten are not counted.
        count: u32,
        /// The byte that leads back.
        back: u8,
        verdict: Verdict,
        vocabulary: Vocabulary,
    }

    const ELSEWHERE: u32 = 40;

    /// After a full stop each token is looked at, and no byte is read any more.
    const STOP: u32 = 41;

    impl Text {
        fn run(&mut self, text: &[u8]) -> u32 {
            text.iter().fold(0, |state, byte| if state == DEAD { DEAD } else { self.step(state, *byte) })
        }
    }

    impl ByteAutomaton for Text {
        fn class(&self, byte: u8) -> u8 {
            byte
        }

        fn step(&mut self, state: u32, byte: u8) -> u32 {
            match state {
                // Bytes inside a character do not change the state.
                state if matches!(byte, 0x80..0xc0) => state,
                STOP => DEAD,
                _ if byte == b'"' => DEAD,
                _ if byte == b'.' => STOP,
                0 if self.elsewhere.contains(&byte) => ELSEWHERE,
                ELSEWHERE if byte != self.back => DEAD,
                ELSEWHERE => 1,
                state if self.count > 10 => state.max(1),
                state if state == self.count => DEAD,
                state => state + 1,
            }
        }

        fn verdict(&mut self, state: u32) -> Verdict {
            match state {
                ELSEWHERE => self.verdict,
                STOP => Verdict::Each,
                _ => Verdict::Kind(1),
            }
        }

        fn admits(&mut self, state: u32, token: TokenId) -> bool {
            let text = self.vocabulary.text(token).unwrap().to_vec();
            assert_eq!(state, self.run(&text));
            token.0.is_multiple_of(2)
        }
    }

    proptest! {
        /// Kinds of tokens against a run over the bytes of each.
        #[test]
        fn a_diverted_walk_finds_what_a_run_over_every_token_does(
            texts in prop::collection::vec(
                prop::collection::vec(prop::sample::select(vec!["a", "e", "t", "B", "1", " ", "-", ".", "\"", "é", "日"]), 1..5),
                100..300,
            ),
            elsewhere in prop::sample::subsequence(vec![b't', b'B', b'1', b' ', b'-'], 1..5),
            count in prop::sample::select(vec![2, 3, 4, 8, 11]),
            back in prop::sample::select(vec![b'a', b't', b' ']),
            verdict in prop::sample::select(vec![Verdict::All, Verdict::None, Verdict::Each, Verdict::Kind(2)]),
        ) {
            let is_mixed = elsewhere.iter().any(u8::is_ascii_alphanumeric);
            let mut builder = Vocabulary::builder();
            builder.text(b"aeea");
            texts.iter().for_each(|text| _ = builder.text(text.concat().as_bytes()));
            // The last byte of a character, alone.
            builder.text(b"\xa9t");
            let vocabulary = builder.build().unwrap();
            let trie = TokenTrie::new(vocabulary.clone()).unwrap();
            let mut automaton = Text { elsewhere, count, back, verdict, vocabulary: vocabulary.clone() };

            let mut expected = vec![TokenMask::new(vocabulary.len()); 3];
            for (token, text) in vocabulary.text_tokens() {
                let end = automaton.run(text);
                if end != DEAD {
                    match automaton.verdict(end) {
                        Verdict::All => expected[0].as_mut().insert(token),
                        Verdict::Each if automaton.admits(end, token) => expected[0].as_mut().insert(token),
                        Verdict::Kind(kind) => expected[usize::from(kind)].as_mut().insert(token),
                        Verdict::Each | Verdict::None => {}
                    }
                }
            }
            let found = trie.fill_kinds(&mut automaton, 0);
            let found: Vec<_> = found.into_iter().map(|tokens| tokens.into_mask(vocabulary.len())).collect();
            for (kind, expected) in expected.iter().enumerate() {
                let found = found.get(kind).map_or(vec![], |found| found.ids().collect());
                prop_assert_eq!(found, expected.ids().collect::<Vec<_>>(), "kind {}", kind);
            }
            // Most tokens below are allowed, and where letters are mixed the walk is diverted.
            if is_mixed && count > 10 {
                prop_assert!(trie.is_diverted(&mut automaton, 0));
            }
        }
    }
}
