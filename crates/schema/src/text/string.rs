//! Lifts an automaton over text to an automaton over its spellings as a JSON string.
//!
//! Lengths, patterns, formats and lists of texts constrain the text, and JSON has up to five spellings of a
//! character: the character itself, `\n`, `\u000a` with hexadecimal digits of either case, and two such escapes for
//! a character beyond U+FFFF. So the automaton is read by ranges of code points, and each state gets, beside the
//! raw bytes, a tree of hexadecimal digits over these ranges. A block of digits inside one range is one node, and
//! nodes with equal targets are one node. A state therefore costs about a dozen nodes and not four thousand, and
//! the result is minimal without a minimization step.
//!
//! One half of a surrogate pair spells no text and is refused, as most JSON readers do.

use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;
use unskew_automata::{
    Dfa, Limits, RegexError, StateId,
    dfa::{Characters, DfaBuilder, Piece},
};

/// The last code point that is written with one `\u` escape.
const LAST_OF_PLANE: u32 = 0xffff;

/// Escapes of one letter.
const SHORT: [(u8, u32); 8] =
    [(b'"', 0x22), (b'\\', 0x5c), (b'/', 0x2f), (b'b', 8), (b'f', 0xc), (b'n', 0xa), (b'r', 0xd), (b't', 9)];

/// The JSON strings of the texts that `dfa` accepts. `quoted` adds the quotes; `ascii` replaces raw characters
/// beyond ASCII by escapes.
///
/// Cost: O(n + r log r) for n states and r ranges of characters between them, with about a dozen states for each
/// state of `dfa`.
///
/// # Errors
///
/// [`RegexError`] for a limit, or for a language without valid UTF-8.
pub(crate) fn spelled(dfa: &Dfa, quoted: bool, ascii: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    lifted(dfa, quoted, ascii, Escapes::All, limits)
}

/// The JSON strings of the texts that `dfa` accepts, with only the escapes that they need for printable characters of
/// ASCII, and all spellings of other characters. So a listed text is written as if it were the only one.
///
/// Cost: as [`spelled`], with a state for each character of ASCII.
///
/// # Errors
///
/// As for [`spelled`].
pub(crate) fn listed(dfa: &Dfa, ascii: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    lifted(dfa, true, ascii, Escapes::Needed, limits)
}

/// The JSON strings that [`to_json`] returns for the texts that `dfa` accepts.
///
/// Cost: O(n + r) for n states and r ranges of characters between them.
///
/// # Errors
///
/// As for [`spelled`].
pub(crate) fn spelled_once(dfa: &Dfa, ascii: bool, limits: &Limits) -> Result<Dfa, RegexError> {
    lifted(dfa, true, ascii, Escapes::Once, limits)
}

/// Which escapes of characters are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    All,
    /// Those of printable characters of ASCII that JSON needs, and all of others.
    Needed,
    /// Each text has one spelling.
    Once,
}

fn lifted(
    dfa: &Dfa,
    quoted: bool,
    ascii: bool,
    escapes_of: Escapes,
    limits: &Limits,
) -> Result<Dfa, RegexError> {
    let mut lifting = Lifting {
        quoted,
        ascii,
        once: escapes_of == Escapes::Once,
        escapes_of,
        dfa,
        edges: DfaBuilder::new(limits),
        texts: FxHashMap::default(),
        todo: vec![],
        characters: Characters::new(dfa),
        escapes: FxHashMap::default(),
        digits: FxHashMap::default(),
        any: FxHashMap::default(),
        any_high: FxHashMap::default(),
        pairs: FxHashMap::default(),
    };
    let mut end = None;
    if quoted {
        let start = lifting.edges.state(false)?;
        end = Some(lifting.edges.state(true)?);
        let first = lifting.text(dfa.start(), true)?;
        lifting.edges.edge(start, b'"'..=b'"', first);
    } else {
        lifting.text(dfa.start(), true)?;
    }
    while let Some((state, whole, id)) = lifting.todo.pop() {
        if let Some(end) = end.filter(|_| whole && dfa.is_accepting(state)) {
            lifting.edges.edge(id, b'"'..=b'"', end);
        }
        lifting.raw(state, whole, id)?;
        if whole {
            let mut pieces = lifting.characters.pieces(state);
            pieces = match escapes_of {
                Escapes::All => pieces,
                Escapes::Needed => common(&pieces, &UNPRINTED),
                Escapes::Once => common(&pieces, if ascii { &ESCAPED } else { &ESCAPED[..3] }),
            };
            if !pieces.is_empty() {
                let escape = lifting.escape(pieces)?;
                lifting.edges.edge(id, b'\\'..=b'\\', escape);
            }
        }
    }
    // States of `dfa` that differ also differ in every spelling, and all other states are built once for each list
    // of targets.
    lifting.edges.build_distinct()
}

