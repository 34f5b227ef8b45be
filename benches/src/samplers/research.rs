//! ASAp as the research code lays it out, written plainly, beside ours: time without the model's and memory for an output.
//!
//! In that design a visited prefix has a child for every token that the mask allows, each with its probability and its bound;
//! each token of each output is a call of the model, also where the prefix is known; and after each token the bounds are added
//! up anew to the root, over all children. Here it is in Rust, with flat nodes and one sum for a node where the published code, in Python,
//! makes one for each child: so what is measured is the design and not the language.
//!
//! Both use the same masks, the same model and seed, and the same policy at the length limit: only the end is left there, a
//! prefix without it has the bound 0, and another output is begun. (The published code keeps outputs that are cut off, and never lowers
//! their bound.) Both give the same number of complete outputs.

use std::fmt;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{
    Constraint, Extension, LanguageModel, Logits, Rows, Sampler, TokenId, TokenMask, Vocabulary,
};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarFormat, GrammarLimits};
use unskew_samplers::{Asap, Sampling, Task};
use unskew_schema::{SchemaLimits, SchemaOptions, Whitespace};

use super::{Report, TRIES};
use crate::{
    Subject,
    clock::Moment,
    rows::{RowModel, RowOf},
    subject,
};

/// The embedded vocabulary, and one of 50,000 tokens, on which the design takes some 200 MB for an output of the
/// record.
const VOCABULARIES: [&str; 2] = ["tiny", "gpt2"];
const OUTPUTS: usize = 2_000;
const MAX_TOKENS: usize = 96;

/// The design ends where it takes more than this, in bytes.
const MOST: usize = 1 << 30;

/// A model that costs a copy: one of a few rows, by the last two tokens. Logits fall with the logarithm of a rank that differs from row
/// to row, but digits and quotation marks are more probable, so that terms and strings end.
#[derive(Debug)]
struct Few {
    rows: Vec<Vec<f32>>,
}

impl Few {
    fn model(vocabulary: &Vocabulary) -> RowModel<Self> {
        /// By so much: they are a thousand times more probable than others of their rank.
        const MORE: f32 = 7.0;
        let vocab_len = vocabulary.len();
        let ends = |id: &TokenId| {
            matches!(vocabulary.text(*id), Some([b'0'..=b'9' | b'"' | b'}'] | [b'"', b',' | b'}']))
        };
        let ends: Vec<TokenId> = (0..vocab_len).map(TokenId::from_index).filter(ends).collect();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut row = || {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let mut row: Vec<f32> =
                (0..vocab_len).map(|rank| -1.5 * ((rank + 1) as f64).ln() as f32).collect();
            for index in (1..vocab_len).rev() {
                row.swap(index, rng.next_u32() as usize % (index + 1));
            }
            ends.iter().for_each(|id| row[id.index()] += MORE);
            row
        };
        RowModel(Self { rows: (0..61).map(|_| row()).collect() })
    }
}

impl RowOf for Few {
    fn vocab_len(&self) -> usize {
        self.rows[0].len()
    }

    fn row(&self, sequence: &[TokenId], out: &mut [f32]) {
        let hash = sequence.iter().rev().take(2).fold(7, |hash, token| hash * 31 + token.index());
        out.copy_from_slice(&self.rows[hash % self.rows.len()]);
    }
}

/// A model that counts the time it takes and the positions it evaluates.
#[derive(Debug)]
struct Timed<M> {
    model: M,
    ns: u64,
    positions: u64,
}

impl<M: LanguageModel> LanguageModel for Timed<M> {
    type Sequence = M::Sequence;
    type Error = M::Error;

    fn vocab_len(&self) -> usize {
        self.model.vocab_len()
    }
    fn context_len(&self) -> Option<usize> {
        self.model.context_len()
    }
    fn start(&mut self) -> M::Sequence {
        self.model.start()
    }
    fn len(&self, sequence: &M::Sequence) -> usize {
        self.model.len(sequence)
    }
    fn fork(&mut self, sequence: &M::Sequence) -> M::Sequence {
        self.model.fork(sequence)
    }
    fn truncate(&mut self, sequence: &mut M::Sequence, len: usize) {
        self.model.truncate(sequence, len);
    }
    fn extend(
        &mut self,
        batch: &mut [Extension<'_, M::Sequence>],
        logits: &mut Logits,
    ) -> Result<(), M::Error> {
        let begin = Moment::now();
        self.positions += batch.iter().map(|item| item.tokens.len() as u64).sum::<u64>();
        let result = self.model.extend(batch, logits);
        self.ns += begin.ns();
        result
    }
}

/// A prefix, or a token after one.
#[derive(Debug)]
struct Child {
    parent: u32,
    token: TokenId,
    probability: f64,
    bound: f64,
    children: Vec<u32>,
}

/// The design: see the top of this file.
#[derive(Debug)]
struct Research {
    nodes: Vec<Child>,
}

impl Research {
    const ROOT: u32 = 0;

