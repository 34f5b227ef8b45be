//! Records, settings, measurements and maps, in three layouts.

use std::io;

use serde_json::{Value, json, ser::Formatter};

use super::{random::Random, words};

/// One blank after `,` and `:`, as Python's `json.dumps` writes it.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

pub(super) fn document(random: &mut Random) -> String {
    let count = random.range(2, 4);
    let make = random.pick(&[person, order, series, settings, place]);
    let value = Value::Array((0..count).map(|_| make(random)).collect());
    match random.below(3) {
        0 => value.to_string(),
        1 => serde_json::to_string_pretty(&value).expect("values are JSON"),
        _ => {
            let mut out = Vec::new();
            let mut serializer = serde_json::Serializer::with_formatter(&mut out, Spaced);
            serde::Serialize::serialize(&value, &mut serializer).expect("values are JSON");
            String::from_utf8(out).expect("JSON is UTF-8")
        }
    }
}

fn person(random: &mut Random) -> Value {
    let tags: Vec<&str> = (0..random.below(4)).map(|_| words::noun(random)).collect();
    let phone = format!("+{} {}", random.range(1, 99), random.range(1_000_000, 99_999_999));
    json!({
        "id": random.below(100_000),
        "name": words::person(random),
        "email": words::mail(random),
        "active": random.percent(70),
        "phone": if random.percent(60) { json!(phone) } else { Value::Null },
        "address": { "city": words::city(random), "code": format!("{:05}", random.below(100_000)) },
        "tags": tags,
        "note": format!("{} \"{}\"\n", words::sentence(random), words::noun(random)),
    })
}

fn order(random: &mut Random) -> Value {
    let items: Vec<Value> = (0..random.range(1, 4))
        .map(|_| json!({"sku": format!("AB-{}", random.below(9999)), "quantity": random.range(1, 12), "price": random.below(90_000) as f64 / 100.0}))
        .collect();
    json!({"order": random.below(1_000_000), "date": words::date(random), "items": items, "paid": random.percent(50), "comment": words::sentence(random)})
}

fn series(random: &mut Random) -> Value {
    let values: Vec<f64> =
        (0..random.range(8, 16)).map(|_| random.below(2_000_000) as f64 / 1e4 - 100.0).collect();
    json!({"sensor": format!("s{}/temp", random.below(40)), "from": words::time(random), "step": 1e-3 * random.range(1, 900) as f64, "values": values, "unit": "°C"})
}

fn settings(random: &mut Random) -> Value {
    json!({
        "path": format!("C:\\data\\{}\\{}", words::noun(random), words::noun(random)),
        "retry": {"times": random.below(9), "backoff": [1, 2, 4, 8], "jitter": random.percent(50)},
        "features": {"search": random.percent(50), "export": Value::Null, "beta": {}},
        "allow": [], "title": words::sentence(random), "limit": random.range(1, 1_000_000_000),
    })
}

fn place(random: &mut Random) -> Value {
    let mut coordinate = || random.below(36_000_000) as f64 / 1e5 - 180.0;
    let line: Vec<[f64; 2]> = (0..5).map(|_| [coordinate(), coordinate()]).collect();
    json!({"type": "Feature", "geometry": {"type": "LineString", "coordinates": line}, "properties": {"name": words::city(random), "ref": Value::Null}})
}
