//! A set as a constraint whose masks are made on a device.
//!
//! The CPU follows positions, where a step is less than a microsecond. A mask, or the masks of a batch, are one
//! kernel and one read-back, and the read-back is the cost. On an H100, beside one thread of the CPU, masks took 25 to
//! 190 times as long for 1 to 1,024 sequences in sets of one and ten million titles, and candidates 1.6 to 2 times as
//! long at 1,024 sequences. So [`SetConstraint`] alone is the faster way unless the CPU has other work to do.

use std::sync::{Arc, Once};

use unskew_core::{Constraint, MaskBatch, MaskMut, MaskRef, Rejected, TokenId};
use unskew_shaders::Interval;

use super::{
    device::{Gpu, GpuError},
    set::GpuSet,
};
use crate::{SetConstraint, SetState};

/// Called with the error of a device that fails.
type Tell = Box<dyn Fn(&GpuError) + Send + Sync>;

/// The items of a set, with masks from a device. A mask that the device fails to make comes from the CPU.
pub struct GpuSetConstraint {
    cpu: SetConstraint,
    set: GpuSet,
    told: Once,
    tell: Tell,
}

impl std::fmt::Debug for GpuSetConstraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuSetConstraint")
            .field("cpu", &self.cpu)
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}

impl GpuSetConstraint {
    /// The same constraint with masks from `gpu`. A mask that the device fails to make comes from the CPU; the mask
    /// is the same. The first failure calls `tell`, later failures do not.
    ///
    /// # Errors
    ///
    /// [`GpuError::Filtered`] for a subset or a set with changes, and as [`GpuSet::new`].
    pub fn new(
        cpu: SetConstraint,
        gpu: Arc<Gpu>,
        tell: impl Fn(&GpuError) + Send + Sync + 'static,
    ) -> Result<Self, GpuError> {
        let set = GpuSet::of(gpu, &cpu)?;
        Ok(Self { cpu, set, told: Once::new(), tell: Box::new(tell) })
    }

    fn intervals(&self, states: &[&SetState]) -> Vec<Interval> {
        let none = || Interval { valid: 0, ..self.set.start() };
        let interval = |state: &&SetState| state.cursor().map_or_else(none, Interval::from);
        states.iter().map(interval).collect()
    }

    /// The masks of some positions. Where the device fails: `None`, and the first time a call of `tell`.
    fn masks(&self, states: &[&SetState]) -> Option<MaskBatch> {
        self.set
            .masks(&self.intervals(states))
            .map_err(|error| self.told.call_once(|| (self.tell)(&error)))
            .ok()
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

    fn fill_mask(&self, (): &mut (), state: &SetState, mut mask: MaskMut<'_>) {
        match self.masks(&[state]) {
            Some(masks) => mask.copy_from(masks.row(0)),
            None => self.cpu.fill_mask(&mut (), state, mask),
        }
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
        match self.set.candidates(&self.intervals(&states), candidates) {
            Ok(answers) => valid.copy_from_slice(&answers),
            Err(error) => {
                self.told.call_once(|| (self.tell)(&error));
                self.cpu.verify(&mut (), &mut states.into_iter(), each, candidates, valid);
            }
        }
    }

    fn fill_masks(&self, (): &mut (), states: &mut dyn Iterator<Item = &SetState>, masks: &mut MaskBatch) {
        let states: Vec<&SetState> = states.collect();
        let Some(made) = self.masks(&states) else {
            return self.cpu.fill_masks(&mut (), &mut states.into_iter(), masks);
        };
        (0..states.len()).for_each(|row| masks.row_mut(row).copy_from(made.row(row)));
    }
}
