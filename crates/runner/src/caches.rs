//! The keys and values of one sequence, regime by regime.
//!
//! Where rotary frequencies follow the length of a text ([`crate::math::rotary`]), keys of one regime are of no use in
//! another. A sequence then has two caches: that of the first regime, to which a truncation may lead back, and that of
//! the last other one. [`Held`] says which positions they hold.

use crate::math::rotary::{Regime, Regimes};

/// The positions of a sequence whose keys and values are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    /// In the first regime.
    first: usize,
    /// In another one, where there is one.
    beyond: Option<(Regime, usize)>,
}

impl Held {
    pub(crate) fn in_regime(self, regime: Regime) -> usize {
        match self.beyond {
            _ if regime == 0 => self.first,
            Some((known, len)) if known == regime => len,
            _ => 0,
        }
    }
}

/// The caches of one sequence, each of type `C`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caches<C> {
    first: C,
    /// Keys and values of another regime than the first.
    beyond: Option<(Regime, C)>,
    held: Held,
}

impl<C: Default> Caches<C> {
    pub(crate) fn held(&self) -> Held {
        self.held
    }

    /// The cache of a regime, which takes the place of that of another one.
    pub(crate) fn of(&mut self, regime: Regime) -> &mut C {
        if regime == 0 {
            return &mut self.first;
        }
        if self.beyond.as_ref().is_none_or(|(known, _)| *known != regime) {
            self.beyond = None;
            self.held.beyond = Some((regime, 0));
        }
        &mut self.beyond.get_or_insert_with(|| (regime, C::default())).1
    }

    /// The cache of a regime, unless another one has taken its place.
    pub(crate) fn find(&mut self, regime: Regime) -> Option<&mut C> {
        match &mut self.beyond {
            _ if regime == 0 => Some(&mut self.first),
            Some((known, cache)) if *known == regime => Some(cache),
            _ => None,
        }
    }

    /// Says that a regime holds the first `len` positions.
    pub(crate) fn set_held(&mut self, regime: Regime, len: usize) {
        if regime == 0 {
            self.held.first = len;
        } else {
            self.held.beyond = Some((regime, len));
        }
    }

    /// Forgets the positions from `len` on. `cut` tells a cache how many it holds then.
    pub(crate) fn truncate(&mut self, len: usize, regimes: Regimes, cut: impl Fn(&mut C, usize)) {
        self.held.first = self.held.first.min(len);
        cut(&mut self.first, self.held.first);
        let regime = len.checked_sub(1).map_or(0, |last| regimes.of(last));
        if let (Some((_, cache)), Some((known, held))) = (&mut self.beyond, &mut self.held.beyond)
            && *known == regime
        {
            *held = len.min(*held);
            cut(cache, *held);
        } else {
            (self.beyond, self.held.beyond) = (None, None);
        }
    }
}
