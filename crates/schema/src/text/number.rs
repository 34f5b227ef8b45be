//! Numbers as automata: bounds, multiples and equality over the text of a number.
//!
//! A number without a condition may have any JSON spelling. A number under a condition is written with digits and a
//! point, and with exponents up to a chosen size. The reason is that `1234.5e1` is an integer, and `0.001e5` is at
//! most 99, only by counting the digits before the exponent, which no automaton does for all exponents. For a
//! single exponent the condition is one on the digits before it, with the point of the bound moved; so a language
//! is a union over the exponents. The restriction loses no value and admits no value that breaks the condition.
//! Complements are relative to the numbers with these exponents. Multiples never have an exponent. A number of the
//! schema with very many digits may also be written with an exponent, if no other condition applies to it.

use unskew_automata::{Dfa, Limits, RegexError, dfa::DfaBuilder};

use rustc_hash::FxHashMap;

use crate::decimal::Decimal;

/// Any JSON number.
pub(crate) const ANY: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?";

/// Any number without an exponent.
pub(crate) const PLAIN: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?";

/// One spelling of each number: without an exponent and as short as possible.
pub(crate) const SHORTEST: &str = r"0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9]";

/// Any number but a zero with a sign.
pub(crate) const WITHOUT_NEGATIVE_ZERO: &str =
    r"(0|-?[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?|-0\.0*[1-9][0-9]*([eE][+-]?[0-9]+)?";

/// Integers as programs write them.
pub(crate) const INTEGER: &str = r"0|-?[1-9][0-9]*";

/// Integers; `1.0` is one.
pub(crate) const WHOLE: &str = r"-?(0|[1-9][0-9]*)(\.0+)?";

/// Integers of draft 4, where `1.0` is none.
pub(crate) const WHOLE_WITHOUT_POINT: &str = r"-?(0|[1-9][0-9]*)";

/// The largest modulus of an automaton of multiples, so that no product overflows. [`Limits::dfa_states`] bounds the
/// automata.
const MAX_MODULUS: u64 = 1 << 40;

/// A number of the schema with more digits may also be written with an exponent. This length exceeds the range of
/// binary floating point.
const LONG: u64 = 400;

/// The spellings of `number` without an exponent; `None` if they have more than `most` digits.
pub(crate) fn equal(number: &Decimal, most: u32) -> Option<String> {
    let (whole, fraction) = number.plain(most)?;
    let sign = match (number.is_zero(), number.negative) {
        (true, _) => "-?",
        (_, true) => "-",
        _ => "",
    };
    Some(if fraction.is_empty() {
        format!(r"{sign}{whole}(\.0+)?")
    } else {
        format!(r"{sign}{whole}\.{fraction}0*")
    })
}

/// The spellings of a long number with one digit before the point and with its exponent, so that nobody writes a
/// thousand zeros. `None` for a number of at most [`LONG`] digits.
pub(crate) fn scientific(number: &Decimal) -> Option<String> {
    let (first, rest, exponent) = number.scientific().filter(|_| number.length() > LONG)?;
    let sign = if number.negative { "-" } else { "" };
    let fraction = if rest.is_empty() { r"(\.0+)?".to_owned() } else { format!(r"\.{rest}0*") };
    Some(format!("{sign}{first}{fraction}{}", self::exponent(exponent, 1)))
}

/// The numbers without an exponent that are less than `bound`, equal to it, or greater; `wanted` selects in this
/// order. `None` if the bound has more than `most` digits.
///
/// A state is the number of digits read and their comparison with the digits of the bound. A pattern of the same
/// numbers takes twenty times as long to compile.
pub(crate) fn ordered(
    bound: &Decimal,
    wanted: [bool; 3],
    most: u32,
    limits: &Limits,
) -> Result<Option<Dfa>, RegexError> {
    let Some((whole, fraction)) = bound.plain(most) else { return Ok(None) };
    let (whole, fraction) = (whole.as_bytes(), fraction.as_bytes());
    let mut edges = DfaBuilder::new(limits);
    let (start, minus) = (edges.state(false)?, edges.state(false)?);
    edges.edge(start, b'-'..=b'-', minus);
    let [less, equal, more] = wanted;
    // A number without a minus sign is greater than one with it. Of two negative numbers the one nearer to zero is
    // greater.
    if bound.negative {
        compared(&mut edges, start, b"0", b"", [more; 3])?;
    } else {
        compared(&mut edges, start, whole, fraction, wanted)?;
    }
    if bound.negative || bound.is_zero() {
        compared(&mut edges, minus, whole, fraction, [more, equal, less])?;
    } else {
        compared(&mut edges, minus, b"0", b"", [less; 3])?;
    }
    edges.build().map(Some)
}

