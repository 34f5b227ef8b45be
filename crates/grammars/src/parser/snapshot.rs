//! Snapshots: configurations that do not depend on the tables of a scratch. The state of a sequence holds one.
//!
//! Inside a scratch everything has a number, which is fast. But a number means nothing in the scratch of another
//! thread, nor after a scratch was emptied because it was full. So a state also holds a configuration spelled out as
//! a shared tree, and the few tokens that were read after it. A new snapshot shares all that earlier ones hold: one
//! more level of nesting adds one node. The import into another scratch looks up by address what that scratch has
//! seen, and creates only the rest.
//!
//! Tried instead: to replay all tokens, which costs the length of the text each time a sequence changes threads; and
//! to spell out the configuration after every token, which took a third of the time of a token and was hardly ever
//! read.

use std::sync::Arc;

use hashbrown::HashMap;

use super::{
    configurations::{Compiled, Configuration, Configurations},
    continuations::Continuation,
    hypotheses::{Hypothesis, Progress},
    states::{Item, Parser, ParserState},
};
use crate::{
    ids::Id,
    network::{
        rules::Position,
        terminals::{ScanTerminal, Terminals},
        unordered::{ReadMembers, is_of_group},
    },
    unique::keys::{KeyPrefix, KeySet, KeyTexts},
};

/// A configuration, spelled out.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(super) hypotheses: Box<[HypothesisSnapshot]>,
}

#[derive(Debug)]
pub(super) struct HypothesisSnapshot {
    pub(super) terminal: Option<ScanTerminal>,
    pub(super) progress: ProgressSnapshot,
    /// The items of the parser state.
    pub(super) items: Box<[(PositionSnapshot, ContinuationSnapshot, KeySetSnapshot)]>,
}

#[derive(Debug)]
pub(super) enum ProgressSnapshot {
    /// Of a terminal that is no tracked key: the number is the same in every scratch.
    Number(Progress),
    Key(ScanTerminal, Arc<PrefixSnapshot>),
}

#[derive(Clone, Debug)]
pub(super) enum KeySetSnapshot {
    Empty,
    Inherited,
    Keys(Arc<KeyList>),
}

/// The last key of a set, and the others.
#[derive(Debug)]
pub(super) struct KeyList {
    pub(super) others: KeySetSnapshot,
    pub(super) key: Arc<[u8]>,
}

/// The prefix of a key: a shorter one that was spelled out, and the bytes after it. So a long key is not spelled out
/// again at each snapshot inside it.
#[derive(Debug)]
pub(super) struct PrefixSnapshot {
    before: Option<Arc<PrefixSnapshot>>,
    bytes: Box<[u8]>,
}

impl PrefixSnapshot {
    /// The bytes of the key so far.
    pub(super) fn text(&self) -> Vec<u8> {
        let mut parts = vec![&self.bytes];
        let mut next = self.before.as_ref();
        while let Some(prefix) = next {
            parts.push(&prefix.bytes);
            next = prefix.before.as_ref();
        }
        parts.into_iter().rev().flat_map(|bytes| bytes.iter().copied()).collect()
    }
}

impl Drop for PrefixSnapshot {
    /// Without recursion: a key may be long.
    fn drop(&mut self) {
        let mut next = self.before.take();
        while let Some(mut prefix) = next.and_then(Arc::into_inner) {
            next = prefix.before.take();
        }
    }
}