    fn new() -> Self {
        Self { nodes: vec![Child::new(0, TokenId(0), 1.0)] }
    }

    /// One output.
    fn draw<M: LanguageModel<Error: fmt::Debug>, C: Constraint>(
        &mut self,
        model: &mut M,
        constraint: &C,
        scratch: &mut C::Scratch,
        end: TokenId,
        rng: &mut ChaCha8Rng,
    ) -> Vec<TokenId> {
        loop {
            if let Some(output) = self.attempt(model, constraint, scratch, end, rng) {
                return output;
            }
        }
    }

    /// One output, unless it runs into the length limit; `end` is a token like others, allowed where the constraint accepts.
    fn attempt<M: LanguageModel<Error: fmt::Debug>, C: Constraint>(
        &mut self,
        model: &mut M,
        constraint: &C,
        scratch: &mut C::Scratch,
        end: TokenId,
        rng: &mut ChaCha8Rng,
    ) -> Option<Vec<TokenId>> {
        let (mut sequence, mut logits) = (model.start(), Logits::new());
        let (mut state, mut mask) = (constraint.start(), TokenMask::new(constraint.vocab_len()));
        let (mut at, mut output, mut last) = (Self::ROOT, Vec::new(), end);
        loop {
            let extension = Extension { sequence: &mut sequence, tokens: &[last], rows: Rows::Last };
            model.extend(&mut [extension], &mut logits).expect("any token is known");
            constraint.fill_mask(scratch, &state, mask.as_mut());
            if self.nodes[at as usize].children.is_empty() {
                let row = logits.row(0);
                let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let weight = |id: TokenId| f64::from(row[id.index()] - greatest).exp();
                let total: f64 = (0..row.len()).map(TokenId::from_index).map(weight).sum();
                let ends = constraint.is_accepting(&state).then_some(end);
                let tokens = mask.ids().filter(|id| *id != end && output.len() < MAX_TOKENS);
                for token in tokens.chain(ends) {
                    let child = u32::try_from(self.nodes.len()).expect("memory ends before");
                    self.nodes.push(Child::new(at, token, weight(token) / total));
                    self.nodes[at as usize].children.push(child);
                }
            }
            self.update(at);
            let weights = self.nodes[at as usize].children.iter().map(|child| self.weight(*child));
            let sum: f64 = weights.clone().sum();
            if sum <= 0.0 {
                return None;
            }
            let mut left = f64::from(rng.next_u32()) / 4_294_967_296.0 * sum;
            let drawn = weights.clone().position(|weight| {
                left -= weight;
                left < 0.0
            });
            // Rounding may leave a rest.
            let drawn = drawn.unwrap_or(self.nodes[at as usize].children.len() - 1);
            at = self.nodes[at as usize].children[drawn];
            last = self.nodes[at as usize].token;
            if last == end {
                return Some(output);
            }
            constraint.advance(scratch, &mut state, last).expect("a token of the mask");
            output.push(last);
        }
    }

    fn weight(&self, child: u32) -> f64 {
        let child = &self.nodes[child as usize];
        child.probability * child.bound
    }

    /// Adds the bounds up, from a prefix to the root.
    fn update(&mut self, mut at: u32) {
        loop {
            let sum: f64 = self.nodes[at as usize].children.iter().map(|child| self.weight(*child)).sum();
            self.nodes[at as usize].bound = sum;
            if at == Self::ROOT {
                return;
            }
            at = self.nodes[at as usize].parent;
        }
    }

