//! The walk of an automaton over a vocabulary that fills a mask: on quotients where possible, on bytes elsewhere.
//!
//! Five things make the walk fast, and none of them changes the mask:
//!
//! - On a [quotient](crate::quotient), all tokens of equal shape are one node. A node is entered if the automaton
//!   leads all characters of its last symbol to one state. Otherwise its members are walked one by one.
//! - Below a node all tokens may lead on: the symbols below are known, and the automaton stays in its state with all
//!   of them (`[^"]*`), or goes from state to state (`.{0,100}`). Then all tokens below are allowed at once, by a
//!   union of masks if they are many.
//! - If all tokens below lead on but for a few exceptions (`[^"]*`), only the exceptions are walked to ([`bulk`],
//!   over runs of [`uniform`] steps).
//! - The state to which a symbol beyond ASCII leads is looked up once for each state of a walk ([`states`]).
//! - An automaton may know bytes that lead to no dead end ([`safe`](crate::safe)). All tokens below a node that hold
//!   no other bytes are allowed without a step. Names beside keywords need it: each letter leads to a state of its own
//!   there, and a mask of 79,000 tokens read 200,000 bytes before, and reads 18,000 now.
//!
//! Tried instead: to keep for each state the symbols that lead to one place, so that the symbols below a node are
//! compared with them at once. That saves a third of the second point and costs as much elsewhere. Tried also: a walk
//! of its own for the few letters that lead elsewhere than all others at the beginning of a text, as after `</`. That
//! changed the mean of the masks by less than a hundredth.
//!
//! Measured over 58 regexes and 1,600 masks, first visits, in microseconds:
//!
//! | vocabulary | walk | median | 99th percentile | largest |
//! |---|---|---|---|---|
//! | 128,000 tokens | this one | 4 | 93 | 212 |
//! | 100,000 tokens | this one | 4 | 78 | 197 |
//! | 100,000 tokens | before exceptions were walked alone | - | 154 | 376 |
//!
//! Over an earlier suite the walk over bytes took 2 (median) and 1,393 (largest). So a mask of few tokens costs two
//! to three microseconds more than by the walk over bytes.

mod bulk;
mod sink;
mod states;
#[cfg(test)]
mod tests;
mod uniform;

use unskew_core::TokenId;

pub use self::sink::KindTokens;
pub(crate) use self::sink::{Kinds, Sink};
use self::{
    bulk::{Excluded, Prefix},
    sink::unite,
    states::States,
    uniform::ENDLESS,
};
use crate::{
    automaton::{ByteAutomaton, DEAD, MIXED, UNKNOWN, Verdict},
    byte_trie::ByteTrie,
    ids::{Id, SummaryId},
    quotient::{Member, Quotient, Quotients, Summary},
    safe::SymbolsBelow,
    symbols::{DIGIT, LOWER, MAX_SYMBOLS, Runs, Symbol, SymbolSet, Symbols, UPPER},
};

/// The tables that a walk passes over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Tables {
    /// All tokens.
    pub(crate) bytes: ByteTrie,
    /// The symbols below the nodes of `bytes`.
    pub(crate) below: SymbolsBelow,
    /// All tokens that are strings of whole characters.
    pub(crate) quotients: Quotients,
    /// The tokens that are in no quotient.
    pub(crate) irregular: ByteTrie,
}

/// Puts into `sink` the tokens that `automaton` allows from `start`.
pub(crate) fn fill<A: ByteAutomaton, S: Sink>(tables: &Tables, automaton: &mut A, start: u32, sink: S) {
    let irregular = &tables.irregular;
    let mut walk = Walk::new(tables, automaton, sink);
    walk.quotient(tables.quotients.whole(), start);
    walk.bytes(irregular, None, (0, irregular.len()), 0, start);
}

