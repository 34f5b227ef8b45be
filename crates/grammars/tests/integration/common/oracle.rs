//! The slow oracle: a textbook recogniser of grammars over single bytes, written for the tests alone.
//!
//! It is J. Earley's algorithm (1970) over plain productions, with the correction for nullable rules of J.
//! Aycock and R. N. Horspool ("Practical Earley parsing", 2002): when a nullable rule is predicted, the
//! predicting item is also advanced past it. A terminal is a sub-automaton: an item that holds a state of its
//! DFA. The input is bytes and control tokens.
//!
//! A prefix is viable if it can be completed. All productions without a text are removed first, so the
//! symbols after the dot of an item always have a text, and a prefix is viable exactly if an item remains.
//! The oracle shares the grammar and the DFAs of its terminals with the engine, and nothing else. It treats
//! tokens as texts, and caches nothing between two prefixes.

use std::collections::{HashMap, HashSet};

use unskew_automata::{Dfa, Limits, StateId, dfa::DfaAlgebra};
use unskew_core::{TokenId, TokenKind, Vocabulary};
use unskew_grammar::{Expr, ExprId, Grammar, MemberChoice, RuleId, Terminal};

/// One symbol of the input.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Input {
    Byte(u8),
    /// The control token of this name.
    Control(String),
}

/// The bytes of `text` as input.
pub(crate) fn bytes(text: impl AsRef<[u8]>) -> Vec<Input> {
    text.as_ref().iter().copied().map(Input::Byte).collect()
}

/// The symbols of outputs.
#[derive(Clone, Debug)]
pub(crate) struct Alphabet {
    bytes: [bool; 256],
    /// The names of control tokens; `None` for all names.
    controls: Option<HashSet<String>>,
}

impl Alphabet {
    /// All bytes and all control tokens.
    pub(crate) fn all() -> Self {
        Self { bytes: [true; 256], controls: None }
    }

    /// The bytes that are tokens of their own, and the control tokens. Viability over these symbols is
    /// viability over tokens, provided that no other byte occurs in a longer token.
    pub(crate) fn of(vocabulary: &Vocabulary) -> Self {
        let mut bytes = [false; 256];
        for (_, text) in vocabulary.text_tokens() {
            if let [byte] = text {
                bytes[usize::from(*byte)] = true;
            }
        }
        let controls = vocabulary.control_tokens().map(|(_, name)| name.into_owned()).collect();
        Self { bytes, controls: Some(controls) }
    }

