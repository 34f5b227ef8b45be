//! A whole step on the device: masks, masses and the next token of many sequences, from logits that lie there already.
//!
//! ```text
//! up: intervals, random numbers  ->  interval_mask -> masked_choice -> interval_step  ->  down: tokens, numbers, intervals
//! up: mask words, random numbers ->                   masked_choice                   ->  down: tokens, numbers
//! ```
//!
//! One submission and one read-back for a step, of 44 bytes a sequence in place of four bytes for each id of the vocabulary.
//! The interval travels with the choice (24 bytes up and down) and is not left on the device: so a batch may change from step
//! to step, sequences may be forked and given up, and nothing on the device has to be told. What a step costs beside the
//! kernels is the wait for the device, which 24 bytes do not change.

use std::sync::Arc;

use unskew_core::{MaskBatch, TokenId, words_for};
use unskew_shaders::{
    BROKEN, END, INTERVAL_MASK, INTERVAL_STEP, Interval, Kernel, MASKED_CHOICE, MaskedChoice, NONE,
};
use wgpu::BufferUsages;

use super::{
    device::{Gpu, GpuError, to_bytes},
    set::{GpuSet, to_words},
};

/// Words that come back for a row: the token, four numbers, and the interval.
const CHOSEN: usize = 1 + 4;
const INTERVAL: usize = 6;

/// Rows of logits in a buffer of the device: 32-bit floats, one row after the other.
///
/// What fills them must have been submitted to the queue before.
#[derive(Clone, Copy, Debug)]
pub struct LogitRows<'a> {
    /// Where they lie. It must allow use as a storage buffer.
    pub buffer: &'a wgpu::Buffer,
    /// Where the first row begins, in bytes: a multiple of the alignment that the device wants of storage buffers.
    pub offset: u64,
    /// How many there are.
    pub rows: usize,
    /// The length of a row.
    pub vocab_len: usize,
}

/// How the next token is chosen among what is allowed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Rule<'a> {
    /// The most probable. Of equal ones the end of the sequence, and then the lowest id.
    Greedy,
    /// By the model's distribution at this temperature, renormalised: by random numbers, one of 32 bits for each row.
    Sample {
        /// The temperature, above zero.
        temperature: f32,
        /// The random numbers.
        random: &'a [u32],
    },
}

/// What comes next in a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Next {
    /// A token.
    Token(TokenId),
    /// The end of the sequence.
    End,
    /// Nothing: the model gives probability zero to all that is allowed, or nothing is.
    Nothing,
}

/// The choice for one sequence. Logarithms are natural, of the model's distribution at the temperature, and exact up to about 1e-4.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Choice {
    /// What was chosen.
    pub next: Next,
    /// The logarithm of its probability under the model; minus infinity for nothing.
    pub log_prob: f32,
    /// The logarithm of the probability that the model gives to all that is allowed: DISC's weight of the step, and what
    /// `log_prob` is less than the logarithm of the probability with which it was chosen. Minus infinity for nothing.
    pub log_mass: f32,
}

/// Chooses next tokens on a device. Buffers are kept from step to step.
#[derive(Debug)]
pub struct Chooser {
    gpu: Arc<Gpu>,
    /// The ids that end a sequence.
    ends: wgpu::Buffer,
    end_count: u32,
    shape: wgpu::Buffer,
    buffers: Option<Buffers>,
}

/// The buffers of a step.
#[derive(Debug)]
struct Buffers {
    /// The rows, and the words of masks, that there is room for.
    rows: usize,
    mask_words: usize,
    intervals: wgpu::Buffer,
    masks: wgpu::Buffer,
    random: wgpu::Buffer,
    tokens: wgpu::Buffer,
    choices: wgpu::Buffer,
    back: wgpu::Buffer,
}

