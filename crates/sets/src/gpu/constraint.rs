//! A set as a constraint whose candidates are verified on a device: Parallel Prefix-Verification, as published.
//!
//! The CPU follows positions and makes masks. The set is uploaded once. The candidates of a batch, the most probable
//! tokens of each row, are one upload, one dispatch and one read-back; the answers are those of the CPU, bit for bit.
//! On an H100, beside one thread of the CPU, candidates took 1.6 to 2 times as long at 1,024 sequences in sets of one
//! and ten million titles, so this constraint is for a CPU that has other work to do.
//!
//! Tried instead: masks from the device, too. They took 25 to 190 times as long, because a mask has to be read back.

use std::sync::{Arc, Once};

use unskew_core::{Constraint, MaskBatch, MaskMut, MaskRef, Rejected, TokenId};
use unskew_shaders::{Interval, PARTS, PPV, SetArrays};

use super::device::{Given, Gpu, GpuError};
use crate::{Cursor, ItemSet, SetConstraint, SetState};

/// Called with the error of a device that fails.
type Tell = Box<dyn Fn(&GpuError) + Send + Sync>;

/// The items of a set, with candidates that a device verifies. Where the device fails, the CPU does.
pub struct GpuSetConstraint {
    cpu: SetConstraint,
    gpu: Arc<Gpu>,
    /// The first bindings of the kernel: the tokens in parts, the columns and the shape.
    set: Vec<wgpu::Buffer>,
    told: Once,
    tell: Tell,
}

impl std::fmt::Debug for GpuSetConstraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuSetConstraint")
            .field("cpu", &self.cpu)
            .field("gpu", &self.gpu)
            .finish_non_exhaustive()
    }
}

/// The columns of a set in the arrays of the kernel. `None` where 32 bits cannot number the tokens.
fn arrays(set: &ItemSet) -> Option<SetArrays> {
    let mut arrays = SetArrays { width_log: set.token_bytes().trailing_zeros(), ..SetArrays::default() };
    for (len, tokens) in set.columns() {
        let first = u32::try_from(arrays.cells.len() * (4 >> arrays.width_log)).ok()?;
        // The end of the column needs a number too.
        first.checked_add(len)?;
        arrays.columns.push(first);
        let (whole, rest) = tokens.as_chunks::<4>();
        arrays.cells.extend(whole.iter().map(|word| u32::from_le_bytes(*word)));
        if !rest.is_empty() {
            let mut word = [0; 4];
            word[..rest.len()].copy_from_slice(rest);
            arrays.cells.push(u32::from_le_bytes(word));
        }
    }
    Some(arrays)
}

/// Uploads `set`.
fn upload(gpu: &Gpu, set: &ItemSet) -> Result<Vec<wgpu::Buffer>, GpuError> {
    set.verify()?;
    let arrays = arrays(set).ok_or_else(|| GpuError::TooLarge {
        what: "the tokens of the set",
        bytes: set.as_bytes().len() as u64,
        limit: u32::MAX.into(),
        adapter: gpu.name().to_owned(),
    })?;
    let part = arrays.cells.len().div_ceil(PARTS).max(1);
    gpu.fits("a quarter of the tokens of the set", 4 * part, gpu.max_binding())?;
    gpu.fits("the columns of the set", 4 * arrays.columns.len(), gpu.max_binding())?;
    gpu.with_memory(|gpu| {
        let mut cells = arrays.cells.chunks(part);
        let parts = (0..PARTS).map(|_| cells.next().unwrap_or_default());
        let words = parts.chain([&arrays.columns[..]]);
        let mut buffers: Vec<_> = words.map(|words| gpu.upload(words, wgpu::BufferUsages::STORAGE)).collect();
        buffers.push(gpu.upload(&[arrays.width_log, part as u32], wgpu::BufferUsages::UNIFORM));
        buffers
    })
}

