//! Arithmetic and s-expressions, each with its value.

use crate::rng::Dice;
use crate::scene::Scene;

/// Two to six lines such as `12 + 7 = 19`.
pub(crate) fn arithmetic(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.between(2, 6);
    let lines: Vec<String> = (0..count).map(|_| equation(&mut scene.dice)).collect();
    lines.join("\n")
}

fn equation(dice: &mut Dice) -> String {
    match dice.below(10) {
        0..4 => {
            let (left, right) = (dice.small(0, 60), dice.small(0, 40));
            format!("{left} + {right} = {}", left + right)
        }
        4..7 => {
            let (right, rest) = (dice.small(0, 30), dice.small(0, 60));
            format!("{} - {right} = {rest}", right + rest)
        }
        7..9 => {
            let (left, right) = (dice.between(2, 12), dice.between(2, 12));
            format!("{left} * {right} = {}", left * right)
        }
        _ => {
            let (right, quotient) = (dice.between(2, 10), dice.between(2, 12));
            format!("{} / {right} = {quotient}", right * quotient)
        }
    }
}

/// One to three lines such as `(+ 2 (* 3 4)) => 14`.
pub(crate) fn expressions(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.small(1, 4);
    let lines: Vec<String> = (0..count)
        .map(|_| {
            let (text, value) = operation(&mut scene.dice, 2);
            format!("{text} => {value}")
        })
        .collect();
    lines.join("\n")
}

/// An operation of two or three operands, nested at most `depth` deep, and its value.
fn operation(dice: &mut Dice, depth: u32) -> (String, i64) {
    let operator = *dice.weighted(&[(5, '+'), (3, '*'), (3, '-'), (1, 'm')]);
    let count = if operator != '-' && dice.chance(25) { 3 } else { 2 };
    let operands: Vec<(String, i64)> = (0..count).map(|_| operand(dice, depth)).collect();
    let values = operands.iter().map(|&(_, value)| value);
    let (name, value) = match operator {
        '+' => ("+", values.sum()),
        '*' => ("*", values.product()),
        '-' => ("-", operands[0].1 - operands[1].1),
        _ => ("max", values.max().unwrap_or_default()),
    };
    let texts: Vec<&str> = operands.iter().map(|(text, _)| text.as_str()).collect();
    (format!("({name} {})", texts.join(" ")), value)
}

fn operand(dice: &mut Dice, depth: u32) -> (String, i64) {
    if depth > 0 && dice.chance(35) {
        return operation(dice, depth - 1);
    }
    let number = dice.small(1, 12) as i64;
    (number.to_string(), number)
}
