//! Lazy terminals: their first end is the boundary, and it is taken away from all that competes with them.
//!
//! ```text
//! start: tool* TEXT
//! head[lazy]: TEXT "<call>"
//! tool: head /[0-9]+/ "</call>"
//! ```
//!
//! Without more, `TEXT` would read on over `<call>`, and nothing would be enforced.
//!
//! # Meaning
//!
//! A **reading** of a text cuts it into terminals. Two readings *agree* up to a place if they have cut the text alike up to there. Let the
//! rules allow a lazy terminal *L* behind a reading; *L* is *open* from there on, in all readings that agree with it up to there and
//! read another terminal.
//!
//! - Where an open *L* has its first end, the readings in which it is open are dropped: those in the middle of a terminal, and those
//!   at the end of one.
//! - *L* is closed where it can no longer end, and where a lazy terminal of the reading itself ends. That one may have begun
//!   where *L* did, and may end where *L* ends: both are kept then. If *L* was open before it began, the reading is dropped.
//! - Whether the rules allow *L* is asked of the rules alone, and not of what this meaning leaves.
//!
//! A terminal that ends while *L* is open does not close it: free text that is written as many short texts does not hide a trigger.
//! A lazy terminal that may be empty is the empty text alone. That has no end behind its beginning, and is never open.
//!
//! # Method
//!
//! All this is a question about the rules and not about tokens, so the answer is a grammar again, and masks, trees and
//! libraries know nothing of it:
//!
//! 1. **Net** (`net.rs`). The rules that lazy terminals are in are written out into one nondeterministic automaton over
//!    terminals. Rules without any stay symbols: the body of a tool may nest as it likes.
//! 2. **States.** Sets of positions of the net behind one reading (the usual construction), together with the open lazy terminals, each
//!    with its state.
//! 3. **Race** (`race.rs`). At a state, a terminal is read beside all that is open: the texts on which nothing ends first, one automaton
//!    for each set that is still open behind them.
//! 4. States from which no end is reached are dropped, and each of the others becomes a rule that calls the next one last, which costs the
//!    parser no frame. If no race had a loser, the grammar stays as it is written.
//!
//! A rule that calls itself in the middle cannot be written out. It stays a symbol, and a net of its own if lazy terminals are in
//! it, where this changes nothing: where what it begins with and what it may end with compete with nothing around it, by their first
//! bytes. Anything else is refused ([`LazyError::Entangled`]).
//!
//! Sets of positions are those behind the same terminals, and not behind the same cuts. If two terminals have a text in common, sets behind
//! each may be those of readings that agree. Pairs of such sets are found, and if one has a lazy terminal that may begin as what the
//! other goes on with, the grammar is refused ([`LazyError::Alike`]); not where it was open already and looks for its end everywhere, as
//! `TEXT "<call>"` does.
//!
//! Tried instead: to drop readings in `places.rs`, while a text is read. Subterminal trees hold every reading by itself, so all
//! masks would be walks; and a place could be reached from which no text leads to an end, for there the rules do not say what
//! is left. To take *L* followed by anything off each terminal, and no more: `(TEXT | tool)*` then hides the trigger
//! in two texts.

mod net;
mod race;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    rc::Rc,
};

use unskew_trie::ByteSet;

use self::{
    net::{Facts, Leaves, Net, Symbol, Unbuilt},
    race::{Open, Race},
};
use crate::{
    GrammarError, GrammarLimits,
    grammar::{
        data::{Expr, ExprId, Grammar, RuleId, Terminal, TerminalId},
        fixpoint::productive_and_nullable,
    },
};

/// Uses of lazy terminals: their expressions, and where the text of the grammar defines each.
pub(crate) type Lazy = HashMap<ExprId, usize>;

/// Why the ends of lazy terminals cannot be taken away from the others.
#[derive(Debug)]
pub(crate) enum LazyError {
    /// A rule that calls itself competes with a lazy terminal, or holds it.
    Entangled {
        /// The rule.
        rule: String,
        /// Where the lazy terminal is defined.
        at: usize,
    },
    /// Behind two terminals that have a text in common, only one way has the lazy terminal.
    Alike {
        /// What the other way goes on with.
        terminal: String,
        /// Where the lazy terminal is defined.
        at: usize,
    },
    /// The new automata take more memory than [`GrammarLimits::automata_bytes`]; where the lazy terminal is defined.
    TooLarge(usize),
    Grammar(GrammarError),
}

impl From<GrammarError> for LazyError {
    fn from(error: GrammarError) -> Self {
        Self::Grammar(error)
    }
}

