//! Lists of calls as a model with tools writes them.

use super::{random::Random, words};

pub(super) fn document(random: &mut Random) -> String {
    let mut calls = Vec::new();
    while calls.iter().map(String::len).sum::<usize>() < 220 || (calls.len() < 8 && random.percent(60)) {
        calls.push(call(random));
    }
    format!("[{}]", calls.join(", "))
}

fn call(random: &mut Random) -> String {
    let quoted = |text: &str| format!("{text:?}");
    let guests = |random: &mut Random| random.list([0, 3], ", ", |random| quoted(&words::mail(random)));
    let (name, arguments) = match random.below(5) {
        0 => {
            let mut arguments = format!("\"city\": \"{}\"", words::city(random));
            if random.percent(60) {
                arguments += &format!(", \"unit\": \"{}\"", random.pick(&["celsius", "fahrenheit"]));
            }
            if random.percent(50) {
                arguments += &format!(", \"days\": {}", random.range(1, 14));
            }
            ("get_weather", arguments)
        }
        1 => {
            let to = random.list([1, 3], ", ", |random| quoted(&words::mail(random)));
            let (subject, body) = (words::sentence(random), words::sentence(random));
            let body = format!("{}\\n\\n{body}\\n", words::person(random));
            let urgent = if random.percent(40) { ", \"urgent\": true" } else { "" };
            ("send_mail", format!("\"to\": [{to}], \"subject\": \"{subject}\", \"body\": \"{body}\"{urgent}"))
        }
        2 => {
            let filters = random.list([0, 3], ", ", |random| {
                let value = match random.below(4) {
                    0 => quoted(words::city(random)),
                    1 => format!("-{}.{}", random.below(90), random.range(1, 99)),
                    2 => "true".to_owned(),
                    _ => "null".to_owned(),
                };
                format!("\"{}\": {value}", words::identifier(random))
            });
            let limit = if random.percent(50) {
                format!(", \"limit\": {}", random.below(100))
            } else {
                String::new()
            };
            (
                "search",
                format!("\"query\": \"{}\", \"filters\": {{{filters}}}{limit}", words::sentence(random)),
            )
        }
        3 => {
            let (title, start, end) = (words::sentence(random), words::time(random), words::time(random));
            let guests = guests(random);
            (
                "create_event",
                format!(
                    "\"title\": \"{title}\", \"start\": \"{start}\", \"end\": \"{end}\", \"guests\": [{guests}]"
                ),
            )
        }
        _ => {
            let mut currency = || random.pick(&["EUR", "USD", "JPY", "GBP", "CHF", "INR"]);
            let (from, to) = (currency(), currency());
            (
                "convert",
                format!("\"amount\": {}, \"from\": \"{from}\", \"to\": \"{to}\"", words::price(random)),
            )
        }
    };
    format!("{{\"name\": \"{name}\", \"arguments\": {{{arguments}}}}}")
}
