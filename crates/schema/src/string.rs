//! From an automaton over text to an automaton over its spellings as a string of JSON.
//!
//! Lengths, patterns, formats and lists of texts speak of the text, and JSON may spell a character in up to five ways:
//! itself, `\n`, `\u000a` with hexadecimal digits of either case, and two of these for a character beyond U+FFFF. So the automaton
//! is read by characters here: where a state leads is a list of ranges of code points, and beside the raw bytes each state
//! gets a tree of hexadecimal digits over these ranges. A block of digits that lies in one range is one node, shared by all
//! states that lead to the same place, so a state costs about a dozen nodes and not four thousand.
//!
//! Half of a surrogate pair spells no text and is refused, as most readers of JSON do.

use std::{collections::HashMap, ops::RangeInclusive};

use unskew_automata::{Dfa, DfaEdges, Limits, RegexError, StateId};

/// Code points up to here are written with one escape.
const LAST_OF_PLANE: u32 = 0xffff;

/// Escapes of one letter.
const SHORT: [(u8, u32); 8] =
    [(b'"', 0x22), (b'\\', 0x5c), (b'/', 0x2f), (b'b', 8), (b'f', 0xc), (b'n', 0xa), (b'r', 0xd), (b't', 9)];

/// The strings of JSON whose text `dfa` accepts, with their quotes or without, and with raw characters beyond ASCII or with
/// escapes in their place.
///
/// Cost: O(n + r log r) for n states and r ranges of characters between them, and minimising about twenty states for each.
///
/// # Errors
///
/// [`RegexError`]: a limit, or a language without any valid UTF-8.
pub(crate) fn spelled(dfa: &Dfa, quoted: bool, ascii: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    let mut lifting = Lifting {
        quoted,
        ascii,
        dfa,
        edges: DfaEdges::new(limits),
        ids: HashMap::new(),
        todo: vec![],
        uniform: HashMap::new(),
    };
    let first = Node::Text(dfa.start(), true);
    let mut end = None;
    if quoted {
        let start = lifting.edges.state(false)?;
        end = Some(lifting.edges.state(true)?);
        lifting.go(start, b'"'..=b'"', first)?;
    } else {
        lifting.id(first)?;
    }
    // The ranges of the states in work: those of the last one are nearly always those that are needed.
    let mut pieces: HashMap<StateId, Vec<Piece>> = HashMap::new();
    while let Some((node, id)) = lifting.todo.pop() {
        match node {
            Node::Text(state, whole) => {
                if let Some(end) = end.filter(|_| whole && dfa.is_accepting(state)) {
                    lifting.edges.edge(id, b'"'..=b'"', end);
                }
                lifting.raw(state, whole, id)?;
                if whole {
                    let found = lifting.pieces(state);
                    if !found.is_empty() {
                        let back = lifting.id(Node::Escape(state))?;
                        lifting.edges.edge(id, b'\\'..=b'\\', back);
                    }
                    pieces.insert(state, found);
                }
            }
            Node::Escape(state) => {
                for (letter, point) in SHORT {
                    if let Some(target) = at(&pieces[&state], point) {
                        lifting.go(id, letter..=letter, Node::Text(target, true))?;
                    }
                }
                lifting.go(id, b'u'..=b'u', Node::Hex { state, prefix: 0, left: 4 })?;
            }
            Node::Hex { state, prefix, left } => {
                lifting.digits(id, |digit| unit(&pieces[&state], state, prefix << 4 | digit, left - 1))?;
            }
            Node::Any { target, left } => lifting.digits(id, |_| Some(any(target, left - 1)))?,
            Node::AnyHigh { target, left } => {
                lifting.digits(id, |_| Some(high_end(Node::AnyHigh { target, left: left - 1 })))?;
            }
            Node::AnyPair { target, step } => match pair_byte(step) {
                Some(bytes) => {
                    for bytes in bytes {
                        lifting.go(id, bytes.clone(), Node::AnyPair { target, step: step + 1 })?;
                    }
                }
                // Which of DC to DF.
                None => {
                    lifting.digits(id, |digit| (digit >= 0xc).then_some(Node::Any { target, left: 2 }))?;
                }
            },
            Node::Pair { state, high, step } => match pair_byte(step) {
                Some(bytes) => {
                    for bytes in bytes {
                        lifting.go(id, bytes.clone(), Node::Pair { state, high, step: step + 1 })?;
                    }
                }
                None => lifting.digits(id, |digit| {
                    let low = digit.checked_sub(0xc)?;
                    low_half(&pieces[&state], state, high << 2 | low, 2)
                })?,
            },
            Node::Low { state, prefix, left } => {
                lifting
                    .digits(id, |digit| low_half(&pieces[&state], state, prefix << 4 | digit, left - 1))?;
            }
        }
    }
    lifting.edges.build()
}

