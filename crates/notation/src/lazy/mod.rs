//! Lazy terminals: the first end of a lazy terminal is its boundary, and all competing readings lose the
//! texts beyond it.
//!
//! ```text
//! start: tool* TEXT
//! head[lazy]: TEXT "<call>"
//! tool: head /[0-9]+/ "</call>"
//! ```
//!
//! Without this rule, `TEXT` could continue over `<call>`, and nothing would be enforced.
//!
//! # Meaning
//!
//! A **reading** of a text cuts it into terminals. Two readings *agree* up to a position if they have the
//! same cuts up to there. Suppose the rules allow a lazy terminal *L* after a reading. From there on, *L* is
//! *open* in every reading that agrees with this one up to there and reads another terminal.
//!
//! - At the first end of an open *L*, all readings in which *L* is open are dropped, both inside a terminal
//!   and at the end of one.
//! - *L* is closed when it can no longer end, and when the reading itself completes a lazy terminal. If the
//!   two began together, they may end together, and both are kept. If *L* was open before the other began,
//!   the reading is dropped.
//! - Whether the rules allow *L* depends on the rules alone, and not on the readings that remain under this meaning.
//!
//! A terminal that ends while *L* is open does not close *L*: free text that is written as many short texts
//! does not hide a trigger. A lazy terminal that may be empty matches the empty text alone. It has no end
//! after its beginning, so it is never open.
//!
//! # Method
//!
//! The meaning depends on the rules and not on tokens. So the result is a plain grammar again, and masks,
//! trees and libraries need no support for it:
//!
//! 1. **Net** (`net.rs`). The rules that contain lazy terminals are written out into one nondeterministic
//!    automaton over terminals. Other rules remain symbols, so the body of a tool may nest to any depth.
//! 2. **States.** A state is the set of positions of the net after a reading (subset construction), together
//!    with the open lazy terminals and their automaton states.
//! 3. **Race** (`race.rs`). In each state, a terminal is read in parallel with all open lazy terminals. The
//!    result is the language of texts on which none of them ends first, divided into one automaton for each
//!    set of lazy terminals that are still open afterwards.
//! 4. States that cannot reach an end are dropped. Each remaining state becomes a rule that calls the next state's
//!    rule last, which costs the parser no frame. If no race excluded a text, the grammar remains unchanged.
//!
//! A rule that calls itself in the middle cannot be written out. It remains a symbol, with a net of its own
//! if it contains lazy terminals. That is correct if its first terminals, and the terminals with which it may
//! continue where it may also end, do not compete with the terminals around it, judged by their first bytes.
//! Otherwise the grammar is rejected ([`LazyError::Entangled`]).
//!
//! A set of positions is identified by a sequence of terminals and not by a sequence of cuts. If two
//! terminals have a common text, the sets after each of them may belong to agreeing readings. Such pairs of
//! sets are computed. If one set has a lazy terminal that shares a first byte with a terminal of the other,
//! the grammar is rejected ([`LazyError::Alike`]). The exception is a lazy terminal that was open already and
//! looks for its end at every position, as `TEXT "<call>"` does.
//!
//! Tried instead:
//!
//! - Dropping readings in `parser/places.rs` while a text is read. Subterminal trees contain every reading on
//!   its own, so all masks would be walks. It also leads to dead ends, because the rules then no longer
//!   describe the remaining language.
//! - Subtracting *L* followed by any text from each terminal. `(TEXT | tool)*` then hides the trigger in two texts.

mod module;
mod net;
mod race;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use indexmap::IndexSet;
use unskew_grammar::{
    Expr, ExprId, Grammar, GrammarError, GrammarLimits, RuleId, Terminal, TerminalId,
    kit::fixpoint::productive_and_nullable,
};
use unskew_trie::ByteSet;

use self::{
    module::{Edge, Module, State, emit},
    net::{Facts, Leaves, Net, NodeId, Symbol, Unbuilt},
    race::{Open, Race},
};

/// The uses of lazy terminals: their expressions, each with the offset of its definition in the text of the grammar.
pub(crate) type Lazy = HashMap<ExprId, usize>;

