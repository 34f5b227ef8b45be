//! Grammars in Lark.

use super::{random::Random, words};

const TERMINALS: [&str; 8] = ["NAME", "NUMBER", "STRING", "COMMA", "ESCAPED_STRING", "WS", "OP", "KEY_1"];

pub(super) fn document(random: &mut Random) -> String {
    let mut out = format!("// {}\nstart: {}\n", words::sentence(random), alternatives(random, 2));
    let least = random.range(150, 800);
    out += &random.until(least, |random| match random.below(5) {
        0 => format!(
            "{}: {}\n",
            random.pick(&TERMINALS),
            random.pick(&[
                r"/[a-z_]\w*/i",
                r#""a".."z""#,
                r"/[0-9]+(\.[0-9]+)?/",
                r#"/"[^"\\]*"/"#,
                "\"select\"i"
            ])
        ),
        1 => format!(
            "{}{}: {}\n    | {} -> {}\n",
            random.pick(&["", "?", "!"]),
            words::identifier(random),
            alternatives(random, 2),
            alternatives(random, 1),
            words::noun(random)
        ),
        _ => format!("{}: {}\n", words::identifier(random), alternatives(random, 3)),
    });
    out + random.pick(&["%ignore WS\n", "%import common.WS\n%ignore WS\n", "%ignore / +/\n\n"])
}

fn alternatives(random: &mut Random, depth: usize) -> String {
    random.list([1, 3], " | ", |random| random.list([1, 3], " ", |random| item(random, depth)))
}

fn item(random: &mut Random, depth: usize) -> String {
    let quantifier = random.pick(&["", "", "", "*", "+", "?", "~3", "~2..5"]);
    match random.below(if depth == 0 { 3 } else { 5 }) {
        0 => words::identifier(random) + quantifier,
        1 => random.pick(&TERMINALS).to_owned() + quantifier,
        2 => format!("\"{}\"", random.pick(&["(", ")", ",", "if", "\\\"", "->", ";", "=="])),
        3 => format!("({}){quantifier}", alternatives(random, depth - 1)),
        _ => format!("[{}]", alternatives(random, depth - 1)),
    }
}
