//! Names and prose.

use super::random::Random;

const GIVEN: [&str; 20] = [
    "Mara", "Jonas", "Aiko", "Priya", "Tomás", "Ingrid", "Omar", "Chloé", "Dmitri", "Lena", "Kwame", "Sofía",
    "Li Wei", "Noah", "Zuzana", "Håkon", "Amira", "Björn", "Yuki", "Grace",
];
const FAMILY: [&str; 20] = [
    "Lindqvist",
    "Okafor",
    "Tanaka",
    "Müller",
    "García",
    "Novák",
    "Haddad",
    "O'Brien",
    "Petrov",
    "Sato",
    "Fernandes",
    "Kim",
    "Rossi",
    "Andersen",
    "Nguyen",
    "Kowalski",
    "Dubois",
    "Iyer",
    "Johnson",
    "Silva",
];
const CITIES: [&str; 16] = [
    "Oslo",
    "Porto",
    "Kraków",
    "São Paulo",
    "Nairobi",
    "Osaka",
    "Leeds",
    "Graz",
    "Montréal",
    "Pune",
    "Zürich",
    "Austin",
    "Ghent",
    "Izmir",
    "Busan",
    "Malmö",
];
const SENTENCES: [&str; 16] = [
    "The delivery was late, but everything arrived intact.",
    "Please call before noon; the door bell is broken.",
    "We would like to extend the contract by two years.",
    "It rains 40 % of the time here, so bring a coat.",
    "Der Zug nach Graz fährt heute um 17:42 Uhr ab.",
    "Could you send me the figures for the third quarter?",
    "Merci beaucoup pour votre réponse rapide !",
    "The meeting moved to room 4.12 on the second floor.",
    "Version 2.3.1 fixes a crash when the list is empty.",
    "¿Puede confirmar la dirección de entrega?",
    "There is no need to restart the server after this change.",
    "明日の会議は十時に始まります。",
    "I have attached the photos of the damaged parcel.",
    "Half of the users never open the settings page.",
    "Great value for the price, though the manual is poor.",
    "Tickets are sold out for Friday, a few are left for Sunday 🎟️.",
];
const NOUNS: [&str; 24] = [
    "count", "index", "total", "value", "name", "buffer", "node", "item", "result", "offset", "price",
    "user", "size", "key", "left", "right", "sum", "next", "list", "row", "limit", "depth", "weight",
    "score",
];

pub(super) fn person(random: &mut Random) -> String {
    format!("{} {}", random.pick(&GIVEN), random.pick(&FAMILY))
}

pub(super) fn city(random: &mut Random) -> &'static str {
    random.pick(&CITIES)
}

pub(super) fn sentence(random: &mut Random) -> &'static str {
    random.pick(&SENTENCES)
}

/// A word that programs call things by.
pub(super) fn noun(random: &mut Random) -> &'static str {
    random.pick(&NOUNS)
}

/// A name as programs have it: `total`, `row_size`, `key2`.
pub(super) fn identifier(random: &mut Random) -> String {
    let first = noun(random);
    match random.below(4) {
        0 => format!("{first}_{}", noun(random)),
        1 => format!("{first}{}", random.range(1, 9)),
        _ => first.to_owned(),
    }
}

pub(super) fn mail(random: &mut Random) -> String {
    let name = random.pick(&[
        "mara.lind",
        "j.okafor",
        "sales",
        "no-reply",
        "a_tanaka",
        "info",
        "priya.iyer",
        "team-7",
    ]);
    let host = random.pick(&["example.org", "mail.example.com", "shop.example.co.uk", "uni-example.at"]);
    format!("{name}@{host}")
}

pub(super) fn date(random: &mut Random) -> String {
    format!("{}-{:02}-{:02}", random.range(1990, 2030), random.range(1, 12), random.range(1, 28))
}

pub(super) fn time(random: &mut Random) -> String {
    format!("{}T{:02}:{:02}", date(random), random.below(24), random.below(60))
}

/// An amount with two decimals.
pub(super) fn price(random: &mut Random) -> String {
    format!("{}.{:02}", random.below(500), random.below(100))
}