/// Where masks come from.
enum Masks<'a> {
    Set(&'a GpuSet),
    Words(&'a MaskBatch),
}

impl Chooser {
    /// A chooser on `gpu`, for sequences that any of the ids `end` ends. Drawing any of them is one event; it is allowed where
    /// a sequence may end, and the masks say nothing about it.
    ///
    /// # Errors
    ///
    /// [`GpuError::Failed`] where the device has no memory left.
    pub fn new(gpu: Arc<Gpu>, end: &[TokenId]) -> Result<Self, GpuError> {
        let ids: Vec<u32> = end.iter().map(|id| id.0).collect();
        let (ends, shape) = gpu.with_memory(|gpu| {
            let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
            (gpu.upload(&ids, BufferUsages::STORAGE), gpu.upload(&[0; 8], usage))
        })?;
        Ok(Self { gpu, ends, end_count: ids.len() as u32, shape, buffers: None })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The next token of each sequence among those that `set` allows behind its interval, which becomes the interval behind the
    /// token that was chosen; where none was, it is no longer valid.
    ///
    /// # Errors
    ///
    /// [`GpuError`], [`NotADistribution`](GpuError::NotADistribution) where a row of logits is none. The intervals have not
    /// changed then.
    ///
    /// # Panics
    ///
    /// If there is not an interval and a random number for each row, if the temperature is not above zero and finite, or if
    /// the set lies on another device.
    pub fn in_set(
        &mut self,
        set: &GpuSet,
        intervals: &mut [Interval],
        logits: LogitRows<'_>,
        rule: Rule<'_>,
    ) -> Result<Vec<Choice>, GpuError> {
        assert!(set.is_on(&self.gpu), "the set lies on the device of the logits");
        let words = self.run(&Masks::Set(set), intervals, logits, rule)?;
        let choices = choices(&words, intervals.len())?;
        let after = words[CHOSEN * intervals.len()..].as_chunks().0;
        for ((interval, after), choice) in intervals.iter_mut().zip(after).zip(&choices) {
            *interval = Interval::from_words(*after);
            if !matches!(choice.next, Next::Token(_)) {
                interval.valid = 0;
            }
        }
        Ok(choices)
    }

    /// The next token of each sequence among those of its mask, and the end where it may end: for any constraint whose masks
    /// the CPU makes. They are uploaded, 4 bytes for 32 ids, and applied there.
    ///
    /// # Errors
    ///
    /// As [`in_set`](Self::in_set).
    ///
    /// # Panics
    ///
    /// If there is not a mask, a word on the end, and a random number for each row, or if the temperature is not above zero
    /// and finite.
    pub fn masked(
        &mut self,
        masks: &MaskBatch,
        may_end: &[bool],
        logits: LogitRows<'_>,
        rule: Rule<'_>,
    ) -> Result<Vec<Choice>, GpuError> {
        assert_eq!(masks.rows(), may_end.len(), "a mask for each row");
        let interval =
            |may_end: &bool| Interval { ends: u32::from(*may_end), valid: 1, ..Interval::default() };
        let intervals: Vec<Interval> = may_end.iter().map(interval).collect();
        let words = self.run(&Masks::Words(masks), &intervals, logits, rule)?;
        choices(&words, intervals.len())
    }

    /// The words that come back: tokens, then four numbers a row, and with a set the intervals.
    fn run(
        &mut self,
        masks: &Masks<'_>,
        intervals: &[Interval],
        logits: LogitRows<'_>,
        rule: Rule<'_>,
    ) -> Result<Vec<u32>, GpuError> {
        let LogitRows { rows, vocab_len, .. } = logits;
        assert_eq!(intervals.len(), rows, "a row of logits for each sequence");
        if rows == 0 {
            return Ok(Vec::new());
        }
        let (greedy, temperature, random) = match rule {
            Rule::Greedy => (1, 1.0, &[][..]),
            Rule::Sample { temperature, random } => {
                assert_eq!(random.len(), rows, "a random number for each row");
                (0, temperature, random)
            }
        };
        assert!(temperature > 0.0 && temperature.is_finite(), "a temperature above zero, not {temperature}");
        let ids = match masks {
            Masks::Set(set) => set.vocab_len(),
            Masks::Words(masks) => masks.vocab_len(),
        };
        let mask_words = words_for(ids);
        let gpu = Arc::clone(&self.gpu);
        let bytes = logits_bytes(&logits);
        gpu.fits("the logits of a batch", bytes, gpu.max_binding().min(logits.buffer.size()))?;
        let end_count = self.end_count;
        let shape = [
            rows as u32,
            vocab_len as u32,
            mask_words as u32,
            end_count,
            greedy,
            temperature.recip().to_bits(),
            0,
            0,
        ];
        self.make_room(rows, mask_words)?;
        let (ends, of_shape) = (&self.ends, &self.shape);
        let Some(buffers) = &self.buffers else { unreachable!("there is room") };

        let queue = gpu.queue();
        queue.write_buffer(of_shape, 0, &to_bytes(&shape));
        queue.write_buffer(&buffers.intervals, 0, &to_bytes(&to_words(intervals)));
        if !random.is_empty() {
            queue.write_buffer(&buffers.random, 0, &to_bytes(random));
        }
        if let Masks::Words(masks) = masks {
            let words: Vec<u32> = (0..rows).flat_map(|row| masks.row(row).words()).copied().collect();
            queue.write_buffer(&buffers.masks, 0, &to_bytes(&words));
        }

        let part = |buffer, words: usize| bound(buffer, 0, 4 * words);
        let of_masks = part(&buffers.masks, (rows * mask_words).max(1));
        let of_intervals = part(&buffers.intervals, INTERVAL * rows);
        let tokens = part(&buffers.tokens, rows);
        let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            let mut dispatch = |kernel: &Kernel, groups, given: Vec<wgpu::BufferBinding<'_>>| {
                let [row, rows] = gpu.grid(kernel, groups)?;
                let pipeline = gpu.pipeline(kernel);
                let entries: Vec<wgpu::BindGroupEntry<'_>> = (0..)
                    .zip(given)
                    .map(|(binding, given)| wgpu::BindGroupEntry {
                        binding,
                        resource: wgpu::BindingResource::Buffer(given),
                    })
                    .collect();
                let bind_group = gpu.device().create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(kernel.name),
                    layout: &pipeline.get_bind_group_layout(0),
                    entries: &entries,
                });
                pass.set_pipeline(pipeline);
                pass.set_bind_group(0, &bind_group, &[]);
                pass.dispatch_workgroups(row, rows, 1);
                Ok::<_, GpuError>(())
            };
            if let Masks::Set(set) = masks
                && mask_words > 0
            {
                dispatch(&INTERVAL_MASK, rows, over_set(set, [of_intervals.clone(), of_masks.clone()]))?;
            }
            let given = vec![
                bound(logits.buffer, logits.offset, bytes),
                of_masks,
                of_intervals.clone(),
                ends.as_entire_buffer_binding(),
                part(&buffers.random, rows),
                of_shape.as_entire_buffer_binding(),
                tokens.clone(),
                part(&buffers.choices, 4 * rows),
            ];
            dispatch(&MASKED_CHOICE, rows, given)?;
            if let Masks::Set(set) = masks {
                let groups = rows.div_ceil(INTERVAL_STEP.workgroup as usize);
                dispatch(&INTERVAL_STEP, groups, over_set(set, [tokens, of_intervals]))?;
            }
        }
        let mut parts = vec![(&buffers.tokens, rows), (&buffers.choices, 4 * rows)];
        if matches!(masks, Masks::Set(_)) {
            parts.push((&buffers.intervals, INTERVAL * rows));
        }
        let mut words = 0;
        for (buffer, len) in parts {
            encoder.copy_buffer_to_buffer(buffer, 0, &buffers.back, 4 * words as u64, 4 * len as u64);
            words += len;
        }
        queue.submit([encoder.finish()]);
        gpu.read(&buffers.back, words)
    }

    /// Makes buffers for so many rows and masks of so many words, if those that there are do not suffice.
    fn make_room(&mut self, rows: usize, mask_words: usize) -> Result<(), GpuError> {
        let enough = |buffers: &Buffers| rows <= buffers.rows && mask_words <= buffers.mask_words;
        if self.buffers.as_ref().is_some_and(enough) {
            return Ok(());
        }
        let gpu = &self.gpu;
        let back = (CHOSEN + INTERVAL) * rows;
        let masks = (rows * mask_words).max(1);
        gpu.fits("the numbers of a batch", 4 * back.max(masks), gpu.max_binding())?;
        self.buffers = None;
        let buffers = gpu.with_memory(|gpu| {
            let make = |words: usize, usage| {
                gpu.device().create_buffer(&wgpu::BufferDescriptor {
                    label: None,
                    size: 4 * words as u64,
                    usage,
                    mapped_at_creation: false,
                })
            };
            let (up, down) = (BufferUsages::COPY_DST, BufferUsages::COPY_SRC);
            let here = BufferUsages::STORAGE;
            Buffers {
                rows,
                mask_words,
                intervals: make(INTERVAL * rows, here | up | down),
                masks: make(masks, here | up),
                random: make(rows, here | up),
                tokens: make(rows, here | down),
                choices: make(4 * rows, here | down),
                back: make(back, BufferUsages::MAP_READ | up),
            }
        })?;
        self.buffers = Some(buffers);
        Ok(())
    }
}