    fn spells(&self, dfa: &Dfa, state: StateId) -> Vec<StateId> {
        let bytes = (0..=255u8).filter(|byte| self.bytes[usize::from(*byte)]);
        bytes.filter_map(|byte| dfa.step(state, byte)).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Symbol {
    Rule(usize),
    Terminal(usize),
}

/// A grammar as plain productions.
#[derive(Debug)]
pub(crate) struct Oracle {
    terminals: Vec<Terminal>,
    /// By terminal: the states of its automaton from which the alphabet reaches an accepting one.
    live: Vec<HashSet<StateId>>,
    /// Left-hand and right-hand sides. Every symbol on the right has a text.
    productions: Vec<(usize, Vec<Symbol>)>,
    /// Productions by left-hand side.
    by_rule: Vec<Vec<usize>>,
    nullable: HashSet<Symbol>,
    start: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Place {
    /// Before the symbol at `dot` of a production.
    Rule { production: usize, dot: usize },
    /// In a literal, after `read` bytes.
    Literal { terminal: usize, read: usize },
    /// In an automaton.
    Automaton { terminal: usize, state: StateId },
    /// Before or after a control token.
    Control { terminal: usize, read: bool },
}

/// A place, and the number of inputs before it was entered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Item {
    place: Place,
    origin: usize,
}

/// The items after a prefix.
#[derive(Default, Debug)]
struct Set {
    items: Vec<Item>,
    known: HashSet<Item>,
    /// The items before this symbol.
    waiting: HashMap<Symbol, Vec<Item>>,
    accepted: bool,
}

impl Oracle {
    /// The grammar over `alphabet`.
    pub(crate) fn new(grammar: &Grammar, alphabet: &Alphabet) -> Self {
        let terminals: Vec<Terminal> = grammar.terminals().map(|id| plain(grammar.terminal(id))).collect();
        let (rules, productions) = productions(grammar);

        let live: Vec<HashSet<StateId>> =
            terminals.iter().map(|terminal| live_states(terminal, alphabet)).collect();
        let mut productive: HashSet<Symbol> = HashSet::new();
        let mut nullable: HashSet<Symbol> = HashSet::new();
        for (index, terminal) in terminals.iter().enumerate() {
            let is_productive = match terminal {
                Terminal::Literal(text) => text.iter().all(|byte| alphabet.bytes[usize::from(*byte)]),
                Terminal::Automaton(dfa) => live[index].contains(&dfa.start()),
                Terminal::Token(name) => {
                    alphabet.controls.as_ref().is_none_or(|controls| controls.contains(&**name))
                }
                other => panic!("a terminal that the oracle does not know: {other:?}"),
            };
            if is_productive {
                productive.insert(Symbol::Terminal(index));
            }
            if matches!(terminal, Terminal::Automaton(dfa) if dfa.is_accepting(dfa.start())) {
                nullable.insert(Symbol::Terminal(index));
            }
        }
        close(&productions, &mut productive);
        close(&productions, &mut nullable);

        let productions: Vec<(usize, Vec<Symbol>)> = productions
            .into_iter()
            .filter(|(_, symbols)| symbols.iter().all(|symbol| productive.contains(symbol)))
            .collect();
        let mut by_rule = vec![Vec::new(); rules];
        for (index, (rule, _)) in productions.iter().enumerate() {
            by_rule[*rule].push(index);
        }
        Self { terminals, live, productions, by_rule, nullable, start: grammar.start().index() }
    }

    /// The chart before the first input.
    pub(crate) fn chart(&self) -> Chart<'_> {
        let mut chart = Chart { oracle: self, sets: Vec::new() };
        let set = chart.closed(0, Vec::new(), &[Symbol::Rule(self.start)]);
        chart.sets.push(set);
        chart
    }

    /// Whether `text` is a word of the language.
    pub(crate) fn accepts(&self, text: &[Input]) -> bool {
        let mut chart = self.chart();
        text.iter().all(|input| chart.push(input)) && chart.is_accepting()
    }

    /// The length of the longest viable prefix of `text`, in inputs.
    pub(crate) fn viable_len(&self, text: &[Input]) -> usize {
        let mut chart = self.chart();
        text.iter().take_while(|input| chart.push(input)).count()
    }

    /// Whether the language is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_rule[self.start].is_empty()
    }
}

/// A difference or counted units as an automaton; other terminals unchanged.
pub(crate) fn plain(terminal: &Terminal) -> Terminal {
    let mut builder = DfaAlgebra::new(&Limits::default());
    if let Terminal::Counted(counted) = terminal {
        let ((open, close), (min, max)) = (counted.marks(), counted.bounds());
        let units = match max {
            Some(0) => builder.pattern("").unwrap(),
            max => builder.repetition(counted.unit(), min, max).unwrap(),
        };
        let [open, close] = [open, close].map(|mark| match mark {
            [] => builder.pattern("").unwrap(),
            mark => builder.literals([mark]).unwrap(),
        });
        let short = builder.concatenation([&open, &units, &close]).unwrap();
        let made =
            if counted.is_all() { short } else { builder.intersection(counted.dfa(), &short).unwrap() };
        return Terminal::Automaton(made.into());
    }
    let Terminal::Difference(difference) = terminal else { return terminal.clone() };
    let (filled, empty): (Vec<&[u8]>, Vec<&[u8]>) = difference.texts().partition(|text| !text.is_empty());
    let mut dfa = Dfa::clone(difference.base());
    if !empty.is_empty() {
        let empty = builder.pattern("").unwrap();
        dfa = builder.difference(&dfa, &empty).unwrap();
    }
    if !filled.is_empty() {
        let filled = builder.literals(filled).unwrap();
        dfa = builder.difference(&dfa, &filled).unwrap();
    }
    Terminal::Automaton(dfa.into())
}

/// Expressions as rules, numbered after the rules of the grammar. Returns the number of rules, and the productions.
fn productions(grammar: &Grammar) -> (usize, Vec<(usize, Vec<Symbol>)>) {
    let mut rules = grammar.rules().len();
    let mut productions: Vec<(usize, Vec<Symbol>)> = Vec::new();
    let mut symbols: HashMap<ExprId, Symbol> = HashMap::new();
    let mut open: Vec<ExprId> = grammar.rules().map(|rule| grammar.body(rule)).collect();
    while let Some(&expr) = open.last() {
        let parts = match grammar.expr(expr) {
            Expr::Sequence(parts) | Expr::Choice(parts) => parts.to_vec(),
            Expr::Repeat { item, .. } => vec![item],
            _ => Vec::new(),
        };
        let missing: Vec<ExprId> = parts.into_iter().filter(|part| !symbols.contains_key(part)).collect();
        if missing.is_empty() {
            open.pop();
            if !symbols.contains_key(&expr) {
                let symbol = expand(grammar.expr(expr), &symbols, &mut rules, &mut productions);
                symbols.insert(expr, symbol);
            }
        }
        open.extend(missing);
    }
    for rule in grammar.rules() {
        productions.push((rule.index(), vec![symbols[&grammar.body(rule)]]));
    }
    (rules, productions)
}