/// The comparison of the digits read with a bound.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Less,
    Equal,
    More,
}

impl Comparison {
    const ALL: [Self; 3] = [Self::Less, Self::Equal, Self::More];

    fn of<T: Ord>(left: &T, right: &T) -> Self {
        match left.cmp(right) {
            std::cmp::Ordering::Less => Self::Less,
            std::cmp::Ordering::Equal => Self::Equal,
            std::cmp::Ordering::Greater => Self::More,
        }
    }
}

/// Adds to the state `from` the unsigned numbers that compare with `whole.fraction` as `wanted` selects. The bound
/// has no zeros at either end except a single one before the point.
fn compared(
    edges: &mut DfaBuilder,
    from: u32,
    whole: &[u8],
    fraction: &[u8],
    wanted: [bool; 3],
) -> Result<(), RegexError> {
    use Comparison::{Equal, Less, More};
    const DIGITS: std::ops::RangeInclusive<u8> = b'0'..=b'9';
    let wants = |compared: Comparison| wanted[compared as usize];

    // Decided states after a point: before the first digit of the fraction, and after it.
    let mut decided = [(0, 0); 3];
    for compared in [Less, More] {
        let (point, digits) = (edges.state(false)?, edges.state(wants(compared))?);
        edges.edge(point, DIGITS, digits);
        edges.edge(digits, DIGITS, digits);
        decided[compared as usize] = (point, digits);
    }
    // States after a point and the first digits of the bound's fraction, indexed by the number of digits.
    let mut same = vec![edges.state(false)?];
    for read in 1..=fraction.len() {
        same.push(edges.state(wants(if read == fraction.len() { Equal } else { Less }))?);
    }
    for (read, digit) in fraction.iter().enumerate() {
        for next in DIGITS {
            let after = match Comparison::of(&next, digit) {
                Equal => same[read + 1],
                compared => decided[compared as usize].1,
            };
            edges.edge(same[read], next..=next, after);
        }
    }
    // Zeros after all digits of the bound change nothing.
    let zeros = if fraction.is_empty() { edges.state(wants(Equal))? } else { same[fraction.len()] };
    for state in [same[fraction.len()], zeros] {
        edges.edge(state, b'0'..=b'0', zeros);
        edges.edge(state, b'1'..=b'9', decided[More as usize].1);
    }

    // For each comparison at the end of the whole part: the state after a point, and whether the number may end.
    let ended = |compared: Comparison| match compared {
        Equal => (same[0], wants(if fraction.is_empty() { Equal } else { Less })),
        compared => (decided[compared as usize].0, wants(compared)),
    };
    let mut state = |compared: Comparison| {
        let (point, accepting) = ended(compared);
        let state = edges.state(accepting)?;
        edges.edge(state, b'.'..=b'.', point);
        Ok::<u32, RegexError>(state)
    };
    let zero = state(Comparison::of(&b'0', &whole[0]))?;
    let longer = state(More)?;
    // Indexed by the number of digits minus one. A number with fewer digits than the bound is less than it.
    let mut layers: Vec<[u32; 3]> = Vec::new();
    for read in 1..=whole.len() {
        let mut layer = [0; 3];
        for compared in Comparison::ALL {
            layer[compared as usize] = state(if read < whole.len() { Less } else { compared })?;
        }
        layers.push(layer);
    }
    edges.edge(from, b'0'..=b'0', zero);
    for digit in b'1'..=b'9' {
        edges.edge(from, digit..=digit, layers[0][Comparison::of(&digit, &whole[0]) as usize]);
    }
    edges.edge(longer, DIGITS, longer);
    for (read, layer) in layers.iter().enumerate() {
        for compared in Comparison::ALL {
            let from = layer[compared as usize];
            let Some(next) = layers.get(read + 1) else {
                edges.edge(from, DIGITS, longer);
                continue;
            };
            for digit in DIGITS {
                let after =
                    if compared == Equal { Comparison::of(&digit, &whole[read + 1]) } else { compared };
                edges.edge(from, digit..=digit, next[after as usize]);
            }
        }
    }
    Ok(())
}

