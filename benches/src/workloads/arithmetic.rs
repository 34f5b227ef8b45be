//! Assignments.

use super::{random::Random, words};

pub(super) fn document(random: &mut Random) -> String {
    let least = random.range(200, 900);
    random.until(least, |random| format!("{} = {}\n", words::identifier(random), sum(random, 4)))
}

fn sum(random: &mut Random, depth: usize) -> String {
    random.list([1, 3], "", |random| product(random, depth) + random.pick(&[" + ", " - "]))
        + &product(random, depth)
}

fn product(random: &mut Random, depth: usize) -> String {
    let left = power(random, depth);
    if random.percent(30) {
        format!("{left} {} {}", random.pick(&["*", "/"]), power(random, depth))
    } else {
        left
    }
}

fn power(random: &mut Random, depth: usize) -> String {
    let base = atom(random, depth);
    if random.percent(15) { format!("{base}^{}", atom(random, 0)) } else { base }
}

fn atom(random: &mut Random, depth: usize) -> String {
    match random.below(if depth < 2 { 3 } else { 6 }) {
        0 => random.below(1_000).to_string(),
        1 => format!("{}.{}", random.below(100), random.below(1_000)),
        2 => words::identifier(random),
        3 => format!("-{}", atom(random, depth - 1)),
        4 => format!("({})", sum(random, depth - 2)),
        _ => format!("{}({})", random.pick(&["sin", "cos", "sqrt", "exp", "log"]), sum(random, depth - 2)),
    }
}
