//! Random vocabularies, automata and tunings, and the slow oracle of the walk: a run over the bytes of every token.

use std::cell::RefCell;

use proptest::prelude::*;
use unskew_core::{TokenId, Vocabulary};

use crate::{
    automaton::{ByteAutomaton, DEAD, Verdict},
    tuning::Tuning,
};

/// The characters of [`texts`], of one to four bytes.
pub(crate) const CHARS: [char; 14] =
    ['a', 'b', 'c', 'Z', '0', '7', ' ', '"', 'é', 'ж', 'Ж', '日', '旦', '😀'];

/// The vocabulary of `texts`, and a control token.
pub(crate) fn vocabulary(texts: &[Vec<u8>]) -> Vocabulary {
    let mut builder = Vocabulary::builder();
    for text in texts {
        builder.text(text);
    }
    builder.control("<end>");
    builder.build().unwrap()
}

/// Texts of few characters, cut at any byte, so that quotients, members and irregular tokens all occur.
pub(crate) fn texts() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let char = prop::sample::select(CHARS.to_vec());
    let text = (prop::collection::vec(char, 0..7), 0usize..3, 0usize..3).prop_map(|(chars, front, back)| {
        let text = chars.into_iter().collect::<String>().into_bytes();
        let keep = text.len().saturating_sub(back / 2);
        text[(front / 2).min(keep)..keep].to_vec()
    });
    prop::collection::vec(text, 0..400)
}

/// Small numbers, with which a few hundred tokens take every path; and sometimes those that ship.
pub(crate) fn tuning() -> impl Strategy<Value = Tuning> {
    let building = (1usize..5, 0usize..9, 1u8..6, 1u32..13, 1u32..9);
    let postings = (prop::sample::select(vec![0, 3, 20, 1_000]), 0usize..9, 0usize..4);
    let walking = (0u32..7, 0usize..4, 0u8..6, prop::sample::select(vec![0, 1, 2, 5, 64, 300]));
    let small = (building, postings, walking, 0usize..7).prop_map(
        |(building, postings, walking, kind_list_tokens)| {
            let (searched_children, quotient_nodes, quotient_levels, mask_tokens, summary_tokens) = building;
            let (listed_tokens, scanned_nodes, short_symbols) = postings;
            let (bulk_tokens, tokens_per_exception, bulk_depth, run_states) = walking;
            Tuning {
                searched_children,
                quotient_nodes,
                quotient_levels,
                mask_tokens,
                summary_tokens,
                listed_tokens,
                scanned_nodes,
                short_symbols,
                bulk_tokens,
                tokens_per_exception,
                bulk_depth,
                run_states,
                kind_list_tokens,
            }
        },
    );
    prop_oneof![9 => small, 1 => Just(Tuning::default())]
}

/// A random table with few classes, whose bounds lie at those of the symbols and between them, and with few states.
#[derive(Debug)]
pub(crate) struct Table {
    classes: [u8; 256],
    next: Vec<u32>,
    verdicts: Vec<Verdict>,
    /// The questions of [`ByteAutomaton::admits`].
    pub(crate) asked: RefCell<Vec<(u32, TokenId)>>,
}

/// The number of states of a [`Table`].
pub(crate) const STATES: usize = 5;
const WIDTH: usize = 6;

impl ByteAutomaton for &Table {
    fn class(&self, byte: u8) -> u8 {
        self.classes[usize::from(byte)]
    }

    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.next[state as usize * WIDTH + usize::from(self.class(byte))]
    }

    fn verdict(&mut self, state: u32) -> Verdict {
        self.verdicts[state as usize]
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        self.asked.borrow_mut().push((state, token));
        !(token.0 + state).is_multiple_of(3)
    }
}

pub(crate) fn table() -> impl Strategy<Value = Table> {
    let bound = prop::sample::select(vec![
        b' ', b'"', b'#', b'0', b'5', b':', b'A', b'[', b'a', b'b', b'{', 0x80, 0x90, 0xa0, 0xb0, 0xc0, 0xc2,
        0xd0, 0xd1, 0xe0, 0xe6, 0xf0, 0xf5,
    ]);
    let bounds = prop::collection::vec((bound, 0..WIDTH as u8), 0..10);
    // States are mostly alive, and often stay the same.
    let target = prop_oneof![1 => Just(DEAD), 3 => Just(0), 4 => 0..STATES as u32];
    let verdict = prop_oneof![6 => Just(Verdict::All), 1 => Just(Verdict::None), 1 => Just(Verdict::Each),
            3 => (1u8..4).prop_map(Verdict::Kind)];
    (bounds, prop::collection::vec(target, STATES * WIDTH), prop::collection::vec(verdict, STATES)).prop_map(
        |(mut bounds, next, verdicts)| {
            bounds.sort_unstable();
            let mut classes = [0; 256];
            for (bound, class) in bounds {
                classes[usize::from(bound)..].fill(class);
            }
            Table { classes, next, verdicts, asked: RefCell::default() }
        },
    )
}

/// The state after `text`, or [`DEAD`].
pub(crate) fn run<A: ByteAutomaton>(automaton: &mut A, start: u32, text: &[u8]) -> u32 {
    text.iter().fold(start, |state, byte| if state == DEAD { DEAD } else { automaton.step(state, *byte) })
}

/// The oracle: the tokens that `automaton` allows from `start`, each with its kind, by a run over the bytes of every
/// token.
pub(crate) fn allowed<A: ByteAutomaton>(
    automaton: &mut A,
    start: u32,
    vocabulary: &Vocabulary,
) -> Vec<(TokenId, u8)> {
    let mut allowed = Vec::new();
    for (token, text) in vocabulary.text_tokens().filter(|(_, text)| !text.is_empty()) {
        let end = run(automaton, start, text);
        if end == DEAD {
            continue;
        }
        match automaton.verdict(end) {
            Verdict::All => allowed.push((token, 0)),
            Verdict::Each if automaton.admits(end, token) => allowed.push((token, 0)),
            Verdict::Kind(kind) => allowed.push((token, kind)),
            Verdict::Each | Verdict::None => {}
        }
    }
    allowed
}