impl GpuSetConstraint {
    /// The same constraint with candidates that `gpu` verifies. All checksums of the set are compared first. Candidates
    /// that the device fails to verify are verified by the CPU; the answers are the same. The first failure calls
    /// `tell`, later failures do not.
    ///
    /// # Errors
    ///
    /// [`GpuError::Filtered`] for a subset or a set with changes, [`TooLarge`](GpuError::TooLarge) where the tokens do
    /// not fit into four bindings, and others.
    pub fn new(
        cpu: SetConstraint,
        gpu: Arc<Gpu>,
        tell: impl Fn(&GpuError) + Send + Sync + 'static,
    ) -> Result<Self, GpuError> {
        if !cpu.is_plain() {
            return Err(GpuError::Filtered);
        }
        let set = upload(&gpu, cpu.set())?;
        Ok(Self { cpu, gpu, set, told: Once::new(), tell: Box::new(tell) })
    }

    /// Whether candidates may follow, with equally many candidates for each sequence.
    fn candidates(&self, states: &[&SetState], candidates: &[TokenId]) -> Result<Vec<bool>, GpuError> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        // Nothing follows where no item has the prefix.
        let interval = |cursor: Option<&Cursor>| {
            cursor.map_or_else(Interval::default, |cursor| {
                let Cursor { depth, lo, hi, .. } = *cursor;
                Interval { depth, lo, hi }
            })
        };
        let intervals: Vec<u32> =
            states.iter().flat_map(|state| interval(state.cursor()).to_words()).collect();
        let candidates: Vec<u32> = candidates.iter().map(|token| token.0).collect();
        let mut valid = vec![0; candidates.len()];
        let mut given: Vec<Given<'_>> = self.set.iter().map(Given::There).collect();
        given.extend([Given::Words(&candidates), Given::Words(&intervals), Given::Out(&mut valid)]);
        self.gpu.run(&PPV, candidates.len().div_ceil(PPV.workgroup as usize), given)?;
        Ok(valid.into_iter().map(|valid| valid == 1).collect())
    }
}

impl Constraint for GpuSetConstraint {
    type State = SetState;
    type Scratch = ();

    fn vocab_len(&self) -> usize {
        self.cpu.vocab_len()
    }

    fn start(&self) -> SetState {
        self.cpu.start()
    }

    fn scratch(&self) {}

    fn advance(&self, (): &mut (), state: &mut SetState, token: TokenId) -> Result<(), Rejected> {
        self.cpu.advance(&mut (), state, token)
    }

    fn is_accepting(&self, state: &SetState) -> bool {
        self.cpu.is_accepting(state)
    }

    fn fill_mask(&self, (): &mut (), state: &SetState, mask: MaskMut<'_>) {
        self.cpu.fill_mask(&mut (), state, mask);
    }

    fn fill_masks(&self, (): &mut (), states: &mut dyn Iterator<Item = &SetState>, masks: &mut MaskBatch) {
        self.cpu.fill_masks(&mut (), states, masks);
    }

    fn ready_mask<'a>(&'a self, (): &'a (), state: &SetState) -> Option<MaskRef<'a>> {
        self.cpu.ready_mask(&(), state)
    }

    fn allows(&self, (): &mut (), state: &SetState, token: TokenId) -> bool {
        self.cpu.allows(&mut (), state, token)
    }

    fn state_key(&self, (): &mut (), state: &SetState) -> Option<u64> {
        self.cpu.state_key(&mut (), state)
    }

    fn forced(&self, (): &mut (), state: &SetState) -> Option<TokenId> {
        self.cpu.forced(&mut (), state)
    }

    fn verify(
        &self,
        (): &mut (),
        states: &mut dyn Iterator<Item = &SetState>,
        each: usize,
        candidates: &[TokenId],
        valid: &mut [bool],
    ) {
        let states: Vec<&SetState> = states.collect();
        match self.candidates(&states, candidates) {
            Ok(answers) => valid.copy_from_slice(&answers),
            Err(error) => {
                self.told.call_once(|| (self.tell)(&error));
                self.cpu.verify(&mut (), &mut states.into_iter(), each, candidates, valid);
            }
        }
    }
}