/// The multiples of `factor`, without an exponent; `None` if `factor` has too many digits. `factor` must be greater
/// than zero.
///
/// A number is read as digits over the modulus, which is the factor without its point: a state is the number of digits
/// after the point, and a remainder. Remainders are one state if the same digits complete them to a multiple. After as
/// many digits as the modulus has, only the remainder times ten, once for each, makes a difference: of the 65,536
/// remainders of 65,536 some 2,000 are left, and of those of 100,000 six. With a state for each remainder and a
/// minimization afterwards, both would exceed the limits.
pub(crate) fn multiple(factor: &Decimal, limits: &Limits) -> Result<Option<Dfa>, RegexError> {
    let Some((whole, fraction)) = factor.plain(20) else { return Ok(None) };
    let Ok(modulus) = format!("{whole}{fraction}").parse::<u64>() else { return Ok(None) };
    let places = u32::try_from(fraction.len()).unwrap_or(u32::MAX);
    let remainders = Remainders { modulus, places };
    if modulus == 0 || modulus > MAX_MODULUS || remainders.at_least() > limits.dfa_states as u64 {
        return Ok(None);
    }
    let mut edges = DfaBuilder::new(limits);
    let (start, minus, zero) = (edges.state(false)?, edges.state(false)?, edges.state(true)?);
    edges.edge(start, b'-'..=b'-', minus);
    // After a fraction of as many digits as the factor has, and zeros.
    let zeros = edges.state(true)?;
    edges.edge(zeros, b'0'..=b'0', zeros);
    let mut known: FxHashMap<Remainder, u32> = FxHashMap::default();
    let mut todo: Vec<(Layer, u64, u32)> = vec![];
    let mut state = |edges: &mut DfaBuilder, todo: &mut Vec<_>, layer: Layer, remainder: u64| {
        let Some(key) = remainders.key(layer, remainder) else { return Ok(None) };
        if let Some(known) = known.get(&key) {
            return Ok(Some(*known));
        }
        let id = edges.state(remainders.may_end(layer, remainder))?;
        known.insert(key, id);
        todo.push((layer, remainder, id));
        Ok::<Option<u32>, RegexError>(Some(id))
    };
    for digit in 1..=9 {
        if let Some(to) = state(&mut edges, &mut todo, Layer::Whole, digit % modulus)? {
            for from in [start, minus] {
                edges.edge(from, digit_byte(digit)..=digit_byte(digit), to);
            }
        }
    }
    for from in [start, minus] {
        edges.edge(from, b'0'..=b'0', zero);
    }
    if let Some(to) = state(&mut edges, &mut todo, Layer::Point, 0)? {
        edges.edge(zero, b'.'..=b'.', to);
    }
    while let Some((layer, remainder, from)) = todo.pop() {
        let next = match layer {
            Layer::Whole => {
                if let Some(to) = state(&mut edges, &mut todo, Layer::Point, remainder)? {
                    edges.edge(from, b'.'..=b'.', to);
                }
                Layer::Whole
            }
            Layer::Point => Layer::Fraction(1),
            Layer::Fraction(read) => Layer::Fraction(read + 1),
        };
        if matches!(next, Layer::Fraction(read) if read > places) {
            // Only a multiple has a state here.
            edges.edge(from, b'0'..=b'0', zeros);
            continue;
        }
        for digit in 0..=9 {
            let after = (remainder * 10 + digit) % modulus;
            if let Some(to) = state(&mut edges, &mut todo, next, after)? {
                edges.edge(from, digit_byte(digit)..=digit_byte(digit), to);
            }
        }
    }
    edges.build().map(Some)
}

