//! The walk and its parts against runs over the bytes of every token.

use std::sync::Arc;

use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use unskew_core::{TokenMask, Vocabulary, words_for};

use super::*;
use crate::{
    SafeBytes, TokenTrie,
    testing::{CHARS, STATES, Table, allowed, run, table, texts, tuning, vocabulary},
    tuning::Tuning,
};

/// Checks the kinds of tokens that a trie finds from `start` against the oracle; `kinds` are all that may occur.
fn check_kinds<A: ByteAutomaton>(trie: &TokenTrie, automaton: &mut A, start: u32, kinds: u8) {
    let few = trie.tables().quotients.tuning.kind_list_tokens;
    let expected = allowed(automaton, start, trie.vocabulary());
    let sets = trie.fill_kinds(automaton, start);
    assert!(sets.len() <= usize::from(kinds));
    for kind in 0..kinds {
        let of_kind = expected.iter().filter(|(_, other)| *other == kind).map(|(token, _)| *token);
        let of_kind: Vec<TokenId> = of_kind.collect();
        let found = sets.get(usize::from(kind)).cloned().unwrap_or(KindTokens::Few(vec![]));
        assert!(of_kind.len() <= few || matches!(found, KindTokens::Many(_)));
        assert_eq!(found.into_mask(trie.vocab_len()).ids().collect::<Vec<_>>(), of_kind, "kind {kind}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A mask holds the tokens that a run over each token's bytes allows, and the tokens that it held before.
    #[test]
    fn a_filled_mask_is_a_run_over_every_token(texts in texts(), table in table(), tuning in tuning()) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let vocabulary = trie.vocabulary();
        for start in 0..STATES as u32 {
            let mut mask = TokenMask::new(vocabulary.len());
            mask.as_mut().insert(TokenId::from_index(texts.len()));
            let mut automaton = &table;
            table.asked.take();
            trie.fill(&mut automaton, start, mask.as_mut());
            for (state, token) in table.asked.take() {
                prop_assert_eq!(state, run(&mut automaton, start, vocabulary.text(token).unwrap()));
            }
            let expected = allowed(&mut automaton, start, vocabulary).into_iter().map(|(token, _)| token);
            let expected = expected.chain([TokenId::from_index(texts.len())]);
            prop_assert_eq!(mask.ids().collect::<Vec<_>>(), expected.collect::<Vec<_>>());
            check_kinds(&trie, &mut automaton, start, 4);
        }
    }

    /// A uniform step leads all of its symbols, and no other, to one state; and its run goes on as long as it says.
    #[test]
    fn a_uniform_run_is_a_run_of_all_its_symbols(texts in texts(), table in table(), tuning in tuning()) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        let mut automaton = &table;
        let mut sink = vec![0; words_for(trie.vocab_len())];
        let mut walk = Walk::new(trie.tables(), &mut automaton, &mut sink[..]);
        for start in 0..STATES as u32 {
            // The state to which all of these bytes lead.
            let leads = |state: u32, (first, last): (u8, u8)| {
                let next = (&table).step(state, first);
                (first..=last).all(|byte| (&table).step(state, byte) == next).then_some(next)
            };
            let next = leads(start, (b'a', b'z')).filter(|next| *next != DEAD);
            let step = walk.uniform_step(start);
            prop_assert_eq!(step.map(|step| step.next), next);
            let Some(step) = step else { continue };
            for symbol in (0..128).map(Symbol).filter(|symbol| Symbol::of_ascii(symbol.0) == *symbol) {
                let leads_on = leads(start, symbol.ascii_bytes()) == next;
                prop_assert_eq!(step.ascii >> symbol.0 & 1 != 0, leads_on, "{:?}", symbol);
            }

            let step = walk.uniform_run(start);
            prop_assert!(step.run == 0 || step.next == next.unwrap());
            let mut state = start;
            let steps = if step.run == ENDLESS { 2 * STATES } else { usize::from(step.run) };
            for _ in 0..steps {
                let after = (&table).step(state, b'a');
                prop_assert_eq!((&table).verdict(after).kind(), Some(step.kind));
                for symbol in (0..128).map(Symbol).filter(|symbol| step.ascii >> symbol.0 & 1 != 0) {
                    prop_assert_eq!(leads(state, symbol.ascii_bytes()), Some(after));
                }
                for char in CHARS.iter().filter(|char| step.non_ascii && !char.is_ascii()) {
                    prop_assert_eq!(run(&mut &table, state, char.to_string().as_bytes()), after);
                }
                state = after;
            }
        }
    }
}

