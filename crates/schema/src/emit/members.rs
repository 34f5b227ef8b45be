//! Members of objects: the ways to write one, and the witnesses that it then serves as.

use unskew_grammar::{ExprId, RuleId};

/// A set of the [witnesses](crate::normalize::shape::Witness) of a shape, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WitnessSet(usize);

impl WitnessSet {
    pub(super) const EMPTY: Self = Self(0);

    /// The set of the witness at `index`.
    pub(super) fn one(index: usize) -> Self {
        Self(1 << index)
    }

    /// All sets of `count` witnesses, in the order of their indices. There are 2^`count`.
    pub(super) fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..1usize << count).map(Self)
    }

    /// The position of the set in [`all`](Self::all).
    pub(super) fn index(self) -> usize {
        self.0
    }

    pub(super) fn has(self, index: usize) -> bool {
        self.0 >> index & 1 == 1
    }

    pub(super) fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// A way to write a member.
#[derive(Clone, Copy)]
pub(super) struct MemberWay {
    /// The witnesses that the member then serves as.
    pub(super) found: WitnessSet,
    pub(super) expr: ExprId,
}

/// A member with a given name.
pub(super) struct NamedMember {
    /// The rules of its values, one for each way.
    pub(super) rules: Vec<RuleId>,
    pub(super) ways: Vec<MemberWay>,
    pub(super) required: bool,
}

/// Members with names that the schema does not list.
#[derive(Default)]
pub(super) struct OtherMembers {
    pub(super) ways: Vec<MemberWay>,
    /// The largest number of these members before names run out; `None` if nothing uses the names up.
    pub(super) most: Option<u32>,
}
