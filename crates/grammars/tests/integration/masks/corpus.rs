//! The corpus of grammars. The oracle decides the texts as the files specify. The engine agrees with the
//! oracle in every mask along the texts and along random outputs, over vocabularies of several kinds.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use unskew_core::{Constraint, TokenId, TokenMask, conformance};
use unskew_grammar::GrammarLimits;
use unskew_grammars::{GrammarConstraint, GrammarScratch, GrammarState, TreeLibrary, Tuning};

use crate::common::{
    corpus::{Case, cases},
    oracle::{Alphabet, Chart, Input, Oracle},
    vocabularies::{self, Subject},
};

/// Debug builds do part of the work.
const DEBUG: bool = cfg!(debug_assertions);

fn below(random: &mut ChaCha8Rng, bound: usize) -> usize {
    (random.next_u64() % bound as u64) as usize
}

/// A text as a person reads it.
fn shown(text: &[Input]) -> String {
    let mut shown = String::new();
    for input in text {
        match input {
            Input::Byte(byte) => shown.extend(byte.escape_ascii().map(char::from)),
            Input::Control(name) => shown.push_str(name),
        }
    }
    shown
}

fn constraint(case: &Case, subject: &Subject, limits: &GrammarLimits) -> GrammarConstraint {
    let trie = subject.trie.clone();
    GrammarConstraint::new(&case.grammar, trie, limits)
        .unwrap_or_else(|error| panic!("{}: {}: {error}", subject.name, case.name))
}

/// The same with a library of trees.
fn with_library(case: &Case, library: &Arc<TreeLibrary>, limits: &GrammarLimits) -> GrammarConstraint {
    GrammarConstraint::with_library(&case.grammar, library, limits)
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// A library that keeps all nodes.
fn library(subject: &Subject) -> Arc<TreeLibrary> {
    let trie = subject.trie.clone();
    Arc::new(TreeLibrary::with_tuning(trie, 64 << 20, Tuning::with_all_fragments()))
}

/// A random sequence of tokens that spells `text`. A coin decides between the longest token and any other.
fn tokens(text: &[Input], subject: &Subject, random: &mut ChaCha8Rng) -> Vec<TokenId> {
    let mut ids = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let fits = |id: TokenId| -> Option<usize> {
            match (subject.trie.vocabulary().text(id), &text[at]) {
                (Some(bytes), _) => {
                    let spelled = bytes.iter().map(|byte| Input::Byte(*byte));
                    let fits = !bytes.is_empty() && spelled.eq(text[at..].iter().take(bytes.len()).cloned());
                    fits.then_some(bytes.len())
                }
                (None, Input::Control(name)) => (subject.trie.vocabulary().name(id) == **name).then_some(1),
                _ => None,
            }
        };
        let all = (0..subject.trie.vocabulary().len()).map(TokenId::from_index);
        let fitting: Vec<(TokenId, usize)> = all.filter_map(|id| Some((id, fits(id)?))).collect();
        let longest = fitting.iter().max_by_key(|(_, len)| *len).expect("every byte is a token");
        let chosen = if below(random, 2) == 0 { longest } else { &fitting[below(random, fitting.len())] };
        ids.push(chosen.0);
        at += chosen.1;
    }
    ids
}

/// The engine and the oracle, in parallel.
struct Pair<'a> {
    name: String,
    subject: &'a Subject,
    constraint: &'a GrammarConstraint,
    scratch: GrammarScratch,
    state: GrammarState,
    chart: Chart<'a>,
    path: Vec<TokenId>,
}

impl<'a> Pair<'a> {
    fn new(case: &Case, subject: &'a Subject, constraint: &'a GrammarConstraint, oracle: &'a Oracle) -> Self {
        Self {
            name: format!("{}: {}", subject.name, case.name),
            subject,
            constraint,
            scratch: constraint.scratch(),
            state: constraint.start(),
            chart: oracle.chart(),
            path: Vec::new(),
        }
    }

    fn place(&self) -> String {
        let text = self.path.iter().map(|id| format!("{:?}", self.subject.trie.vocabulary().name(*id)));
        format!("{} after {}", self.name, text.collect::<Vec<_>>().join(" "))
    }

