//! Numbers as automata: bounds, multiples and equality over the text of a number.
//!
//! A number without a condition may have any JSON spelling. A number under a condition is written with digits and a
//! point, and with exponents up to a chosen size. The reason is that `1234.5e1` is an integer, and `0.001e5` is at
//! most 99, only by counting the digits before the exponent, which no automaton does for all exponents. For a
//! single exponent the condition is one on the digits before it, with the point of the bound moved; so a language
//! is a union over the exponents. The restriction loses no value and admits no value that breaks the condition.
//! Complements are relative to the numbers with these exponents. Multiples never have an exponent. A number of the
//! schema with very many digits may also be written with an exponent, if no other condition applies to it.

use unskew_automata::{Dfa, DfaBuilder, Limits, RegexError};

use crate::decimal::Decimal;

/// Any JSON number.
pub(crate) const ANY: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?";

/// Any number without an exponent.
pub(crate) const PLAIN: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?";

/// One spelling of each number: without an exponent and as short as possible.
pub(crate) const SHORTEST: &str = r"0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9]";

/// Integers; `1.0` is one.
pub(crate) const WHOLE: &str = r"-?(0|[1-9][0-9]*)(\.0+)?";

/// Integers of draft 4, where `1.0` is none.
pub(crate) const WHOLE_WITHOUT_POINT: &str = r"-?(0|[1-9][0-9]*)";

/// The largest number of remainders times layers in an automaton of multiples.
const MAX_REMAINDERS: u64 = 20_000;

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
/// A state is the remainder of the digits so far, and the number of digits after the point.
pub(crate) fn multiple(factor: &Decimal, limits: &Limits) -> Result<Option<Dfa>, RegexError> {
    // More digits than a modulus within [`MAX_REMAINDERS`] can have.
    let Some((whole, fraction)) = factor.plain(40) else { return Ok(None) };
    let places = fraction.len() as u64;
    let Ok(modulus) = [whole, fraction].concat().parse::<u64>() else { return Ok(None) };
    if modulus == 0 || modulus.saturating_mul(places + 2) > MAX_REMAINDERS {
        return Ok(None);
    }
    let mut edges = DfaBuilder::new(limits);
    // Whether the number is a multiple if all remaining places are zeros.
    let divides = |mut remainder: u64, places: u64| {
        for _ in 0..places {
            remainder = remainder * 10 % modulus;
        }
        remainder == 0
    };
    let start = edges.state(false)?;
    let minus = edges.state(false)?;
    let zero = edges.state(true)?;
    edges.edge(start, b'-'..=b'-', minus);
    // The first state of each layer, indexed within by remainder. The layers are: before the point, directly after
    // it, and after each number of digits of the fraction.
    let mut layers: Vec<u32> = vec![];
    for layer in 0..places + 3 {
        let first = u32::try_from(edges.states()).unwrap_or(u32::MAX);
        layers.push(first);
        for remainder in 0..modulus {
            let accepting = match layer {
                0 => divides(remainder, places),
                1 => false,
                // If the factor has no fraction, only zeros may follow the point.
                _ => divides(remainder, (places + 1).saturating_sub(layer)),
            };
            edges.state(accepting)?;
        }
    }
    let state = |layer: usize, remainder: u64| layers[layer] + u32::try_from(remainder).unwrap_or(0);
    let next = |remainder: u64, digit: u8| (remainder * 10 + u64::from(digit - b'0')) % modulus;
    for from in [start, minus] {
        edges.edge(from, b'0'..=b'0', zero);
        for digit in b'1'..=b'9' {
            edges.edge(from, digit..=digit, state(0, next(0, digit)));
        }
    }
    edges.edge(zero, b'.'..=b'.', state(1, 0));
    let last = layers.len() - 1;
    for remainder in 0..modulus {
        for digit in b'0'..=b'9' {
            edges.edge(state(0, remainder), digit..=digit, state(0, next(remainder, digit)));
        }
        edges.edge(state(0, remainder), b'.'..=b'.', state(1, remainder));
        for layer in 1..last - 1 {
            for digit in b'0'..=b'9' {
                edges.edge(state(layer, remainder), digit..=digit, state(layer + 1, next(remainder, digit)));
            }
        }
        // After the decimal places of the factor, only zeros may follow.
        for layer in [last - 1, last] {
            edges.edge(state(layer, remainder), b'0'..=b'0', state(last, remainder));
        }
    }
    edges.build().map(Some)
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
        assert_eq!(multiple(&Decimal::parse("123456").unwrap(), &Limits::default()), Ok(None));
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
