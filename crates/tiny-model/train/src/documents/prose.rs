//! Short English prose: people, places, products, and small stories with a date.

use crate::dates::clock;
use crate::facts::people::Person;
use crate::facts::places::{City, VENUES};
use crate::facts::things::{BOOKS, COLOURS, EVENTS, GROCERIES, NUMBER_WORDS, WEATHER};
use crate::scene::{Scene, Writer};
use crate::text::{capitalised, money, with_article};

/// Two to four sentences about one person.
pub(crate) fn person(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let (opening, tells_age) = opening(scene, &person);
    let mut facts = vec![work(scene, &person), free_time(&person), language(&person), reach(&person)];
    if !tells_age {
        facts.push(format!("{} is {} years old.", capitalised(person.pronouns.subject), person.age));
    }
    let count = scene.dice.between(1, 3) as usize;
    let chosen = scene.dice.several(&facts, count);
    chosen.into_iter().fold(opening, |text, fact| format!("{text} {fact}"))
}

/// The first sentence about a person, and whether it tells the age.
fn opening(scene: &mut Scene<'_>, person: &Person) -> (String, bool) {
    let (name, job, city) = (person.name(), with_article(person.job), person.city);
    match scene.dice.below(10) {
        0..4 => (format!("{name} is {job} from {}.", city.name), false),
        4..7 => (format!("{name} lives in {}, {}, and works as {job}.", city.name, city.country), false),
        _ => {
            let aged = with_article(&format!("{}-year-old {}", person.age, person.job));
            (format!("{name} is {aged} who lives in {}.", city.name), true)
        }
    }
}

fn work(scene: &mut Scene<'_>, person: &Person) -> String {
    let subject = capitalised(person.pronouns.subject);
    let (employer, kind) = (person.employer.name, person.sector.kind);
    let adult_years = person.age - 18;
    match scene.dice.below(3) {
        0 => format!("{subject} works for {employer}."),
        1 if !names_its_kind(person) => format!("{subject} works for {employer}, {kind}."),
        1 => format!("{subject} likes working for {employer}."),
        _ if adult_years < 3 => format!("{subject} joined {employer} last year."),
        _ => format!(
            "{subject} has worked for {employer} for {} years.",
            scene.dice.small(2, adult_years.min(30))
        ),
    }
}

/// Whether the name of the employer names its sector, as in `Meridian Bank`.
fn names_its_kind(person: &Person) -> bool {
    let noun = person.sector.kind.rsplit(' ').next().unwrap_or_default();
    person.employer.name.to_lowercase().contains(noun)
}

fn free_time(person: &Person) -> String {
    let pronouns = person.pronouns;
    format!("In {} free time {} {}.", pronouns.possessive, pronouns.subject, person.hobby)
}

fn language(person: &Person) -> String {
    let subject = capitalised(person.pronouns.subject);
    match person.city.language {
        "English" => format!("{subject} speaks English."),
        language => format!("{subject} speaks {language} and English."),
    }
}

fn reach(person: &Person) -> String {
    format!("You can reach {} at {}.", person.pronouns.object, person.email)
}

/// Two or three sentences about a city.
pub(crate) fn place(scene: &mut Scene<'_>) -> String {
    let city = scene.city();
    let first = format!("{} is a city in {}.", city.name, city.country);
    let known = format!("It is known for {}.", city.known_for);
    let third = match scene.dice.below(3) {
        0 => format!(" People there speak {}.", city.language),
        1 => format!(" Many visitors meet at the {}.", scene.dice.zipf(VENUES)),
        _ => String::new(),
    };
    format!("{first} {known}{third}")
}