    /// The mask of the engine, compared with the mask of the oracle.
    fn mask(&mut self) -> Vec<TokenId> {
        let mut mask = TokenMask::new(self.constraint.vocab_len());
        self.constraint.fill_mask(&mut self.scratch, &self.state, mask.as_mut());
        let (found, expected): (Vec<_>, _) =
            (mask.ids().collect(), self.chart.mask(self.subject.trie.vocabulary()));
        if found != expected {
            let names = |left: &[TokenId], right: &[TokenId]| {
                let only = left.iter().filter(|id| !right.contains(id)).take(8);
                only.map(|id| format!("{:?}", self.subject.trie.vocabulary().name(*id)))
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            let (more, less) = (names(&found, &expected), names(&expected, &found));
            panic!("{}: too many: {more}; missing: {less}", self.place());
        }
        assert_eq!(self.constraint.is_accepting(&self.state), self.chart.is_accepting(), "{}", self.place());
        found
    }

    /// Takes `token`, which the engine and the oracle both accept or both reject.
    fn advance(&mut self, token: TokenId) -> bool {
        let expected = self.chart.push_token(self.subject.trie.vocabulary(), token);
        let taken = self.constraint.advance(&mut self.scratch, &mut self.state, token).is_ok();
        assert_eq!(taken, expected, "{}: {:?}", self.place(), self.subject.trie.vocabulary().name(token));
        if taken {
            self.path.push(token);
        }
        taken
    }
}

/// Compares masks along every text, in random spellings, and along random outputs. A mask costs the oracle a
/// walk over the vocabulary, so about `masks` masks per text are compared.
fn compare(cases: &[Case], subject: &Subject, limits: &GrammarLimits, [spellings, walks, masks]: [usize; 3]) {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    let library = library(subject);
    for (index, case) in cases.iter().enumerate() {
        // Alternates, so that both ways meet every kind of grammar.
        let constraint = match index % 2 {
            0 => constraint(case, subject, limits),
            _ => with_library(case, &library, limits),
        };
        let oracle = Oracle::new(&case.grammar, &Alphabet::of(subject.trie.vocabulary()));
        for text in case.accepted.iter().chain(&case.rejected) {
            for _ in 0..spellings {
                let mut pair = Pair::new(case, subject, &constraint, &oracle);
                for token in tokens(text, subject, &mut random) {
                    if below(&mut random, text.len()) < masks {
                        pair.mask();
                    }
                    if !pair.advance(token) {
                        break;
                    }
                }
                pair.mask();
            }
        }
        for _ in 0..walks {
            let mut pair = Pair::new(case, subject, &constraint, &oracle);
            for _ in 0..12 {
                let allowed = pair.mask();
                if allowed.is_empty() {
                    break;
                }
                let token = allowed[below(&mut random, allowed.len())];
                assert!(pair.advance(token));
            }
        }
    }
}

/// The oracle against the files.
#[test]
fn the_oracle_decides_the_texts_of_the_corpus() {
    let mut wrong: Vec<String> = Vec::new();
    for case in cases() {
        let oracle = Oracle::new(&case.grammar, &Alphabet::all());
        for text in &case.accepted {
            let read = oracle.viable_len(text);
            let refused = || format!("{}: refused at {read}: {}", case.name, shown(text));
            wrong.extend((!oracle.accepts(text)).then(refused));
        }
        for text in &case.rejected {
            wrong.extend(oracle.accepts(text).then(|| format!("{}: accepted: {}", case.name, shown(text))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Byte by byte: the engine rejects the first impossible byte, and no byte before it.
#[test]
fn texts_are_refused_at_the_first_impossible_byte() {
    for case in cases() {
        let subject = vocabularies::toy(&case.controls);
        let oracle = Oracle::new(&case.grammar, &Alphabet::of(subject.trie.vocabulary()));
        let constraint = constraint(&case, &subject, &GrammarLimits::default());
        for (text, is_accepted) in case
            .accepted
            .iter()
            .map(|text| (text, true))
            .chain(case.rejected.iter().map(|text| (text, false)))
        {
            let (mut scratch, mut state) = (constraint.scratch(), constraint.start());
            let id = |input: &Input| {
                let mut all = (0..subject.trie.vocabulary().len()).map(TokenId::from_index);
                let found = match input {
                    Input::Byte(byte) => all.find(|id| subject.trie.vocabulary().text(*id) == Some(&[*byte])),
                    Input::Control(name) => all.find(|id| {
                        subject.trie.vocabulary().text(*id).is_none()
                            && subject.trie.vocabulary().name(*id) == **name
                    }),
                };
                found.expect("every byte and control token is a token")
            };
            let read = text
                .iter()
                .take_while(|input| constraint.advance(&mut scratch, &mut state, id(input)).is_ok())
                .count();
            assert_eq!(read, oracle.viable_len(text), "{}: {text:?}", case.name);
            let accepts = read == text.len() && constraint.is_accepting(&state);
            assert_eq!(accepts, is_accepted, "{}: {text:?}", case.name);
        }
    }
}

#[test]
fn masks_over_a_toy_vocabulary_are_those_of_the_oracle() {
    let cases = cases();
    let mut controls: Vec<String> = cases.iter().flat_map(|case| case.controls.clone()).collect();
    controls.sort();
    controls.dedup();
    let subject = vocabularies::toy(&controls);
    compare(&cases, &subject, &GrammarLimits::default(), if DEBUG { [1, 1, 20] } else { [10, 40, 100] });
}

/// The tables are emptied as soon as they hold an entry.
#[test]
fn masks_with_a_full_scratch_are_those_of_the_oracle() {
    let cases = cases();
    let mut controls: Vec<String> = cases.iter().flat_map(|case| case.controls.clone()).collect();
    controls.sort();
    controls.dedup();
    let subject = vocabularies::toy(&controls);
    for scratch_bytes in [0, 20_000] {
        let mut limits = GrammarLimits::default();
        limits.scratch_bytes = scratch_bytes;
        compare(&cases, &subject, &limits, if DEBUG { [1, 1, 10] } else { [2, 5, 100] });
    }
}

#[test]
fn masks_over_the_embedded_vocabulary_are_those_of_the_oracle() {
    let mut cases = cases();
    cases.retain(|case| case.controls.is_empty());
    compare(
        &cases,
        &vocabularies::tiny(),
        &GrammarLimits::default(),
        if DEBUG { [1, 1, 2] } else { [2, 10, 40] },
    );
}

/// Vocabularies of 32,000 to 128,000 tokens. A mask takes the oracle about a second, so one mask per grammar
/// is compared, and the vocabularies alternate. In release builds only.
#[test]
fn masks_over_real_vocabularies_are_those_of_the_oracle() {
    if DEBUG {
        return;
    }
    let mut cases = cases();
    cases.retain(|case| case.controls.is_empty());
    let subjects = vocabularies::real(&["cl100k", "llama3", "mistral-v1"]);
    let libraries: Vec<_> = subjects.iter().map(library).collect();
    let mut random = ChaCha8Rng::seed_from_u64(5);
    for ((case, subject), library) in cases.iter().zip(subjects.iter().cycle()).zip(libraries.iter().cycle())
    {
        let constraint = match below(&mut random, 2) {
            0 => constraint(case, subject, &GrammarLimits::default()),
            _ => with_library(case, library, &GrammarLimits::default()),
        };
        let oracle = Oracle::new(&case.grammar, &Alphabet::of(subject.trie.vocabulary()));
        let text = &case.accepted[below(&mut random, case.accepted.len())];
        let mut pair = Pair::new(case, subject, &constraint, &oracle);
        let spelling = tokens(text, subject, &mut random);
        let looked_at = below(&mut random, spelling.len() + 1);
        for (position, token) in spelling.into_iter().enumerate() {
            if position == looked_at {
                pair.mask();
            }
            assert!(pair.advance(token));
        }
        assert!(constraint.is_accepting(&pair.state), "{}", pair.place());
    }
}

#[test]
fn the_contract_holds() {
    for case in cases() {
        let subject = vocabularies::toy(&case.controls);
        let constraint = constraint(&case, &subject, &GrammarLimits::default());
        let depth = if DEBUG { 1 } else { 2 };
        conformance::check_constraint(&constraint, depth)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
    }
}

/// The masks along the texts are the same without a library, with a library too small to keep entries, and
/// with more or fewer nodes kept. In release builds also over real vocabularies.
#[test]
fn a_library_changes_no_mask() {
    let mut cases = cases();
    cases.retain(|case| case.controls.is_empty());
    let mut subjects = vec![vocabularies::tiny()];
    if !DEBUG {
        subjects.extend(vocabularies::real(&["cl100k", "llama3", "mistral-v1"]));
    }
    for subject in &subjects {
        let mut random = ChaCha8Rng::seed_from_u64(8);
        let library = |limit, tuning| {
            let trie = subject.trie.clone();
            Arc::new(TreeLibrary::with_tuning(trie, limit, tuning))
        };
        // If no entry is kept, each mask is computed from scratch. That is done over the small vocabulary only.
        let small = if subject.name == "tiny" { 0 } else { 2 << 20 };
        let libraries = [
            library(64 << 20, Tuning::default()),
            library(64 << 20, Tuning::with_all_fragments()),
            library(small, Tuning::default()),
        ];
        for case in &cases {
            let limits = GrammarLimits::default();
            let plain = constraint(case, subject, &limits);
            let others = libraries.each_ref().map(|library| with_library(case, library, &limits));
            for text in &case.accepted {
                let mut state = (plain.scratch(), plain.start());
                let mut states = others.each_ref().map(|other| (other.scratch(), other.start()));
                let mut spelling = tokens(text, subject, &mut random).into_iter();
                loop {
                    let mut expected = TokenMask::new(plain.vocab_len());
                    plain.fill_mask(&mut state.0, &state.1, expected.as_mut());
                    for (other, (scratch, state)) in others.iter().zip(&mut states) {
                        let mut mask = TokenMask::new(other.vocab_len());
                        other.fill_mask(scratch, state, mask.as_mut());
                        assert_eq!(mask, expected, "{}: {}: {}", subject.name, case.name, shown(text));
                    }
                    let Some(token) = spelling.next() else { break };
                    plain.advance(&mut state.0, &mut state.1, token).unwrap();
                    for (other, (scratch, state)) in others.iter().zip(&mut states) {
                        other.advance(scratch, state, token).unwrap();
                    }
                }
            }
        }
    }
}

/// A clone is independent, an earlier state can be resumed, and a replay in another scratch yields the same masks.
#[test]
fn forks_are_replays() {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for case in cases() {
        let subject = vocabularies::toy(&case.controls);
        let constraint = constraint(&case, &subject, &GrammarLimits::default());
        let (mut scratch, mut other) = (constraint.scratch(), constraint.scratch());
        let mask = |scratch: &mut GrammarScratch, state: &GrammarState| {
            let mut mask = TokenMask::new(constraint.vocab_len());
            constraint.fill_mask(scratch, state, mask.as_mut());
            mask
        };
        // All states so far, each with its tokens. The next step continues from any of them.
        let mut states: Vec<(GrammarState, Vec<TokenId>)> = vec![(constraint.start(), Vec::new())];
        for _ in 0..if DEBUG { 20 } else { 80 } {
            // Usually from the last one, so that paths get longer than the tokens that a state holds.
            let from =
                if below(&mut random, 4) > 0 { states.len() - 1 } else { below(&mut random, states.len()) };
            let (mut state, mut path) = states[from].clone();
            let allowed: Vec<TokenId> = mask(&mut scratch, &state).ids().collect();
            if allowed.is_empty() {
                continue;
            }
            let token = allowed[below(&mut random, allowed.len())];
            constraint.advance(&mut scratch, &mut state, token).unwrap();
            path.push(token);
            states.push((state, path));
        }
        for (state, path) in &states {
            let (mut fresh, mut replayed) = (constraint.scratch(), constraint.start());
            for token in path {
                constraint.advance(&mut fresh, &mut replayed, *token).unwrap();
            }
            let expected = mask(&mut fresh, &replayed);
            for scratch in [&mut scratch, &mut other, &mut fresh] {
                assert_eq!(mask(scratch, state), expected, "{}: {path:?}", case.name);
            }
            assert_eq!(constraint.is_accepting(state), constraint.is_accepting(&replayed), "{}", case.name);
        }
    }
}
