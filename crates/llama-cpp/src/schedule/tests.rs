//! Any mix of steps with any number of slots and cells, on a cache that is checked.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unskew_core::{Rows, conformance::check_model};

use super::*;

const VOCAB: usize = 3;

/// A cache of cells as llama.cpp has it, whose logits tell the tokens that a slot holds.
#[derive(Debug)]
struct Cells {
    cells: Vec<(usize, TokenId, BTreeSet<usize>)>,
    room: usize,
    slots: usize,
    pass_len: usize,
    cuts: bool,
    rows: Vec<[f32; VOCAB]>,
    evaluated: usize,
}

/// A row that no other text has, for short ones.
fn row(tokens: &[TokenId]) -> [f32; VOCAB] {
    let number = tokens.iter().fold(1u32, |number, token| number * (VOCAB as u32 + 1) + token.0 + 1);
    std::array::from_fn(|at| (number * VOCAB as u32 + at as u32) as f32)
}

impl Cells {
    fn new(slots: usize, room: usize, pass_len: usize, cuts: bool) -> Self {
        Self { cells: Vec::new(), room, slots, pass_len, cuts, rows: Vec::new(), evaluated: 0 }
    }

    fn of(&self, slot: usize) -> Vec<TokenId> {
        let mut own: Vec<_> = self.cells.iter().filter(|cell| cell.2.contains(&slot)).collect();
        own.sort_unstable_by_key(|cell| cell.0);
        assert!(own.iter().enumerate().all(|(at, cell)| cell.0 == at), "positions without holes");
        own.into_iter().map(|cell| cell.1).collect()
    }
}

impl Memory for Cells {
    fn slots(&self) -> usize {
        self.slots
    }
    fn pass_len(&self) -> usize {
        self.pass_len
    }
    fn cuts(&self) -> bool {
        self.cuts
    }
    fn copy(&mut self, from: usize, to: usize, len: usize) {
        let whole = self.of(from).len();
        assert!(self.of(to).is_empty() && len <= whole && (self.cuts || len == whole));
        for cell in self.cells.iter_mut().filter(|cell| cell.2.contains(&from) && cell.0 < len) {
            cell.2.insert(to);
        }
    }
    fn cut(&mut self, slot: usize, len: usize) -> bool {
        if !self.cuts && len > 0 {
            return false;
        }
        for cell in self.cells.iter_mut().filter(|cell| cell.0 >= len) {
            cell.2.remove(&slot);
        }
        self.cells.retain(|cell| !cell.2.is_empty());
        true
    }
    fn evaluate(&mut self, pass: &[Entry]) -> Result<(), Failure> {
        assert!(!pass.is_empty() && pass.len() <= self.pass_len);
        if self.cells.len() + pass.len() > self.room {
            return Err(Failure::NoRoom);
        }
        self.evaluated += pass.len();
        self.rows.clear();
        for entry in pass {
            let before = self.of(entry.slot);
            assert_eq!(before.len(), entry.position, "a slot grows at its end");
            self.cells.push((entry.position, entry.token, BTreeSet::from([entry.slot])));
            self.rows.push(row(&self.of(entry.slot)));
        }
        Ok(())
    }
    fn row(&self, entry: usize) -> &[f32] {
        &self.rows[entry]
    }
}

#[test]
fn the_contract_holds_with_few_slots_and_cells() {
    let texts = [vec![0, 1, 2, 0, 1], vec![0, 1, 1], vec![], vec![2, 2, 2, 2], vec![0]];
    for slots in [1, 2, 3, 8] {
        for (room, pass_len, cuts) in [(6, 2, true), (6, 9, false), (12, 3, true), (100, 100, true)] {
            let cells = Cells::new(slots, room, pass_len, cuts);
            check_model(&mut Schedule::new(cells, VOCAB, 6), &texts, 0.0).unwrap();
        }
    }
}

#[test]
fn forks_share_and_prompts_are_kept() {
    let mut model = Schedule::new(Cells::new(4, 100, 100, true), VOCAB, 50);
    let mut logits = Logits::new();
    let mut extend = |model: &mut Schedule<Cells>, sequence: &mut Sequence, text: &[u32]| {
        let tokens: Vec<TokenId> = text.iter().copied().map(TokenId).collect();
        let mut batch = [Extension { sequence, tokens: &tokens, rows: Rows::Last }];
        model.extend(&mut batch, &mut logits).unwrap();
        model.memory.evaluated
    };
    let mut prompt = model.start();
    assert_eq!(extend(&mut model, &mut prompt, &[0, 1, 2, 0, 1]), 5);
    // Six forks for three slots: each evaluates its own token, and none the prompt.
    let mut forks: Vec<Sequence> = (0..6).map(|_| model.fork(&prompt)).collect();
    for (done, fork) in forks.iter_mut().enumerate() {
        assert_eq!(extend(&mut model, fork, &[2]), 5 + done + 1);
    }
    // The slot of the first was taken. Its last token is also that of the others.
    assert_eq!(extend(&mut model, &mut forks[0], &[0]), 12);
    // A prompt that comes again is there, but for the position with the wanted row.
    drop((prompt, forks));
    let mut again = model.start();
    assert_eq!(extend(&mut model, &mut again, &[0, 1, 2, 0, 1]), 13);
}

