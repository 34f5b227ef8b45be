//! Parameters of rules in llguidance's dialect of Lark: `list::_: "a" list::incr([0:3]) %if lt([0:3], 5) | ""`.
//!
//! A rule has one parameter, a number of 64 bits. A call computes the parameter of the callee from that of the
//! caller, and an alternative may have a condition on it. Each value that occurs is [a rule of its
//! own](super::expand).
//!
//! | value | of the callee's parameter, for the parameter p |
//! |---|---|
//! | `_` | p |
//! | a number, decimal or `0x…` | the number |
//! | `set_bit(k)`, `clear_bit(k)` | p with bit k set, or clear |
//! | `bit_and(v)`, `bit_or(v)` | p and v, p or v |
//! | `incr([x:y])`, `decr([x:y])` | the bits from x up to y as a number, one more or less; the greatest and 0 stay |
//!
//! | condition | holds if |
//! |---|---|
//! | `true`, `and(c, c)`, `or(c, c)`, `not(c)` | as they say |
//! | `bit_set(k)`, `bit_clear(k)` | bit k is set, or clear |
//! | `is_ones(r)`, `is_zeros(r)` | all bits of the range are set, or clear |
//! | `eq ne lt le gt ge (r, v)` | the bits of the range, as a number, compare so with v |
//! | `bit_count_eq … _ge (r, k)` | their number of set bits does |
//!
//! A range is `[x:y]`, from bit x up to bit y, or `_` for all 64 bits.

use unskew_grammar::SyntaxError;

use crate::syntax::text::cursor::Cursor;

/// How the parameter of a callee follows from that of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parameter {
    Same,
    Value(u64),
    And(u64),
    Or(u64),
    Increment(Bits),
    Decrement(Bits),
}

/// A condition on a parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    True,
    /// The bits as a number.
    Value(Bits, Relation, u64),
    /// The number of set bits.
    Count(Bits, Relation, u64),
    And(Box<[Condition; 2]>),
    Or(Box<[Condition; 2]>),
    Not(Box<Condition>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// Adjacent bits of a parameter: the first, and their number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bits {
    first: u32,
    number: u32,
}

impl Bits {
    const ALL: Self = Self { first: 0, number: 64 };

    fn one(bit: u32) -> Self {
        Self { first: bit, number: 1 }
    }

    /// The greatest number of these bits.
    fn greatest(self) -> u64 {
        u64::MAX.checked_shr(64 - self.number).unwrap_or(0)
    }

    fn of(self, parameter: u64) -> u64 {
        (parameter >> self.first) & self.greatest()
    }
}

impl Parameter {
    /// The parameter of the callee. `None` if it needs that of the caller, and the caller has none.
    pub(crate) fn of(self, caller: Option<u64>) -> Option<u64> {
        if let Self::Value(value) = self {
            return Some(value);
        }
        let own = caller?;
        Some(match self {
            Self::Same | Self::Value(_) => own,
            Self::And(value) => own & value,
            Self::Or(value) => own | value,
            Self::Increment(bits) if bits.of(own) == bits.greatest() => own,
            Self::Increment(bits) => own + (1 << bits.first),
            Self::Decrement(bits) if bits.of(own) == 0 => own,
            Self::Decrement(bits) => own - (1 << bits.first),
        })
    }
}

impl Condition {
    /// Whether the condition holds. It nests no deeper than [`MAX_NEST`].
    pub(crate) fn holds(&self, parameter: u64) -> bool {
        match self {
            Self::True => true,
            Self::Value(bits, relation, value) => relation.holds(bits.of(parameter), *value),
            Self::Count(bits, relation, count) => {
                relation.holds(u64::from(bits.of(parameter).count_ones()), *count)
            }
            Self::And(parts) => parts.iter().all(|part| part.holds(parameter)),
            Self::Or(parts) => parts.iter().any(|part| part.holds(parameter)),
            Self::Not(part) => !part.holds(parameter),
        }
    }
}

impl Relation {
    fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::NotEqual => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }

    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "eq" => Self::Equal,
            "ne" => Self::NotEqual,
            "lt" => Self::Less,
            "le" => Self::LessOrEqual,
            "gt" => Self::Greater,
            "ge" => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}

/// How deep conditions may nest.
const MAX_NEST: u32 = 64;

/// Reads the value after `::` at a call.
pub(crate) fn parameter(cursor: &mut Cursor<'_>) -> Result<Parameter, SyntaxError> {
    blank(cursor);
    if cursor.peek().is_some_and(|digit| digit.is_ascii_digit()) {
        return value(cursor).map(Parameter::Value);
    }
    let at = cursor.at();
    let name = word(cursor);
    if name == "_" {
        return Ok(Parameter::Same);
    }
    const KNOWN: &str = "`_`, a number, `set_bit`, `clear_bit`, `bit_and`, `bit_or`, `incr` or `decr`";
    if name.is_empty() {
        return Err(cursor.unexpected("`_`, a number, or a function such as `incr([0:4])` after `::`"));
    }
    open(cursor)?;
    let made = match name {
        "set_bit" => Parameter::Or(1 << bit(cursor)?),
        "clear_bit" => Parameter::And(!(1 << bit(cursor)?)),
        "bit_and" => Parameter::And(value(cursor)?),
        "bit_or" => Parameter::Or(value(cursor)?),
        "incr" => Parameter::Increment(bits(cursor)?),
        "decr" => Parameter::Decrement(bits(cursor)?),
        _ => {
            let message = format!("there is no function `{name}` of a parameter, only {KNOWN}");
            return Err(cursor.invalid(at, message));
        }
    };
    close(cursor)?;
    Ok(made)
}

