//! Chooses next tokens on the device of the logits: questions go up, and a token with four numbers comes back for each
//! question.
//!
//! A model on a GPU leaves its logits in a buffer of the device. The caller lends a [`Chooser`] that buffer
//! ([`LogitBuffer`]). The chooser answers any number of questions about its rows in one submission and one read-back:
//! 20 bytes a question in place of four bytes for each id of the vocabulary. A mask travels with its question, 4
//! bytes for 32 ids.
//!
//! Tried instead: a chooser that knows sets, follows their intervals on the device and needs no masks. It saved the
//! upload of the masks, but it served sets alone and needed samplers of its own.

use std::sync::Arc;

use unskew_core::{MaskBatch, TokenId};
use unskew_shaders::{
    BROKEN, CHOICE_PART_WORDS, END, Kernel, LOWEST, MASKED_CHOICE, NONE, ROW_PARTS, choice_parts,
};
use wgpu::BufferUsages;

use super::device::{Gpu, GpuError, to_bytes};

/// The words of a question, and the numbers that an answer has in addition to its token.
const QUESTION: usize = 4;
const NUMBERS: usize = 4;

/// Rows of logits in a buffer of the device: 32-bit floats, one row after the other.
///
/// The work that fills them must have been submitted to the queue before.
#[derive(Clone, Copy, Debug)]
pub struct LogitBuffer<'a> {
    /// The buffer. It must allow use as a storage buffer.
    pub buffer: &'a wgpu::Buffer,
    /// The first byte of the first row: a multiple of the device's alignment for storage buffers.
    pub offset: u64,
    /// The number of rows.
    pub rows: usize,
    /// The length of a row.
    pub vocab_len: usize,
}

/// The rule that selects an outcome among the allowed ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rule {
    /// The most probable outcome. Among equally probable ones: the end of the sequence, then the lowest id.
    Greedy,
    /// An outcome in proportion to its probability, by the upper 24 bits of this number.
    Sample(u32),
}

/// A question about a row; the call brings its mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChoiceQuestion {
    /// The row of logits.
    pub row: usize,
    /// Whether the sequence may end.
    pub may_end: bool,
    /// The outcome that is wanted.
    pub rule: Rule,
}

/// The outcome of a question: the continuation of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// A token.
    Token(TokenId),
    /// The end of the sequence.
    End,
    /// No outcome: no outcome is allowed, or the model gives probability zero to all that are.
    Nothing,
}

/// The answer to a question. Logarithms are natural, of the model's distribution at the temperature, and exact up to
/// about 1e-4.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// The outcome.
    pub next: Next,
    /// The logarithm of the outcome's probability under the model; minus infinity for [`Next::Nothing`].
    pub log_prob: f32,
    /// The logarithm of the probability that the model gives to the end; minus infinity where the sequence may not end.
    pub log_end: f32,
    /// The logarithm of the probability that the model gives to the tokens of the mask together.
    pub log_mass: f32,
}

/// Chooses next tokens on a device. Buffers are kept from call to call.
#[derive(Debug)]
pub struct Chooser {
    gpu: Arc<Gpu>,
    shape: wgpu::Buffer,
    buffers: Option<Buffers>,
}

/// The buffers of a call.
#[derive(Debug)]
struct Buffers {
    /// The capacity: the number of questions, the words of a mask, the number of ids that end the sequence, and the
    /// parts of a row.
    questions_len: usize,
    mask_words: usize,
    ends_len: usize,
    parts_len: usize,
    masks: wgpu::Buffer,
    questions: wgpu::Buffer,
    ends: wgpu::Buffer,
    /// The parts of the rows, which one kernel writes and the other one reads.
    parts: wgpu::Buffer,
    tokens: wgpu::Buffer,
    choices: wgpu::Buffer,
    back: wgpu::Buffer,
}