/// A table that knows its safe bytes.
struct Knowing<'t>(&'t Table);

impl ByteAutomaton for Knowing<'_> {
    fn class(&self, byte: u8) -> u8 {
        self.0.class(byte)
    }

    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.0.step(state, byte)
    }

    fn verdict(&mut self, state: u32) -> Verdict {
        self.0.verdict(state)
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        self.0.admits(state, token)
    }

    /// By definition: bytes go until those that are left lead from each state that they reach to one that allows all.
    fn safe(&mut self, state: u32) -> Option<SafeBytes> {
        let mut table = self.0;
        let mut bytes: Vec<u8> = (0..128).collect();
        loop {
            let mut reached = vec![state];
            let mut at = 0;
            while let Some(from) = reached.get(at).copied() {
                at += 1;
                for byte in &bytes {
                    let next = table.step(from, *byte);
                    if next != DEAD && !reached.contains(&next) {
                        reached.push(next);
                    }
                }
            }
            let before = bytes.len();
            bytes.retain(|byte| {
                let leads_on = |from: &u32| {
                    let next = table.step(*from, *byte);
                    next != DEAD && table.verdict(next) == Verdict::All
                };
                reached.iter().all(leads_on)
            });
            if bytes.len() == before {
                let is_allowed = table.verdict(state) == Verdict::All;
                return SafeBytes::new(|byte| bytes.contains(&byte)).filter(|_| is_allowed);
            }
        }
    }
}

/// Safe bytes change no mask, and spare steps. They are tried with tables of which many states have some.
#[test]
fn safe_bytes_change_no_mask() {
    let mut runner = TestRunner::deterministic();
    let (mut with, mut without) = (0, 0);
    for _ in 0..if cfg!(debug_assertions) { 100 } else { 5_000 } {
        let texts = texts().new_tree(&mut runner).unwrap().current();
        let table = table().new_tree(&mut runner).unwrap().current();
        let tuning = tuning().new_tree(&mut runner).unwrap().current();
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary(&texts)), tuning).unwrap();
        for start in 0..STATES as u32 {
            let [mut known, mut unknown] = [(); 2].map(|()| TokenMask::new(trie.vocab_len()));
            let mut knowing = Counted { automaton: Knowing(&table), steps: 0 };
            trie.fill(&mut knowing, start, known.as_mut());
            let mut plain = Counted { automaton: &table, steps: 0 };
            trie.fill(&mut plain, start, unknown.as_mut());
            assert_eq!(known, unknown, "{texts:?} {table:?} from {start}");
            check_kinds(&trie, &mut Knowing(&table), start, 4);
            with += knowing.steps;
            without += plain.steps;
        }
    }
    assert!(with < without, "{with} steps with safe bytes, {without} without");
}

/// An automaton whose steps are counted.
struct Counted<A> {
    automaton: A,
    steps: u64,
}

impl<A: ByteAutomaton> ByteAutomaton for Counted<A> {
    fn class(&self, byte: u8) -> u8 {
        self.automaton.class(byte)
    }

    fn step(&mut self, state: u32, byte: u8) -> u32 {
        self.steps += 1;
        self.automaton.step(state, byte)
    }

    fn verdict(&mut self, state: u32) -> Verdict {
        self.automaton.verdict(state)
    }

    fn admits(&mut self, state: u32, token: TokenId) -> bool {
        self.automaton.admits(state, token)
    }

    fn safe(&mut self, state: u32) -> Option<SafeBytes> {
        self.automaton.safe(state)
    }
}

/// Text without a quote, whose characters are counted or not. From the start some letters lead to a state of their
/// own, and from there back into the text.
#[derive(Clone, Debug)]
struct Text {
    elsewhere: Vec<u8>,
    /// The most characters; more than ten are not counted.
    count: u32,
    /// The byte that leads back.
    back: u8,
    verdict: Verdict,
    /// The state and the vocabulary of the walk: tokens are asked for in the state in which they end.
    walk: (u32, Option<Arc<Vocabulary>>),
}

const ELSEWHERE: u32 = 40;

/// After a full stop each token is looked at, and no byte is read any more.
const STOP: u32 = 41;

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
        let (start, vocabulary) = self.walk.clone();
        let vocabulary = vocabulary.expect("it is set before the walk");
        assert_eq!(state, run(self, start, vocabulary.text(token).unwrap()));
        token.0.is_multiple_of(2)
    }
}

