//! Problems over bit-vectors.

use super::{random::Random, words};

const NAMES: [&str; 8] = ["s", "t", "x", "y", "mask", "key", "in0", "out!1"];

pub(super) fn document(random: &mut Random) -> String {
    let width = random.pick(&[4, 8, 16, 32]);
    let mut out = "(set-logic QF_BV)\n".to_owned();
    let names = random.range(2, NAMES.len());
    for name in &NAMES[..names] {
        out += &format!("(declare-const {name} (_ BitVec {width}))\n");
    }
    for _ in 0..random.below(3) {
        let parameters = format!("(a (_ BitVec {width})) (b (_ BitVec {width}))");
        out += &format!(
            "(define-fun {} ({parameters}) (_ BitVec {width}) {})\n",
            words::identifier(random),
            term(random, names, width, 3)
        );
    }
    let least = out.len() + random.range(150, 900);
    while out.len() < least {
        out += &format!("(assert {})\n", formula(random, names, width, 3));
    }
    out + "(check-sat)\n" + random.pick(&["", "(get-model)\n"])
}

fn formula(random: &mut Random, names: usize, width: usize, depth: usize) -> String {
    match random.below(if depth == 0 { 1 } else { 4 }) {
        0 => {
            let relation = random.pick(&["=", "distinct", "bvult", "bvsle", "bvuge"]);
            format!(
                "({relation} {} {})",
                term(random, names, width, depth),
                term(random, names, width, depth)
            )
        }
        1 => format!("(not {})", formula(random, names, width, depth - 1)),
        2 => {
            let parts = random.list([2, 3], " ", |random| formula(random, names, width, depth - 1));
            format!("({} {parts})", random.pick(&["and", "or", "=>"]))
        }
        _ => format!(
            "(let ((v {})) {})",
            term(random, names, width, depth - 1),
            formula(random, names, width, depth - 1)
        ),
    }
}

fn term(random: &mut Random, names: usize, width: usize, depth: usize) -> String {
    match random.below(if depth == 0 { 2 } else { 7 }) {
        0 => NAMES[random.below(names)].to_owned(),
        1 => format!("#x{:0digits$x}", random.below(1 << width.min(16)), digits = width / 4),
        2 => format!("({} {})", random.pick(&["bvneg", "bvnot"]), term(random, names, width, depth - 1)),
        3 => format!(
            "(ite {} {} {})",
            formula(random, names, width, 0),
            term(random, names, width, depth - 1),
            term(random, names, width, depth - 1)
        ),
        4 => format!("((_ extract {} 0) {})", width - 1, term(random, names, width, depth - 1)),
        _ => {
            let operator = random
                .pick(&["bvadd", "bvsub", "bvmul", "bvand", "bvor", "bvxor", "bvshl", "bvlshr", "bvudiv"]);
            format!(
                "({operator} {} {})",
                term(random, names, width, depth - 1),
                term(random, names, width, depth - 1)
            )
        }
    }
}