/// Reads a condition after `%if`.
pub(crate) fn condition(cursor: &mut Cursor<'_>) -> Result<Condition, SyntaxError> {
    nested_condition(cursor, 0)
}

fn nested_condition(cursor: &mut Cursor<'_>, nest: u32) -> Result<Condition, SyntaxError> {
    blank(cursor);
    let at = cursor.at();
    if nest > MAX_NEST {
        return Err(cursor.invalid(at, format!("conditions nest deeper than {MAX_NEST} levels")));
    }
    let name = word(cursor);
    blank(cursor);
    if name == "true" {
        if cursor.peek() == Some('(') {
            open(cursor)?;
            close(cursor)?;
        }
        return Ok(Condition::True);
    }
    if name.is_empty() {
        return Err(cursor.unexpected("a condition such as `lt([0:4], 3)` after `%if`"));
    }
    open(cursor)?;
    let made = match name {
        "bit_set" => Condition::Value(Bits::one(bit(cursor)?), Relation::Equal, 1),
        "bit_clear" => Condition::Value(Bits::one(bit(cursor)?), Relation::Equal, 0),
        "is_zeros" => Condition::Value(bits(cursor)?, Relation::Equal, 0),
        "is_ones" => {
            let bits = bits(cursor)?;
            Condition::Value(bits, Relation::Equal, bits.greatest())
        }
        "and" | "or" => {
            let left = nested_condition(cursor, nest + 1)?;
            comma(cursor)?;
            let both = Box::new([left, nested_condition(cursor, nest + 1)?]);
            if name == "and" { Condition::And(both) } else { Condition::Or(both) }
        }
        "not" => Condition::Not(Box::new(nested_condition(cursor, nest + 1)?)),
        _ => {
            let count = name.strip_prefix("bit_count_");
            let Some(relation) = Relation::read(count.unwrap_or(name)) else {
                let message = format!(
                    "there is no condition `{name}`, only `true`, `and`, `or`, `not`, `bit_set`, `bit_clear`, `is_ones`, `is_zeros`, \
                     `eq`, `ne`, `lt`, `le`, `gt`, `ge`, and these after `bit_count_`"
                );
                return Err(cursor.invalid(at, message));
            };
            let bits = bits(cursor)?;
            comma(cursor)?;
            let value = value(cursor)?;
            match count {
                Some(_) => Condition::Count(bits, relation, value),
                None => Condition::Value(bits, relation, value),
            }
        }
    };
    close(cursor)?;
    Ok(made)
}

fn blank(cursor: &mut Cursor<'_>) {
    cursor.take_while(|char| char == ' ' || char == '\t');
}

fn word<'t>(cursor: &mut Cursor<'t>) -> &'t str {
    cursor.take_while(|char| char.is_ascii_alphanumeric() || char == '_')
}

fn open(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    blank(cursor);
    if cursor.eat("(") { Ok(()) } else { Err(cursor.unexpected("`(` and the arguments of the function")) }
}

fn close(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    blank(cursor);
    if cursor.eat(")") { Ok(()) } else { Err(cursor.unexpected("`)` after the arguments of the function")) }
}

fn comma(cursor: &mut Cursor<'_>) -> Result<(), SyntaxError> {
    blank(cursor);
    if cursor.eat(",") { Ok(()) } else { Err(cursor.unexpected("`,` and another argument")) }
}

/// Reads a number of 64 bits, decimal or hexadecimal.
fn value(cursor: &mut Cursor<'_>) -> Result<u64, SyntaxError> {
    blank(cursor);
    let at = cursor.at();
    let digits = word(cursor);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    number
        .map_err(|_| cursor.invalid(at, "a number of at most 64 bits, decimal or with `0x`, is needed here"))
}

/// Reads the index of a bit.
fn bit(cursor: &mut Cursor<'_>) -> Result<u32, SyntaxError> {
    blank(cursor);
    let at = cursor.at();
    let bit = value(cursor)?;
    match u32::try_from(bit) {
        Ok(bit) if bit < 64 => Ok(bit),
        _ => Err(cursor.invalid(at, format!("a parameter has the bits 0 to 63, and no bit {bit}"))),
    }
}

/// Reads `[x:y]` or `_`.
fn bits(cursor: &mut Cursor<'_>) -> Result<Bits, SyntaxError> {
    blank(cursor);
    if cursor.eat("_") {
        return Ok(Bits::ALL);
    }
    let at = cursor.at();
    if !cursor.eat("[") {
        return Err(cursor.unexpected("a range of bits such as `[0:4]`, or `_` for all of them"));
    }
    let first = bit(cursor)?;
    blank(cursor);
    if !cursor.eat(":") {
        return Err(cursor.unexpected("`:` and the end of the range"));
    }
    let end = value(cursor)?;
    blank(cursor);
    if !cursor.eat("]") {
        return Err(cursor.unexpected("`]` after the range"));
    }
    match u32::try_from(end) {
        Ok(end) if end <= 64 && end > first => Ok(Bits { first, number: end - first }),
        _ => Err(cursor.invalid(at, "a range of bits begins before it ends, at bit 64 at the latest")),
    }
}