    fn bytes(&self) -> usize {
        let lists: usize = self.nodes.iter().map(|node| node.children.capacity() * size_of::<u32>()).sum();
        self.nodes.len() * size_of::<Child>() + lists
    }
}

impl Child {
    fn new(parent: u32, token: TokenId, probability: f64) -> Self {
        Self { parent, token, probability, bound: 1.0, children: Vec::new() }
    }
}

/// The constraints: many tokens allowed at a time, and few.
fn constraints(subject: &Subject) -> Vec<(&'static str, GrammarConstraint)> {
    let compile = |grammar: &Grammar| {
        let limits = GrammarLimits::default();
        let (vocabulary, trie) = (subject.vocabulary.clone(), subject.trie.clone());
        GrammarConstraint::new(grammar, vocabulary, trie, &limits).expect("a vocabulary of all bytes")
    };
    let terms = include_str!("../../../examples/bit-vectors/grammar.ebnf");
    let terms = Grammar::parse(terms, GrammarFormat::Ebnf, &GrammarLimits::default()).expect("a grammar");
    let record = include_str!("../../samplers/record.json");
    let mut options = SchemaOptions::default();
    options.whitespace = Whitespace::Compact;
    let record = unskew_schema::grammar(record, &options, &SchemaLimits::default()).expect("a schema");
    vec![("bit vectors in kind", compile(&terms)), ("JSON record", compile(&record))]
}

/// What a run took for each output: microseconds without the model's, bytes without and with rows, positions.
#[derive(Clone, Copy)]
struct Cost {
    outputs: usize,
    us: f64,
    bytes: f64,
    with_rows: f64,
    positions: f64,
}

type Model = Timed<RowModel<Few>>;

fn cost(begin: Moment, model: &Model, bytes: [usize; 2], outputs: usize) -> Cost {
    let count = outputs as f64;
    Cost {
        outputs,
        us: begin.ns().saturating_sub(model.ns) as f64 / count / 1_000.0,
        bytes: bytes[0] as f64 / count,
        with_rows: bytes[1] as f64 / count,
        positions: model.positions as f64 / count,
    }
}

/// The design, as long as it does not take too much memory.
fn design(model: &mut Model, constraint: &GrammarConstraint, end: TokenId) -> Cost {
    let (mut research, mut rng) = (Research::new(), ChaCha8Rng::seed_from_u64(1));
    let mut scratch = constraint.scratch();
    (model.ns, model.positions) = (0, 0);
    let begin = Moment::now();
    let mut outputs = 0;
    while outputs < OUTPUTS && research.nodes.len() * size_of::<Child>() < MOST {
        research.draw(model, constraint, &mut scratch, end, &mut rng);
        outputs += 1;
    }
    cost(begin, model, [research.bytes(); 2], outputs)
}

/// Ours.
fn asap(
    model: &mut Model,
    constraint: &GrammarConstraint,
    vocabulary: &Vocabulary,
    end: TokenId,
    outputs: usize,
) -> Cost {
    (model.ns, model.positions) = (0, 0);
    let begin = Moment::now();
    let mut task = Task::new(&mut *model, constraint, vocabulary, MAX_TOKENS).after(vec![end]);
    (task.batch, task.max_bytes) = (1, MOST);
    let mut asap = Sampling::new(task, Asap::new(TRIES));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for _ in 0..outputs {
        asap.draw(&mut rng).expect("some outputs are short");
    }
    let usage = asap.usage();
    drop(asap);
    cost(begin, model, [usage.trie_bytes, usage.trie_bytes + usage.row_bytes], outputs)
}

/// Measures.
pub(super) fn report(out: &mut Report) {
    crate::clock::use_cpu_time();
    out.line(format_args!(
        "\n## Beside the design of the research code\n\nASAp, {OUTPUTS} outputs of at most {MAX_TOKENS} tokens of a synthetic model; of the design as many as it holds in a \
         gigabyte, and of ours as many beside them. `design`: a child for each allowed token, a model call for each token and sums to the root after \
         each, in Rust and with our masks; as ours, it begins another output where one would be cut off. Microseconds of the process without the model's, bytes and positions, each \
         for one output; bytes are those of the prefixes, and with `rows` of those of the cached rows too.\n\n\
         | vocabulary | constraint | sampler | outputs | us | us a position | bytes | with rows | positions |\n|---|---|---|--:|--:|--:|--:|--:|--:|"
    ));
    for name in VOCABULARIES {
        let Ok(Some(subject)) = subject(name) else { continue };
        let (vocabulary, end) = (&subject.vocabulary, subject.end());
        let mut model = Timed { model: Few::model(vocabulary), ns: 0, positions: 0 };
        for (constraint_name, constraint) in constraints(&subject) {
            let mut line = |sampler: &str, cost: Cost| {
                let Cost { outputs, us, bytes, with_rows, positions } = cost;
                out.line(format_args!(
                    "| {name} | {constraint_name} | {sampler} | {outputs} | {us:.1} | {:.2} | {bytes:.0} | {with_rows:.0} | {positions:.1} |",
                    us / positions
                ));
            };
            let design = design(&mut model, &constraint, end);
            line("design", design);
            let same = asap(&mut model, &constraint, vocabulary, end, design.outputs);
            line("asap", same);
            if design.outputs < OUTPUTS {
                line("asap", asap(&mut model, &constraint, vocabulary, end, OUTPUTS));
            }
            out.line(format_args!(
                "| {name} | {constraint_name} | times less | {} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                design.outputs,
                design.us / same.us,
                design.us / design.positions / (same.us / same.positions),
                design.bytes / same.bytes,
                design.with_rows / same.with_rows,
                design.positions / same.positions
            ));
        }
    }
}