impl Chooser {
    /// A chooser on `gpu`.
    ///
    /// # Errors
    ///
    /// [`GpuError::Failed`] where the device has no memory left.
    pub fn new(gpu: Arc<Gpu>) -> Result<Self, GpuError> {
        let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
        let shape = gpu.with_memory(|gpu| gpu.upload(&[0; 8], usage))?;
        Ok(Self { gpu, shape, buffers: None })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The answers to questions about rows of logits. Mask `i` says which tokens may follow in question `i`. The ids
    /// `ends` end the sequence; together they are one outcome. The masks are uploaded and applied on the device.
    ///
    /// # Errors
    ///
    /// [`GpuError`]: [`NotADistribution`](GpuError::NotADistribution) where a row of logits is no distribution.
    ///
    /// # Panics
    ///
    /// If the numbers of masks and questions differ, a question is about a row that does not exist, or the
    /// temperature is not above zero and finite.
    pub fn answer(
        &mut self,
        logits: LogitBuffer<'_>,
        temperature: f32,
        ends: &[TokenId],
        questions: &[ChoiceQuestion],
        masks: &MaskBatch,
    ) -> Result<Vec<Choice>, GpuError> {
        assert_eq!(masks.rows(), questions.len(), "a mask for each question");
        assert!(questions.iter().all(|question| question.row < logits.rows), "questions are about rows");
        assert!(temperature > 0.0 && temperature.is_finite(), "a temperature above zero, not {temperature}");
        if questions.is_empty() {
            return Ok(Vec::new());
        }
        let words = self.run(logits, temperature, ends, questions, masks)?;
        choices(&words, questions)
    }

    /// The words of the read-back: the tokens, then four numbers for each question.
    fn run(
        &mut self,
        logits: LogitBuffer<'_>,
        temperature: f32,
        ends: &[TokenId],
        questions: &[ChoiceQuestion],
        masks: &MaskBatch,
    ) -> Result<Vec<u32>, GpuError> {
        let count = questions.len();
        let mask_words = masks.row(0).words().len();
        let gpu = Arc::clone(&self.gpu);
        let bytes = 4 * logits.rows * logits.vocab_len;
        gpu.fits("the logits of a batch", bytes, gpu.max_binding().min(logits.buffer.size()))?;
        let parts = choice_parts(logits.vocab_len);
        self.make_room(count, mask_words, ends.len(), parts)?;
        let of_shape = &self.shape;
        let Some(buffers) = &self.buffers else { unreachable!("there is room") };

        let queue = gpu.queue();
        let scale = temperature.recip().to_bits();
        let [questions_len, vocab_len, ends_len] =
            [count, logits.vocab_len, ends.len()].map(|len| len as u32);
        let shape = [questions_len, vocab_len, mask_words as u32, ends_len, scale, parts as u32, 0, 0];
        queue.write_buffer(of_shape, 0, &to_bytes(&shape));
        let words: Vec<u32> = questions.iter().flat_map(to_words).collect();
        queue.write_buffer(&buffers.questions, 0, &to_bytes(&words));
        let ids: Vec<u32> = ends.iter().map(|id| id.0).collect();
        queue.write_buffer(&buffers.ends, 0, &to_bytes(&ids));
        queue.write_buffer(&buffers.masks, 0, &to_bytes(masks.words()));

        let part = |buffer, words: usize| bound(buffer, 0, 4 * words.max(1));
        let of_rows = [
            bound(logits.buffer, logits.offset, bytes),
            part(&buffers.masks, count * mask_words),
            of_shape.as_entire_buffer_binding(),
            part(&buffers.questions, QUESTION * count),
            part(&buffers.parts, CHOICE_PART_WORDS * parts * count),
        ];
        let of_answers = [
            part(&buffers.ends, ends.len()),
            part(&buffers.tokens, count),
            part(&buffers.choices, NUMBERS * count),
        ];
        let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        dispatch(&gpu, &mut encoder, &ROW_PARTS, parts * count, of_rows.iter())?;
        dispatch(&gpu, &mut encoder, &MASKED_CHOICE, count, of_rows.iter().chain(&of_answers))?;
        let mut words = 0;
        for (buffer, len) in [(&buffers.tokens, count), (&buffers.choices, NUMBERS * count)] {
            encoder.copy_buffer_to_buffer(buffer, 0, &buffers.back, 4 * words as u64, 4 * len as u64);
            words += len;
        }
        queue.submit([encoder.finish()]);
        gpu.read(&buffers.back, words)
    }

    /// Makes buffers for `count` questions, masks of `mask_words` words, `ends` ids and rows of `row_parts` parts, if
    /// the present buffers are too small.
    fn make_room(
        &mut self,
        count: usize,
        mask_words: usize,
        ends: usize,
        row_parts: usize,
    ) -> Result<(), GpuError> {
        let enough = |buffers: &Buffers| {
            count <= buffers.questions_len
                && mask_words <= buffers.mask_words
                && ends <= buffers.ends_len
                && row_parts <= buffers.parts_len
        };
        if self.buffers.as_ref().is_some_and(enough) {
            return Ok(());
        }
        let gpu = &self.gpu;
        let back = (1 + NUMBERS) * count;
        let masks = (count * mask_words).max(1);
        let parts = (CHOICE_PART_WORDS * row_parts * count).max(1);
        gpu.fits("the numbers of a batch", 4 * back.max(masks).max(parts), gpu.max_binding())?;
        self.buffers = None;
        let buffers = gpu.with_memory(|gpu| {
            let make = |words: usize, usage| {
                gpu.device().create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: 4 * words.max(1) as u64,
                    usage,
                    mapped_at_creation: false,
                })
            };
            let (up, down) = (BufferUsages::COPY_DST, BufferUsages::COPY_SRC);
            let here = BufferUsages::STORAGE;
            Buffers {
                questions_len: count,
                mask_words,
                ends_len: ends,
                parts_len: row_parts,
                masks: make(masks, here | up),
                questions: make(QUESTION * count, here | up),
                ends: make(ends, here | up),
                parts: make(parts, here),
                tokens: make(count, here | down),
                choices: make(NUMBERS * count, here | down),
                back: make(back, BufferUsages::MAP_READ | up),
            }
        })?;
        self.buffers = Some(buffers);
        Ok(())
    }
}