/// The bindings of a kernel over a set.
fn over_set<'a>(set: &'a GpuSet, more: [wgpu::BufferBinding<'a>; 2]) -> Vec<wgpu::BufferBinding<'a>> {
    set.buffers().map(wgpu::Buffer::as_entire_buffer_binding).chain(more).collect()
}

fn logits_bytes(logits: &LogitRows<'_>) -> usize {
    4 * logits.rows * logits.vocab_len
}

fn bound(buffer: &wgpu::Buffer, offset: u64, bytes: usize) -> wgpu::BufferBinding<'_> {
    wgpu::BufferBinding { buffer, offset, size: wgpu::BufferSize::new(bytes as u64) }
}

/// Reads tokens and four numbers for each of so many rows.
fn choices(words: &[u32], rows: usize) -> Result<Vec<Choice>, GpuError> {
    let (tokens, rest) = words.split_at(rows);
    let numbers = &rest.as_chunks::<4>().0[..rows];
    let rows = tokens.iter().zip(numbers).enumerate();
    let choice = |(row, (token, numbers)): (usize, (&u32, &[u32; 4]))| {
        let [logit, log_sum, log_sum_allowed, log_mass] = numbers.map(f32::from_bits);
        let chosen = MaskedChoice { token: *token, logit, log_sum, log_sum_allowed, log_mass };
        let next = match chosen.token {
            BROKEN => return Err(GpuError::NotADistribution { row }),
            NONE => Next::Nothing,
            END => Next::End,
            token => Next::Token(TokenId(token)),
        };
        Ok(match next {
            Next::Nothing => Choice { next, log_prob: f32::NEG_INFINITY, log_mass: f32::NEG_INFINITY },
            _ => Choice { next, log_prob: (logit - log_sum).min(0.0), log_mass },
        })
    };
    rows.map(choice).collect()
}