/// Code points from the first to the second lead to the state.
type Piece = (u32, u32, StateId);

/// A state of what is made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// So much text was read; whether characters are whole.
    Text(StateId, bool),
    /// Behind a backslash.
    Escape(StateId),
    /// Of the four digits these were read and so many are left.
    Hex { state: StateId, prefix: u32, left: u32 },
    /// So many digits are left, and all lead there.
    Any { target: StateId, left: u32 },
    /// As before, of the first half of a pair, all second halves of which lead there too.
    AnyHigh { target: StateId, left: u32 },
    /// Behind such a first half; so many bytes of `\uD` were read.
    AnyPair { target: StateId, step: u8 },
    /// Behind the first half with these ten bits.
    Pair { state: StateId, high: u32, step: u8 },
    /// In the second half, with so many digits left; `prefix` has the bits of the code point less 0x10000.
    Low { state: StateId, prefix: u32, left: u32 },
}

/// The byte of `\uD` in front of which `step` stands.
fn pair_byte(step: u8) -> Option<&'static [RangeInclusive<u8>]> {
    match step {
        0 => Some(&[b'\\'..=b'\\']),
        1 => Some(&[b'u'..=b'u']),
        2 => Some(&[b'D'..=b'D', b'd'..=b'd']),
        _ => None,
    }
}

/// All `left` digits lead to `target`.
fn any(target: StateId, left: u32) -> Node {
    if left == 0 { Node::Text(target, true) } else { Node::Any { target, left } }
}

fn high_end(node: Node) -> Node {
    match node {
        Node::AnyHigh { target, left: 0 } => Node::AnyPair { target, step: 0 },
        node => node,
    }
}

/// Where the code point leads.
fn at(pieces: &[Piece], point: u32) -> Option<StateId> {
    within(pieces, point, point)
}

/// Where all these code points lead, if it is one place.
fn within(pieces: &[Piece], first: u32, last: u32) -> Option<StateId> {
    let index = pieces.partition_point(|(_, end, _)| *end < first);
    pieces.get(index).filter(|(start, end, _)| *start <= first && last <= *end).map(|(_, _, target)| *target)
}

/// Whether any of these code points leads anywhere.
fn touches(pieces: &[Piece], first: u32, last: u32) -> bool {
    let index = pieces.partition_point(|(_, end, _)| *end < first);
    pieces.get(index).is_some_and(|(start, ..)| *start <= last)
}

/// What stands behind the digits `prefix` of an escape, with so many left.
fn unit(pieces: &[Piece], state: StateId, prefix: u32, left: u32) -> Option<Node> {
    let (first, last) = (prefix << (4 * left), ((prefix + 1) << (4 * left)) - 1);
    if (0xd800..=0xdbff).contains(&first) && last <= 0xdbff {
        let point = |unit: u32| 0x10000 + ((unit - 0xd800) << 10);
        let (low, high) = (point(first), point(last) + 0x3ff);
        if let Some(target) = within(pieces, low, high) {
            return Some(high_end(Node::AnyHigh { target, left }));
        }
        if !touches(pieces, low, high) {
            return None;
        }
        if left == 0 {
            return Some(Node::Pair { state, high: first - 0xd800, step: 0 });
        }
        return Some(Node::Hex { state, prefix, left });
    }
    if let Some(target) = within(pieces, first, last) {
        return Some(any(target, left));
    }
    let pairs = first <= 0xdbff && last >= 0xd800 && touches(pieces, LAST_OF_PLANE + 1, 0x10_ffff);
    (left > 0 && (pairs || touches(pieces, first, last))).then_some(Node::Hex { state, prefix, left })
}

/// What stands behind so many bits of a code point beyond the plane, with so many digits left.
fn low_half(pieces: &[Piece], state: StateId, prefix: u32, left: u32) -> Option<Node> {
    let first = 0x10000 + (prefix << (4 * left));
    let last = first + (1 << (4 * left)) - 1;
    if let Some(target) = within(pieces, first, last) {
        return Some(any(target, left));
    }
    (left > 0 && touches(pieces, first, last)).then_some(Node::Low { state, prefix, left })
}

struct Lifting<'d> {
    dfa: &'d Dfa,
    quoted: bool,
    ascii: bool,
    edges: DfaEdges,
    ids: HashMap<Node, u32>,
    todo: Vec<(Node, u32)>,
    /// By state inside a character and bytes left of it: where all of them lead, if it is one place.
    uniform: HashMap<(StateId, u32), Option<StateId>>,
}

