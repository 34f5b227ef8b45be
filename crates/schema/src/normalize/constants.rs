//! Decides whether a value in the schema's text, in `enum` or `const`, satisfies other schemas.

use super::{
    expander::Expander,
    shape::{ARRAY, OBJECT, Shape, type_of},
};
use crate::{
    SchemaError,
    decimal::Decimal,
    document::{
        json::{NodeId, Value},
        literal::Literal,
    },
};

/// The way out if a number has too many digits.
pub(crate) const FEWER_DIGITS: &str = "raise `SchemaLimits::digits`, or use numbers of fewer digits";

impl Expander {
    /// Whether the value at `node` satisfies all schemas of the set.
    fn constant_satisfies(&mut self, node: NodeId, set: &[Literal]) -> Result<bool, SchemaError> {
        let shapes = self.shapes(set)?;
        for shape in shapes.iter() {
            if self.constant_has_shape(node, shape)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the value at `node` has the shape. Recursion is as deep as the value, and the nesting of values is
    /// limited.
    pub(crate) fn constant_has_shape(&mut self, node: NodeId, shape: &Shape) -> Result<bool, SchemaError> {
        let value = self.schemas.document.value(node).clone();
        let types = type_of(&value);
        if shape.types & types == 0 {
            return Ok(false);
        }
        self.refuse(shape, types);
        let within = |count: usize, min: u32, max: Option<u32>| {
            count >= min as usize && max.is_none_or(|max| count <= max as usize)
        };
        if let Some(values) = &shape.one_of
            && types & (ARRAY | OBJECT) != 0
            && !values.iter().any(|value| self.equal_values(*value, node))
        {
            return Ok(false);
        }
        match value {
            Value::Null | Value::Bool(_) => Ok(true),
            Value::Number(number) => {
                let Some(numbers) = &shape.numbers else { return Ok(true) };
                let digits = self.limits.digits;
                let written = number.to_json(digits).ok_or_else(|| self.too_long(node, &number))?;
                Ok(numbers.accepts(written.as_bytes()))
            }
            Value::String(text) => {
                let matches = shape.strings.as_ref().is_none_or(|strings| strings.accepts(text.as_bytes()));
                if !matches {
                    self.refuse_possible(shape, &text);
                }
                Ok(matches && within(text.chars().count(), shape.min_length, shape.max_length))
            }
            Value::Array(items) => {
                if !within(items.len(), shape.min_items, shape.max_items) {
                    return Ok(false);
                }
                let asked = self.item_conditions(shape);
                for (index, item) in (0..).zip(&items) {
                    let mut found = false;
                    for set in self.item_sets(shape, &asked, index)? {
                        found = found || self.constant_satisfies(*item, &set)?;
                    }
                    if !found {
                        return Ok(false);
                    }
                }
                for count in &shape.counts {
                    let mut counted = 0;
                    for item in items.iter().skip(count.from as usize) {
                        counted += usize::from(self.constant_satisfies(*item, &[count.literal])?);
                    }
                    if !within(counted, count.min, count.max) {
                        return Ok(false);
                    }
                }
                if shape.unique.is_none() && shape.repeating.is_none() {
                    return Ok(true);
                }
                let mut pairs = (0..items.len()).flat_map(|right| (0..right).map(move |left| (left, right)));
                let equal = pairs.any(|(left, right)| self.equal_values(items[left], items[right]));
                Ok(if equal { shape.unique.is_none() } else { shape.repeating.is_none() })
            }
            Value::Object(members) => {
                let has = |name: &str| members.iter().any(|(key, _)| &**key == name);
                if !within(members.len(), shape.min_properties, shape.max_properties)
                    || !shape.required.iter().all(|name| has(name))
                {
                    return Ok(false);
                }
                for (name, value) in &members {
                    match self.member_conditions(shape, name)? {
                        Some(set) if self.constant_satisfies(*value, &set)? => {}
                        _ => return Ok(false),
                    }
                }
                for witness in &shape.witnesses {
                    let mut found = false;
                    for (name, value) in &members {
                        let set: Vec<Literal> = witness.value.into_iter().collect();
                        found = found
                            || self.is_in(name, &witness.names)? && self.constant_satisfies(*value, &set)?;
                    }
                    if !found {
                        return Ok(false);
                    }
                }
                for factor in &shape.factors {
                    let mut found = false;
                    for one in factor.iter() {
                        found = found || self.constant_has_shape(node, one)?;
                    }
                    if !found {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// The error for a number of `enum` or `const` with too many digits.
    pub(crate) fn too_long(&self, node: NodeId, number: &Decimal) -> SchemaError {
        SchemaError::Unsupported {
            pointer: self.schemas.pointer(node),
            keyword: "enum".to_owned(),
            reason: self.digits(number),
            way_out: FEWER_DIGITS,
        }
    }

    /// The number of digits of a number and the limit, in words.
    pub(crate) fn digits(&self, number: &Decimal) -> String {
        format!("a number has {} digits, and the limit is {}", number.length(), self.limits.digits)
    }

    /// Whether two values are equal in JSON Schema.
    pub(crate) fn equal_values(&self, left: NodeId, right: NodeId) -> bool {
        self.schemas.document.is_equal(left, right)
    }
}
