//! Orders, on one line or indented.

use super::{random::Random, words};

pub(super) fn document(random: &mut Random) -> String {
    let pretty = random.percent(60);
    let line = |depth: usize| if pretty { format!("\n{}", "  ".repeat(depth)) } else { String::new() };
    let currency = random.pick(&["EUR", "USD", "GBP", "JPY"]);
    let priority = if random.percent(50) {
        format!(" priority=\"{}\"", random.pick(&["low", "normal", "high"]))
    } else {
        String::new()
    };
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>{}<order id=\"{}-{:06}\" date=\"{}\"{priority}>{}<customer>",
        line(0),
        random.pick(&["AB", "ZX", "QQ"]),
        random.below(1_000_000),
        words::date(random),
        line(1),
    );
    out += &format!(
        "{}<name>{}</name>{}<address country=\"{}\">",
        line(2),
        words::person(random),
        line(2),
        random.pick(&["NO", "PT", "JP", "AT", "CA"])
    );
    out += &format!("{}<street>{} Street {}</street>", line(3), words::person(random), random.range(1, 200));
    out += &format!(
        "{}<city>{}</city>{}<code>{}</code>{}</address>",
        line(3),
        words::city(random),
        line(3),
        random.pick(&["0150", "4050-312", "SW1A 1AA", "8010", "H2X 1Y4"]),
        line(2)
    );
    if random.percent(60) {
        out += &format!("{}<mail>{}</mail>", line(2), words::mail(random).replace('_', "-"));
    }
    out += &format!("{}</customer>{}<items>", line(1), line(1));
    for _ in 0..random.range(1, 6) {
        out += &format!(
            "{}<item sku=\"{}{:04}\" quantity=\"{}\"",
            line(2),
            random.pick(&["CUP", "LMP", "BKS"]),
            random.below(10_000),
            random.range(1, 40)
        );
        if random.percent(30) {
            out += "/>";
            continue;
        }
        out += ">";
        if random.percent(80) {
            out += &format!("{}<name>{} &amp; {}</name>", line(3), words::noun(random), words::noun(random));
        }
        if random.percent(80) {
            out += &format!("{}<price currency=\"{currency}\">{}</price>", line(3), words::price(random));
        }
        for _ in 0..random.below(3) {
            let option = random.pick(&["colour", "engraving", "wrapping"]);
            out += &match random.below(2) {
                0 => format!("{}<option name=\"{option}\"/>", line(3)),
                _ => format!("{}<option name=\"{option}\">{}</option>", line(3), words::noun(random)),
            };
        }
        out += &format!("{}</item>", line(2));
    }
    out += &format!("{}</items>", line(1));
    if random.percent(70) {
        out += &format!(
            "{}<note>{} <b>{}</b> {}</note>",
            line(1),
            words::sentence(random),
            words::noun(random),
            words::sentence(random)
        );
    }
    out + &format!(
        "{}<total currency=\"{currency}\">{}</total>{}</order>{}",
        line(1),
        words::price(random),
        line(0),
        line(0)
    )
}