impl Lifting<'_> {
    fn id(&mut self, node: Node) -> Result<u32, RegexError> {
        if let Some(id) = self.ids.get(&node) {
            return Ok(*id);
        }
        let ends = matches!(node, Node::Text(state, true) if !self.quoted && self.dfa.is_accepting(state));
        let id = self.edges.state(ends)?;
        self.ids.insert(node, id);
        self.todo.push((node, id));
        Ok(id)
    }

    fn go(&mut self, from: u32, bytes: RangeInclusive<u8>, to: Node) -> Result<(), RegexError> {
        let to = self.id(to)?;
        self.edges.edge(from, bytes, to);
        Ok(())
    }

    /// Leads on by each hexadecimal digit, of either case.
    fn digits(&mut self, from: u32, to: impl Fn(u32) -> Option<Node>) -> Result<(), RegexError> {
        for (digit, byte) in (0..).zip(b"0123456789abcdef") {
            if let Some(node) = to(digit) {
                let id = self.id(node)?;
                self.edges.edge(from, *byte..=*byte, id);
                let upper = byte.to_ascii_uppercase();
                if upper != *byte {
                    self.edges.edge(from, upper..=upper, id);
                }
            }
        }
        Ok(())
    }

    /// The bytes that stand for themselves.
    fn raw(&mut self, state: StateId, whole: bool, id: u32) -> Result<(), RegexError> {
        let dfa = self.dfa;
        for edge in dfa.edges(state) {
            let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
            if !whole {
                // More bytes of the character may follow; a state is inside of one or not, never both.
                let done = !self.inside(edge.target);
                self.go(id, first..=last, Node::Text(edge.target, done))?;
                continue;
            }
            for part in [0x20..=0x21, 0x23..=0x5b, 0x5d..=0x7f] {
                let (first, last) = (first.max(*part.start()), last.min(*part.end()));
                if first <= last {
                    self.go(id, first..=last, Node::Text(edge.target, true))?;
                }
            }
            if last >= 0xc2 && !self.ascii {
                self.go(id, first.max(0xc2)..=last, Node::Text(edge.target, false))?;
            }
        }
        Ok(())
    }

    /// Whether `state` is inside of a character: what follows is one of the other bytes of it.
    fn inside(&self, state: StateId) -> bool {
        !self.dfa.is_accepting(state)
            && self.dfa.edges(state).next().is_some_and(|edge| (0x80..0xc0).contains(edge.bytes.start()))
    }

    /// Where the characters behind `state` lead: ranges of code points, ascending, as long as possible.
    fn pieces(&mut self, state: StateId) -> Vec<Piece> {
        let mut pieces = vec![];
        let dfa = self.dfa;
        for edge in dfa.edges(state) {
            let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
            if first < 0x80 {
                add(&mut pieces, u32::from(first), u32::from(last.min(0x7f)), edge.target);
            }
            for (from, to, left, mask) in
                [(0xc2, 0xdf, 1, 0x1f), (0xe0, 0xef, 2, 0x0f), (0xf0, 0xf4, 3, 0x07)]
            {
                let (first, last) = (first.max(from), last.min(to));
                if first <= last {
                    self.rest(
                        &mut pieces,
                        u32::from(first & mask),
                        u32::from(last & mask),
                        edge.target,
                        left,
                    );
                }
            }
        }
        pieces
    }

    /// The characters whose first bits are `first` to `last`, of which `left` bytes are to be read from `state` on.
    fn rest(&mut self, pieces: &mut Vec<Piece>, first: u32, last: u32, state: StateId, left: u32) {
        if let Some(target) = self.uniform(state, left) {
            add(pieces, first << (6 * left), ((last + 1) << (6 * left)) - 1, target);
            return;
        }
        let dfa = self.dfa;
        for bits in first..=last {
            for edge in dfa.edges(state) {
                let (low, high) =
                    (bits << 6 | u32::from(edge.bytes.start() & 0x3f), u32::from(edge.bytes.end() & 0x3f));
                let high = bits << 6 | high;
                if left == 1 {
                    add(pieces, low, high, edge.target);
                } else {
                    // At most three bytes deep.
                    self.rest(pieces, low, high, edge.target, left - 1);
                }
            }
        }
    }

    fn uniform(&mut self, state: StateId, left: u32) -> Option<StateId> {
        if left == 0 {
            return Some(state);
        }
        if let Some(known) = self.uniform.get(&(state, left)) {
            return *known;
        }
        let only = self.dfa.edges(state).next().filter(|edge| edge.bytes == (0x80..=0xbf));
        let found = only.and_then(|edge| self.uniform(edge.target, left - 1));
        self.uniform.insert((state, left), found);
        found
    }
}

