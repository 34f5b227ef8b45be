//! The constraint of a type of Rust.
//!
//! schemars says the range of `u8` by bounds, and that of `u32` by a `format` alone, which nobody enforces. serde
//! refuses numbers beyond the range, so that the bounds are put in.

use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde_json::{Number, Value};

use super::Spec;

/// The ranges of the formats that stand for types of Rust.
fn range(format: &str) -> Option<(Number, Number)> {
    Some(match format {
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "uint32" => (u32::MIN.into(), u32::MAX.into()),
        "int64" | "int" => (i64::MIN.into(), i64::MAX.into()),
        "uint64" | "uint" => (u64::MIN.into(), u64::MAX.into()),
        _ => return None,
    })
}

fn bound(schema: &mut Schema) {
    let Some((least, most)) = schema.get("format").and_then(Value::as_str).and_then(range) else { return };
    let Some(keywords) = schema.as_object_mut() else { return };
    for (bound, exclusive, value) in
        [("minimum", "exclusiveMinimum", least), ("maximum", "exclusiveMaximum", most)]
    {
        if !keywords.contains_key(bound) && !keywords.contains_key(exclusive) {
            keywords.insert(bound.to_owned(), value.into());
        }
    }
}

impl Spec {
    /// JSON of the schema that schemars derives of a type, with the ranges of its whole numbers.
    ///
    /// A keyword of the schema that cannot be enforced is an error where the constraint is compiled, as everywhere.
    ///
    /// # Example
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use unskew_engine::Spec;
    ///
    /// #[derive(JsonSchema)]
    /// #[schemars(deny_unknown_fields)]
    /// struct Person {
    ///     name: String,
    ///     #[schemars(range(max = 130))]
    ///     age: u32,
    /// }
    ///
    /// let spec = Spec::of::<Person>();
    /// assert!(spec.to_json().contains(r#""maximum":130"#));
    /// ```
    ///
    /// # Panics
    ///
    /// Never: a schema is JSON.
    pub fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(bound));
        let schema = settings.into_generator().into_root_schema_for::<T>();
        Self::json_schema(serde_json::to_string(&schema).expect("a schema is JSON"))
    }
}
