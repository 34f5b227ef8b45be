//! Keys of configurations that are the same in every scratch: hashes of their [snapshots](super::snapshot).
//!
//! A configuration has a number in its scratch, and the number means nothing elsewhere. A snapshot is the
//! configuration spelled out, so its hash is a key for all scratches of a grammar. The hash of a group of
//! continuations is kept, and a new level of nesting adds one group: the key of a new configuration takes as long as
//! its snapshot.
//!
//! The order of hypotheses, items and frames follows numbers of the scratch, so their hashes are added up. The order
//! of the members of a group does too, and that order is part of the hash. Where it differs, equal configurations
//! have different keys, which the contract of [`Constraint::state_key`](unskew_core::Constraint::state_key) allows.

use std::sync::Arc;

use unskew_core::hashed_key;

use super::{
    configurations::{Compiled, Configuration, Configurations},
    snapshot::{
        ContinuationSnapshot, GroupSnapshot, KeySetSnapshot, PositionSnapshot, ProgressSnapshot, Snapshot,
        SnapshotTable, TargetSnapshot, address,
    },
};
use crate::ids::Id;

impl SnapshotTable {
    /// The key of a configuration.
    pub(crate) fn key(
        &mut self,
        configurations: &Configurations,
        compiled: &Compiled,
        configuration: Configuration,
    ) -> u64 {
        if let Some(known) = self.keys.get(&configuration) {
            return *known;
        }
        let snapshot = self.export(configurations, compiled, configuration);
        let key = self.key_of(&snapshot);
        self.keys.insert(configuration, key);
        key
    }

    fn key_of(&mut self, snapshot: &Snapshot) -> u64 {
        let hypotheses = snapshot.hypotheses.iter().map(|hypothesis| {
            let items = hypothesis.items.iter().map(|(position, continuation, keys)| {
                hashed_key(&(
                    key_of_position(position),
                    self.key_of_continuation(continuation),
                    key_of_set(keys),
                ))
            });
            let items = sum(items);
            let progress = match &hypothesis.progress {
                ProgressSnapshot::Number(progress) => (progress.raw(), None),
                ProgressSnapshot::Key(terminal, prefix) => (terminal.raw(), Some(prefix.text())),
            };
            hashed_key(&(hypothesis.terminal.map(Id::raw), progress, items))
        });
        sum(hypotheses)
    }

    fn key_of_continuation(&mut self, continuation: &ContinuationSnapshot) -> u64 {
        hashed_key(&(self.key_of_group(&continuation.group), continuation.member))
    }

    /// Without recursion: a text may be nested deeper than a thread has stack.
    fn key_of_group(&mut self, group: &Arc<GroupSnapshot>) -> u64 {
        let mut open = vec![group];
        while let Some(group) = open.last().copied() {
            let known = |outer: &ContinuationSnapshot| self.group_keys.get(&address(&outer.group)).copied();
            let before = open.len();
            let mut members = Vec::with_capacity(group.members.len());
            for frames in &group.members {
                let mut total = 0u64;
                for (position, target, keys) in frames {
                    let target = match target {
                        TargetSnapshot::Member(member) => (0, *member),
                        TargetSnapshot::Outer(outer) => match known(outer) {
                            Some(key) => (key, outer.member),
                            None => {
                                open.push(&outer.group);
                                continue;
                            }
                        },
                    };
                    let frame = hashed_key(&(key_of_position(position), target, key_of_set(keys)));
                    total = total.wrapping_add(frame);
                }
                members.push((frames.len(), total));
            }
            if open.len() == before {
                open.pop();
                // The tables keep the group, and so its address.
                self.group_keys.insert(address(group), hashed_key(&members));
            }
        }
        self.group_keys[&address(group)]
    }
}

/// A hash of hashes in any order.
fn sum(hashes: impl Iterator<Item = u64>) -> u64 {
    let (count, total) =
        hashes.fold((0u64, 0u64), |(count, total), hash| (count + 1, total.wrapping_add(hash)));
    hashed_key(&(count, total))
}

fn key_of_position(position: &PositionSnapshot) -> u64 {
    match position {
        PositionSnapshot::Fixed(position) => u64::from(position.raw()),
        PositionSnapshot::OfGroup(of_group) => hashed_key(&**of_group),
    }
}

/// The keys of a set, in the order in which they were used. Sets of the same keys in another order have other hashes.
fn key_of_set(mut set: &KeySetSnapshot) -> u64 {
    let mut texts: Vec<&[u8]> = Vec::new();
    loop {
        match set {
            KeySetSnapshot::Empty => return sum_of(&mut texts),
            KeySetSnapshot::Inherited => return !sum_of(&mut texts),
            KeySetSnapshot::Keys(list) => {
                texts.push(&list.key);
                set = &list.others;
            }
        }
    }
}

/// A hash of the texts in any order.
fn sum_of(texts: &mut [&[u8]]) -> u64 {
    texts.sort_unstable();
    hashed_key(&texts)
}
