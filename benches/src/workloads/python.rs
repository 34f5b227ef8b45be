//! Lines of Python.

use super::{random::Random, words};

pub(super) fn document(random: &mut Random) -> String {
    let imports = random.list([0, 2], "", |random| {
        random
            .pick(&[
                "import os.path as path\n",
                "import json\n",
                "from typing import List, Dict\n",
                "from collections import deque\n",
            ])
            .to_owned()
    });
    let least = random.range(220, 900);
    imports + &random.until(least, line)
}

fn line(random: &mut Random) -> String {
    let small = simple(random);
    let text = match random.below(10) {
        0 => format!("if {}: {small}", test(random, 2)),
        1 => format!("for {} in {}: {small}", words::identifier(random), test(random, 1)),
        2 => format!("while {}: {small}", test(random, 1)),
        3 => format!("with open({}, 'r') as {}: {small}", string(random), words::noun(random)),
        4 => {
            let parameters = random.list([0, 3], ", ", |random| {
                words::identifier(random) + random.pick(&["", ": int", "=None", ": list[str]"])
            });
            format!(
                "def {}({parameters}){}: return {}",
                words::identifier(random),
                random.pick(&["", " -> int", " -> dict[str, int] | None"]),
                test(random, 2)
            )
        }
        _ => small,
    };
    text + random.pick(&["\n", "\n", "\n\n"])
}

fn simple(random: &mut Random) -> String {
    match random.below(8) {
        0 | 1 => format!("{} = {}", words::identifier(random), test(random, 2)),
        2 => format!("{}[{}] += {}", words::identifier(random), test(random, 1), test(random, 1)),
        3 => format!("print({}, {})", string(random), test(random, 1)),
        4 => format!("{}.append({})", words::identifier(random), test(random, 2)),
        5 => format!("assert {}, {}", test(random, 2), string(random)),
        6 => format!("{}: int = {}", words::identifier(random), random.below(500)),
        _ => random
            .pick(&["pass", "continue", "raise ValueError('empty')", "del cache[key]; break"])
            .to_owned(),
    }
}

fn string(random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("f\"{{{}}}: {}\"", words::noun(random), words::noun(random)),
        1 => format!("'{}'", words::city(random)),
        _ => format!("\"{}\\n\"", words::sentence(random)),
    }
}

fn test(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 3 } else { 12 }) {
        0 => words::identifier(random),
        1 => random.below(100).to_string(),
        2 => string(random),
        3 => format!("{}.{}", words::identifier(random), words::noun(random)),
        4 => format!(
            "{}({}, {}={})",
            words::identifier(random),
            test(random, depth - 1),
            words::noun(random),
            test(random, depth - 1)
        ),
        5 => format!(
            "{} {} {}",
            test(random, depth - 1),
            random.pick(&["+", "*", "==", "in", "not in", "is not", "//"]),
            test(random, depth - 1)
        ),
        6 => format!("[{}]", random.list([0, 4], ", ", |random| test(random, depth - 1))),
        7 => format!("[{} for x in {} if x]", test(random, depth - 1), words::identifier(random)),
        8 => format!("{{'{}': {}, 'ok': True}}", words::noun(random), test(random, depth - 1)),
        9 => format!("{}[{}:-1]", words::identifier(random), random.below(9)),
        10 => format!("(not {})", words::identifier(random)),
        _ => format!("({} if {} else None)", test(random, depth - 1), test(random, depth - 1)),
    }
}
