//! ASAp as the research code lays it out, written plainly, beside ours: time without the model's and memory for an output.
//!
//! In that design a visited prefix has a child for every token that the mask allows, each with its probability and its bound;
//! each token of each output is a call of the model, also where the prefix is known; and after each token the bounds are added
//! up anew to the root, over all children. Here it is in Rust, with flat nodes and one sum for a node where the published code, in Python,
//! makes one for each child: so what is measured is the design and not the language. Both use the same masks. The design keeps
//! outputs that are cut off at the length limit; ours begins another, so that it needs more positions where that happens often.

use std::fmt;

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use unskew_core::{Constraint, Extension, LanguageModel, Logits, Rows, Sampler, TokenId, TokenMask};
use unskew_grammars::{Grammar, GrammarConstraint, GrammarFormat, GrammarLimits};
use unskew_samplers::{Asap, Task};
use unskew_schema::{SchemaLimits, SchemaOptions, Whitespace};

use super::{Report, TRIES};
use crate::{
    Subject,
    clock::Moment,
    rows::{RowModel, RowOf},
    subject,
};

/// Of the embedded vocabulary, and of one of 100,000 tokens, on which the design takes 400 MB for an output of the record.
const OUTPUTS: [(&str, usize); 2] = [("tiny", 2_000), ("cl100k", 100)];
const MAX_TOKENS: usize = 96;

/// The design ends where it takes more than this, in bytes.
const MOST: usize = 1 << 30;

/// A model that costs a copy: one of a few rows, by the last two tokens. Logits fall with the logarithm of a rank that differs from row
/// to row.
#[derive(Debug)]
struct Few {
    rows: Vec<Vec<f32>>,
}

