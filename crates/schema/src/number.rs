//! Numbers as automata: bounds, multiples and equality over what stands in the text.
//!
//! A number without a condition is written in any way that JSON has. Under a condition it is written plainly, with digits and a
//! point, and with exponents up to a size that is chosen: whether `1234.5e1` is a whole number, or `0.001e5` at most 99, depends
//! on counting digits in front of the exponent, which no automaton does for all exponents. For one exponent it is a question about
//! the digits in front, with the bound moved by so many places; so a language is a union over the exponents. No value is lost by
//! the choice, and nothing that breaks the condition gets through. The plain numbers and those with such exponents are the universe
//! in which complements are formed. Multiples are always written plainly.

use unskew_automata::{Dfa, DfaBuilder, DfaEdges, Limits, RegexError};

use crate::Decimal;

/// Any number of JSON.
pub(crate) const ANY: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?";

/// Any number without an exponent.
pub(crate) const PLAIN: &str = r"-?(0|[1-9][0-9]*)(\.[0-9]+)?";

/// Every number in one way: without an exponent, and no longer than it must be.
pub(crate) const SHORTEST: &str = r"0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]*[1-9]";

/// Whole numbers; `1.0` is one.
pub(crate) const WHOLE: &str = r"-?(0|[1-9][0-9]*)(\.0+)?";

/// Whole numbers as draft 4 has them, where `1.0` is none.
pub(crate) const WHOLE_WITHOUT_POINT: &str = r"-?(0|[1-9][0-9]*)";

/// Plain numbers that are not negative.
const NATURAL: &str = r"(0|[1-9][0-9]*)(\.[0-9]+)?";

/// Remainders and places that an automaton of multiples has at most.
const MAX_REMAINDERS: u64 = 20_000;

/// The plain spellings of `number`; `None` if it is too long to be written plainly.
pub(crate) fn equal(number: &Decimal) -> Option<String> {
    let (whole, fraction) = number.plain()?;
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

/// The plain numbers that are at least `bound`, or more than it; `None` if the bound is too long to be written plainly.
pub(crate) fn at_least(
    builder: &mut DfaBuilder,
    bound: &Decimal,
    inclusive: bool,
) -> Result<Option<Dfa>, RegexError> {
    let Some((whole, fraction)) = bound.plain() else { return Ok(None) };
    if bound.is_zero() && inclusive {
        return builder.pattern(&format!(r"{NATURAL}|-0(\.0+)?")).map(Some);
    }
    if !bound.negative {
        return builder.pattern(&above(&whole, &fraction, inclusive)).map(Some);
    }
    // Not negative, or no further from zero than the bound.
    let natural = builder.pattern(NATURAL)?;
    let further = builder.pattern(&above(&whole, &fraction, !inclusive))?;
    let nearer = builder.difference(&natural, &further)?;
    let minus = builder.pattern("-")?;
    let negative = builder.concatenation([&minus, &nearer])?;
    builder.union([&natural, &negative]).map(Some)
}

/// The plain numbers that are not negative and at least `whole.fraction`, or more than it.
fn above(whole: &str, fraction: &str, inclusive: bool) -> String {
    const BEHIND: &str = r"(\.[0-9]+)?";
    let mut ways = vec![format!("[1-9][0-9]{{{},}}{BEHIND}", whole.len())];
    for (index, digit) in whole.bytes().enumerate().filter(|(_, digit)| *digit < b'9') {
        let (same, more) = (&whole[..index], char::from(digit + 1));
        ways.push(format!("{same}[{more}-9][0-9]{{{}}}{BEHIND}", whole.len() - index - 1));
    }
    for (index, digit) in fraction.bytes().enumerate().filter(|(_, digit)| *digit < b'9') {
        let (same, more) = (&fraction[..index], char::from(digit + 1));
        ways.push(format!(r"{whole}\.{same}[{more}-9][0-9]*"));
    }
    ways.push(match (fraction, inclusive) {
        ("", true) => format!("{whole}{BEHIND}"),
        (_, true) => format!(r"{whole}\.{fraction}[0-9]*"),
        (_, false) => format!(r"{whole}\.{fraction}[0-9]*[1-9][0-9]*"),
    });
    ways.join("|")
}

/// The plain numbers that are multiples of `factor`, which is more than zero; `None` if it has too many digits.
///
/// The states are remainders: those of the digits so far by the factor's, and how far behind the point.
pub(crate) fn multiple(factor: &Decimal, limits: &Limits) -> Result<Option<Dfa>, RegexError> {
    let Some((whole, fraction)) = factor.plain() else { return Ok(None) };
    let places = fraction.len() as u64;
    let Ok(modulus) = [whole, fraction].concat().parse::<u64>() else { return Ok(None) };
    if modulus == 0 || modulus.saturating_mul(places + 2) > MAX_REMAINDERS {
        return Ok(None);
    }
    let mut edges = DfaEdges::new(limits);
    // From a remainder with so many places still to come to whether nothing more makes a multiple.
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
    // By remainder: in front of the point; behind it; behind so many digits after it.
    let mut layers: Vec<u32> = vec![];
    for layer in 0..places + 3 {
        let first = u32::try_from(edges.states()).unwrap_or(u32::MAX);
        layers.push(first);
        for remainder in 0..modulus {
            let accepting = match layer {
                0 => divides(remainder, places),
                1 => false,
                // With no places behind the point, what stands there is zero.
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
        // Behind the places that the factor has, zeros only.
        for layer in [last - 1, last] {
            edges.edge(state(layer, remainder), b'0'..=b'0', state(last, remainder));
        }
    }
    edges.build().map(Some)
}

/// The ways to write an exponent, where such of at most `most` are written. Zero may be left out.
pub(crate) fn exponent(exponent: i64, most: u32) -> String {
    match exponent {
        0 if most == 0 => String::new(),
        0 => "([eE][+-]?0+)?".to_owned(),
        1.. => format!(r"[eE]\+?0*{exponent}"),
        _ => format!("[eE]-0*{}", -exponent),
    }
}

/// The plain numbers that are whole once the point is moved by so many places to the right.
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

    /// Compares as the definition says: by cross-multiplied integers.
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
            for inclusive in [true, false] {
                let mut builder = DfaBuilder::new(&Limits::default());
                let dfa =
                    at_least(&mut builder, &Decimal::parse(bound).unwrap(), inclusive).unwrap().unwrap();
                for sample in samples() {
                    let (value, bound) = (scaled(&sample), scaled(bound));
                    let expected = if inclusive { value >= bound } else { value > bound };
                    assert_eq!(dfa.accepts(sample.as_bytes()), expected, "{sample} {bound} {inclusive}");
                }
            }
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
            let pattern = equal(&Decimal::parse(number).unwrap()).unwrap();
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