/// The symbol of an expression, from the symbols of its parts.
fn expand(
    expr: Expr<'_>,
    symbols: &HashMap<ExprId, Symbol>,
    rules: &mut usize,
    productions: &mut Vec<(usize, Vec<Symbol>)>,
) -> Symbol {
    let mut fresh = || {
        *rules += 1;
        *rules - 1
    };
    match expr {
        Expr::Terminal(terminal) => Symbol::Terminal(terminal.index()),
        Expr::Rule(rule) => Symbol::Rule(rule.index()),
        Expr::Empty => {
            let rule = fresh();
            productions.push((rule, Vec::new()));
            Symbol::Rule(rule)
        }
        Expr::Sequence(parts) => {
            let rule = fresh();
            productions.push((rule, parts.iter().map(|part| symbols[part]).collect()));
            Symbol::Rule(rule)
        }
        Expr::Choice(parts) => {
            let rule = fresh();
            productions.extend(parts.iter().map(|part| (rule, vec![symbols[part]])));
            Symbol::Rule(rule)
        }
        Expr::Repeat { item, min, max } => {
            let item = symbols[&item];
            let mut rest = fresh();
            productions.push((rest, Vec::new()));
            match max {
                None => productions.push((rest, vec![Symbol::Rule(rest), item])),
                Some(max) => {
                    for _ in min..max {
                        let more = fresh();
                        productions.push((more, Vec::new()));
                        productions.push((more, vec![item, Symbol::Rule(rest)]));
                        rest = more;
                    }
                }
            }
            let rule = fresh();
            let mut whole = vec![item; min.try_into().expect("usize holds u32")];
            whole.push(Symbol::Rule(rest));
            productions.push((rule, whole));
            Symbol::Rule(rule)
        }
        Expr::Unordered(group) => {
            // A rule for each set of remaining members and each number of members read.
            let optional = |rule: RuleId| Symbol::Rule(rule.index());
            let most = group.max.unwrap_or(group.min.max(group.members.len().try_into().expect("few")) + 1);
            let mut known: HashMap<(u32, u32), usize> = HashMap::new();
            let mut open = vec![(0u32, 0u32)];
            let rule = fresh();
            known.insert((0, 0), rule);
            while let Some((read, count)) = open.pop() {
                let this = known[&(read, count)];
                let is_whole =
                    (0..).zip(&group.members).all(|(at, (_, required))| !required || read >> at & 1 != 0)
                        && group.choices.iter().all(|choice| fits(choice, |at| read >> at & 1 != 0));
                if is_whole && count >= group.min && count <= group.max.unwrap_or(count) {
                    productions.push((this, Vec::new()));
                }
                let members = (0..).zip(&group.members).filter(|(at, _)| read >> at & 1 == 0);
                let nexts = members.map(|(at, (member, _))| (read | 1 << at, *member));
                for (next, member) in nexts.chain(group.others.map(|others| (read, others))) {
                    let next = match group.max {
                        Some(max) if count == max => continue,
                        Some(_) => (next, count + 1),
                        // Beyond the bounds, counts make no difference. The first member is special, since no
                        // separator precedes it.
                        None => (next, (count + 1).min(most)),
                    };
                    let behind = *known.entry(next).or_insert_with(|| {
                        open.push(next);
                        fresh()
                    });
                    let separator = group.separator.filter(|_| count > 0).map(optional);
                    productions.push((
                        this,
                        separator.into_iter().chain([optional(member), Symbol::Rule(behind)]).collect(),
                    ));
                }
            }
            Symbol::Rule(rule)
        }
    }
}

/// Whether the members that were read fit a choice, by the definition.
pub(crate) fn fits(choice: &MemberChoice, is_read: impl Fn(u32) -> bool) -> bool {
    choice.ways.iter().any(|way| {
        choice.members().all(|member| !is_read(member) || way.allowed.contains(&member))
            && way.required.iter().all(|member| is_read(*member))
    })
}

