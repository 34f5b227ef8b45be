//! The automaton of all spellings in explicit form: the DFA over bytes with an edge for every token that it reads.
//!
//! B. T. Willard and R. Louf, *Efficient Guided Generation for Large Language Models* (2023), section 4, build this
//! automaton in advance for every regex (their index), and Outlines decodes with it. It is the baseline of all
//! comparisons. For decoding use [`RegexConstraint`](crate::RegexConstraint), which computes the edges of a state on
//! the first request.
//!
//! A walk over the trie of a vocabulary of 100,000 tokens takes half a millisecond for each state. But the DFA
//! distinguishes few bytes: tokens whose bytes are in the same classes have the same target in every state. So the
//! trie is walked once, into a trie over *classes of bytes*, in which each node that ends tokens is a *class of
//! tokens*; each state then walks only that trie, and stores a transition for each class. Over GPT-2's vocabulary the
//! tokens that occur in `[a-z ]{1,40}` are in 21 classes, its million edges are 618 transitions, and the construction
//! takes a sixteenth of the time of walks over the vocabulary. For a few words, where each byte is a class of its
//! own, both take equally long.
//!
//! Tried instead: to store the edges of each state token by token. That multiplies the memory by the size of the
//! classes.

use std::{fmt, ops::Range, sync::Arc};

use unskew_core::{TokenId, Vocabulary};
use unskew_trie::TokenTrie;

use super::{PublishedError, PublishedLimits, edges::constraint_by_edges};
use crate::{
    Dfa, StateId, TokenDfa,
    dfa::{
        state::StateVec,
        table::{DEAD, Table},
    },
};

/// No node, or no class of tokens.
const NONE: u32 = u32::MAX;

/// A DFA over tokens that accepts every spelling of every accepted text, with all states and all edges. Immutable.
///
/// Its states are the states of the DFA over bytes that are reachable and co-accessible over tokens, under the same
/// ids.
///
/// # Example
///
/// ```
/// use std::sync::Arc;
/// use unskew_automata::{Dfa, Limits, TokenDfa, published::{LiftedDfa, PublishedLimits}};
/// use unskew_core::Vocabulary;
/// use unskew_trie::TokenTrie;
///
/// let mut builder = Vocabulary::builder();
/// let [a, b, ab, ba] = ["a", "b", "ab", "ba"].map(|text| builder.text(text.as_bytes()));
/// let trie = Arc::new(TokenTrie::new(builder.build()?)?);
/// let limits = Limits::default();
/// let dfa = Arc::new(Dfa::from_pattern("[ab]{2}", &limits)?);
/// let lifted = LiftedDfa::new(&TokenDfa::new(dfa, trie, &limits)?, &PublishedLimits::default())?;
///
/// assert_eq!((lifted.len(), lifted.edge_count()), (3, 6)); // four edges leave the start, two the state after it
/// assert_eq!(lifted.token_classes(), 2); // tokens of one letter, and of two
/// assert_eq!(lifted.step(lifted.start(), ab), lifted.step(lifted.start(), ba));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LiftedDfa {
    dfa: Arc<Dfa>,
    vocabulary: Arc<Vocabulary>,
    /// In ascending order.
    states: Vec<StateId>,
    /// By state of the DFA over bytes: the range of its entries in `transitions`.
    ranges: StateVec<Range<usize>>,
    /// Classes of tokens and targets; the entries of a state are in ascending order of classes.
    transitions: Vec<(u32, StateId)>,
    classes: TokenClasses,
    edge_count: u64,
}

/// Tokens by class, and classes by token.
#[derive(Clone)]
struct TokenClasses {
    /// By token: its class plus one, 0 if it has none. The initial zeroes cost no memory until a page is used.
    of: Vec<u32>,
    /// `tokens[offsets[c]..offsets[c + 1]]` are the tokens of class `c`, in the order of their bytes, then of ids.
    offsets: Vec<u32>,
    tokens: Vec<TokenId>,
}