/// Why the effect of lazy terminals on other readings cannot be computed.
#[derive(Debug)]
pub(crate) enum LazyError {
    /// A rule that calls itself competes with a lazy terminal, or contains one.
    Entangled {
        /// The name of the rule.
        rule: String,
        /// The offset of the definition of the lazy terminal.
        at: usize,
    },
    /// A lazy terminal may follow only one of two terminals that have a common text.
    Alike {
        /// The terminal that may follow the other one.
        terminal: String,
        /// The offset of the definition of the lazy terminal.
        at: usize,
    },
    /// The new automata exceed [`GrammarLimits::automata_bytes`]. Holds the offset of the definition of a
    /// lazy terminal.
    TooLarge(usize),
    Grammar(GrammarError),
}

impl From<GrammarError> for LazyError {
    fn from(error: GrammarError) -> Self {
        Self::Grammar(error)
    }
}

/// The grammar of the readings that remain, or `None` if all readings remain.
pub(crate) fn resolve(
    grammar: &Grammar,
    lazy: &Lazy,
    limits: &GrammarLimits,
) -> Result<Option<Grammar>, LazyError> {
    if lazy.is_empty() {
        return Ok(None);
    }
    let (productive, nullable) = productive_and_nullable(grammar);
    // A grammar without texts is left to the compiler, which reports the reason.
    if !productive[grammar.body(grammar.start()).index()] {
        return Ok(None);
    }
    let facts = Facts::new(grammar, lazy, productive, nullable);
    let mut places: HashMap<TerminalId, usize> = HashMap::new();
    for (expr, at) in lazy {
        if let Expr::Terminal(terminal) = grammar.expr(*expr) {
            let place = places.entry(terminal).or_insert(*at);
            *place = (*at).min(*place);
        }
    }
    let written = Written::default();
    let mut resolver = Resolver {
        grammar,
        facts: &facts,
        places: &places,
        limits,
        written,
        work: 0,
        bytes: 0,
        races: HashMap::new(),
        alike: HashMap::new(),
        stays: HashMap::new(),
        trails: HashMap::new(),
    };
    // The facts about rules grow until a round adds none. Each round adds one rule.
    let modules = loop {
        match resolver.modules() {
            Ok(modules) => break modules,
            Err(Stop::Recursive(rule)) => _ = resolver.written.recursive.insert(rule),
            Err(Stop::WriteOut(rule)) => _ = resolver.written.out.insert(rule),
            Err(Stop::Error(error)) => return Err(error),
        }
    };
    match modules.values().any(|module| module.changed) {
        true => emit(grammar, &modules, limits).map(Some).map_err(LazyError::Grammar),
        false => Ok(None),
    }
}

/// The facts about rules found so far.
#[derive(Default)]
struct Written {
    /// Rules that call themselves in the middle, so they remain symbols.
    recursive: HashSet<RuleId>,
    /// Rules without lazy terminals that compete with one, so they are written out.
    out: HashSet<RuleId>,
}

/// Why a round ends early.
enum Stop {
    Recursive(RuleId),
    WriteOut(RuleId),
    Error(LazyError),
}

impl From<GrammarError> for Stop {
    fn from(error: GrammarError) -> Self {
        Self::Error(LazyError::Grammar(error))
    }
}

/// A set of positions of a net.
struct Positions {
    accepting: bool,
    /// Symbols with the sets after them, in ascending order.
    edges: Vec<(Symbol, usize)>,
}

struct Resolver<'a> {
    grammar: &'a Grammar,
    facts: &'a Facts<'a>,
    places: &'a HashMap<TerminalId, usize>,
    limits: &'a GrammarLimits,
    written: Written,
    /// The number of states and configurations of nets and races, over all rounds.
    work: usize,
    /// The memory of the automata of races, in bytes.
    bytes: usize,
    races: HashMap<(Symbol, Open, Vec<TerminalId>), Race>,
    /// By two terminals: whether they have a common text.
    alike: HashMap<(TerminalId, TerminalId), bool>,
    /// By a terminal and a lazy terminal: whether the second one [stays open](Self::stays_open).
    stays: HashMap<(TerminalId, TerminalId), bool>,
    /// By rule: the terminals that may follow inside it at a position where it may also end.
    trails: HashMap<RuleId, Rc<Leaves>>,
}