/// Adds the left-hand sides of productions with all symbols in the set, until nothing changes.
fn close(productions: &[(usize, Vec<Symbol>)], set: &mut HashSet<Symbol>) {
    loop {
        let before = set.len();
        for (rule, symbols) in productions {
            if symbols.iter().all(|symbol| set.contains(symbol)) {
                set.insert(Symbol::Rule(*rule));
            }
        }
        if set.len() == before {
            return;
        }
    }
}

/// The states from which an accepting state can be reached over the alphabet.
fn live_states(terminal: &Terminal, alphabet: &Alphabet) -> HashSet<StateId> {
    let Terminal::Automaton(dfa) = terminal else { return HashSet::new() };
    let mut live: HashSet<StateId> = dfa.states().filter(|state| dfa.is_accepting(*state)).collect();
    loop {
        let before = live.len();
        for state in dfa.states() {
            if alphabet.spells(dfa, state).iter().any(|next| live.contains(next)) {
                live.insert(state);
            }
        }
        if live.len() == before {
            return live;
        }
    }
}

/// Earley's chart of a viable prefix.
#[derive(Debug)]
pub(crate) struct Chart<'o> {
    oracle: &'o Oracle,
    /// The item sets, by the number of inputs read. Never empty.
    sets: Vec<Set>,
}

