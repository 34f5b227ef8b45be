//! Numbers of a schema as exact decimals: `0.1` is one tenth, and not the nearest binary fraction.

/// A decimal number: `digits` times ten to the power of `exponent`, with a sign. Equal numbers are equal values:
/// `digits` has no zero at either end, and zero has no digits and no sign.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    /// ASCII digits.
    digits: Box<[u8]>,
    exponent: i64,
}

impl Decimal {
    /// Parses a number in the grammar of JSON.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                // This clamp is far beyond any number that is written out, and leaves room for the sums below.
                let size = digits.parse::<i64>().unwrap_or(i64::MAX).min(1 << 62);
                (mantissa, if exponent.starts_with('-') { -size } else { size })
            }
            None => (text, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || leading_zero || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let mut digits = [whole, fraction].concat().into_bytes();
        let mut exponent = exponent - i64::try_from(fraction.len()).ok()?;
        let kept = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        exponent += i64::try_from(digits.len() - kept).ok()?;
        digits.truncate(kept);
        let first = digits.iter().position(|digit| *digit != b'0').unwrap_or(0);
        digits.drain(..first);
        if digits.is_empty() {
            return Some(Self { negative: false, digits: [].into(), exponent: 0 });
        }
        Some(Self { negative, digits: digits.into(), exponent })
    }

    /// Moves the decimal point to the left by `places` digits.
    pub(crate) fn shifted(&self, places: i64) -> Self {
        let exponent = if self.is_zero() { 0 } else { self.exponent.saturating_sub(places) };
        Self { exponent, ..self.clone() }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.exponent >= 0
    }

    /// The digits before and after the decimal point, without the sign and without needless zeros. Zero is `0` and
    /// the empty text. `None` if there are more than `most` digits.
    pub(crate) fn plain(&self, most: u32) -> Option<(String, String)> {
        let length = i64::try_from(self.digits.len()).ok()?;
        if self.length() > u64::from(most) {
            return None;
        }
        let mut digits = String::from_utf8_lossy(&self.digits).into_owned();
        if self.exponent >= 0 {
            digits.extend((0..self.exponent).map(|_| '0'));
            if digits.is_empty() {
                digits.push('0');
            }
            return Some((digits, String::new()));
        }
        let point = length + self.exponent;
        if point > 0 {
            let fraction = digits.split_off(usize::try_from(point).ok()?);
            return Some((digits, fraction));
        }
        let zeros: String = (point..0).map(|_| '0').collect();
        Some(("0".to_owned(), zeros + &digits))
    }

    /// The number as a count, or `None` if it is negative or has a fraction. A count beyond `u64` becomes
    /// `u64::MAX`.
    pub(crate) fn count(&self) -> Option<u64> {
        if self.negative || self.exponent < 0 {
            return None;
        }
        let zeros = usize::try_from(self.exponent).unwrap_or(usize::MAX);
        if self.digits.len().saturating_add(zeros) > 20 {
            return Some(u64::MAX);
        }
        let (digits, _) = self.plain(20)?;
        Some(digits.parse().unwrap_or(u64::MAX))
    }

    /// The number of digits without an exponent.
    pub(crate) fn length(&self) -> u64 {
        let digits = self.digits.len() as u64;
        let exponent = self.exponent.unsigned_abs();
        match self.exponent {
            0.. => digits.saturating_add(exponent).max(1),
            // The zero before the point counts as a digit.
            _ => digits.max(exponent.saturating_add(1)),
        }
    }

    /// The first digit, the remaining digits, and the exponent of scientific notation. `None` for zero.
    pub(crate) fn scientific(&self) -> Option<(char, &str, i64)> {
        let digits = std::str::from_utf8(&self.digits).ok()?;
        let first = digits.chars().next()?;
        let exponent = self.exponent.saturating_add(i64::try_from(digits.len() - 1).ok()?);
        Some((first, &digits[1..], exponent))
    }

    /// The number as JSON text without an exponent; `None` as for [`plain`](Self::plain).
    pub(crate) fn to_json(&self, most: u32) -> Option<String> {
        let (whole, fraction) = self.plain(most)?;
        let (sign, point) =
            (if self.negative { "-" } else { "" }, if fraction.is_empty() { "" } else { "." });
        Some(format!("{sign}{whole}{point}{fraction}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_are_equal() {
        let parse = |text| Decimal::parse(text).unwrap();
        for (left, right) in [("1e2", "100.0"), ("-0.0", "0"), ("0.10", "1E-1"), ("-12.5", "-125e-1")] {
            assert_eq!(parse(left), parse(right));
        }
        assert_ne!(parse("1"), parse("-1"));
        for (text, whole, fraction) in
            [("1e3", "1000", ""), ("-0.5", "0", "5"), ("12e-4", "0", "0012"), ("0e9", "0", "")]
        {
            assert_eq!(parse(text).plain(400).unwrap(), (whole.to_owned(), fraction.to_owned()), "{text}");
        }
        assert_eq!(parse("1e999999999999999999999").plain(u32::MAX), None);
        assert_ne!(parse("1e4000000000000000000"), parse("1e4000000000000000001"));
        for (text, length) in
            [("0", 1), ("12", 2), ("1e3", 4), ("0.5", 2), ("0.05", 3), ("12.5", 3), ("1e-1000", 1001)]
        {
            assert_eq!(parse(text).length(), length, "{text}");
            let (whole, fraction) = parse(text).plain(u32::MAX).unwrap();
            assert_eq!((whole.len() + fraction.len()) as u64, length, "{text}");
        }
        assert_eq!(parse("-12.5e-1000").scientific(), Some(('1', "25", -999)));
        assert_eq!((parse("2.0").count(), parse("2.5").count(), parse("-1").count()), (Some(2), None, None));
        assert_eq!(
            (parse("0.0").count(), parse("1e3").count(), parse("1e99999").count()),
            (Some(0), Some(1000), Some(u64::MAX))
        );
        assert_eq!(parse("18446744073709551614").count(), Some(u64::MAX - 1));
        assert_eq!(parse("28446744073709551614").count(), Some(u64::MAX));
    }
}
