//! Fragments of masks that are the same in every context, computed once.
//!
//! A **fragment** has the tokens that a walk over paths adds from one point on in a
//! [truncated](crate::parser::truncation) parser state; and the points from which tokens reach a placeholder. A mask
//! adds the fragment, which is ready, and continues from those points with the continuations of the placeholders,
//! again with fragments. So the mask of a state that never occurred, in a nesting that never occurred, is put
//! together from a few lists, if the same rules were in use before.
//!
//! Fragments contain others: after the `(` of a call the same fragment is added as after the `(` of a condition.

use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;
use unskew_trie::ByteSet;

use super::{builder::MaskBuilder, shared_fragments::shared_fragment_key};
use crate::{
    ids::Id,
    network::rules::{Placeholder, Rules},
    parser::{
        continuations::Continuation,
        states::{Parser, ParserState},
        truncation::{Placeholders, Truncations},
    },
    trees::{
        cache::LibraryId,
        fragments::{Fragment, SuffixPoints},
        library::TreeLibrary,
        nodes::TreeNode,
        points::{Loop, OpenNode, Origin, Point, PointKey, Segment},
    },
};

/// The continuation of a placeholder, and how the mask resumes there.
#[derive(Clone, Copy)]
struct AfterPlaceholder {
    continuation: Continuation,
    resume: Resume,
}

#[derive(Clone, Copy)]
enum Resume {
    /// At a placeholder of the fragment under construction.
    Placeholder(Placeholder),
    /// In a parser state, in which the rest begins with these bytes.
    State(ParserState, ByteSet),
}

/// Fragments, and those under construction.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    truncations: Truncations,
    /// By point and truncated state; `None` where there is no fragment.
    fragments: HashMap<(PointKey, ParserState), Option<Arc<Fragment>>>,
    bytes: usize,
    work: Work,
    /// How many fragments are under construction, one inside the other.
    making: u32,
    nested: u32,
    looked_at: usize,
}

/// The work on the fragment under construction, or on the mask itself.
#[derive(Debug, Default)]
struct Work {
    /// The nodes of the fragment.
    nodes: Vec<(Arc<TreeNode>, bool)>,
    /// The points from which tokens reach a placeholder.
    reached: Vec<(Point, Placeholder)>,
    /// The points from which tokens have continued with a continuation.
    resumed: HashSet<(PointKey, Continuation)>,
    /// The suffix group whose nodes are on the heap of ended literals.
    on_heap: Option<LibraryId>,
    /// The suffix group of the point of the fragment. It contains no fragments of other nodes of the group: these
    /// would hold the same tokens again and again.
    made_in: Option<LibraryId>,
    /// Whether tokens are missing.
    has_failed: bool,
}

impl Fragments {
    /// Begins a mask.
    pub(crate) fn begin(&mut self) {
        (self.making, self.nested, self.looked_at) = (0, 0, 0);
        let Work { nodes, reached, resumed, has_failed, .. } = &mut self.work;
        nodes.clear();
        reached.clear();
        resumed.clear();
        *has_failed = false;
    }

    /// Notes that tokens are missing: the mask is built by a walk then.
    pub(crate) fn fail(&mut self) {
        self.work.has_failed = true;
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.work.has_failed
    }

    /// Notes that the tokens inside `node` belong to the fragment under construction.
    pub(crate) fn note_node(&mut self, node: &Arc<TreeNode>, continues: bool) {
        if self.making > 0 && node.words().is_some() {
            self.work.nodes.push((Arc::clone(node), continues));
        }
    }

    /// Sets the suffix group whose nodes are on the heap of ended literals, and answers the one before.
    pub(crate) fn set_on_heap(&mut self, group: Option<LibraryId>) -> Option<LibraryId> {
        std::mem::replace(&mut self.work.on_heap, group)
    }

    /// Whether the fragment under construction begins in this suffix group.
    pub(crate) fn is_made_in(&self, group: LibraryId) -> bool {
        self.work.made_in == Some(group)
    }

    pub(crate) fn memory_usage(&self) -> usize {
        self.bytes + self.truncations.memory_usage()
    }
}