struct Walk<'a, A, S> {
    trie: &'a ByteTrie,
    symbols_below: &'a SymbolsBelow,
    quotients: &'a Quotients,
    automaton: &'a mut A,
    runs: Runs,
    sink: S,
    /// The states along the present prefix. Those of a nested quotient come after those of the outer one.
    path: Vec<u32>,
    /// The state to which each symbol leads from a state, or [`UNKNOWN`].
    rows: Vec<[u32; MAX_SYMBOLS]>,
    states: States,
    /// The state whose row was looked up last, and the index of the row.
    last: (u32, u32),
    /// The classes of the ASCII bytes that are symbols by themselves: one byte of each class, and all its bytes as
    /// bits.
    classes: Vec<(u8, u128)>,
    /// All tokens but the excluded ones, in words of a mask, for [`accept_bulk`](Self::accept_bulk).
    included: Vec<u32>,
    /// The symbols whose tokens `included` leaves out, once it was made.
    excluded: Option<Excluded>,
    /// The symbols in front of the quotient that is walked.
    prefix: Prefix,
    /// The depth of nested bulk acceptances.
    bulk_depth: u8,
}

/// Some nodes of a quotient.
#[derive(Clone, Copy)]
struct Nodes {
    first: usize,
    end: usize,
    /// The first node of the quotient.
    root: usize,
    /// The index in `path` of the state in front of the quotient.
    base: usize,
}

impl<'a, A: ByteAutomaton, S: Sink> Walk<'a, A, S> {
    fn new(tables: &'a Tables, automaton: &'a mut A, sink: S) -> Self {
        let runs = Runs::new(automaton);
        Self {
            trie: &tables.bytes,
            symbols_below: &tables.below,
            quotients: &tables.quotients,
            automaton,
            runs,
            sink,
            path: vec![],
            rows: vec![],
            states: States::default(),
            last: (DEAD, 0),
            classes: vec![],
            included: vec![],
            excluded: None,
            prefix: Prefix::default(),
            bulk_depth: 0,
        }
    }

    /// Walks a quotient from `start`, except the tokens of the empty string.
    fn quotient(&mut self, quotient: Quotient, start: u32) {
        let base = self.path.len();
        self.path.resize(base + quotient.height as usize + 1, start);
        let root = quotient.first as usize;
        let nodes = Nodes { first: root, end: quotient.end as usize, root, base };
        if !self.below(quotient.summary, start, 0, nodes) {
            self.nodes(nodes);
        }
        self.path.truncate(base);
    }

    /// Walks nodes of a quotient. The first of them has a state for the symbols in front of it.
    fn nodes(&mut self, nodes: Nodes) {
        let quotients = self.quotients;
        let Nodes { first, end, root, base } = nodes;
        let mut at = first;
        while at < end {
            let node = quotients.nodes[at];
            let state = self.path[base + node.depth()];
            if let Some(summary) = node.summary.map(|summary| quotients.summary(summary)) {
                let mut symbols = quotients.set(summary.symbols);
                symbols.insert(node.symbol());
                if self.are_safe(state, symbols) {
                    self.sink.insert(0, quotients.own(at).iter().copied());
                    self.add_below(&summary, 0);
                    at = node.end as usize;
                    continue;
                }
            }
            match self.target(state, node.symbol()) {
                DEAD => at = node.end as usize,
                MIXED => {
                    self.members(at, state, root);
                    at = node.end as usize;
                }
                next => {
                    self.path[base + node.depth() + 1] = next;
                    let own = quotients.own(at);
                    match node.summary {
                        None => {
                            self.add(next, own);
                            at += 1;
                        }
                        Some(summary) => {
                            match quotients.summary(summary).own_mask {
                                None => self.add(next, own),
                                Some(mask) => self.add_many(next, own, quotients.mask(mask)),
                            }
                            let below = Nodes { first: at + 1, end: node.end as usize, ..nodes };
                            at = if self.below(node.summary, next, node.depth() + 1, below) {
                                below.end
                            } else {
                                at + 1
                            };
                        }
                    }
                }
            }
        }
    }

    /// Whether all tokens of these symbols are allowed from `state` without a step.
    #[inline]
    fn are_safe(&mut self, state: u32, symbols: SymbolSet) -> bool {
        self.automaton.safe(state).is_some_and(|safe| safe.covers(symbols))
    }