#[test]
fn one_sequence_that_does_not_fit_is_an_error_and_changes_nothing() {
    let mut model = Schedule::new(Cells::new(2, 3, 9, true), VOCAB, 9);
    let (mut logits, mut sequence) = (Logits::new(), model.start());
    let mut append = |model: &mut Schedule<Cells>, sequence: &mut Sequence, count: usize| {
        let tokens = vec![TokenId(1); count];
        let mut batch = [Extension { sequence, tokens: &tokens, rows: Rows::Last }];
        model.extend(&mut batch, &mut logits).map(|()| logits.row(0).to_vec())
    };
    append(&mut model, &mut sequence, 2).unwrap();
    let error = append(&mut model, &mut sequence, 2).unwrap_err();
    assert!(matches!(error, LlamaCppError::NoRoom { .. }), "{error}");
    assert_eq!(append(&mut model, &mut sequence, 1).unwrap(), row(&[TokenId(1); 3]));
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    Fork(usize),
    Truncate(usize, usize),
    Drop(usize),
    /// For each sequence: whether it takes part, its tokens, and its rows.
    Extend(Vec<(bool, Vec<u32>, u8)>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let item = (any::<bool>(), prop::collection::vec(0..VOCAB as u32, 0..3), 0..4u8);
    let step = prop_oneof![
        1 => Just(Step::Start),
        2 => (0..9usize).prop_map(Step::Fork),
        2 => (0..9usize, 0..9usize).prop_map(|(of, len)| Step::Truncate(of, len)),
        1 => (0..9usize).prop_map(Step::Drop),
        6 => prop::collection::vec(item, 9).prop_map(Step::Extend),
    ];
    prop::collection::vec(step, 1..40)
}

fn config() -> ProptestConfig {
    let rng_seed = proptest::test_runner::RngSeed::Fixed(7);
    ProptestConfig { cases: 600, failure_persistence: None, rng_seed, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Rows after any mix of steps are those of the tokens, with any number of slots and cells.
    #[test]
    fn any_mix_of_steps_gives_the_rows_of_a_full_pass(
        steps in steps(), slots in 1..5usize, extra in 0..20usize, pass_len in 1..9usize, cuts: bool,
    ) {
        let context = 9;
        let mut model = Schedule::new(Cells::new(slots, context + extra, pass_len, cuts), VOCAB, context);
        let mut sequences = vec![(model.start(), Vec::new())];
        for step in steps {
            let count = sequences.len();
            match step {
                Step::Start if count < 9 => sequences.push((model.start(), Vec::new())),
                Step::Fork(of) if (1..9).contains(&count) => {
                    let (sequence, tokens) = &sequences[of % count];
                    let fork = (model.fork(sequence), tokens.clone());
                    sequences.push(fork);
                }
                Step::Truncate(of, len) if count > 0 => {
                    let (sequence, tokens) = &mut sequences[of % count];
                    let len = len.min(tokens.len());
                    model.truncate(sequence, len);
                    tokens.truncate(len);
                }
                Step::Drop(of) if count > 0 => drop(sequences.remove(of % count)),
                Step::Extend(items) => {
                    let (rows, expected) = extend(&mut model, &mut sequences, &items, context);
                    prop_assert_eq!(rows, expected);
                }
                _ => {}
            }
        }
    }
}

/// The rows of an extension of some sequences, and those of their tokens.
fn extend(
    model: &mut Schedule<Cells>,
    sequences: &mut [(Sequence, Vec<TokenId>)],
    items: &[(bool, Vec<u32>, u8)],
    context: usize,
) -> (Vec<Vec<f32>>, Vec<Vec<f32>>) {
    let mut expected = Vec::new();
    let mut wanted = Vec::new();
    for ((_, tokens), (takes_part, new, rows)) in sequences.iter_mut().zip(items) {
        let fits = *takes_part && tokens.len() + new.len() <= context;
        let new: Vec<TokenId> = new.iter().copied().map(TokenId).filter(|_| fits).collect();
        let old = tokens.len();
        tokens.extend(&new);
        let rows = match rows {
            0 if !tokens.is_empty() && fits => Rows::Last,
            1 => Rows::From(1),
            _ => Rows::All,
        };
        let from = match rows {
            Rows::Last => tokens.len() - 1,
            Rows::All => old,
            Rows::From(first) => old + first,
        };
        expected.extend((from..tokens.len()).map(|at| row(&tokens[..=at]).to_vec()));
        wanted.push((new, rows));
    }
    let mut batch: Vec<_> = sequences
        .iter_mut()
        .zip(&wanted)
        .map(|((sequence, _), (tokens, rows))| Extension { sequence, tokens, rows: *rows })
        .collect();
    let mut logits = Logits::new();
    model.extend(&mut batch, &mut logits).unwrap();
    (logits.rows().map(<[f32]>::to_vec).collect(), expected)
}