/// The target of the code point.
fn at(pieces: &[Piece], point: u32) -> Option<StateId> {
    within(pieces, point, point)
}

/// The target of all these code points, if they have a common one.
fn within(pieces: &[Piece], first: u32, last: u32) -> Option<StateId> {
    let index = pieces.partition_point(|piece| piece.last < first);
    pieces.get(index).filter(|piece| piece.first <= first && last <= piece.last).map(|piece| piece.target)
}

/// Whether any of these code points has a target.
fn touches(pieces: &[Piece], first: u32, last: u32) -> bool {
    let index = pieces.partition_point(|piece| piece.last < first);
    pieces.get(index).is_some_and(|piece| piece.first <= last)
}

/// The code points that [`to_json`] escapes, with those beyond ASCII last; those that are no printable ASCII, or need
/// an escape; and the subset of the first without a short escape.
const ESCAPED: [(u32, u32); 4] = [(0, 0x1f), (0x22, 0x22), (0x5c, 0x5c), (0x80, 0x10_ffff)];
const UNPRINTED: [(u32, u32); 4] = [(0, 0x1f), (0x22, 0x22), (0x5c, 0x5c), (0x7f, 0x10_ffff)];
const WITHOUT_LETTER: [(u32, u32); 4] = [(0, 7), (0xb, 0xb), (0xe, 0x1f), (0x80, 0x10_ffff)];

/// The parts of `pieces` inside `ranges`; both ascend.
fn common(pieces: &[Piece], ranges: &[(u32, u32)]) -> Vec<Piece> {
    let parts = ranges.iter().flat_map(|(first, last)| {
        let from = pieces.partition_point(|piece| piece.last < *first);
        let touched = pieces[from..].iter().take_while(move |piece| piece.first <= *last);
        touched.map(|piece| Piece {
            first: piece.first.max(*first),
            last: piece.last.min(*last),
            target: piece.target,
        })
    });
    parts.collect()
}

/// The target of each hexadecimal digit, or [`NONE`].
type Digits = [u32; 16];

/// No target: there are fewer states.
const NONE: u32 = u32::MAX;

/// The automaton under construction. A state after a character is identified by its state of `dfa`; a state inside
/// an escape is identified by its targets, so that equal states are one state.
struct Lifting<'d> {
    dfa: &'d Dfa,
    quoted: bool,
    ascii: bool,
    /// Whether each text has one spelling.
    once: bool,
    escapes_of: Escapes,
    edges: DfaBuilder,
    /// Keyed by the state of `dfa` and whether it is at the end of a character.
    texts: FxHashMap<(StateId, bool), u32>,
    /// States without edges so far.
    todo: Vec<(StateId, bool, u32)>,
    characters: Characters<'d>,
    /// States after a backslash, by the possible characters.
    escapes: FxHashMap<Vec<Piece>, u32>,
    /// States before a hexadecimal digit, by the targets of the digits.
    digits: FxHashMap<Digits, u32>,
    /// States before the given number of digits, all of which lead to the same state of `dfa`.
    any: FxHashMap<(StateId, u32), u32>,
    /// States before the given number of digits of a high surrogate, where all low surrogates lead to the same
    /// state of `dfa` too.
    any_high: FxHashMap<(StateId, u32), u32>,
    /// States before `\uD`, by the state after it.
    pairs: FxHashMap<u32, u32>,
}