impl Few {
    fn model(vocab_len: usize) -> RowModel<Self> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut row = || {
            #[allow(clippy::cast_possible_truncation, reason = "logits are f32")]
            let mut row: Vec<f32> =
                (0..vocab_len).map(|rank| -1.5 * ((rank + 1) as f64).ln() as f32).collect();
            for index in (1..vocab_len).rev() {
                row.swap(index, rng.next_u32() as usize % (index + 1));
            }
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

    /// One output; `end` is a token like others, allowed where the constraint accepts.
    fn draw<M: LanguageModel<Error: fmt::Debug>, C: Constraint>(
        &mut self,
        model: &mut M,
        constraint: &C,
        scratch: &mut C::Scratch,
        end: TokenId,
        rng: &mut ChaCha8Rng,
    ) -> Vec<TokenId> {
        let (mut sequence, mut logits) = (model.start(), Logits::new());
        let (mut state, mut mask) = (constraint.start(), TokenMask::new(constraint.vocab_len()));
        let (mut at, mut output, mut last) = (Self::ROOT, Vec::new(), end);
        while output.len() <= MAX_TOKENS {
            let extension = Extension { sequence: &mut sequence, tokens: &[last], rows: Rows::Last };
            model.extend(&mut [extension], &mut logits).expect("any token is known");
            constraint.fill_mask(scratch, &state, mask.as_mut());
            if self.nodes[at as usize].children.is_empty() {
                let row = logits.row(0);
                let greatest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let weight = |id: TokenId| f64::from(row[id.index()] - greatest).exp();
                let total: f64 = (0..row.len()).map(TokenId::from_index).map(weight).sum();
                let ends = constraint.is_accepting(&state).then_some(end);
                for token in mask.ids().filter(|id| *id != end).chain(ends) {
                    let child = u32::try_from(self.nodes.len()).expect("memory ends before");
                    self.nodes.push(Child::new(at, token, weight(token) / total));
                    self.nodes[at as usize].children.push(child);
                }
            }
            self.update(at);
            let weights = self.nodes[at as usize].children.iter().map(|child| self.weight(*child));
            let mut left = f64::from(rng.next_u32()) / 4_294_967_296.0 * weights.clone().sum::<f64>();
            let drawn = weights.clone().position(|weight| {
                left -= weight;
                left < 0.0
            });
            let Some(drawn) = drawn else { break };
            at = self.nodes[at as usize].children[drawn];
            last = self.nodes[at as usize].token;
            if last == end {
                break;
            }
            constraint.advance(scratch, &mut state, last).expect("a token of the mask");
            output.push(last);
        }
        output
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

/// What a run took for each output: microseconds without the model's, bytes, positions.
struct Cost {
    us: f64,
    bytes: f64,
    positions: f64,
}

fn cost<M>(begin: Moment, model: &Timed<M>, bytes: usize, outputs: usize) -> Cost {
    let outputs = outputs as f64;
    Cost {
        us: begin.ns().saturating_sub(model.ns) as f64 / outputs / 1_000.0,
        bytes: bytes as f64 / outputs,
        positions: model.positions as f64 / outputs,
    }
}

/// Measures.
pub(super) fn report(out: &mut Report) {
    crate::clock::use_cpu_time();
    out.line(format_args!(
        "\n## Beside the design of the research code\n\nASAp, outputs of at most {MAX_TOKENS} tokens of a synthetic model; of the design as many as it holds in a \
         gigabyte. `design`: a child for each allowed token, a model call for each token and sums to the root after \
         each, in Rust and with our masks. Microseconds of the process without the model's, bytes and positions, each for one output; bytes are those of \
         the prefixes, and with `rows` of those of the cached rows too.\n\n\
         | vocabulary | constraint | sampler | outputs | us | bytes | with rows | positions |\n|---|---|---|--:|--:|--:|--:|--:|"
    ));
    for (name, many) in OUTPUTS {
        let Ok(Some(subject)) = subject(name) else { continue };
        let few = Few::model(subject.vocabulary.len());
        let mut timed = Timed { model: few, ns: 0, positions: 0 };
        for (constraint_name, constraint) in constraints(&subject) {
            let end = subject.end();
            let (mut research, mut rng) = (Research::new(), ChaCha8Rng::seed_from_u64(1));
            let mut scratch = constraint.scratch();
            (timed.ns, timed.positions) = (0, 0);
            let begin = Moment::now();
            let mut outputs = 0;
            while outputs < many && research.nodes.len() * size_of::<Child>() < MOST {
                research.draw(&mut timed, &constraint, &mut scratch, end, &mut rng);
                outputs += 1;
            }
            let design = cost(begin, &timed, research.bytes(), outputs);
            drop(research);
            let Cost { us, bytes, positions } = design;
            out.line(format_args!(
                "| {name} | {constraint_name} | design | {outputs} | {us:.1} | {bytes:.0} | {bytes:.0} | {positions:.1} |"
            ));

            (timed.ns, timed.positions) = (0, 0);
            let begin = Moment::now();
            let task = Task::new(&mut timed, &constraint, &subject.vocabulary, MAX_TOKENS).after(vec![end]);
            let mut asap = Asap::new(Task { batch: 1, max_bytes: MOST, ..task }, TRIES);
            let mut rng = ChaCha8Rng::seed_from_u64(1);
            for _ in 0..many {
                asap.draw(&mut rng).expect("some outputs are short");
            }
            let usage = asap.usage();
            drop(asap);
            let Cost { us, bytes, positions } = cost(begin, &timed, usage.trie_bytes, many);
            let rows = usage.row_bytes as f64 / many as f64 + bytes;
            out.line(format_args!(
                "| {name} | {constraint_name} | asap | {many} | {us:.1} | {bytes:.0} | {rows:.0} | {positions:.1} |"
            ));
            out.line(format_args!(
                "| {name} | {constraint_name} | times less | | {:.1} | {:.1} | {:.1} | {:.1} |",
                design.us / us,
                design.bytes / bytes,
                design.bytes / rows,
                design.positions / positions
            ));
        }
    }
}
