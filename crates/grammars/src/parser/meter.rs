//! The work of one mask or of one token, in steps: what [`GrammarLimits::mask_steps`] bounds.
//!
//! Whether a mask is beyond the limit is part of its meaning, and no scratch is. So what is counted is the work that
//! empty tables would take: a mask pays once for each parser state and each configuration that it comes to, whether
//! the tables have them or not, and a [fragment](crate::mask) that is found pays what it took to build. The price of a
//! state is the number of its items, of the frames to which they return, and of the calls and terminals that follow.
//!
//! Two things still depend on what came before, and both are small. The search for items that cover others is bounded
//! and remembers its answers, so that a state may have a few items more in one scratch than in another. And subterminal
//! trees are given up after a number of points ([`Tuning`](crate::tuning::Tuning)) of which a fragment that is found
//! saves some; the walk in their place has the whole limit to itself.
//!
//! Tried instead: to count what is really computed. A thousandth of it is left in a scratch that has read the text
//! before, so that of two ranks one had a mask and the other had none. And to bound the size of states alone: of the
//! grammar of palindromes over all letters each state has one item, and a mask creates half a million of them.
//!
//! [`GrammarLimits::mask_steps`]: unskew_grammar::GrammarLimits::mask_steps

use super::states::ParserState;
use crate::ids::Table;

/// Counts the steps of the mask or token at hand.
#[derive(Debug)]
pub(crate) struct Meter {
    spent: u64,
    most: u64,
    /// The mask or the fragment at hand, and the last that had a number.
    scope: u32,
    last: u32,
    /// By parser state: the last scope that has paid for it.
    paid: Table<ParserState, u32>,
    /// What fragments under construction have overwritten in `paid`: the mask around them has paid for its states,
    /// as it has where it finds the fragment.
    overwritten: Vec<(ParserState, u32)>,
}

/// The scope around a fragment.
pub(crate) struct Outer {
    scope: u32,
    spent: u64,
    overwritten: usize,
}

impl Meter {
    /// The largest number of a scope: with a bit more it is the mark of a configuration.
    const LAST: u32 = u32::MAX >> 1;

    /// A meter without a limit.
    pub(super) fn new() -> Self {
        let (paid, overwritten) = (Table::default(), Vec::new());
        Self { spent: 0, most: u64::MAX, scope: 1, last: 1, paid, overwritten }
    }

    /// Begins a mask or a token that may take `most` steps.
    pub(crate) fn begin(&mut self, most: u64) {
        (self.spent, self.most) = (0, most);
        self.overwritten.clear();
        self.scope = self.next_scope();
    }

    /// Begins the mask again, by another way.
    pub(crate) fn begin_again(&mut self) {
        self.begin(self.most);
    }

    /// Ends it. Answers whether it took too many steps; what follows has no limit.
    pub(crate) fn end(&mut self) -> bool {
        let is_over = self.is_over();
        self.most = u64::MAX;
        is_over
    }

    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.spent > self.most
    }

    /// Whether subterminal trees have taken their part, so that a walk, which has the whole limit, takes their place.
    pub(crate) fn is_over_in_trees(&self) -> bool {
        self.spent > self.most / 4
    }

    #[inline]
    pub(crate) fn spent(&self) -> u64 {
        self.spent
    }

    #[inline]
    pub(crate) fn add(&mut self, steps: usize) {
        self.spent = self.spent.saturating_add(steps as u64);
    }

    /// Adds the steps of a fragment.
    pub(crate) fn add_fragment(&mut self, steps: u64) {
        self.spent = self.spent.saturating_add(steps);
    }

    /// Takes back what was counted since `spent` steps.
    pub(super) fn reset_to(&mut self, spent: u64) {
        self.spent = spent;
    }

    /// The scope at hand: it marks the configurations that are paid for.
    #[inline]
    pub(super) fn scope(&self) -> u32 {
        self.scope
    }

    /// Notes that there is one parser state more.
    pub(super) fn push(&mut self) {
        self.paid.push(0);
    }

    /// Pays for a parser state, once in a scope.
    #[inline]
    pub(super) fn pay(&mut self, state: ParserState, price: u32) {
        let paid = &mut self.paid[state];
        if *paid != self.scope {
            self.overwritten.push((state, *paid));
            *paid = self.scope;
            self.spent = self.spent.saturating_add(u64::from(price));
        }
    }

    /// Begins a fragment.
    pub(crate) fn begin_fragment(&mut self) -> Outer {
        let outer = Outer { scope: self.scope, spent: self.spent, overwritten: self.overwritten.len() };
        self.scope = self.next_scope();
        outer
    }

    /// Ends a fragment. Answers its steps.
    pub(crate) fn end_fragment(&mut self, outer: Outer) -> u64 {
        for (state, paid) in self.overwritten.drain(outer.overwritten..).rev() {
            self.paid[state] = paid;
        }
        self.scope = outer.scope;
        self.spent - outer.spent
    }

    fn next_scope(&mut self) -> u32 {
        // Numbers begin again after two thousand million masks; a mark that is as old makes its state cheaper.
        self.last = if self.last < Self::LAST { self.last + 1 } else { 1 };
        self.last
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.paid.len() * size_of::<u32>() + self.overwritten.len() * size_of::<(ParserState, u32)>()
    }
}