    /// Walks on from the members of a node of the quotient that begins at `root`. The automaton goes into the node's
    /// last symbol from `state`.
    fn members(&mut self, at: usize, state: u32, root: usize) {
        let (trie, quotients) = (self.trie, self.quotients);
        let mut members = quotients.members_of(at);
        let mut prefix = None;
        while let Some(Member { char, .. }) = members.first().copied() {
            let mut buffer = [0; 4];
            let mut next = state;
            for byte in char.encode_utf8(&mut buffer).bytes() {
                next = self.automaton.step(next, byte);
                if next == DEAD {
                    break;
                }
            }
            let same = members.partition_point(|member| member.char == char);
            if next != DEAD {
                for member in &members[..same] {
                    let at_member = member.node.index();
                    let node = trie.nodes[at_member];
                    self.add(next, trie.own(at_member));
                    let below = at_member + 1..node.end as usize;
                    if below.is_empty() {
                        continue;
                    }
                    // A quotient asks where all letters lead, and safe bytes need no answer.
                    let quotient = member.quotient.filter(|_| self.automaton.safe(next).is_none());
                    match quotient {
                        None => {
                            let nodes = (below.start, below.end);
                            self.bytes(trie, Some(self.symbols_below), nodes, node.depth() + 1, next);
                        }
                        Some(quotient) => {
                            let inner = *prefix.get_or_insert_with(|| {
                                self.prefix_of(root, at + 1, quotients.nodes[at].depth() + 1)
                            });
                            let outer = std::mem::replace(&mut self.prefix, inner);
                            self.quotient(quotients.quotient(quotient), next);
                            self.prefix = outer;
                        }
                    }
                }
            }
            members = &members[same..];
        }
    }

    /// Walks nodes of a byte trie, from the first to the end. The first of them is `depth` bytes deep, its own byte
    /// not counted. `symbols` are those below the nodes, if they are known.
    fn bytes(
        &mut self,
        trie: &ByteTrie,
        symbols: Option<&SymbolsBelow>,
        (first, end): (usize, usize),
        depth: usize,
        start: u32,
    ) {
        let base = self.path.len();
        self.path.push(start);
        let mut at = first;
        while at < end {
            let node = trie.nodes[at];
            let level = base + node.depth() - depth;
            match self.automaton.step(self.path[level], node.byte()) {
                DEAD => at = node.end as usize,
                next => {
                    if level + 1 == self.path.len() {
                        self.path.push(next);
                    } else {
                        self.path[level + 1] = next;
                    }
                    let end = node.end as usize;
                    if at + 1 < end && symbols.is_some_and(|symbols| self.are_safe(next, symbols.of(at))) {
                        self.sink.insert(0, trie.below(at).iter().copied());
                        at = end;
                    } else {
                        self.add(next, trie.own(at));
                        at += 1;
                    }
                }
            }
        }
        self.path.truncate(base);
    }

    /// Allows `tokens`, which end in `state`, as far as the state's verdict permits.
    #[inline(always)]
    fn add(&mut self, state: u32, tokens: &[TokenId]) {
        if tokens.is_empty() {
            return;
        }
        match self.automaton.verdict(state) {
            Verdict::All => self.sink.insert(0, tokens.iter().copied()),
            Verdict::Kind(kind) => self.sink.insert(kind, tokens.iter().copied()),
            Verdict::Each => self.add_each(state, tokens),
            Verdict::None => {}
        }
    }

    /// Allows the tokens of `tokens`, which end in `state`, that the automaton admits.
    #[inline(never)]
    fn add_each(&mut self, state: u32, tokens: &[TokenId]) {
        for token in tokens {
            if self.automaton.admits(state, *token) {
                self.sink.insert(0, std::iter::once(*token));
            }
        }
    }

    /// As [`add`](Self::add), for tokens that also exist as a mask.
    fn add_many(&mut self, state: u32, tokens: &[TokenId], mask: &[u32]) {
        match self.automaton.verdict(state).kind() {
            Some(kind) => unite(self.sink.words(kind), mask),
            None => self.add(state, tokens),
        }
    }

