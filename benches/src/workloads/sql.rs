//! Queries with joins and subqueries, and a few statements that change tables.

use super::{random::Random, words};

const TABLES: [&str; 8] =
    ["users", "orders", "items", "products", "sessions", "payments", "cities", "log_entries"];
const COLUMNS: [&str; 12] = [
    "id",
    "user_id",
    "name",
    "price",
    "quantity",
    "created_at",
    "status",
    "city",
    "total",
    "email",
    "kind",
    "score",
];

pub(super) fn document(random: &mut Random) -> String {
    let least = random.range(200, 900);
    let text = random.until(least, |random| {
        let statement = match random.below(8) {
            0 => insert(random),
            1 => format!(
                "UPDATE {} SET {} = {}, status = 'done' WHERE {}",
                random.pick(&TABLES),
                column(random),
                value(random),
                condition(random, 1)
            ),
            2 => format!("DELETE FROM {} WHERE {}", random.pick(&TABLES), condition(random, 1)),
            3 => create(random),
            _ => query(random, 2),
        };
        statement + ";\n"
    });
    text.trim_end().to_owned()
}

fn column(random: &mut Random) -> String {
    random.pick(&COLUMNS).to_owned()
}

fn value(random: &mut Random) -> String {
    match random.below(5) {
        0 => format!("'{}'", words::city(random)),
        1 => format!("'{}'", words::date(random)),
        2 => words::price(random),
        3 => "NULL".to_owned(),
        _ => random.below(10_000).to_string(),
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 7 }) {
        0 => column(random),
        1 => format!("{}.{}", random.pick(&["u", "o", "t"]), column(random)),
        2 => value(random),
        3 => format!(
            "{}({})",
            random.pick(&["SUM", "AVG", "MAX", "LOWER", "LENGTH"]),
            expression(random, depth - 1)
        ),
        4 => format!("COALESCE({}, {})", column(random), value(random)),
        5 => format!(
            "({} {} {})",
            expression(random, depth - 1),
            random.pick(&["+", "-", "*", "/", "||"]),
            expression(random, depth - 1)
        ),
        _ => format!(
            "CASE WHEN {} THEN {} ELSE {} END",
            condition(random, depth - 1),
            value(random),
            value(random)
        ),
    }
}

fn condition(random: &mut Random, depth: usize) -> String {
    let predicate = match random.below(if depth == 0 { 4 } else { 6 }) {
        0 => format!(
            "{} {} {}",
            expression(random, depth),
            random.pick(&["=", "<>", "<", ">", "<=", ">="]),
            expression(random, depth)
        ),
        1 => format!("{} IS {}NULL", column(random), random.pick(&["", "NOT "])),
        2 => format!("{} LIKE '%{}%'", column(random), words::noun(random)),
        3 => format!("{} BETWEEN {} AND {}", column(random), random.below(50), random.range(50, 900)),
        4 => format!("{} NOT IN ({})", column(random), query(random, 0)),
        _ => format!("({})", condition(random, depth - 1)),
    };
    if random.percent(40) {
        let more = condition(random, depth.saturating_sub(1));
        format!("{predicate} {} {more}", random.pick(&["AND", "OR", "AND NOT"]))
    } else {
        predicate
    }
}

fn query(random: &mut Random, depth: usize) -> String {
    let columns = if random.percent(20) {
        "*".to_owned()
    } else {
        random.list([1, 4], ", ", |random| {
            let name =
                if random.percent(30) { format!(" AS {}", words::noun(random)) } else { String::new() };
            expression(random, depth) + &name
        })
    };
    let mut out =
        format!("SELECT {}{columns} FROM {} u", random.pick(&["", "", "DISTINCT "]), random.pick(&TABLES));
    for _ in 0..random.below(depth + 1) {
        out += &format!(
            "\n{}JOIN {} o ON u.id = o.{}",
            random.pick(&["", "LEFT ", "INNER "]),
            random.pick(&TABLES),
            column(random)
        );
    }
    if random.percent(70) {
        out += &format!(" WHERE {}", condition(random, depth));
    }
    if depth > 0 && random.percent(40) {
        out += &format!("\nGROUP BY {} HAVING COUNT(*) > {}", column(random), random.below(20));
    }
    if depth > 0 && random.percent(50) {
        out += &format!("\nORDER BY {} DESC LIMIT {}", column(random), random.range(1, 100));
    }
    out
}

fn insert(random: &mut Random) -> String {
    let rows = random.list([1, 4], ",\n  ", |random| {
        format!(
            "({}, '{}', {})",
            random.below(5_000),
            words::person(random).replace('\'', "''"),
            value(random)
        )
    });
    format!("INSERT INTO {} (id, name, {}) VALUES\n  {rows}", random.pick(&TABLES), column(random))
}

fn create(random: &mut Random) -> String {
    let columns = random.list([1, 4], ", ", |random| {
        let kind = random.pick(&["INTEGER", "TEXT", "DATE", "VARCHAR(40)", "REAL"]);
        format!("{} {kind}{}", column(random), random.pick(&["", " NOT NULL", " DEFAULT 0", " UNIQUE"]))
    });
    format!("CREATE TABLE IF NOT EXISTS {} (id INTEGER PRIMARY KEY, {columns})", random.pick(&TABLES))
}