impl Resolver<'_> {
    /// The modules of the start rule, and of the rules that remain symbols and contain lazy terminals.
    fn modules(&mut self) -> Result<BTreeMap<RuleId, Module>, Stop> {
        let mut modules = BTreeMap::new();
        let mut open = vec![self.grammar.start()];
        while let Some(rule) = open.pop() {
            if modules.contains_key(&rule) {
                continue;
            }
            let module = self.module(rule)?;
            let called = module.states.iter().flat_map(|state| &state.edges);
            open.extend(called.filter_map(|(edge, _)| match edge {
                Edge::Rule(callee) if self.facts.has_lazy(*callee) => Some(*callee),
                _ => None,
            }));
            modules.insert(rule, module);
        }
        Ok(modules)
    }

    fn spend(&mut self, work: usize) -> Result<(), GrammarError> {
        self.work += work;
        let limit = self.limits.positions;
        if self.work > limit { Err(GrammarError::LazyTooCostly { limit }) } else { Ok(()) }
    }

    fn module(&mut self, rule: RuleId) -> Result<Module, Stop> {
        let written = &self.written;
        let is_symbol = |rule: RuleId| {
            written.recursive.contains(&rule) || !(self.facts.has_lazy(rule) || written.out.contains(&rule))
        };
        let left = self.limits.positions - self.work;
        let net = Net::new(self.facts, rule, is_symbol, left).map_err(|unbuilt| match unbuilt {
            Unbuilt::Recursive(rule) => Stop::Recursive(rule),
            Unbuilt::TooLarge => GrammarError::LazyTooCostly { limit: self.limits.positions }.into(),
        })?;
        self.spend(net.len())?;
        let sets = self.sets(&net)?;
        self.check_alike(&sets)?;

        // Nothing follows the end of the start rule, unless it calls itself.
        let is_whole = rule == self.grammar.start() && !self.written.recursive.contains(&rule);
        let mut module = Module::default();
        let mut states: IndexSet<(usize, Open)> = IndexSet::from([(0, Open::new())]);
        while let Some((set, open)) = states.get_index(module.states.len()).cloned() {
            self.spend(1 + sets[set].edges.len())?;
            if sets[set].accepting && !open.is_empty() && !is_whole {
                // The caller of the rule would have to know the open lazy terminals.
                return Err(self.entangled(rule, open[0].0));
            }
            let lazy: Vec<TerminalId> =
                sets[set].edges.iter().filter_map(|(symbol, _)| symbol.lazy()).collect();
            self.check_rules(&sets, set, &open, &lazy)?;
            let mut state = State { accepting: sets[set].accepting, edges: Vec::new(), lazy: lazy.clone() };
            for (symbol, to) in &sets[set].edges {
                let Some(terminal) = symbol.terminal() else {
                    let Symbol::Rule(callee) = symbol else { unreachable!("all else are terminals") };
                    state.edges.push((Edge::Rule(*callee), states.insert_full((*to, Open::new())).0));
                    continue;
                };
                if lazy.is_empty() && open.is_empty() {
                    state.edges.push((Edge::Terminal(terminal), states.insert_full((*to, Open::new())).0));
                    continue;
                }
                // At the end of the output no reading can be dropped any more.
                let is_last = is_whole && sets[*to].edges.is_empty();
                let race = self.race(*symbol, &open, &lazy)?;
                module.changed |= race.lost;
                let mut parts: BTreeMap<Open, Vec<usize>> = BTreeMap::new();
                for (part, still_open) in race.parts.iter().enumerate() {
                    let still_open = if is_last { Open::new() } else { still_open.clone() };
                    parts.entry(still_open).or_default().push(part);
                }
                for (still_open, parts) in parts {
                    let edge = match race.whole && parts.len() == race.parts.len() {
                        true => Edge::Terminal(terminal),
                        false => Edge::Cut(terminal, self.cut(&race, &parts, terminal)?),
                    };
                    state.edges.push((edge, states.insert_full((*to, still_open)).0));
                }
            }
            module.states.push(state);
        }
        module.trim();
        if module.states[0].edges.is_empty() && !module.states[0].accepting {
            let name = self.grammar.rule_name(rule);
            let reason = format!("in rule `{name}`, lazy terminals end before every other text does");
            return Err(GrammarError::Empty { reason }.into());
        }
        Ok(module)
    }

    /// The sets of positions of `net` after each reading. The first is the initial set.
    fn sets(&mut self, net: &Net) -> Result<Vec<Positions>, GrammarError> {
        let mut nodes: IndexSet<Vec<NodeId>> = IndexSet::from([net.closure([Net::START])]);
        let mut sets: Vec<Positions> = Vec::new();
        while let Some(of_set) = nodes.get_index(sets.len()).cloned() {
            let mut behind: BTreeMap<Symbol, BTreeSet<NodeId>> = BTreeMap::new();
            for node in &of_set {
                for (symbol, to) in net.edges(*node) {
                    behind.entry(*symbol).or_default().insert(*to);
                }
            }
            self.spend(of_set.len() + behind.len())?;
            let edges = behind.into_iter().map(|(symbol, to)| (symbol, nodes.insert_full(net.closure(to)).0));
            let edges = edges.collect();
            sets.push(Positions { accepting: of_set.contains(&Net::END), edges });
        }
        Ok(sets)
    }

    /// Checks that the rules that remain symbols in `set` do not interact with lazy terminals.
    fn check_rules(
        &mut self,
        sets: &[Positions],
        set: usize,
        open: &Open,
        lazy: &[TerminalId],
    ) -> Result<(), Stop> {
        let edges = &sets[set].edges;
        let facts = self.facts;
        let bytes_of = |symbol: &Symbol| facts.leaves(*symbol).bytes;
        let meet = |leaves: &Leaves, symbol: &Symbol| {
            bytes_of(symbol).meets(&leaves.bytes)
                // Control tokens have no bytes.
                || match symbol {
                    Symbol::Rule(rule) => !facts.begin(*rule).leaves.is_disjoint(&leaves.leaves),
                    terminal => leaves.leaves.contains(terminal),
                }
        };
        let mut running = ByteSet::default();
        for terminal in lazy {
            running.union(&facts.first_bytes(*terminal));
        }
        for (terminal, state) in open {
            running.union(&race::next_bytes(self.grammar.terminal(*terminal), *state));
        }
        for (symbol, to) in edges {
            let Symbol::Rule(rule) = symbol else { continue };
            let (begin, trail) = (facts.begin(*rule), self.trail(*rule)?);
            let runs = !open.is_empty() || !lazy.is_empty();
            let mut competes = begin.bytes.meets(&running) || (runs && facts.is_nullable(*rule));
            let mut others = edges.iter().filter(|(other, _)| other != symbol);
            competes |= others.any(|(other, _)| {
                // Agreeing readings must reach one set, and while one is inside the rule the other has left its symbol.
                bytes_of(other).meets(&begin.lazy_bytes) || meet(&begin, other)
            });
            // A reading that continues in the rule may agree with a reading that has left it.
            competes |= sets[*to].edges.iter().any(|(next, _)| meet(&trail, next));
            if !competes {
                continue;
            }
            if !self.written.recursive.contains(rule) && !facts.is_opaque(*rule) {
                return Err(Stop::WriteOut(*rule));
            }
            let of_rule = || facts.some_lazy(*rule);
            let by = lazy.first().copied().or(open.first().map(|(lazy, _)| *lazy)).or_else(of_rule);
            let by = by.or_else(|| self.places.keys().min().copied()).expect("there are lazy terminals");
            return Err(self.entangled(*rule, by));
        }
        Ok(())
    }

    /// The terminals with which a reading may continue inside `rule` while an agreeing reading is at the end
    /// of `rule`; possibly a superset.
    fn trail(&mut self, rule: RuleId) -> Result<Rc<Leaves>, Stop> {
        if let Some(known) = self.trails.get(&rule) {
            return Ok(Rc::clone(known));
        }
        let mut leaves = Leaves::default();
        let mut seen: HashSet<RuleId> = [rule].into();
        let mut open = vec![rule];
        // Rules that cannot be written out. Each round adds one.
        let mut symbols: HashSet<RuleId> = HashSet::new();
        while let Some(rule) = open.pop() {
            let limit = self.limits.positions;
            let net = loop {
                self.spend(1 + symbols.len())?;
                match Net::new(self.facts, rule, |rule| symbols.contains(&rule), limit - self.work) {
                    Ok(net) => break net,
                    Err(Unbuilt::Recursive(rule)) => _ = symbols.insert(rule),
                    Err(Unbuilt::TooLarge) => return Err(GrammarError::LazyTooCostly { limit }.into()),
                }
            };
            self.spend(net.len())?;
            let sets = self.sets(&net)?;
            // Pairs of sets for which a reading in the second may agree with a reading in the first.
            let mut pairs: Vec<(usize, usize)> = (0..sets.len()).map(|set| (set, set)).collect();
            let mut known: HashSet<(usize, usize)> = pairs.iter().copied().collect();
            while let Some((first, second)) = pairs.pop() {
                if sets[first].accepting {
                    sets[second].edges.iter().for_each(|(symbol, _)| leaves.add(&self.facts.leaves(*symbol)));
                }
                for (left, left_to) in &sets[first].edges {
                    if let Symbol::Rule(callee) = left
                        && sets[*left_to].accepting
                        && seen.insert(*callee)
                    {
                        open.push(*callee);
                    }
                    for (right, right_to) in &sets[second].edges {
                        self.spend(1)?;
                        let alike = left_to != right_to && self.have_common_text(*left, *right)?;
                        if alike && known.insert((*left_to, *right_to)) {
                            pairs.push((*left_to, *right_to));
                        }
                    }
                }
            }
        }
        let leaves = Rc::new(leaves);
        self.trails.insert(rule, Rc::clone(&leaves));
        Ok(leaves)
    }

    fn bytes_of(&self, symbol: Symbol) -> ByteSet {
        self.facts.leaves(symbol).bytes
    }

    /// Checks that two sets with agreeing readings have the same lazy terminals, as far as these compete.
    fn check_alike(&mut self, sets: &[Positions]) -> Result<(), Stop> {
        // Two sets, and the lazy terminals that are open in both and for which a new beginning changes nothing.
        type Pair = (usize, usize, BTreeSet<TerminalId>);
        let mut seen: HashSet<Pair> = HashSet::new();
        let mut open: Vec<Pair> = (0..sets.len()).map(|set| (set, set, BTreeSet::new())).collect();
        while let Some((left, right, mut searched)) = open.pop() {
            for (of, by) in [(left, right), (right, left)] {
                let lazy = sets[by].edges.iter().filter(|(symbol, _)| symbol.lazy().is_some());
                let lazy = lazy.filter(|(lazy, _)| lazy.lazy().is_none_or(|lazy| !searched.contains(&lazy)));
                for (lazy, _) in lazy.filter(|(lazy, _)| !sets[of].edges.iter().any(|(own, _)| own == lazy)) {
                    let bytes = self.bytes_of(*lazy);
                    if let Some((own, _)) =
                        sets[of].edges.iter().find(|(own, _)| self.bytes_of(*own).meets(&bytes))
                    {
                        let at = lazy.lazy().and_then(|lazy| self.places.get(&lazy).copied()).unwrap_or(0);
                        let terminal = self.symbol_name(*own);
                        return Err(Stop::Error(LazyError::Alike { terminal, at }));
                    }
                }
            }
            // By the check above, a lazy terminal that is open in one set is open in the other as far as it competes.
            let begun = sets[left].edges.iter().chain(&sets[right].edges);
            searched.extend(begun.filter_map(|(symbol, _)| symbol.lazy()));
            for (first, first_to) in &sets[left].edges {
                for (second, second_to) in &sets[right].edges {
                    self.spend(1)?;
                    if first_to == second_to || !self.may_be_alike(*first, *second)? {
                        continue;
                    }
                    // Both symbols read the same text.
                    let mut still = BTreeSet::new();
                    for lazy in &searched {
                        if self.stays_open(*first, *lazy)? || self.stays_open(*second, *lazy)? {
                            still.insert(*lazy);
                        }
                    }
                    let pair = (*first_to.min(second_to), *first_to.max(second_to), still);
                    if seen.insert(pair.clone()) {
                        open.push(pair);
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether `lazy`, begun with a text of `own`, is still open after every such text that it does not end
    /// in, and from there ends no later than a `lazy` begun there.
    fn stays_open(&mut self, own: Symbol, lazy: TerminalId) -> Result<bool, GrammarError> {
        let Symbol::Terminal(own) = own else { return Ok(false) };
        if let Some(known) = self.stays.get(&(own, lazy)) {
            return Ok(*known);
        }
        let limit = self.limits.positions;
        let terminals = [own, lazy].map(|terminal| self.grammar.terminal(terminal));
        let (stays, work) = race::stays_open(terminals[0], terminals[1], limit - self.work)
            .ok_or(GrammarError::LazyTooCostly { limit })?;
        self.spend(work)?;
        self.stays.insert((own, lazy), stays);
        Ok(stays)
    }

    fn symbol_name(&self, symbol: Symbol) -> String {
        match symbol {
            Symbol::Rule(rule) => format!("rule `{}`", self.grammar.rule_name(rule)),
            Symbol::Terminal(terminal) | Symbol::Lazy(terminal) => {
                format!("`{}`", self.grammar.terminal_name(terminal))
            }
        }
    }

    /// Whether some text may be cut as either of two symbols of one set, or of two sets with agreeing readings.
    fn may_be_alike(&mut self, first: Symbol, second: Symbol) -> Result<bool, GrammarError> {
        let (first, second) = (first.min(second), first.max(second));
        match (first, second) {
            _ if first == second => Ok(true),
            // A race removes the common texts of a terminal and a lazy one. A rule with a text of a lazy
            // terminal is written out.
            (Symbol::Terminal(_), Symbol::Lazy(_)) | (Symbol::Lazy(_), Symbol::Rule(_)) => Ok(false),
            _ => self.have_common_text(first, second),
        }
    }

    /// Whether two symbols have a common text.
    fn have_common_text(&mut self, first: Symbol, second: Symbol) -> Result<bool, GrammarError> {
        match (first.min(second), first.max(second)) {
            _ if first == second => Ok(true),
            (Symbol::Rule(_), _) | (_, Symbol::Rule(_)) => {
                Ok(self.bytes_of(first).meets(&self.bytes_of(second)))
            }
            (Symbol::Terminal(left) | Symbol::Lazy(left), Symbol::Terminal(right) | Symbol::Lazy(right)) => {
                if let Some(known) = self.alike.get(&(left, right)) {
                    return Ok(*known);
                }
                let limit = self.limits.positions;
                let (alike, work) = race::share_a_text(self.grammar, left, right, limit - self.work)
                    .ok_or(GrammarError::LazyTooCostly { limit })?;
                self.spend(work)?;
                self.alike.insert((left, right), alike);
                Ok(alike)
            }
        }
    }

    fn entangled(&self, rule: RuleId, by: TerminalId) -> Stop {
        let at = self.places.get(&by).copied().unwrap_or(0);
        Stop::Error(LazyError::Entangled { rule: self.grammar.rule_name(rule).to_owned(), at })
    }

    fn race(&mut self, symbol: Symbol, open: &Open, lazy: &[TerminalId]) -> Result<Race, Stop> {
        let own = symbol.terminal().expect("it is read");
        let rivals: Vec<TerminalId> =
            lazy.iter().copied().filter(|rival| symbol.lazy() != Some(*rival)).collect();
        let key = (symbol, open.clone(), rivals);
        if let Some(known) = self.races.get(&key) {
            return Ok(known.clone());
        }
        let limit = self.limits.positions;
        let left = limit - self.work;
        let race = Race::new(self.grammar, own, symbol.lazy().is_some(), open, &key.2, left);
        let race = race.ok_or(GrammarError::LazyTooCostly { limit })?;
        self.spend(race.len())?;
        self.races.insert(key, race.clone());
        Ok(race)
    }

    /// A terminal of these parts of a race of `terminal`.
    fn cut(&mut self, race: &Race, parts: &[usize], terminal: TerminalId) -> Result<Terminal, Stop> {
        let cut = race.cut(parts, &self.limits.regex).map_err(|source| {
            let name = self.grammar.terminal_name(terminal).to_owned();
            GrammarError::Terminal { name, location: None, source }
        })?;
        if let Terminal::Automaton(dfa) = &cut {
            self.bytes += dfa.memory_usage();
            if self.bytes > self.limits.automata_bytes {
                let at = self.places.values().min().copied().unwrap_or(0);
                return Err(Stop::Error(LazyError::TooLarge(at)));
            }
        }
        Ok(cut)
    }
}