impl MaskBuilder<'_> {
    /// Adds the fragment of `point` in a parser state, and opens nodes; builds the fragment if it is not known.
    /// Answers false if the point is not one for a fragment.
    pub(crate) fn add_by_fragment(&mut self, point: &Point, state: ParserState) -> bool {
        let tuning = &self.compiled.tuning;
        if self.gives_up() {
            return true;
        }
        if self.fragments.nested >= tuning.fragment_nesting {
            return false;
        }
        self.fragments.looked_at += 1;
        if self.fragments.looked_at > tuning.fragment_points {
            self.fragments.fail();
            return true;
        }
        let (parser, rules) = (&mut self.configurations.parser, &self.compiled.rules);
        let followers = parser.followers(state, rules);
        if parser.edges(followers).len() < tuning.fragment_edges {
            return false;
        }
        let Some(truncated) = self.fragments.truncations.truncated(parser, rules, state).cloned() else {
            return false;
        };
        let key = (self.key(point), truncated.state);
        let fragment = match self.fragments.fragments.get(&key).cloned() {
            Some(known) => {
                if let Some(fragment) = &known {
                    self.add_fragment(fragment);
                }
                known
            }
            None => {
                let fragment = self.find_fragment(point, truncated.state);
                let bytes = fragment.as_ref().map_or(0, |fragment| fragment.memory_usage());
                // A point late in a mask of too many points or steps may have a fragment in another.
                if fragment.is_some() || !self.is_late() {
                    self.fragments.bytes +=
                        bytes + 2 * size_of::<((PointKey, ParserState), Option<Arc<Fragment>>)>();
                    self.fragments.fragments.insert(key, fragment.clone());
                }
                fragment
            }
        };
        let Some(fragment) = fragment else {
            // A fragment that contains this point fails too, and so does the mask.
            self.fragments.fail();
            return true;
        };
        self.fragments.nested += 1;
        self.resume(&fragment, &truncated.placeholders, point);
        self.fragments.nested -= 1;
        true
    }

    /// Adds the fragment of `point` in a truncated state, if the library knows it or it can be built.
    fn find_fragment(&mut self, point: &Point, state: ParserState) -> Option<Arc<Fragment>> {
        let library = &self.trees.library;
        let key = self.key(point);
        let parser = &self.configurations.parser;
        let key = shared_fragment_key(self.trees, self.compiled, parser, key, state);
        if let Some(known) = key.as_ref().and_then(|key| library.shared_fragment(key)) {
            if let Some(fragment) = &known {
                self.add_fragment(fragment);
            }
            return known;
        }
        let fragment = self.build_fragment(point, state).map(Arc::new);
        if let Some(key) = key.filter(|_| !self.is_late()) {
            library.share_fragment(key, &fragment);
        }
        fragment
    }

    /// Whether the mask at hand has taken too many points or steps.
    fn is_late(&self) -> bool {
        self.configurations.parser.meter.is_over_in_trees()
            || self.fragments.looked_at > self.compiled.tuning.fragment_points
    }

    /// Adds the tokens that begin in a parser state, and opens nodes.
    pub(crate) fn add_from_root(&mut self, state: ParserState) {
        if !self.add_by_fragment(&Point::Root, state) {
            self.add_root(state);
        }
    }

    fn add_root(&mut self, state: ParserState) {
        self.reach_placeholders(state, || Point::Root);
        let trees = self.trees;
        self.add_exits(trees.library.all(), None, &Origin::Root, state, None);
    }

    /// Notes the placeholders that are reached in a parser state.
    #[inline]
    pub(crate) fn reach_placeholders(&mut self, state: ParserState, point: impl FnOnce() -> Point) {
        let followers = self.configurations.parser.followers(state, &self.compiled.rules);
        if followers.placeholders != 0 {
            let point = point();
            let reached = (0..Rules::PLACEHOLDERS)
                .filter(|placeholder| followers.placeholders >> placeholder & 1 != 0)
                .map(|placeholder| (point.clone(), Placeholder::of(placeholder)));
            self.fragments.work.reached.extend(reached);
        }
    }

    /// Continues from the points of `fragment`, which is that of `from`, with the continuations of its placeholders;
    /// opens nodes.
    fn resume(&mut self, fragment: &Fragment, placeholders: &Placeholders, from: &Point) {
        let after: SmallVec<[AfterPlaceholder; 4]> =
            placeholders.iter().map(|continuation| self.after_placeholder(*continuation)).collect();
        for (point, placeholder) in &fragment.points {
            let AfterPlaceholder { continuation, resume } = after[placeholder.index()];
            match (resume, point) {
                (Resume::Placeholder(placeholder), _) => {
                    self.fragments.work.reached.push((point.clone(), placeholder));
                }
                (Resume::State(state, first), Point::Open(open)) => {
                    let may_continue =
                        first.meets(&open.node.exits.bytes) || first.meets(&open.node.extending);
                    if may_continue && self.is_first_time(point, continuation) {
                        let mut open = OpenNode { is_added: true, parser_state: state, ..open.clone() };
                        if let Point::Open(OpenNode { node, segment, .. }) = from
                            && (node.id, segment.key()) == (open.node.id, open.segment.key())
                        {
                            open.segment = segment.clone();
                        }
                        self.buffers.open.push(open);
                    }
                }
                (Resume::State(state, _), _) => {
                    if self.is_first_time(point, continuation) {
                        self.add_from_root(state);
                    }
                }
            }
        }
        let trees = self.trees;
        for SuffixPoints { holder, index, nodes } in &fragment.suffixes {
            let exits = holder.as_ref().map_or(trees.library.all(), |holder| &holder.exits);
            let group = &exits.groups[*index];
            let trie = group.trie(&trees.library);
            // If the group is on the heap, these nodes join it: several ways may meet at one node.
            let is_on_heap = self.fragments.work.on_heap == Some(group.id);
            let mut ended = BinaryHeap::new();
            if !is_on_heap {
                std::mem::swap(&mut ended, &mut self.buffers.ended);
            }
            for (at, placeholder) in nodes {
                let AfterPlaceholder { continuation, resume } = after[placeholder.index()];
                match resume {
                    Resume::Placeholder(placeholder) => {
                        let point = Point::Suffix(holder.clone(), *index, *at);
                        self.fragments.work.reached.push((point, placeholder));
                    }
                    Resume::State(state, first) => {
                        let key = (PointKey::Suffix(group.id, *at), continuation);
                        if trie.children(*at).any(|(byte, _)| first.contains(byte))
                            && self.fragments.work.resumed.insert(key)
                        {
                            self.buffers.ended.push(Reverse((*at, state.into())));
                        }
                    }
                }
            }
            if !is_on_heap {
                self.continue_ended(holder.as_ref(), group, *index);
                self.buffers.ended = ended;
            }
        }
    }

    /// Whether no tokens have continued from `point` with `continuation` yet.
    fn is_first_time(&mut self, point: &Point, continuation: Continuation) -> bool {
        let key = (self.key(point), continuation);
        self.fragments.work.resumed.insert(key)
    }

    /// How the mask resumes after a rule with this continuation.
    fn after_placeholder(&mut self, continuation: Continuation) -> AfterPlaceholder {
        let Self { configurations, compiled, .. } = self;
        let frames = configurations.parser.continuations().frames(continuation);
        if let [(position, ..)] = frames
            && let Some(placeholder) = compiled.rules.placeholder_of(*position)
        {
            return AfterPlaceholder { continuation, resume: Resume::Placeholder(placeholder) };
        }
        let state = configurations.parser.after(continuation, &compiled.rules);
        let followers = configurations.parser.followers(state, &compiled.rules);
        let first = match followers.placeholders {
            0 => configurations.first_bytes(compiled, state),
            _ => (0..=u8::MAX).collect(),
        };
        AfterPlaceholder { continuation, resume: Resume::State(state, first) }
    }

    /// Adds the tokens that continue from `point` in a truncated state, and builds their fragment.
    fn build_fragment(&mut self, point: &Point, state: ParserState) -> Option<Fragment> {
        let (added, to_verify) = (self.union.added(), self.to_verify.len());
        let outer = self.configurations.parser.meter.begin_fragment();
        let outer_work = std::mem::take(&mut self.fragments.work);
        let outer_buffers = (std::mem::take(&mut self.buffers.open), std::mem::take(&mut self.buffers.ended));
        self.fragments.making += 1;
        self.fragments.nested += 1;
        match point {
            Point::Root => self.add_root(state),
            Point::Open(open) => {
                let mut segment = open.segment.clone();
                if let Segment::Fused { loops, .. } = &mut segment {
                    let own = Loop { from: open.parser_state, to: open.parser_state };
                    *loops = (*loops == Some(own)).then_some(Loop { from: state, to: state });
                }
                self.add_open(&OpenNode { segment, parser_state: state, ..open.clone() });
            }
            Point::Suffix(holder, index, at) => {
                let group = point.group(&self.trees.library).expect("it is a suffix node");
                self.fragments.work.made_in = Some(group.id);
                self.add_after_suffix(holder.as_ref(), (group, *index), *at, state);
                self.continue_ended(holder.as_ref(), group, *index);
            }
        }
        self.add_paths();
        let steps = self.configurations.parser.meter.end_fragment(outer);
        self.fragments.nested -= 1;
        self.fragments.making -= 1;
        (self.buffers.open, self.buffers.ended) = outer_buffers;
        let Work { nodes, reached, has_failed, .. } = std::mem::replace(&mut self.fragments.work, outer_work);
        if has_failed {
            self.union.truncate(added);
            self.to_verify.truncate(to_verify);
            return None;
        }
        nodes.iter().for_each(|(node, continues)| self.fragments.note_node(node, *continues));
        self.union.dedup(added, self.buffer);
        let (points, suffixes) = points_of(&self.trees.library, reached);
        Some(Fragment {
            ids: self.union.ids[added.1..].into(),
            nodes: nodes.into(),
            to_verify: self.to_verify[to_verify..].into(),
            points,
            suffixes,
            steps,
        })
    }

    fn add_fragment(&mut self, fragment: &Fragment) {
        self.configurations.parser.meter.add_fragment(fragment.steps);
        self.union.ids.extend_from_slice(&fragment.ids);
        self.to_verify.extend_from_slice(&fragment.to_verify);
        fragment.nodes.iter().for_each(|(node, continues)| self.add_node(node, *continues));
    }

    fn key(&self, point: &Point) -> PointKey {
        match point {
            Point::Root => PointKey::Root,
            Point::Open(OpenNode { node, segment, origin, is_added, .. }) => {
                let is_begun = matches!((origin, segment), (Origin::Begun, Segment::Terminal(..)));
                PointKey::Open(node.id, segment.key(), is_begun, *is_added)
            }
            Point::Suffix(_, _, at) => {
                PointKey::Suffix(point.group(&self.trees.library).expect("it is a suffix node").id, *at)
            }
        }
    }
}

