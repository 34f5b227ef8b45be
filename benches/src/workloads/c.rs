//! Functions and structures in C.

use super::{random::Random, words};

const TYPES: [&str; 7] = ["int", "char", "unsigned", "double", "long", "struct node *", "const char *"];

pub(super) fn document(random: &mut Random) -> String {
    let mut out = String::new();
    if random.percent(40) {
        let members = random.list([2, 4], "", |random| {
            format!("    {} {};\n", random.pick(&TYPES), words::identifier(random))
        });
        out += &format!("struct node {{\n{members}}};\n\n");
    }
    let least = random.range(250, 900);
    out + &random.until(least, function)
}

fn function(random: &mut Random) -> String {
    let comment = match random.below(3) {
        0 => format!("// {}\n", words::sentence(random)),
        _ => String::new(),
    };
    let parameters =
        random.list([1, 3], ", ", |random| format!("{} {}", random.pick(&TYPES), words::identifier(random)));
    let body = random.list([2, 4], "", |random| statement(random, 1, 2));
    format!(
        "{comment}static {} {}({parameters}) {{\n{body}    return {};\n}}\n\n",
        random.pick(&TYPES),
        words::identifier(random),
        expression(random, 1)
    )
}

fn statement(random: &mut Random, indent: usize, depth: usize) -> String {
    let pad = "    ".repeat(indent);
    let block = |random: &mut Random| {
        let body = random.list([1, 2], "", |random| statement(random, indent + 1, depth.saturating_sub(1)));
        format!("{{\n{body}{pad}}}")
    };
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => format!(
            "{pad}{} {} = {};\n",
            random.pick(&TYPES),
            words::identifier(random),
            expression(random, 2)
        ),
        1 => format!(
            "{pad}{} {} {};\n",
            place(random),
            random.pick(&["=", "+=", "-=", "|=", "<<="]),
            expression(random, 2)
        ),
        2 => format!("{pad}printf(\"%d: {}\\n\", {});\n", words::noun(random), expression(random, 1)),
        3 => format!("{pad}{}++;\n", words::identifier(random)),
        4 => format!(
            "{pad}{}({}, {});\n",
            words::identifier(random),
            expression(random, 1),
            expression(random, 1)
        ),
        5 => format!("{pad}if ({}) {}\n", expression(random, 2), block(random)),
        6 => format!("{pad}if ({}) {} else {}\n", expression(random, 1), block(random), block(random)),
        7 => format!("{pad}while ({}) {}\n", expression(random, 1), block(random)),
        _ => {
            let name = random.pick(&["i", "j", "k"]);
            format!(
                "{pad}for (int {name} = 0; {name} < {}; {name}++) {}\n",
                words::identifier(random),
                block(random)
            )
        }
    }
}

fn place(random: &mut Random) -> String {
    let name = words::identifier(random);
    match random.below(4) {
        0 => format!("{name}[{}]", random.pick(&["i", "0", "n - 1"])),
        1 => format!("{name}->{}", words::noun(random)),
        2 => format!("*{name}"),
        _ => name,
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 4 } else { 9 }) {
        0 => random.below(1_000).to_string(),
        1 => words::identifier(random),
        2 => place(random),
        3 => random.pick(&["0x7f", "'\\n'", "'a'", "NULL", "1.5f", "\"%s\""]).to_owned(),
        4 => format!("{}({})", words::identifier(random), expression(random, depth - 1)),
        5 => format!(
            "({} {} {})",
            expression(random, depth - 1),
            random.pick(&["+", "*", "&", ">>"]),
            expression(random, depth - 1)
        ),
        6 => format!("!{}", words::identifier(random)),
        7 => format!("sizeof({})", random.pick(&["int", "char *", "struct node"])),
        _ => format!(
            "{} {} {}",
            expression(random, depth - 1),
            random.pick(&["==", "<", "&&", "-", "/", "!=", "||", "%"]),
            expression(random, depth - 1)
        ),
    }
}