impl TokenClasses {
    fn members(&self, class: u32) -> &[TokenId] {
        let class = class as usize;
        &self.tokens[self.offsets[class] as usize..self.offsets[class + 1] as usize]
    }
}

impl LiftedDfa {
    /// All states and edges of `tokens`.
    ///
    /// Cost: a walk over the trie of the vocabulary, and for each state a walk over the trie of token classes. A
    /// stored transition takes 8 bytes, a token 12.
    ///
    /// # Errors
    ///
    /// [`PublishedError::LiftTooLarge`], [`PublishedError::LiftTooCostly`].
    pub fn new(tokens: &TokenDfa, limits: &PublishedLimits) -> Result<Self, PublishedError> {
        let dfa = tokens.dfa();
        let table = dfa.table();
        let (class_trie, classes) = class_trie(table, tokens.trie());

        let mut ranges: StateVec<Range<usize>> = dfa.states().map(|_| 0..0).collect();
        let mut seen: StateVec<bool> = dfa.states().map(|_| false).collect();
        let mut transitions = Vec::new();
        let mut states = vec![dfa.start()];
        seen[dfa.start()] = true;
        let (mut edge_count, mut steps, mut at) = (0, 0, 0);
        let mut path = vec![0; class_trie.max_depth + 1];
        while let Some(state) = states.get(at).copied() {
            limits.check_cancelled()?;
            let begin = transitions.len();
            steps += class_trie.walk(table, state, &mut path, |class, target| {
                if tokens.is_live(target) {
                    transitions.push((class, target));
                }
            });
            if transitions.len() > limits.lift_transitions {
                return Err(PublishedError::LiftTooLarge { limit: limits.lift_transitions, states: at });
            }
            if steps > limits.lift_steps {
                return Err(PublishedError::LiftTooCostly { limit: limits.lift_steps, states: at });
            }
            for (class, target) in &transitions[begin..] {
                edge_count += classes.members(*class).len() as u64;
                if !std::mem::replace(&mut seen[*target], true) {
                    states.push(*target);
                }
            }
            ranges[state] = begin..transitions.len();
            at += 1;
        }
        states.sort_unstable();
        transitions.shrink_to_fit();
        let (dfa, vocabulary) = (Arc::clone(dfa), Arc::clone(tokens.vocabulary()));
        Ok(Self { dfa, vocabulary, states, ranges, transitions, classes, edge_count })
    }

    /// The state before the first token.
    pub fn start(&self) -> StateId {
        self.dfa.start()
    }

    /// The state after `token`, or `None` if no accepted sequence of tokens continues with it. O(log k) for k
    /// classes.
    ///
    /// For the states of this automaton the answer is that of [`TokenDfa::step`]; any other state of the DFA over
    /// bytes has no edges.
    ///
    /// # Panics
    ///
    /// If the DFA over bytes has no such state. The other methods that take a state also panic.
    #[inline]
    pub fn step(&self, state: StateId, token: TokenId) -> Option<StateId> {
        let class = self.classes.of.get(token.index())?.checked_sub(1)?;
        let transitions = self.slice(state);
        transitions.binary_search_by_key(&class, |(class, _)| *class).ok().map(|at| transitions[at].1)
    }

    /// Whether the sequence may end here.
    pub fn is_accepting(&self, state: StateId) -> bool {
        self.dfa.is_accepting(state)
    }

    /// The edges of `state`, class by class: targets repeat, and tokens are not in ascending order.
    pub fn edges(&self, state: StateId) -> impl Iterator<Item = (TokenId, StateId)> {
        self.slice(state)
            .iter()
            .flat_map(|(class, target)| self.classes.members(*class).iter().map(|token| (*token, *target)))
    }

    /// The only token that is allowed, unless the sequence may end. O(1).
    pub fn forced_token(&self, state: StateId) -> Option<TokenId> {
        match self.slice(state) {
            [(class, _)] if !self.is_accepting(state) => match self.classes.members(*class) {
                [token] => Some(*token),
                _ => None,
            },
            _ => None,
        }
    }