impl Chart<'_> {
    /// The number of inputs read.
    pub(crate) fn len(&self) -> usize {
        self.sets.len() - 1
    }

    /// Reads one more input, if the longer prefix is viable. Otherwise nothing changes.
    pub(crate) fn push(&mut self, input: &Input) -> bool {
        let scanned: Vec<Item> =
            self.last().items.iter().filter_map(|item| self.scan(*item, input)).collect();
        if scanned.is_empty() {
            return false;
        }
        let set = self.closed(self.sets.len(), scanned, &[]);
        self.sets.push(set);
        true
    }

    /// Removes inputs at the end until `len` remain.
    pub(crate) fn truncate(&mut self, len: usize) {
        assert!(len <= self.len(), "more than were read");
        self.sets.truncate(len + 1);
    }

    /// Whether the prefix is a word of the language.
    pub(crate) fn is_accepting(&self) -> bool {
        self.last().accepted
    }

    /// Reads a whole token or nothing: control tokens by name, others by their bytes.
    pub(crate) fn push_token(&mut self, vocabulary: &Vocabulary, id: TokenId) -> bool {
        let before = self.len();
        let read = match (vocabulary.kind(id), vocabulary.text(id)) {
            (TokenKind::Control, _) if vocabulary.is_end_of_sequence(id) => false,
            (TokenKind::Control, _) => self.push(&Input::Control(vocabulary.name(id).into_owned())),
            (_, Some(text)) if !text.is_empty() => text.iter().all(|byte| self.push(&Input::Byte(*byte))),
            _ => false,
        };
        if !read {
            self.truncate(before);
        }
        read
    }

    /// Every token after which the prefix is viable, in ascending order. Tokens without bytes are in no mask.
    pub(crate) fn mask(&mut self, vocabulary: &Vocabulary) -> Vec<TokenId> {
        let mut allowed: Vec<TokenId> = vocabulary
            .control_tokens()
            .map(|(id, _)| id)
            .filter(|id| {
                let before = self.len();
                let read = self.push_token(vocabulary, *id);
                self.truncate(before);
                read
            })
            .collect();
        // Tokens in the order of their bytes, so that common prefixes are read once.
        let mut tokens: Vec<(&[u8], TokenId)> =
            vocabulary.text_tokens().map(|(id, text)| (text, id)).collect();
        tokens.sort_unstable();
        let start = self.len();
        let mut read: &[u8] = &[];
        let mut dead: Option<&[u8]> = None;
        for (text, id) in tokens {
            if text.is_empty() || dead.is_some_and(|dead| text.starts_with(dead)) {
                continue;
            }
            let common = read.iter().zip(text).take_while(|(left, right)| left == right).count();
            self.truncate(start + common);
            read = &text[..common];
            dead = None;
            for len in common + 1..=text.len() {
                if !self.push(&Input::Byte(text[len - 1])) {
                    dead = Some(&text[..len]);
                    break;
                }
                read = &text[..len];
            }
            if dead.is_none() {
                allowed.push(id);
            }
        }
        self.truncate(start);
        allowed.sort_unstable();
        allowed
    }

    /// The inputs that can be read next: bytes in ascending order, then control tokens.
    pub(crate) fn inputs(&mut self) -> Vec<Input> {
        let controls = self.oracle.terminals.iter().filter_map(|terminal| match terminal {
            Terminal::Token(name) => Some(Input::Control(name.to_string())),
            _ => None,
        });
        let all: Vec<Input> = (0..=255).map(Input::Byte).chain(controls).collect();
        let before = self.len();
        let mut found = Vec::new();
        for input in all {
            if self.push(&input) {
                found.push(input);
            }
            self.truncate(before);
        }
        found
    }

    fn last(&self) -> &Set {
        self.sets.last().expect("there is the set before the first input")
    }

    /// The item after `input`.
    fn scan(&self, item: Item, input: &Input) -> Option<Item> {
        let place = match (item.place, input) {
            (Place::Literal { terminal, read }, Input::Byte(byte)) => {
                let Terminal::Literal(text) = &self.oracle.terminals[terminal] else { unreachable!() };
                (text.get(read) == Some(byte)).then_some(Place::Literal { terminal, read: read + 1 })
            }
            (Place::Automaton { terminal, state }, Input::Byte(byte)) => {
                let Terminal::Automaton(dfa) = &self.oracle.terminals[terminal] else { unreachable!() };
                let next = dfa.step(state, *byte).filter(|next| self.oracle.live[terminal].contains(next));
                next.map(|state| Place::Automaton { terminal, state })
            }
            (Place::Control { terminal, read: false }, Input::Control(name)) => {
                let Terminal::Token(own) = &self.oracle.terminals[terminal] else { unreachable!() };
                (**own == **name).then_some(Place::Control { terminal, read: true })
            }
            _ => None,
        };
        place.map(|place| Item { place, origin: item.origin })
    }

    /// The set at `index`: the closure of the scanned items and of the predicted symbols.
    fn closed(&self, index: usize, scanned: Vec<Item>, predicted: &[Symbol]) -> Set {
        let oracle = self.oracle;
        let mut set = Set::default();
        let mut open = scanned;
        for symbol in predicted {
            self.predict(*symbol, index, &mut open);
        }
        while let Some(item) = open.pop() {
            if !set.known.insert(item) {
                continue;
            }
            set.items.push(item);
            let complete = match item.place {
                Place::Rule { production, dot } => {
                    let (rule, symbols) = &oracle.productions[production];
                    match symbols.get(dot) {
                        None => Some(Symbol::Rule(*rule)),
                        Some(symbol) => {
                            set.waiting.entry(*symbol).or_default().push(item);
                            self.predict(*symbol, index, &mut open);
                            if oracle.nullable.contains(symbol) {
                                open.push(moved(item));
                            }
                            None
                        }
                    }
                }
                Place::Literal { terminal, read } => {
                    let Terminal::Literal(text) = &oracle.terminals[terminal] else { unreachable!() };
                    (read == text.len()).then_some(Symbol::Terminal(terminal))
                }
                Place::Automaton { terminal, state } => {
                    let Terminal::Automaton(dfa) = &oracle.terminals[terminal] else { unreachable!() };
                    dfa.is_accepting(state).then_some(Symbol::Terminal(terminal))
                }
                Place::Control { terminal, read } => read.then_some(Symbol::Terminal(terminal)),
            };
            let Some(symbol) = complete else { continue };
            if item.origin == 0 && symbol == Symbol::Rule(oracle.start) {
                set.accepted = true;
            }
            // A symbol that is complete without an input was skipped when it was predicted.
            if item.origin < index {
                let waiting = self.sets[item.origin].waiting.get(&symbol);
                open.extend(waiting.into_iter().flatten().map(|item| moved(*item)));
            }
        }
        set
    }

    fn predict(&self, symbol: Symbol, index: usize, open: &mut Vec<Item>) {
        let item = |place| Item { place, origin: index };
        match symbol {
            Symbol::Rule(rule) => open.extend(
                self.oracle.by_rule[rule]
                    .iter()
                    .map(|production| item(Place::Rule { production: *production, dot: 0 })),
            ),
            Symbol::Terminal(terminal) => open.push(item(match &self.oracle.terminals[terminal] {
                Terminal::Literal(_) => Place::Literal { terminal, read: 0 },
                Terminal::Automaton(dfa) => Place::Automaton { terminal, state: dfa.start() },
                _ => Place::Control { terminal, read: false },
            })),
        }
    }
}

/// The item after the symbol at its dot.
fn moved(item: Item) -> Item {
    let Place::Rule { production, dot } = item.place else { unreachable!("terminals wait for nothing") };
    Item { place: Place::Rule { production, dot: dot + 1 }, origin: item.origin }
}