fn to_words(question: &ChoiceQuestion) -> [u32; QUESTION] {
    let (greedy, random) = match question.rule {
        Rule::Greedy => (1, 0),
        Rule::Sample(random) => (0, random),
    };
    [question.row as u32, question.may_end.into(), greedy, random]
}

/// Records `groups` workgroups of a kernel with these buffers, in the order of its bindings.
fn dispatch<'a>(
    gpu: &Gpu,
    encoder: &mut wgpu::CommandEncoder,
    kernel: &Kernel,
    groups: usize,
    given: impl Iterator<Item = &'a wgpu::BufferBinding<'a>>,
) -> Result<(), GpuError> {
    let [row, rows] = gpu.grid(kernel, groups)?;
    let pipeline = gpu.pipeline(kernel);
    let entries: Vec<wgpu::BindGroupEntry<'_>> = (0..)
        .zip(given)
        .map(|(binding, given)| wgpu::BindGroupEntry {
            binding,
            resource: wgpu::BindingResource::Buffer(given.clone()),
        })
        .collect();
    let bind_group = gpu.device().create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some(kernel.name),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &entries,
    });
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, &bind_group, &[]);
    pass.dispatch_workgroups(row, rows, 1);
    Ok(())
}

fn bound(buffer: &wgpu::Buffer, offset: u64, bytes: usize) -> wgpu::BufferBinding<'_> {
    wgpu::BufferBinding { buffer, offset, size: wgpu::BufferSize::new(bytes as u64) }
}

/// Reads a token and four numbers for each question.
fn choices(words: &[u32], questions: &[ChoiceQuestion]) -> Result<Vec<Choice>, GpuError> {
    let (tokens, numbers) = words.split_at(questions.len());
    let answers = questions.iter().zip(tokens).zip(numbers.as_chunks::<NUMBERS>().0);
    answers
        .map(|((question, token), numbers)| {
            let [logit, log_sum, log_end, log_tokens] = numbers.map(f32::from_bits);
            let next = match *token {
                BROKEN => return Err(GpuError::NotADistribution { row: question.row }),
                NONE => Next::Nothing,
                END => Next::End,
                token => Next::Token(TokenId(token)),
            };
            let of = |log: f32| if log <= LOWEST { f32::NEG_INFINITY } else { (log - log_sum).min(0.0) };
            let log_prob = if next == Next::Nothing { f32::NEG_INFINITY } else { of(logit) };
            Ok(Choice { next, log_prob, log_end: of(log_end), log_mass: of(log_tokens) })
        })
        .collect()
}