    /// The number of states: at least one.
    #[allow(clippy::len_without_is_empty, reason = "there is always a state")]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Every state, in ascending order. States that no sequence of tokens reaches are left out, so the numbers have
    /// gaps.
    pub fn states(&self) -> impl DoubleEndedIterator<Item = StateId> {
        self.states.iter().copied()
    }

    /// The number of edges, over all states.
    pub fn edge_count(&self) -> u64 {
        self.edge_count
    }

    /// The number of stored transitions: one for each state and class of tokens.
    pub fn transition_count(&self) -> usize {
        self.transitions.len()
    }

    /// The number of classes: sets of tokens that have the same target in every state.
    pub fn token_classes(&self) -> usize {
        self.classes.offsets.len() - 1
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// The memory of the tables, in bytes. The struct itself, the DFA over bytes and the vocabulary are not counted.
    pub fn memory_usage(&self) -> usize {
        let TokenClasses { of, offsets, tokens } = &self.classes;
        size_of_val(&self.states[..])
            + self.dfa.len() * size_of::<Range<usize>>()
            + size_of_val(&self.transitions[..])
            + size_of_val(&of[..])
            + size_of_val(&offsets[..])
            + size_of_val(&tokens[..])
    }

    fn slice(&self, state: StateId) -> &[(u32, StateId)] {
        &self.transitions[self.ranges[state].clone()]
    }
}

constraint_by_edges!(LiftedDfa, |automaton| automaton.vocabulary.len());

impl fmt::Debug for LiftedDfa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiftedDfa")
            .field("states", &self.len())
            .field("edges", &self.edge_count)
            .field("token_classes", &self.token_classes())
            .finish_non_exhaustive()
    }
}

/// The trie of a vocabulary over classes of bytes, depth-first as [`TokenTrie`] itself. It has no bytes that no
/// accepted text has, and no two bytes in succession that are not in succession in some accepted text.
struct ClassTrie {
    nodes: Vec<Node>,
    max_depth: usize,
}

#[derive(Clone, Copy)]
struct Node {
    /// Index of the first node after this one's subtree.
    end: u32,
    /// The length of the prefix, minus one.
    depth: u32,
    /// The class of the tokens that are equal to the prefix, or [`NONE`].
    class: u32,
    /// The class of the last byte of the prefix.
    byte_class: u8,
}

impl ClassTrie {
    /// Calls `visit` with every class of tokens that `table` reads from `state`, and its target, in ascending order
    /// of classes. `path` has room for `max_depth + 1` states. Returns the number of visited nodes.
    fn walk(
        &self,
        table: &Table,
        state: StateId,
        path: &mut [u32],
        mut visit: impl FnMut(u32, StateId),
    ) -> u64 {
        let width = table.classes.len();
        let (mut at, mut steps) = (0, 0);
        path[0] = state.0;
        while let Some(node) = self.nodes.get(at) {
            steps += 1;
            let depth = node.depth as usize;
            let next = table.next[path[depth] as usize * width + usize::from(node.byte_class)];
            if next == DEAD {
                at = node.end as usize;
                continue;
            }
            path[depth + 1] = next;
            at += 1;
            if node.class != NONE {
                visit(node.class, StateId(next));
            }
        }
        steps
    }
}

/// The pairs of classes of bytes that are adjacent in accepted texts. For a regex of a few words, they leave a
/// hundredth of the trie.
struct AdjacentClasses {
    /// By class: whether it occurs.
    used: Vec<bool>,
    /// By class: the set of classes that may follow.
    after: Vec<[u64; 4]>,
}

impl AdjacentClasses {
    fn new(table: &Table) -> Self {
        let mut leave = vec![[0u64; 4]; table.len()];
        for state in table.states() {
            for (class, _) in table.transitions(state) {
                leave[state.index()][usize::from(class) / 64] |= 1 << (class % 64);
            }
        }
        let mut used = vec![false; table.classes.len()];
        let mut after = vec![[0; 4]; table.classes.len()];
        for state in table.states() {
            for (class, target) in table.transitions(state) {
                used[usize::from(class)] = true;
                for (after, leave) in after[usize::from(class)].iter_mut().zip(leave[target.index()]) {
                    *after |= leave;
                }
            }
        }
        Self { used, after }
    }