impl Lifting<'_> {
    fn text(&mut self, state: StateId, whole: bool) -> Result<u32, RegexError> {
        if let Some(id) = self.texts.get(&(state, whole)) {
            return Ok(*id);
        }
        let id = self.edges.state(!self.quoted && whole && self.dfa.is_accepting(state))?;
        self.texts.insert((state, whole), id);
        self.todo.push((state, whole, id));
        Ok(id)
    }

    fn escape(&mut self, pieces: Vec<Piece>) -> Result<u32, RegexError> {
        if let Some(id) = self.escapes.get(&pieces) {
            return Ok(*id);
        }
        let id = self.edges.state(false)?;
        for (letter, point) in SHORT {
            if let Some(target) = at(&pieces, point) {
                let target = self.text(target, true)?;
                self.edges.edge(id, letter..=letter, target);
            }
        }
        let after = match self.escapes_of {
            Escapes::All => self.unit(&pieces, 0, 4)?,
            // A letter is enough for a quote and a backslash.
            Escapes::Needed => self.unit(&common(&pieces, &[UNPRINTED[0], UNPRINTED[3]]), 0, 4)?,
            Escapes::Once => self.unit(&common(&pieces, &WITHOUT_LETTER), 0, 4)?,
        };
        if let Some(after) = after {
            self.edges.edge(id, b'u'..=b'u', after);
        }
        self.escapes.insert(pieces, id);
        Ok(id)
    }

    /// The state after the digits `prefix` of an escape with `left` digits missing, or `None`.
    fn unit(&mut self, pieces: &[Piece], prefix: u32, left: u32) -> Result<Option<u32>, RegexError> {
        let (first, last) = (prefix << (4 * left), ((prefix + 1) << (4 * left)) - 1);
        if (0xd800..=0xdbff).contains(&first) && last <= 0xdbff {
            let point = |unit: u32| 0x10000 + ((unit - 0xd800) << 10);
            let (low, high) = (point(first), point(last) + 0x3ff);
            if let Some(target) = within(pieces, low, high) {
                return self.any_high(target, left).map(Some);
            }
            if !touches(pieces, low, high) {
                return Ok(None);
            }
            if left == 0 {
                let mut next = [NONE; 16];
                for digit in 0xc..16 {
                    let high = first - 0xd800;
                    let after = self.low_half(pieces, high << 2 | (digit - 0xc), 2)?;
                    next[digit as usize] = after.unwrap_or(NONE);
                }
                return match self.digits(next)? {
                    Some(low) => self.pair(low).map(Some),
                    None => Ok(None),
                };
            }
        } else {
            if let Some(target) = within(pieces, first, last) {
                return self.any(target, left).map(Some);
            }
            let pairs = first <= 0xdbff && last >= 0xd800 && touches(pieces, LAST_OF_PLANE + 1, 0x10_ffff);
            if left == 0 || !pairs && !touches(pieces, first, last) {
                return Ok(None);
            }
            if left == 1 {
                return self.last_digit(pieces, first);
            }
        }
        let mut next = [NONE; 16];
        for (digit, next) in (0..).zip(&mut next) {
            *next = self.unit(pieces, prefix << 4 | digit, left - 1)?.unwrap_or(NONE);
        }
        self.digits(next)
    }

    /// The state after the leading bits `prefix` of a code point minus 0x10000, with `left` digits missing, or
    /// `None`.
    fn low_half(&mut self, pieces: &[Piece], prefix: u32, left: u32) -> Result<Option<u32>, RegexError> {
        let first = 0x10000 + (prefix << (4 * left));
        let last = first + (1 << (4 * left)) - 1;
        if let Some(target) = within(pieces, first, last) {
            return self.any(target, left).map(Some);
        }
        if left == 0 || !touches(pieces, first, last) {
            return Ok(None);
        }
        if left == 1 {
            return self.last_digit(pieces, first);
        }
        let mut next = [NONE; 16];
        for (digit, next) in (0..).zip(&mut next) {
            *next = self.low_half(pieces, prefix << 4 | digit, left - 1)?.unwrap_or(NONE);
        }
        self.digits(next)
    }

    /// The state before the last digit of the code points `first` to `first + 15`.
    fn last_digit(&mut self, pieces: &[Piece], first: u32) -> Result<Option<u32>, RegexError> {
        let mut next = [NONE; 16];
        let from = pieces.partition_point(|piece| piece.last < first);
        for piece in pieces[from..].iter().take_while(|piece| piece.first <= first + 15) {
            let after = self.text(piece.target, true)?;
            let (first, last) = (piece.first.max(first) - first, piece.last.min(first + 15) - first);
            next[first as usize..=last as usize].fill(after);
        }
        self.digits(next)
    }

    /// The state from which any `left` digits lead to `target`.
    fn any(&mut self, target: StateId, left: u32) -> Result<u32, RegexError> {
        if left == 0 {
            return self.text(target, true);
        }
        if let Some(id) = self.any.get(&(target, left)) {
            return Ok(*id);
        }
        let next = self.any(target, left - 1)?;
        let id = self.some_digits([next; 16])?;
        self.any.insert((target, left), id);
        Ok(id)
    }

    fn any_high(&mut self, target: StateId, left: u32) -> Result<u32, RegexError> {
        if let Some(id) = self.any_high.get(&(target, left)) {
            return Ok(*id);
        }
        let id = if left == 0 {
            let after = self.any(target, 2)?;
            let low =
                self.some_digits(std::array::from_fn(|digit| if digit >= 0xc { after } else { NONE }))?;
            self.pair(low)?
        } else {
            let next = self.any_high(target, left - 1)?;
            self.some_digits([next; 16])?
        };
        self.any_high.insert((target, left), id);
        Ok(id)
    }

    /// The state before `\uD` of a low surrogate; `low` is the state before its last three digits.
    fn pair(&mut self, low: u32) -> Result<u32, RegexError> {
        if let Some(id) = self.pairs.get(&low) {
            return Ok(*id);
        }
        let (begin, unit, digit) =
            (self.edges.state(false)?, self.edges.state(false)?, self.edges.state(false)?);
        self.edges.edge(begin, b'\\'..=b'\\', unit);
        self.edges.edge(unit, b'u'..=b'u', digit);
        if !self.once {
            self.edges.edge(digit, b'D'..=b'D', low);
        }
        self.edges.edge(digit, b'd'..=b'd', low);
        self.pairs.insert(low, begin);
        Ok(begin)
    }

    /// The state with the target `next[d]` for each hexadecimal digit d, of either case; `None` if no digit has a
    /// target.
    fn digits(&mut self, next: Digits) -> Result<Option<u32>, RegexError> {
        if next == [NONE; 16] { Ok(None) } else { self.some_digits(next).map(Some) }
    }

    /// As [`digits`](Self::digits), if some digit has a target.
    fn some_digits(&mut self, next: Digits) -> Result<u32, RegexError> {
        if let Some(id) = self.digits.get(&next) {
            return Ok(*id);
        }
        let id = self.edges.state(false)?;
        let ranges = [(b'0', &next[..10]), (b'a', &next[10..]), (b'A', &next[10..])];
        for (bytes, next) in &ranges[..if self.once { 2 } else { 3 }] {
            let mut first = *bytes;
            for run in next.chunk_by(|left, right| left == right) {
                let after = first + u8::try_from(run.len()).expect("at most ten");
                if run[0] != NONE {
                    self.edges.edge(id, first..=after - 1, run[0]);
                }
                first = after;
            }
        }
        self.digits.insert(next, id);
        Ok(id)
    }

    fn go(
        &mut self,
        from: u32,
        bytes: RangeInclusive<u8>,
        state: StateId,
        whole: bool,
    ) -> Result<(), RegexError> {
        let to = self.text(state, whole)?;
        self.edges.edge(from, bytes, to);
        Ok(())
    }

    /// Adds the edges of raw bytes.
    fn raw(&mut self, state: StateId, whole: bool, id: u32) -> Result<(), RegexError> {
        let dfa = self.dfa;
        for edge in dfa.edges(state) {
            let (first, last) = (*edge.bytes.start(), *edge.bytes.end());
            if !whole {
                // More bytes of the character may follow. A state is always inside a character or never.
                let done = !self.inside(edge.target);
                self.go(id, first..=last, edge.target, done)?;
                continue;
            }
            for part in [0x20..=0x21, 0x23..=0x5b, 0x5d..=0x7f] {
                let (first, last) = (first.max(*part.start()), last.min(*part.end()));
                if first <= last {
                    self.go(id, first..=last, edge.target, true)?;
                }
            }
            if last >= 0xc2 && !self.ascii {
                self.go(id, first.max(0xc2)..=last, edge.target, false)?;
            }
        }
        Ok(())
    }

    /// Whether `state` is inside a character: only continuation bytes may follow.
    fn inside(&self, state: StateId) -> bool {
        !self.dfa.is_accepting(state)
            && self.dfa.edges(state).next().is_some_and(|edge| (0x80..0xc0).contains(edge.bytes.start()))
    }
}

/// `text` as a JSON string with only the escapes that it needs; `ascii` also escapes all characters beyond ASCII.
pub(crate) fn to_json(text: &str, ascii: bool) -> String {
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
    use unskew_automata::dfa::DfaAlgebra;

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
                        for after in second.map_or(vec![String::new()], spellings) {
                            let source = format!("\"{spelling}{after}\"");
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

    #[test]
    fn texts_are_written_once() {
        for pattern in [
            "(?s).*",
            "(?s).",
            "[^a]{1,3}",
            "[a-z/]*",
            r#"é|😀|\x{ffff}|["\\\x00-\x1f\x7f]*"#,
            "",
            "[\n-\r]+a",
        ] {
            let text = Dfa::from_pattern(pattern, &Limits::default()).unwrap();
            for ascii in [false, true] {
                let all = spelled(&text, true, ascii, &Limits::default()).unwrap();
                let written = crate::text::standard::spelled_once(ascii).unwrap();
                let both = DfaAlgebra::new(&Limits::default()).intersection(&all, &written).unwrap();
                assert_eq!(
                    spelled_once(&text, ascii, &Limits::default()).unwrap(),
                    both,
                    "{pattern} {ascii}"
                );
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