/// Two or three sentences about a product.
pub(crate) fn product(scene: &mut Scene<'_>) -> String {
    let (product, cents) = scene.priced();
    let price = money(cents);
    let colours = scene.dice.several(COLOURS, 2);
    let last = match scene.dice.below(3) {
        0 => format!(" The colours are {} and {}.", colours[0], colours[1]),
        1 => format!(" See the {} section for more.", product.category),
        _ => String::new(),
    };
    if product.detail.starts_with("It ") {
        format!("The {} costs ${price}. {}{last}", product.name, product.detail)
    } else {
        format!("Our price for the {} is ${price}. {}{last}", product.name, product.detail)
    }
}

/// The small stories, with how frequent each is.
const STORIES: &[(u64, Writer)] = &[(4, meeting), (3, market), (3, visit), (2, reading), (3, announcement)];

/// Two to four sentences about something that happened, or will.
pub(crate) fn story(scene: &mut Scene<'_>) -> String {
    let write = scene.dice.weighted(STORIES);
    write(scene)
}

fn meeting(scene: &mut Scene<'_>) -> String {
    let (first, second) = scene.pair();
    let date = scene.date().spelt(&mut scene.dice);
    let venue = scene.dice.zipf(VENUES);
    let topic = scene.dice.zipf(&["their work", "the weather", "old friends", "a new book", "their plans"]);
    let end =
        scene.dice.zipf(&["had lunch together", "took the same train home", "drank tea", "went for a walk"]);
    format!(
        "On {date}, {} met {} at the {venue} in {}. They talked about {topic} and {end}.",
        first.name(),
        second.name(),
        first.city.name
    )
}

fn market(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let subject = capitalised(person.pronouns.subject);
    let goods: Vec<String> = scene
        .dice
        .several(GROCERIES, 2)
        .into_iter()
        .map(|goods| format!("{} {goods}", scene.dice.zipf(NUMBER_WORDS)))
        .collect();
    let (sky, dish) =
        (scene.dice.zipf(WEATHER), scene.dice.zipf(&["a soup", "a salad", "a pie", "dinner for friends"]));
    format!(
        "It was {} morning in {}. {} walked to the market and bought {} and {}. {subject} made {dish}.",
        with_article(sky),
        person.city.name,
        person.given,
        goods[0],
        goods[1]
    )
}

fn visit(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let city = destination(scene, &person);
    let subject = capitalised(person.pronouns.subject);
    let date = scene.date();
    let (month, year) = (date.month_name(), date.year);
    let days = scene.dice.zipf(NUMBER_WORDS);
    let opinion = scene.dice.zipf(&[
        "liked it very much",
        "wants to go back",
        "took many photographs",
        "got lost twice",
    ]);
    format!(
        "In {month} {year}, {} spent {days} days in {}. {subject} wanted to see {}. {subject} {opinion}.",
        person.name(),
        city.name,
        city.known_for
    )
}

/// A city that the person does not live in.
fn destination(scene: &mut Scene<'_>, person: &Person) -> &'static City {
    loop {
        let city = scene.city();
        if city.name != person.city.name {
            return city;
        }
    }
}

fn reading(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let book = scene.dice.zipf(BOOKS);
    let opinion = scene.dice.zipf(&["It was a good book", "It was too long", "The ending was a surprise"]);
    format!(
        "{} read \"{}\" by {} in {} days. {opinion}, {} said.",
        person.given,
        book.title,
        book.maker,
        scene.dice.zipf(NUMBER_WORDS),
        person.pronouns.subject
    )
}

fn announcement(scene: &mut Scene<'_>) -> String {
    let (event, venue, city) = (scene.dice.zipf(EVENTS), scene.dice.zipf(VENUES), scene.city());
    let date = scene.date();
    let entry = scene.dice.zipf(&[
        "Entry is free.",
        "Tickets cost $10.",
        "Please bring a friend.",
        "Doors open early.",
    ]);
    let time = clock(&mut scene.dice);
    format!(
        "The {event} in {} takes place on {}, {}, at {time}. Come to the {venue}. {entry}",
        city.name,
        date.weekday(),
        date.day_first()
    )
}