impl Drop for KeyList {
    /// Without recursion: there may be many keys.
    fn drop(&mut self) {
        let mut next = std::mem::replace(&mut self.others, KeySetSnapshot::Empty);
        while let KeySetSnapshot::Keys(list) = next {
            let Some(mut list) = Arc::into_inner(list) else { break };
            next = std::mem::replace(&mut list.others, KeySetSnapshot::Empty);
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum PositionSnapshot {
    /// Of the automaton of a rule: the number is the same in every scratch.
    Fixed(Position),
    /// Of a group with members in any order: the members that were read, and the offset of the position in that state.
    OfGroup(Box<(ReadMembers, u32)>),
}

impl PositionSnapshot {
    fn new(parser: &Parser, position: Position) -> Self {
        match is_of_group(position) {
            true => Self::OfGroup(Box::new(parser.groups().spelled_out(position))),
            false => Self::Fixed(position),
        }
    }

    fn position(&self, parser: &mut Parser, compiled: &Compiled) -> Position {
        match self {
            Self::Fixed(position) => *position,
            Self::OfGroup(of_group) => {
                let (seen, offset) = &**of_group;
                parser.position(&compiled.rules, seen, *offset)
            }
        }
    }
}

/// A continuation, as a member of its group.
#[derive(Clone, Debug)]
pub(super) struct ContinuationSnapshot {
    pub(super) group: Arc<GroupSnapshot>,
    pub(super) member: u32,
}

/// Continuations that were created together; see [`continuations`](super::continuations).
#[derive(Debug)]
pub(super) struct GroupSnapshot {
    pub(super) members: Box<[Frames]>,
}

pub(super) type Frames = Box<[(PositionSnapshot, TargetSnapshot, KeySetSnapshot)]>;

/// The continuation of a frame.
#[derive(Debug)]
pub(super) enum TargetSnapshot {
    /// A member of the same group.
    Member(u32),
    Outer(ContinuationSnapshot),
}

impl Drop for GroupSnapshot {
    /// Without recursion: a text may be nested deeper than a thread has stack.
    fn drop(&mut self) {
        let mut open: Vec<Arc<Self>> = Vec::new();
        let take = |members: &mut [Frames], open: &mut Vec<Arc<Self>>| {
            for (_, target, _) in members.iter_mut().flat_map(|frames| frames.iter_mut()) {
                if let TargetSnapshot::Outer(outer) = std::mem::replace(target, TargetSnapshot::Member(0)) {
                    open.push(outer.group);
                }
            }
        };
        take(&mut self.members, &mut open);
        while let Some(group) = open.pop() {
            if let Some(mut group) = Arc::into_inner(group) {
                take(&mut group.members, &mut open);
            }
        }
    }
}

/// The snapshots that were exported from the tables of a scratch or imported into them.
#[derive(Debug, Default)]
pub(crate) struct SnapshotTable {
    /// By address, with the `Arc` that keeps the address in use.
    configurations: HashMap<usize, (Arc<Snapshot>, Configuration)>,
    groups: HashMap<usize, Continuation>,
    sets: HashMap<usize, (Arc<KeyList>, KeySet)>,
    by_configuration: HashMap<Configuration, Arc<Snapshot>>,
    by_group: HashMap<Continuation, Arc<GroupSnapshot>>,
    by_set: HashMap<KeySet, Arc<KeyList>>,
    /// The items of configurations and groups that these tables keep.
    items: usize,
    /// By address, as above, and terminal.
    prefixes: HashMap<(usize, ScanTerminal), (Arc<PrefixSnapshot>, KeyPrefix)>,
    by_prefix: HashMap<KeyPrefix, Arc<PrefixSnapshot>>,
    /// The bytes of prefixes.
    bytes: usize,
    /// The [keys](Self::key) of configurations, and the keys of groups by address.
    pub(super) keys: HashMap<Configuration, u64>,
    pub(super) group_keys: HashMap<usize, u64>,
}

pub(super) fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

impl Snapshot {
    fn items(&self) -> usize {
        self.hypotheses.iter().map(|hypothesis| 1 + hypothesis.items.len()).sum()
    }
}

impl GroupSnapshot {
    fn items(&self) -> usize {
        self.members.iter().map(|frames| 1 + frames.len()).sum()
    }
}

impl SnapshotTable {
    /// The snapshot of `configuration`.
    pub(crate) fn export(
        &mut self,
        configurations: &Configurations,
        compiled: &Compiled,
        configuration: Configuration,
    ) -> Arc<Snapshot> {
        if let Some(known) = self.by_configuration.get(&configuration) {
            return Arc::clone(known);
        }
        let hypotheses = configurations.hypotheses(configuration).iter().map(|hypothesis| {
            let Hypothesis { terminal, progress, parser_state } = *hypothesis;
            let items = configurations.parser.items(parser_state).iter();
            let items = items.map(|(position, continuation, keys)| {
                (
                    PositionSnapshot::new(&configurations.parser, *position),
                    self.export_continuation(configurations, *continuation),
                    self.export_keys(configurations, *keys),
                )
            });
            let items = items.collect();
            let key = terminal.filter(|terminal| compiled.terminals.is_distinct(*terminal));
            let progress = match configurations.texts().zip(key) {
                Some((texts, terminal)) => {
                    ProgressSnapshot::Key(terminal, self.export_prefix(texts, terminal, progress.prefix()))
                }
                None => ProgressSnapshot::Number(progress),
            };
            HypothesisSnapshot { terminal, progress, items }
        });
        let snapshot = Arc::new(Snapshot { hypotheses: hypotheses.collect() });
        self.items += snapshot.items();
        self.configurations.insert(address(&snapshot), (Arc::clone(&snapshot), configuration));
        self.by_configuration.insert(configuration, Arc::clone(&snapshot));
        snapshot
    }

    /// The configuration of a snapshot.
    pub(crate) fn import(
        &mut self,
        configurations: &mut Configurations,
        compiled: &Compiled,
        snapshot: &Arc<Snapshot>,
    ) -> Configuration {
        if let Some((_, configuration)) = self.configurations.get(&address(snapshot)) {
            return *configuration;
        }
        let mut hypotheses = Vec::with_capacity(snapshot.hypotheses.len());
        for HypothesisSnapshot { terminal, progress, items } in &snapshot.hypotheses {
            let parser_state = self.import_items(configurations, compiled, items);
            let progress = match (progress, configurations.texts_mut()) {
                (ProgressSnapshot::Number(progress), _) => *progress,
                (ProgressSnapshot::Key(terminal, prefix), Some(texts)) => {
                    Progress::of_key(self.import_prefix(texts, &compiled.terminals, *terminal, prefix))
                }
                (ProgressSnapshot::Key(..), None) => {
                    unreachable!("a scratch tracks keys if the grammar has some")
                }
            };
            hypotheses.push(Hypothesis { terminal: *terminal, progress, parser_state });
        }
        let configuration = configurations.configuration(&mut hypotheses, compiled);
        let configuration = configuration.expect("a snapshot has hypotheses");
        self.items += snapshot.items();
        self.configurations.insert(address(snapshot), (Arc::clone(snapshot), configuration));
        self.by_configuration.entry(configuration).or_insert_with(|| Arc::clone(snapshot));
        configuration
    }

    /// The memory that its tables take, in bytes, about.
    pub(crate) fn memory_usage(&self) -> usize {
        const ENTRY: usize = 64;
        let exported =
            self.by_configuration.len() + self.by_group.len() + self.by_set.len() + self.by_prefix.len();
        let all = self.configurations.len() + self.groups.len() + self.sets.len() + self.prefixes.len();
        let keys = self.keys.len() + self.group_keys.len();
        (all + exported * 4) * ENTRY
            + keys * size_of::<(usize, u64)>()
            + self.items * size_of::<(PositionSnapshot, TargetSnapshot, KeySetSnapshot)>()
            + self.bytes
    }

    fn import_items(
        &mut self,
        configurations: &mut Configurations,
        compiled: &Compiled,
        items: &[(PositionSnapshot, ContinuationSnapshot, KeySetSnapshot)],
    ) -> ParserState {
        let items = items.iter().map(|(position, continuation, keys)| {
            let first = self.import_group(configurations, compiled, &continuation.group);
            let position = position.position(&mut configurations.parser, compiled);
            (position, member(first, continuation.member), self.import_keys(configurations, keys))
        });
        let mut items: Vec<Item> = items.collect();
        configurations.parser.state(&mut items, &compiled.rules)
    }

    fn export_prefix(
        &mut self,
        texts: &KeyTexts,
        terminal: ScanTerminal,
        prefix: KeyPrefix,
    ) -> Arc<PrefixSnapshot> {
        let known = texts.since(None, prefix).find_map(|(at, _)| Some((at, self.by_prefix.get(&at)?)));
        let (from, before) = match known {
            Some((at, known)) if at == prefix => return Arc::clone(known),
            Some((at, known)) => (Some(at), Some(Arc::clone(known))),
            None => (None, None),
        };
        let snapshot = Arc::new(PrefixSnapshot { before, bytes: texts.bytes(from, prefix).into() });
        self.bytes += snapshot.bytes.len();
        self.prefixes.insert((address(&snapshot), terminal), (Arc::clone(&snapshot), prefix));
        self.by_prefix.insert(prefix, Arc::clone(&snapshot));
        snapshot
    }

    fn import_prefix(
        &mut self,
        texts: &mut KeyTexts,
        terminals: &Terminals,
        terminal: ScanTerminal,
        snapshot: &Arc<PrefixSnapshot>,
    ) -> KeyPrefix {
        let mut open: Vec<&Arc<PrefixSnapshot>> = Vec::new();
        let mut next = Some(snapshot);
        let mut at: Option<KeyPrefix> = None;
        while let Some(snapshot) = next {
            if let Some((_, known)) = self.prefixes.get(&(address(snapshot), terminal)) {
                at = Some(*known);
                break;
            }
            open.push(snapshot);
            next = snapshot.before.as_ref();
        }
        for snapshot in open.into_iter().rev() {
            let prefix = texts.prefix(terminals, terminal, at, &snapshot.bytes);
            let prefix = prefix.expect("it was read by the same grammar");
            self.prefixes.insert((address(snapshot), terminal), (Arc::clone(snapshot), prefix));
            self.by_prefix.entry(prefix).or_insert_with(|| Arc::clone(snapshot));
            at = Some(prefix);
        }
        at.expect("a prefix has a byte at least")
    }

    fn export_keys(&mut self, configurations: &Configurations, set: KeySet) -> KeySetSnapshot {
        if set == KeySet::INHERITED {
            return KeySetSnapshot::Inherited;
        }
        let (sets, texts) = (&configurations.parser.key_sets, configurations.texts());
        // The last keys, whose sets are not spelled out yet.
        let mut open: Vec<(KeySet, _)> = Vec::new();
        let mut at = set;
        let mut snapshot = KeySetSnapshot::Empty;
        while let Some((others, key)) = sets.last(at) {
            if let Some(known) = self.by_set.get(&at) {
                snapshot = KeySetSnapshot::Keys(Arc::clone(known));
                break;
            }
            open.push((at, key));
            at = others;
        }
        for (set, key) in open.into_iter().rev() {
            let key = texts.map_or_else(|| [].into(), |texts| Arc::clone(texts.of(key)));
            let list = Arc::new(KeyList { others: snapshot, key });
            self.sets.insert(address(&list), (Arc::clone(&list), set));
            self.by_set.insert(set, Arc::clone(&list));
            snapshot = KeySetSnapshot::Keys(list);
        }
        snapshot
    }

    fn import_keys(&mut self, configurations: &mut Configurations, snapshot: &KeySetSnapshot) -> KeySet {
        let mut open: Vec<&Arc<KeyList>> = Vec::new();
        let mut at = snapshot;
        let mut set = loop {
            match at {
                KeySetSnapshot::Empty => break KeySet::EMPTY,
                KeySetSnapshot::Inherited => return KeySet::INHERITED,
                KeySetSnapshot::Keys(list) => match self.sets.get(&address(list)) {
                    Some((_, set)) => break *set,
                    None => {
                        open.push(list);
                        at = &list.others;
                    }
                },
            }
        };
        for list in open.into_iter().rev() {
            let Some(key) = configurations.texts_mut().map(|texts| texts.key(&list.key)) else { break };
            set = configurations.parser.key_sets.with(set, key);
            self.sets.insert(address(list), (Arc::clone(list), set));
            self.by_set.entry(set).or_insert_with(|| Arc::clone(list));
        }
        set
    }

    fn export_continuation(
        &mut self,
        configurations: &Configurations,
        continuation: Continuation,
    ) -> ContinuationSnapshot {
        let continuations = configurations.parser.continuations();
        let mut open = vec![continuations.group(continuation).first];
        while let Some(first) = open.last().copied() {
            if self.by_group.contains_key(&first) {
                open.pop();
                continue;
            }
            let range = continuations.group(first);
            let targets = range.ids().flat_map(|member| continuations.frames(member));
            let missing: Vec<Continuation> = targets
                .map(|(_, target, _)| *target)
                .filter(|target| !range.contains(*target))
                .map(|target| continuations.group(target).first)
                .filter(|first| !self.by_group.contains_key(first))
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let members = range.ids().map(|member| {
                let frames = continuations.frames(member).iter().map(|(position, target, keys)| {
                    let snapshot = match range.offset_of(*target) {
                        Some(member) => TargetSnapshot::Member(member),
                        None => TargetSnapshot::Outer(self.exported(configurations, *target)),
                    };
                    let keys = self.export_keys(configurations, *keys);
                    (PositionSnapshot::new(&configurations.parser, *position), snapshot, keys)
                });
                frames.collect()
            });
            let members = members.collect();
            let group = Arc::new(GroupSnapshot { members });
            self.items += group.items();
            // The map keeps the group, and so its address.
            self.groups.insert(address(&group), first);
            self.by_group.insert(first, group);
            open.pop();
        }
        self.exported(configurations, continuation)
    }

    /// A continuation of a group that was exported.
    fn exported(&self, configurations: &Configurations, continuation: Continuation) -> ContinuationSnapshot {
        let first = configurations.parser.continuations().group(continuation).first;
        ContinuationSnapshot {
            group: Arc::clone(&self.by_group[&first]),
            member: continuation.raw() - first.raw(),
        }
    }

    /// The first continuation of `group`.
    fn import_group(
        &mut self,
        configurations: &mut Configurations,
        compiled: &Compiled,
        group: &Arc<GroupSnapshot>,
    ) -> Continuation {
        let mut open: Vec<&Arc<GroupSnapshot>> = vec![group];
        while let Some(group) = open.last().copied() {
            if self.groups.contains_key(&address(group)) {
                open.pop();
                continue;
            }
            let targets = group.members.iter().flatten().map(|(_, target, _)| target);
            let missing: Vec<&Arc<GroupSnapshot>> = targets
                .filter_map(|target| match target {
                    TargetSnapshot::Outer(outer) => Some(&outer.group),
                    TargetSnapshot::Member(_) => None,
                })
                .filter(|group| !self.groups.contains_key(&address(group)))
                .collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            let members = group.members.iter().map(|frames| {
                let frames = frames.iter().map(|(position, target, keys)| {
                    let target = match target {
                        TargetSnapshot::Member(member) => Continuation::member(*member),
                        TargetSnapshot::Outer(outer) => {
                            member(self.groups[&address(&outer.group)], outer.member)
                        }
                    };
                    let position = position.position(&mut configurations.parser, compiled);
                    (position, target, self.import_keys(configurations, keys))
                });
                frames.collect()
            });
            let mut members: Vec<Vec<Item>> = members.collect();
            let first = configurations.parser.continuations_mut().insert(&mut members);
            self.items += group.items();
            // A group that is known under another address keeps that one for itself: this one is kept by its snapshot.
            self.groups.insert(address(group), first);
            self.by_group.entry(first).or_insert_with(|| Arc::clone(group));
            open.pop();
        }
        self.groups[&address(group)]
    }
}

/// A member of the group that begins with `first`.
fn member(first: Continuation, member: u32) -> Continuation {
    Continuation::of(first.raw() + member)
}
