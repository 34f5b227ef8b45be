//! Log files: lines that start with an ISO date.

use crate::dates::Date;
use crate::facts::things::{EVENTS, TAGS};
use crate::scene::Scene;

/// One to four log lines of the same day, the times rising.
pub(crate) fn log(scene: &mut Scene<'_>) -> String {
    let date = scene.date();
    if scene.dice.chance(25) {
        return diary(scene, date);
    }
    let mut second = scene.dice.below(20 * 3600);
    let mut lines = Vec::new();
    for _ in 0..scene.dice.small(1, 4) {
        let time = format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
        lines.push(format!("{} {time} {}", date.iso(), message(scene)));
        second += scene.dice.small(1, 900);
    }
    lines.join("\n")
}

fn diary(scene: &mut Scene<'_>, date: Date) -> String {
    let person = scene.person();
    match scene.dice.below(3) {
        0 => format!("{} {} in {}", date.iso(), scene.dice.zipf(EVENTS), scene.city().name),
        1 => format!("{} call with {} ({})", date.iso(), person.name(), person.job),
        _ => format!("{} visit from {}, {}", date.iso(), person.name(), person.city.name),
    }
}

fn message(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let login = person.login();
    let number = scene.dice.between(1000, 1999);
    let percent = scene.dice.between(80, 99);
    let millis = scene.dice.small(3, 400);
    match scene.dice.below(10) {
        0..3 => format!("INFO user {login} logged in"),
        3 => format!("INFO user {login} logged out"),
        4 | 5 => format!("INFO request {number} done in {millis} ms"),
        6 => format!("WARN disk is {percent}% full"),
        7 => format!("ERROR request {number} failed: timeout"),
        8 => format!("INFO ticket {number} tagged {}", scene.dice.zipf(TAGS)),
        _ => format!("DEBUG cache hit for {}", scene.dice.zipf(&["/index", "/login", "/search", "/orders"])),
    }
}