/// Tokens of a few signs and many letters.
fn words() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let part = prop::sample::select(vec!["a", "e", "t", "B", "1", " ", "-", ".", "\"", "é", "日"]);
    let word = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat().into_bytes());
    prop::collection::vec(word, 100..300)
}

/// A vocabulary of `words`, of a word of letters alone, and of the last byte of a character.
fn vocabulary_of(words: &[Vec<u8>]) -> Vocabulary {
    vocabulary(&[&[b"aeea".to_vec()], words, &[b"\xa9t".to_vec()]].concat())
}

/// With these numbers each uniform run is accepted in bulk.
fn always_bulk() -> Tuning {
    Tuning {
        mask_tokens: 1,
        summary_tokens: 1,
        bulk_tokens: 0,
        tokens_per_exception: 0,
        short_symbols: 1,
        ..Tuning::default()
    }
}

/// Kinds of tokens in a text that may become something else, against a run over the bytes of each.
fn check_text(trie: &TokenTrie, mut text: Text) {
    text.walk = (0, Some(Arc::clone(trie.vocabulary())));
    check_kinds(trie, &mut text, 0, 3);
}

fn text_automaton() -> impl Strategy<Value = Text> {
    (
        prop::sample::subsequence(vec![b't', b'B', b'1', b' ', b'-'], 1..5),
        prop::sample::select(vec![2, 3, 4, 8, 11]),
        prop::sample::select(vec![b'a', b't', b' ']),
        prop::sample::select(vec![Verdict::All, Verdict::None, Verdict::Each, Verdict::Kind(2)]),
    )
        .prop_map(|(elsewhere, count, back, verdict)| Text {
            elsewhere,
            count,
            back,
            verdict,
            walk: (0, None),
        })
}

proptest! {
    #[test]
    fn mixed_letters_lead_to_the_tokens_of_a_run_over_every_token(
        words in words(),
        text in text_automaton(),
        tuning in prop_oneof![tuning(), Just(always_bulk())],
    ) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary_of(&words)), tuning).unwrap();
        check_text(&trie, text);
    }

    /// A bulk acceptance allows all tokens of its subtree that a run over their bytes allows, or nothing.
    #[test]
    fn a_bulk_acceptance_is_a_run_over_every_token_of_its_subtree(
        words in words(),
        text in text_automaton(),
        tuning in prop_oneof![tuning(), Just(always_bulk())],
    ) {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary_of(&words)), tuning).unwrap();
        let tables = trie.tables();
        let whole = tables.quotients.whole();
        let nodes = Nodes { first: whole.first as usize, end: whole.end as usize, root: whole.first as usize, base: 0 };
        for start in [0, 1, 2, ELSEWHERE] {
            let mut automaton = Text { walk: (start, Some(Arc::clone(trie.vocabulary()))), ..text.clone() };
            let mut expected = allowed(&mut automaton, start, trie.vocabulary());
            expected.retain(|(token, _)| !tables.irregular.tokens.contains(token));
            let mut kinds = Kinds::new(trie.vocab_len(), tuning.kind_list_tokens);
            let mut walk = Walk::new(tables, &mut automaton, &mut kinds);
            walk.path.resize(whole.height as usize + 1, start);
            let Some(summary) = whole.summary.map(|summary| tables.quotients.summary(summary)) else { continue };
            let Some(step) = walk.uniform_step(start) else { continue };
            let has_run = walk.uniform_run(start).run > 0;
            let is_accepted = walk.accept_bulk(summary, start, step, 0, nodes);
            if tuning == always_bulk() {
                prop_assert_eq!(is_accepted, has_run);
            }
            let expected = if is_accepted { expected } else { vec![] };
            let mut found = Vec::new();
            for (kind, set) in kinds.into_sets().into_iter().enumerate() {
                found.extend(set.into_mask(trie.vocab_len()).ids().map(|token| (token, kind as u8)));
            }
            found.sort();
            prop_assert_eq!(found, expected);
        }
    }
}

/// A case that failed once: the tokens that begin with a letter that leads elsewhere are fewer than those that end in
/// a full stop.
#[test]
fn a_full_stop_after_few_letters() {
    let mut words = vec![b"a".to_vec(); 94];
    words.push(b".".to_vec());
    words.extend(vec![b"a".to_vec(); 5]);
    for tuning in [always_bulk(), Tuning::default()] {
        let trie = TokenTrie::with_tuning(Arc::new(vocabulary_of(&words)), tuning).unwrap();
        let walk = (0, None);
        let text = Text { elsewhere: vec![b'1'], count: 2, back: b'a', verdict: Verdict::All, walk };
        check_text(&trie, text);
    }
}