/// Adds a range behind the others.
fn add(pieces: &mut Vec<Piece>, first: u32, last: u32, target: StateId) {
    match pieces.last_mut() {
        Some((_, end, of)) if *of == target && *end + 1 == first => *end = last,
        _ => pieces.push((first, last, target)),
    }
}

/// `text` as a string of JSON with the escapes that it needs and no others; in ASCII alone if asked for.
pub(crate) fn written(text: &str, ascii: bool) -> String {
    let mut written = String::with_capacity(text.len() + 2);
    written.push('"');
    for char in text.chars() {
        let short = SHORT.iter().find(|(letter, point)| *letter != b'/' && *point == u32::from(char));
        match short {
            Some((letter, _)) => written.extend(['\\', char::from(*letter)]),
            None if char < ' ' => written.push_str(&format!("\\u{:04x}", u32::from(char))),
            None if ascii && !char.is_ascii() => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    written.push_str(&format!("\\u{unit:04x}"));
                }
            }
            None => written.push(char),
        }
    }
    written.push('"');
    written
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All spellings of a character.
    fn spellings(char: char) -> Vec<String> {
        let mut all = vec![];
        if char >= ' ' && char != '"' && char != '\\' {
            all.push(char.to_string());
        }
        for (letter, point) in SHORT {
            if point == u32::from(char) {
                all.push(format!("\\{}", char::from(letter)));
            }
        }
        let units: Vec<u16> = char.encode_utf16(&mut [0; 2]).to_vec();
        all.push(units.iter().map(|unit| format!("\\u{unit:04x}")).collect());
        all.push(units.iter().map(|unit| format!("\\u{unit:04X}")).collect());
        all
    }

    #[test]
    fn all_spellings_of_a_text_are_accepted_and_no_others() {
        let patterns = [
            "(?s).*",
            "[a-z]*",
            "[^a]{1,3}",
            "é|😀|\\x{ffff}|\\x{10000}",
            "(?s).{0,2}",
            "[\\x{0}-\\x{1f}]",
            "\\p{Greek}*",
            "[\\x{d7f0}-\\x{e00f}\\x{1f600}-\\x{1f64f}]?",
        ];
        let chars = [
            'a',
            'b',
            '"',
            '\\',
            '/',
            '\n',
            '\0',
            '\u{1f}',
            '\u{7f}',
            'é',
            'ω',
            '\u{d7ff}',
            '\u{e000}',
            '\u{ffff}',
            '\u{10000}',
            '😀',
            '\u{10ffff}',
        ];
        for pattern in patterns {
            let text = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            let spelled = spelled(&text, true, false, &Limits::default()).unwrap();
            for first in chars {
                for second in [None].into_iter().chain(chars.map(Some)) {
                    let whole: String = [Some(first), second].into_iter().flatten().collect();
                    for spelling in spellings(first) {
                        for behind in second.map_or(vec![String::new()], spellings) {
                            let source = format!("\"{spelling}{behind}\"");
                            let expected = text.accepts(whole.as_bytes());
                            assert_eq!(spelled.accepts(source.as_bytes()), expected, "{pattern} {source}");
                        }
                    }
                }
            }
            for wrong in [
                "\"\\ud800\"",
                "\"\\udc00\"",
                "\"\\ud800\\u0041\"",
                "\"\\x\"",
                "\"\\u00\"",
                "\"\n\"",
                "\"\"\"",
                "\"",
                "",
            ] {
                assert!(!spelled.accepts(wrong.as_bytes()), "{pattern} {wrong}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_spelling_is_accepted_as_its_text_is(
            pattern in prop::sample::select(vec!["(?s).*", "[a-fé😀]*", "(?s).{2,4}", "\\P{L}*", "(\\x{ffff}|\\n|😀)*"]),
            source in "([a-g\\\\\"/ué😀\u{ffff}]|\\\\[bnu/]|\\\\u[0d][08][0c][0-9a-f]|\\\\ud83d\\\\ude0[0-3]){0,6}",
        ) {
            let source = format!("\"{source}\"");
            let text = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            let spelled = spelled(&text, true, false, &Limits::default()).unwrap();
            let read: Result<String, _> = serde_json::from_str(&source);
            let expected = read.is_ok_and(|read| text.accepts(read.as_bytes()));
            prop_assert_eq!(spelled.accepts(source.as_bytes()), expected, "{}", source);
        }
    }
}