    fn contains(&self, class: u8, next: u8) -> bool {
        self.after[usize::from(class)][usize::from(next) / 64] >> (next % 64) & 1 == 1
    }
}

/// A node of the class trie during its construction. Children are linked, since they come in no useful order.
#[derive(Clone, Copy)]
struct Growing {
    byte_class: u8,
    first_child: u32,
    next_sibling: u32,
    /// Whether tokens end here.
    ends: bool,
}

/// Walks the trie once, into the class trie over the byte classes of `table`.
fn class_trie(table: &Table, trie: &TokenTrie) -> (ClassTrie, TokenClasses) {
    let adjacent = AdjacentClasses::new(table);
    let node = |byte_class| Growing { byte_class, first_child: NONE, next_sibling: NONE, ends: false };
    let mut growing = vec![node(0)];
    let mut found: Vec<(u32, TokenId)> = Vec::new();
    trie.walk(
        0u32,
        |parent, byte| {
            let byte_class = table.classes.get(byte);
            let possible = match parent {
                0 => adjacent.used[usize::from(byte_class)],
                _ => adjacent.contains(growing[parent as usize].byte_class, byte_class),
            };
            if !possible {
                return None;
            }
            let mut child = growing[parent as usize].first_child;
            while child != NONE && growing[child as usize].byte_class != byte_class {
                child = growing[child as usize].next_sibling;
            }
            if child == NONE {
                child = index(growing.len());
                let next_sibling = growing[parent as usize].first_child;
                growing.push(Growing { next_sibling, ..node(byte_class) });
                growing[parent as usize].first_child = child;
            }
            Some(child)
        },
        |token, node| found.push((node, token)),
    );
    for (node, _) in &found {
        growing[*node as usize].ends = true;
    }

    // The flat form is depth-first, and numbers the classes of tokens on the way.
    let mut nodes: Vec<Node> = Vec::with_capacity(growing.len() - 1);
    let mut class_of_node = vec![NONE; growing.len()];
    let mut class_count = 0;
    // The nodes with open subtrees: their positions, and their next siblings.
    let mut open: Vec<(usize, u32)> = Vec::new();
    let mut next = growing[0].first_child;
    loop {
        if next != NONE {
            let Growing { byte_class, first_child, next_sibling, ends } = growing[next as usize];
            if ends {
                class_of_node[next as usize] = class_count;
                class_count += 1;
            }
            let (depth, class) = (index(open.len()), class_of_node[next as usize]);
            open.push((nodes.len(), next_sibling));
            nodes.push(Node { end: 0, depth, class, byte_class });
            next = first_child;
        } else if let Some((complete, sibling)) = open.pop() {
            nodes[complete].end = index(nodes.len());
            next = sibling;
        } else {
            break;
        }
    }

    // Tokens by class: they are counted, and then placed in the order of discovery.
    let mut of = vec![0; trie.vocab_len()];
    let mut offsets = vec![0; class_count as usize + 1];
    for (node, token) in &found {
        let class = class_of_node[*node as usize];
        of[token.index()] = class + 1;
        offsets[class as usize + 1] += 1;
    }
    for class in 0..class_count as usize {
        offsets[class + 1] += offsets[class];
    }
    let mut at = offsets.clone();
    let mut tokens = vec![TokenId(0); found.len()];
    for (node, token) in found {
        let place: &mut u32 = &mut at[class_of_node[node as usize] as usize];
        tokens[*place as usize] = token;
        *place += 1;
    }
    let max_depth = nodes.iter().map(|node| node.depth as usize + 1).max().unwrap_or(0);
    (ClassTrie { nodes, max_depth }, TokenClasses { of, offsets, tokens })
}

fn index(value: usize) -> u32 {
    u32::try_from(value).expect("no more nodes than the trie has")
}