/// The grammar of the readings of `grammar` that are left, or `None` if all are.
pub(crate) fn resolve(
    grammar: &Grammar,
    lazy: &Lazy,
    limits: &GrammarLimits,
) -> Result<Option<Grammar>, LazyError> {
    let (productive, nullable) = productive_and_nullable(grammar);
    // Nothing to choose from; compiling it says why.
    if lazy.is_empty() || !productive[grammar.body(grammar.start()).index()] {
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
    // What is known about rules grows until nothing new is found; each turn adds a rule.
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

/// What was found out about rules so far.
#[derive(Default)]
struct Written {
    /// They call themselves in the middle, so they are symbols.
    recursive: HashSet<RuleId>,
    /// They have no lazy terminals, but compete with some, so they are written out.
    out: HashSet<RuleId>,
}

/// Why a turn ends early.
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

/// A rule that was written out, as an automaton.
#[derive(Default)]
struct Module {
    states: Vec<State>,
    /// Whether any race had a loser.
    changed: bool,
}

#[derive(Default)]
struct State {
    accepting: bool,
    edges: Vec<(Edge, usize)>,
}

#[derive(Clone)]
enum Edge {
    Terminal(TerminalId),
    Rule(RuleId),
    /// What is left of a terminal.
    Cut(TerminalId, Terminal),
}

/// A set of positions of a net.
struct Positions {
    accepting: bool,
    /// In ascending order: symbols and the sets behind them.
    edges: Vec<(Symbol, usize)>,
}

struct Resolver<'a> {
    grammar: &'a Grammar,
    facts: &'a Facts<'a>,
    places: &'a HashMap<TerminalId, usize>,
    limits: &'a GrammarLimits,
    written: Written,
    /// States and places of nets and races so far, in all turns.
    work: usize,
    /// What the automata of races take.
    bytes: usize,
    races: HashMap<(Symbol, Open, Vec<TerminalId>), Race>,
    /// By two terminals: whether they have a text in common.
    alike: HashMap<(TerminalId, TerminalId), bool>,
    /// By a terminal and a lazy one: whether that [stays open](Self::stays_open).
    stays: HashMap<(TerminalId, TerminalId), bool>,
    /// By rule: what may follow in it where it may also end.
    trails: HashMap<RuleId, Rc<Leaves>>,
}

impl Resolver<'_> {
    /// The start, and the rules that are symbols and have lazy terminals.
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

        // Nothing follows behind it.
        let is_whole = rule == self.grammar.start() && !self.written.recursive.contains(&rule);
        let mut module = Module::default();
        let mut ids: HashMap<(usize, Open), usize> = HashMap::new();
        let mut states: Vec<(usize, Open)> = Vec::new();
        let mut number = |states: &mut Vec<(usize, Open)>, state: (usize, Open)| {
            *ids.entry(state.clone()).or_insert_with(|| {
                states.push(state);
                states.len() - 1
            })
        };
        number(&mut states, (0, Open::new()));
        let mut at = 0;
        while let Some((set, open)) = states.get(at).cloned() {
            self.spend(1 + sets[set].edges.len())?;
            if sets[set].accepting && !open.is_empty() && !is_whole {
                // What follows would have to know.
                return Err(self.entangled(rule, open[0].0));
            }
            let lazy: Vec<TerminalId> =
                sets[set].edges.iter().filter_map(|(symbol, _)| symbol.lazy()).collect();
            self.check_rules(&sets, set, &open, &lazy)?;
            let mut state = State { accepting: sets[set].accepting, edges: Vec::new() };
            for (symbol, to) in &sets[set].edges {
                let Some(terminal) = symbol.terminal() else {
                    let Symbol::Rule(callee) = symbol else { unreachable!("all else are terminals") };
                    state.edges.push((Edge::Rule(*callee), number(&mut states, (*to, Open::new()))));
                    continue;
                };
                if lazy.is_empty() && open.is_empty() {
                    state.edges.push((Edge::Terminal(terminal), number(&mut states, (*to, Open::new()))));
                    continue;
                }
                // Where nothing follows, nothing can be dropped any more.
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
                    state.edges.push((edge, number(&mut states, (*to, still_open))));
                }
            }
            module.states.push(state);
            at += 1;
        }
        module.trim();
        if module.states[0].edges.is_empty() && !module.states[0].accepting {
            let name = self.grammar.rule_name(rule);
            let reason = format!("in rule `{name}`, lazy terminals end before every other text does");
            return Err(GrammarError::Empty { reason }.into());
        }
        Ok(module)
    }

    /// The sets of positions of `net` behind each reading. The first is that of the beginning.
    fn sets(&mut self, net: &Net) -> Result<Vec<Positions>, GrammarError> {
        let mut ids: HashMap<Vec<u32>, usize> = HashMap::new();
        let mut nodes: Vec<Vec<u32>> = vec![net.closure([Net::START])];
        ids.insert(nodes[0].clone(), 0);
        let mut sets: Vec<Positions> = Vec::new();
        while let Some(of_set) = nodes.get(sets.len()).cloned() {
            let mut behind: BTreeMap<Symbol, BTreeSet<u32>> = BTreeMap::new();
            for node in &of_set {
                for (symbol, to) in net.edges(*node) {
                    behind.entry(*symbol).or_default().insert(*to);
                }
            }
            self.spend(of_set.len() + behind.len())?;
            let edges = behind.into_iter().map(|(symbol, to)| {
                let to = net.closure(to);
                let id = *ids.entry(to.clone()).or_insert_with(|| {
                    nodes.push(to);
                    nodes.len() - 1
                });
                (symbol, id)
            });
            let edges = edges.collect();
            sets.push(Positions { accepting: of_set.contains(&Net::END), edges });
        }
        Ok(sets)
    }

    /// Checks that the rules that are symbols at `set` have nothing to do with lazy terminals.
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
            competes |= others.any(|(other, behind)| {
                // Readings that agree must be in one set.
                bytes_of(other).meets(&begin.lazy_bytes) || (behind != to && meet(&begin, other))
            });
            // Those that go on in the rule and those that have left it agree.
            competes |= sets[*to].edges.iter().any(|(next, _)| meet(&trail, next));
            if !competes {
                continue;
            }
            if !self.written.recursive.contains(rule) {
                return Err(Stop::WriteOut(*rule));
            }
            let of_rule = || facts.some_lazy(*rule);
            let by = lazy.first().copied().or(open.first().map(|(lazy, _)| *lazy)).or_else(of_rule);
            let by = by.or_else(|| self.places.keys().min().copied()).expect("there are lazy terminals");
            return Err(self.entangled(*rule, by));
        }
        Ok(())
    }

    /// What readings that agree with one at the end of `rule` may go on with in it; or more.
    fn trail(&mut self, rule: RuleId) -> Result<Rc<Leaves>, Stop> {
        if let Some(known) = self.trails.get(&rule) {
            return Ok(Rc::clone(known));
        }
        let mut leaves = Leaves::default();
        let mut seen: HashSet<RuleId> = [rule].into();
        let mut open = vec![rule];
        // What cannot be written out: each turn adds a rule.
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
            // Readings in the second may agree with such in the first.
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

    /// Checks that readings which agree and are in two sets have the same lazy terminals, as far as these compete.
    fn check_alike(&mut self, sets: &[Positions]) -> Result<(), Stop> {
        // Two sets, and lazy terminals that are open in both and that another beginning of them adds nothing to.
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
            // What is open in one of them is, by the above, open in the other as far as it competes.
            let begun = sets[left].edges.iter().chain(&sets[right].edges);
            searched.extend(begun.filter_map(|(symbol, _)| symbol.lazy()));
            for (first, first_to) in &sets[left].edges {
                for (second, second_to) in &sets[right].edges {
                    self.spend(1)?;
                    if first_to == second_to || !self.may_be_alike(*first, *second)? {
                        continue;
                    }
                    // They read the same text.
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

    /// Whether `lazy` is open behind every text of `own` that it was open in, and ends wherever it would if it were begun there.
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

    /// Whether some text may be cut as either of two symbols of one set, or of two whose readings agree.
    fn may_be_alike(&mut self, first: Symbol, second: Symbol) -> Result<bool, GrammarError> {
        let (first, second) = (first.min(second), first.max(second));
        match (first, second) {
            _ if first == second => Ok(true),
            // The lazy one takes such texts away; and rules that it would have to take them from are written out.
            (Symbol::Terminal(_), Symbol::Lazy(_)) | (Symbol::Lazy(_), Symbol::Rule(_)) => Ok(false),
            _ => self.have_common_text(first, second),
        }
    }

    /// Whether a text may be that of either of two symbols.
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

    /// These parts of a race of `terminal`, as a terminal.
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

impl Module {
    /// Drops the edges to states from which no end is reached.
    fn trim(&mut self) {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.states.len()];
        for (from, state) in self.states.iter().enumerate() {
            state.edges.iter().for_each(|(_, to)| before[*to].push(from));
        }
        let mut ends: Vec<bool> = self.states.iter().map(|state| state.accepting).collect();
        let mut open: Vec<usize> = (0..ends.len()).filter(|state| ends[*state]).collect();
        while let Some(state) = open.pop() {
            for from in &before[state] {
                if !std::mem::replace(&mut ends[*from], true) {
                    open.push(*from);
                }
            }
        }
        for state in &mut self.states {
            state.edges.retain(|(_, to)| ends[*to]);
        }
    }
}

/// The grammar of the modules, and of the rules that they call.
fn emit(
    grammar: &Grammar,
    modules: &BTreeMap<RuleId, Module>,
    limits: &GrammarLimits,
) -> Result<Grammar, GrammarError> {
    let mut builder = Grammar::builder(limits);
    let mut rules: HashMap<RuleId, RuleId> = HashMap::new();
    let mut called: Vec<RuleId> = Vec::new();
    let mut rule_of = |builder: &mut crate::GrammarBuilder, called: &mut Vec<RuleId>, rule: RuleId| {
        *rules.entry(rule).or_insert_with(|| {
            called.push(rule);
            let made = builder.rule(grammar.rule_name(rule));
            if let Some(place) = grammar.rule_place(rule) {
                builder.place(made, place);
            }
            made
        })
    };
    let start = rule_of(&mut builder, &mut called, grammar.start());
    let mut made: HashMap<ExprId, ExprId> = HashMap::new();
    while let Some(rule) = called.pop() {
        let own = rule_of(&mut builder, &mut called, rule);
        if let Some(module) = modules.get(&rule) {
            let name = grammar.rule_name(rule);
            let reached = module.reached();
            let states: HashMap<usize, RuleId> = reached
                .iter()
                .map(|state| (*state, if *state == 0 { own } else { builder.rule(name) }))
                .collect();
            for state in reached {
                let State { accepting, edges } = &module.states[state];
                let mut behind: BTreeMap<usize, Vec<ExprId>> = BTreeMap::new();
                for (edge, to) in edges {
                    let symbol = match edge {
                        Edge::Terminal(terminal) => builder.known_terminal(
                            grammar.terminal(*terminal).clone(),
                            grammar.terminal_name(*terminal),
                        ),
                        Edge::Cut(terminal, cut) => {
                            builder.known_terminal(cut.clone(), grammar.terminal_name(*terminal))
                        }
                        Edge::Rule(callee) => {
                            let callee = rule_of(&mut builder, &mut called, *callee);
                            builder.call(callee)
                        }
                    };
                    behind.entry(*to).or_default().push(symbol);
                }
                let mut alternatives: Vec<ExprId> = Vec::new();
                if *accepting {
                    alternatives.push(builder.empty());
                }
                for (to, symbols) in behind {
                    let symbols = builder.choice(symbols);
                    let next = (!module.states[to].edges.is_empty()).then(|| builder.call(states[&to]));
                    alternatives.push(builder.sequence([symbols].into_iter().chain(next)));
                }
                let body = builder.choice(alternatives);
                builder.define(states[&state], body);
            }
            continue;
        }
        // Parts before the whole; nothing recurses.
        let mut open = vec![grammar.body(rule)];
        while let Some(&expr) = open.last() {
            let parts: &[ExprId] = match grammar.expr(expr) {
                Expr::Sequence(parts) | Expr::Choice(parts) => parts,
                Expr::Repeat { ref item, .. } => &[*item],
                _ => &[],
            };
            let missing: Vec<ExprId> =
                parts.iter().copied().filter(|part| !made.contains_key(part)).collect();
            if !missing.is_empty() {
                open.extend(missing);
                continue;
            }
            open.pop();
            if made.contains_key(&expr) {
                continue;
            }
            let new = match grammar.expr(expr) {
                Expr::Empty => builder.empty(),
                Expr::Terminal(terminal) => builder
                    .known_terminal(grammar.terminal(terminal).clone(), grammar.terminal_name(terminal)),
                Expr::Rule(callee) => {
                    let callee = rule_of(&mut builder, &mut called, callee);
                    builder.call(callee)
                }
                Expr::Sequence(parts) => builder.sequence(parts.iter().map(|part| made[part])),
                Expr::Choice(parts) => builder.choice(parts.iter().map(|part| made[part])),
                Expr::Repeat { item, min, max } => builder.repeat(made[&item], min, max),
                Expr::Unordered(_) => unreachable!("no text of a grammar has members in any order"),
            };
            made.insert(expr, new);
        }
        builder.define(own, made[&grammar.body(rule)]);
    }
    builder.build(start)
}

impl Module {
    /// The states that the first leads to, itself among them; not those where nothing is left to read, but for the first.
    fn reached(&self) -> BTreeSet<usize> {
        let mut reached: BTreeSet<usize> = [0].into();
        let mut open = vec![0];
        while let Some(state) = open.pop() {
            for (_, to) in &self.states[state].edges {
                if !self.states[*to].edges.is_empty() && reached.insert(*to) {
                    open.push(*to);
                }
            }
        }
        reached
    }
}