/// A point, and the placeholder that is reached with it.
type ReachedPoint = (Point, Placeholder);

/// The points of a fragment, suffix nodes by their groups. Parser states are numbers of this scratch, and are dropped.
fn points_of(
    library: &TreeLibrary,
    reached: Vec<ReachedPoint>,
) -> (Box<[ReachedPoint]>, Box<[SuffixPoints]>) {
    let (mut suffixes, mut points): (Vec<_>, Vec<_>) =
        reached.into_iter().partition(|(point, _)| matches!(point, Point::Suffix(..)));
    for (point, _) in &mut points {
        if let Point::Open(open) = point {
            open.parser_state = Parser::START;
            if let Segment::Fused { loops, .. } = &mut open.segment {
                *loops = None;
            }
        }
    }
    let group = |point: &Point| point.group(library).map(|group| group.id);
    suffixes.sort_by_key(|(point, _)| group(point));
    let groups = suffixes.chunk_by(|(left, _), (right, _)| group(left) == group(right));
    let suffixes = groups.filter_map(|points| {
        let Point::Suffix(holder, index, _) = &points[0].0 else { return None };
        let node = |(point, placeholder): &(Point, Placeholder)| match point {
            Point::Suffix(_, _, at) => Some((*at, *placeholder)),
            _ => None,
        };
        let nodes = points.iter().filter_map(node).collect();
        Some(SuffixPoints { holder: holder.clone(), index: *index, nodes })
    });
    (points.into(), suffixes.collect())
}