    /// Allows all tokens below a node, if one look shows that all of them are allowed from `state`, or [nearly all of
    /// them](Self::accept_bulk). `depth` is the depth of the node's children.
    fn below(&mut self, summary: Option<SummaryId>, state: u32, depth: usize, nodes: Nodes) -> bool {
        let Some(summary) = summary else { return false };
        let summary = self.quotients.summary(summary);
        if summary.tokens_below() == 0 {
            return false;
        }
        let symbols = self.quotients.set(summary.symbols);
        let ascii = symbols.ascii();
        if self.are_safe(state, symbols) {
            self.add_below(&summary, 0);
            return true;
        }
        let kind = match self.uniform_step(state).filter(|step| ascii & step.ascii != 0) {
            Some(step) if ascii & !step.ascii == 0 => {
                let step = self.uniform_run(state);
                if step.run == 0 {
                    return false;
                }
                if !symbols.has_non_ascii() || step.non_ascii {
                    if summary.height as usize > usize::from(step.run) && step.run != ENDLESS {
                        return self.accept_bulk(summary, state, step, depth, nodes);
                    }
                    Some(step.kind)
                } else if self.non_ascii_target(state) == MIXED {
                    // The symbols beyond ASCII are looked at one by one.
                    self.whole_kind(summary, state)
                } else {
                    return self.accept_bulk(summary, state, step, depth, nodes);
                }
            }
            Some(step) => return self.accept_bulk(summary, state, step, depth, nodes),
            None => self.whole_kind(summary, state),
        };
        let Some(kind) = kind else { return false };
        self.add_below(&summary, kind);
        true
    }

    /// Allows all tokens below a node.
    fn add_below(&mut self, summary: &Summary, kind: u8) {
        match summary.below_mask {
            None => self.sink.insert(kind, self.quotients.below(summary).iter().copied()),
            Some(mask) => unite(self.sink.words(kind), self.quotients.mask(mask)),
        }
    }

    /// The kind of all tokens below, if all are allowed as one kind. That is so if the symbols below all lead from
    /// `state` to one state, all from there to one state, and so on to the depth of the longest string, and if every
    /// token that ends in one of these states is allowed as that kind.
    fn whole_kind(&mut self, summary: Summary, mut state: u32) -> Option<u8> {
        let mut kind = None;
        let symbols = self.quotients.set(summary.symbols);
        for step in 0..summary.height as usize {
            let mut next = UNKNOWN;
            for symbol in symbols.iter() {
                let target = self.target(state, symbol);
                if target >= MIXED || (next != UNKNOWN && next != target) {
                    return None;
                }
                next = target;
            }
            let found = self.automaton.verdict(next).kind()?;
            if *kind.get_or_insert(found) != found {
                return None;
            }
            if next == state {
                return kind;
            }
            if step == self.quotients.tuning.run_states {
                return None;
            }
            state = next;
        }
        kind
    }

    /// The state to which a symbol leads; see [`Symbols::target`].
    #[inline(always)]
    fn target(&mut self, state: u32, symbol: Symbol) -> u32 {
        match symbol {
            LOWER | UPPER | DIGIT => symbol.ascii_target(self.automaton, &self.runs, state),
            Symbol(byte @ 0..128) => self.automaton.step(state, byte),
            _ => self.symbol_target(state, symbol),
        }
    }

    /// The state to which a symbol beyond ASCII leads.
    #[inline]
    fn symbol_target(&mut self, state: u32, symbol: Symbol) -> u32 {
        let row = if self.last.0 == state { self.last.1 } else { self.row(state) };
        let known = self.rows[row as usize][symbol.index()];
        if known != UNKNOWN {
            return known;
        }
        let target = self.quotients.symbols.target(self.automaton, &mut self.runs, state, symbol);
        self.rows[row as usize][symbol.index()] = target;
        target
    }

    /// The index of the row of `state`, which is made if it is new.
    #[cold]
    fn row(&mut self, state: u32) -> u32 {
        let place = self.states.place(state);
        let row = match self.states[place].row {
            Some(row) => row,
            None => {
                let mut row = [UNKNOWN; MAX_SYMBOLS];
                // One question answers for all symbols beyond ASCII where they lead to one state, as they often do.
                let target = self.non_ascii_target(state);
                if target != MIXED {
                    row[128..].fill(target);
                }
                let index = self.rows.len() as u32;
                self.states[place].row = Some(index);
                self.rows.push(row);
                index
            }
        };
        self.last = (state, row);
        row
    }

    /// The state to which all characters beyond ASCII lead from `state`, or [`MIXED`].
    fn non_ascii_target(&mut self, state: u32) -> u32 {
        let place = self.states.place(state);
        if self.states[place].non_ascii == UNKNOWN {
            self.states[place].non_ascii = Symbols::any_target(self.automaton, &mut self.runs, state);
        }
        self.states[place].non_ascii
    }
}