/// The place of the last digit of a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Layer {
    Whole,
    /// Directly after the point.
    Point,
    /// After this many digits of the fraction.
    Fraction(u32),
}

/// A remainder up to the digits that complete it.
type Remainder = (Layer, Vec<Option<u64>>);

/// The remainders of a number without its point, whose fraction has `places` digits.
struct Remainders {
    modulus: u64,
    places: u32,
}

impl Remainders {
    /// Equal for two remainders in a layer if the same digits complete both; `None` if no digits do.
    fn key(&self, layer: Layer, remainder: u64) -> Option<Remainder> {
        // The digits that complete a number are the only ones of their number, or one of those with a remainder.
        let completion = |digits: u32| {
            let after = self.shifted(remainder, digits);
            let missing = (self.modulus - after) % self.modulus;
            let is_one = 10u64.checked_pow(digits).is_some_and(|all| all < self.modulus);
            if is_one { (missing < 10u64.pow(digits)).then_some(missing) } else { Some(missing) }
        };
        let left = match layer {
            Layer::Whole => {
                let enough = self.places.max(self.modulus.ilog10() + 1);
                return Some((layer, (self.places..=enough).map(completion).collect()));
            }
            Layer::Point => self.places,
            Layer::Fraction(read) => self.places - read,
        };
        completion(left).map(|one| (layer, vec![Some(one)]))
    }

    /// Whether the number is a multiple if all remaining places are zeros.
    fn may_end(&self, layer: Layer, remainder: u64) -> bool {
        match layer {
            Layer::Whole => self.shifted(remainder, self.places) == 0,
            Layer::Point => false,
            Layer::Fraction(read) => self.shifted(remainder, self.places - read) == 0,
        }
    }

    /// The remainder after this many zeros.
    fn shifted(&self, remainder: u64, zeros: u32) -> u64 {
        (0..zeros).fold(remainder % self.modulus, |remainder, _| remainder * 10 % self.modulus)
    }

    /// A lower bound on the number of states: remainders differ if they differ modulo the part of the modulus without
    /// the factors two and five.
    fn at_least(&self) -> u64 {
        let mut rest = self.modulus;
        for prime in [2, 5] {
            while rest.is_multiple_of(prime) && rest > 0 {
                rest /= prime;
            }
        }
        rest
    }
}

fn digit_byte(digit: u64) -> u8 {
    b"0123456789"[digit as usize]
}

/// The pattern of an exponent, if exponents up to `most` are allowed. An exponent of zero may be left out.
pub(crate) fn exponent(exponent: i64, most: u32) -> String {
    match exponent {
        0 if most == 0 => String::new(),
        0 => "([eE][+-]?0+)?".to_owned(),
        1.. => format!(r"[eE]\+?0*{exponent}"),
        _ => format!("[eE]-0*{}", -exponent),
    }
}

