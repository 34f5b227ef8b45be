//! Choices between members of a group: which of them may be read together.
//!
//! "If `a` is `1`, then `b` is required" is a choice between three ways: without `a`, with another `a`, and with
//! both. Eight such conditions have 6,561 combinations. As alternatives of the grammar, all of them are read side by
//! side; as eight choices of one group, the members that were read say which ways of each choice are left.

/// One of these ways is taken: the members that are read are among those that it allows, and those that it requires are
/// all read.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct MemberChoice {
    /// The ways. Without any, the group has no text.
    pub ways: Box<[MemberWay]>,
}

/// A way of a [`MemberChoice`]. Members are indices in the list of the group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemberWay {
    /// The members that may be read, in ascending order. Those of other ways of the choice may not.
    pub allowed: Box<[u32]>,
    /// Those of them that must be read, in ascending order.
    pub required: Box<[u32]>,
}

impl MemberChoice {
    /// A choice between ways.
    pub fn new(ways: impl IntoIterator<Item = MemberWay>) -> Self {
        Self { ways: ways.into_iter().collect() }
    }

    /// The members of the choice; some may repeat.
    pub fn members(&self) -> impl Iterator<Item = u32> {
        self.ways.iter().flat_map(|way| way.allowed.iter().copied())
    }

    /// The same with other indices, without the ways that require a member which has none.
    pub(crate) fn renumbered(&self, new: &[Option<u32>]) -> Self {
        let of = |member: &u32| new[*member as usize];
        let ways = self.ways.iter().filter(|way| way.required.iter().all(|member| of(member).is_some()));
        let all = |members: &[u32]| members.iter().filter_map(of).collect();
        Self::new(ways.map(|way| MemberWay { allowed: all(&way.allowed), required: all(&way.required) }))
    }

    /// Whether no member, or no other than this one, has to be read.
    pub(crate) fn may_be_left(&self, but_for: Option<u32>) -> bool {
        let is_own = but_for.is_some_and(|member| self.members().any(|own| own == member));
        self.ways.iter().any(|way| {
            way.required.iter().all(|member| Some(*member) == but_for)
                && (!is_own || but_for.is_none_or(|member| way.allowed.contains(&member)))
        })
    }
}

impl MemberWay {
    /// A way that allows these members, each with a flag: whether it is required.
    pub fn new(members: impl IntoIterator<Item = (u32, bool)>) -> Self {
        let mut members: Vec<(u32, bool)> = members.into_iter().collect();
        members.sort_unstable();
        let required = members.iter().filter(|(_, required)| *required).map(|(member, _)| *member);
        let mut required: Vec<u32> = required.collect();
        required.dedup();
        let mut allowed: Vec<u32> = members.iter().map(|(member, _)| *member).collect();
        allowed.dedup();
        Self { allowed: allowed.into(), required: required.into() }
    }
}