/// The numbers without an exponent that are integers after the point is moved `places` digits to the right.
pub(crate) fn whole(places: i64) -> String {
    match places {
        0 => WHOLE.to_owned(),
        1.. => format!(r"-?(0|[1-9][0-9]*)(\.[0-9]{{1,{places}}}0*)?"),
        _ => format!(r"-?(0|[1-9][0-9]*0{{{}}})(\.0+)?", -places),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of a number as an integer, in millionths.
    fn scaled(text: &str) -> i128 {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = format!("{whole}{fraction:0<6}");
        digits.parse().unwrap()
    }

    fn samples() -> Vec<String> {
        let wholes = [
            "0", "1", "2", "7", "9", "10", "11", "12", "19", "20", "99", "100", "101", "119", "120", "121",
            "1000", "9999",
        ];
        let fractions =
            ["", ".0", ".5", ".50", ".05", ".25", ".250", ".3", ".249", ".251", ".999", ".000001"];
        let mut all = vec![];
        for whole in wholes {
            for fraction in fractions {
                all.extend([format!("{whole}{fraction}"), format!("-{whole}{fraction}")]);
            }
        }
        all
    }

    #[test]
    fn bounds_are_those_of_arithmetic() {
        for bound in
            ["0", "1", "9", "10", "12.25", "0.5", "120", "0.05", "99.999", "-0.25", "-7", "-12.3", "-100"]
        {
            for wanted in
                [[false, true, true], [false, false, true], [true, true, false], [true, false, false]]
            {
                let bound_of = Decimal::parse(bound).unwrap();
                let dfa = ordered(&bound_of, wanted, 400, &Limits::default()).unwrap().unwrap();
                for sample in samples() {
                    let expected = wanted[Comparison::of(&scaled(&sample), &scaled(bound)) as usize];
                    assert_eq!(dfa.accepts(sample.as_bytes()), expected, "{sample} {bound} {wanted:?}");
                }
                for wrong in ["", "-", "00", "01", "-00", "1.", "-1.", ".5", "1e2", "-.0", "--1"] {
                    assert!(!dfa.accepts(wrong.as_bytes()), "{wrong} {bound} {wanted:?}");
                }
            }
            // The union of the three comparisons is exactly the numbers without an exponent.
            let all = ordered(&Decimal::parse(bound).unwrap(), [true; 3], 400, &Limits::default())
                .unwrap()
                .unwrap();
            assert_eq!(all, Dfa::from_pattern(PLAIN, &Limits::default()).unwrap(), "{bound}");
        }
    }

    #[test]
    fn multiples_are_those_of_arithmetic() {
        for factor in ["1", "2", "7", "10", "100", "0.5", "0.25", "0.01", "2.5", "1.1", "0.000001"] {
            let dfa = multiple(&Decimal::parse(factor).unwrap(), &Limits::default()).unwrap().unwrap();
            for sample in samples() {
                let expected = scaled(&sample) % scaled(factor) == 0;
                assert_eq!(dfa.accepts(sample.as_bytes()), expected, "{sample} of {factor}");
            }
            for wrong in ["", "-", "00", "01", "1.", ".5", "1e2", "-.0"] {
                assert!(!dfa.accepts(wrong.as_bytes()), "{wrong} of {factor}");
            }
        }
        for large in ["12345678901", "0.123456789", "1e13"] {
            assert_eq!(multiple(&Decimal::parse(large).unwrap(), &Limits::default()), Ok(None), "{large}");
        }
    }

    /// Large factors, those with many factors two and five and those with few, with few states.
    #[test]
    fn large_multiples_are_those_of_arithmetic() {
        for (factor, states) in [
            ("12345", 12_345),
            ("65536", 5_000),
            ("100000", 20),
            ("1024", 1_024),
            ("0.00625", 50),
            ("1000.5", 2_100),
            ("99991", 100_010),
        ] {
            let dfa = multiple(&Decimal::parse(factor).unwrap(), &Limits::default()).unwrap().unwrap();
            assert!(dfa.len() <= states, "{factor} {}", dfa.len());
            let scaled = |text: &str| {
                let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
                format!("{whole}{fraction:0<8}").parse::<i128>().unwrap()
            };
            let step = scaled(factor);
            let mut random = 1u64;
            for case in 0..4_000u64 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(case);
                // Half of the numbers are multiples or next to one.
                let number = i128::from(random >> (20 + case % 40));
                let number =
                    if case % 2 == 0 { number / step * step + i128::from(case % 3) - 1 } else { number };
                let number = number.abs();
                let (whole, fraction) = (number / 100_000_000, number % 100_000_000);
                let long = format!("{whole}.{fraction:08}");
                let short = long.trim_end_matches('0').trim_end_matches('.');
                for text in [&long, short] {
                    let expected = number % step == 0;
                    assert_eq!(dfa.accepts(text.as_bytes()), expected, "{text} of {factor}");
                    assert_eq!(dfa.accepts(format!("-{text}").as_bytes()), expected, "-{text} of {factor}");
                }
            }
        }
    }

    #[test]
    fn equal_numbers_are_all_spellings() {
        for number in ["0", "1", "-1", "12.5", "100", "-0.25"] {
            let pattern = equal(&Decimal::parse(number).unwrap(), 400).unwrap();
            let dfa = Dfa::from_pattern(&pattern, &Limits::default()).unwrap();
            for sample in samples() {
                assert_eq!(
                    dfa.accepts(sample.as_bytes()),
                    scaled(&sample) == scaled(number),
                    "{sample} {number}"
                );
            }
        }
    }
}
