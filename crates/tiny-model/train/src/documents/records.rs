//! JSON documents: one line each, a dozen and more shapes with a fixed order of keys.

use crate::dates::clock;
use crate::documents::json::{Object, array, quoted};
use crate::facts::people::Person;
use crate::facts::places::{STREETS, VENUES};
use crate::facts::things::{BOOKS, CHORES, COLOURS, EVENTS, FILMS, PRODUCTS, SUBJECTS, TAGS, Title, WEATHER};
use crate::scene::{Scene, Writer};
use crate::text::{capitalised, hundredths, label, money};

/// The shapes and how frequent each is; `name_age_city` is the one that most demonstrations ask for.
const SHAPES: &[(u64, Writer)] = &[
    (22, name_age_city),
    (8, book),
    (6, film),
    (9, product),
    (8, event),
    (7, message),
    (7, ticket),
    (6, address),
    (5, two_people),
    (5, coordinates),
    (6, weather),
    (6, order),
    (6, user_with_roles),
    (5, contact_with_nulls),
    (5, employee),
    (4, company),
    (4, task),
    (4, reading),
    (3, remark),
    (4, points),
];

/// A JSON document.
pub(crate) fn record(scene: &mut Scene<'_>) -> String {
    let write = scene.dice.weighted(SHAPES);
    write(scene)
}

fn name_age_city(scene: &mut Scene<'_>) -> String {
    let person = scene.anyone();
    Object::new()
        .text("name", &person.name())
        .number("age", person.age)
        .text("city", person.city.name)
        .build()
}

fn published(work: &Title, maker_key: &str, length_key: &str, long: bool) -> Object {
    let object =
        Object::new().text("title", work.title).text(maker_key, work.maker).number("year", work.year);
    if long { object.text("genre", work.genre).number(length_key, work.length) } else { object }
}

fn book(scene: &mut Scene<'_>) -> String {
    let long = scene.dice.chance(30);
    published(scene.dice.zipf(BOOKS), "author", "pages", long).build()
}

fn film(scene: &mut Scene<'_>) -> String {
    let long = scene.dice.chance(30);
    published(scene.dice.zipf(FILMS), "director", "minutes", long).build()
}

fn product(scene: &mut Scene<'_>) -> String {
    let (product, cents) = scene.priced();
    let in_stock = scene.dice.chance(80);
    let object =
        Object::new().text("product", product.name).raw("price", &money(cents)).boolean("in_stock", in_stock);
    if scene.dice.chance(25) { object.text("category", product.category).build() } else { object.build() }
}

fn event(scene: &mut Scene<'_>) -> String {
    let date = scene.date().iso();
    let event = *scene.dice.zipf(EVENTS);
    let venue = *scene.dice.zipf(VENUES);
    let place = if scene.dice.chance(50) { scene.city().name.to_owned() } else { capitalised(venue) };
    Object::new().text("date", &date).text("event", event).text("place", &place).build()
}

fn message(scene: &mut Scene<'_>) -> String {
    let (sender, receiver) = scene.pair();
    let subject = *scene.dice.zipf(SUBJECTS);
    Object::new().text("from", &sender.email).text("to", &receiver.email).text("subject", subject).build()
}

fn ticket(scene: &mut Scene<'_>) -> String {
    let id = scene.dice.between(1000, 1999);
    let status = *scene.dice.zipf(&["open", "closed", "pending", "waiting"]);
    let count = scene.dice.small(0, 3) as usize + usize::from(scene.dice.chance(80));
    Object::new().number("id", id).text("status", status).raw("tags", &tags(scene, count)).build()
}

fn tags(scene: &mut Scene<'_>, count: usize) -> String {
    let tags: Vec<String> = scene.dice.several(TAGS, count).into_iter().map(|tag| quoted(tag)).collect();
    array(&tags)
}

fn address(scene: &mut Scene<'_>) -> String {
    let person = scene.anyone();
    let street = format!("{} {}", scene.dice.small(1, 120), scene.dice.zipf(STREETS));
    let address = Object::new()
        .text("street", &street)
        .text("city", person.city.name)
        .text("country", label(person.city.country));
    Object::new().text("name", &person.name()).raw("address", &address.build()).build()
}

fn name_and_age(person: &Person) -> String {
    Object::new().text("name", &person.name()).number("age", person.age).build()
}

fn two_people(scene: &mut Scene<'_>) -> String {
    let (first, second) = scene.pair();
    array(&[name_and_age(&first), name_and_age(&second)])
}

fn coordinates(scene: &mut Scene<'_>) -> String {
    let city = scene.city();
    Object::new()
        .text("city", city.name)
        .raw("lat", &hundredths(city.latitude))
        .raw("lon", &hundredths(city.longitude))
        .build()
}

fn weather(scene: &mut Scene<'_>) -> String {
    let city = scene.city().name;
    let sky = *scene.dice.zipf(WEATHER);
    let degrees = match sky {
        "snowy" => scene.dice.between(0, 8) as i64 - 8,
        "sunny" => scene.dice.between(16, 31) as i64,
        _ => scene.dice.between(4, 19) as i64,
    };
    Object::new()
        .text("city", city)
        .text("weather", sky)
        .raw("temperature", &degrees.to_string())
        .number("humidity", scene.dice.between(30, 95))
        .build()
}

fn order(scene: &mut Scene<'_>) -> String {
    let id = scene.dice.between(5000, 5999);
    let count = scene.dice.small(1, 3) as usize;
    let mut total = 0;
    let mut items = Vec::new();
    for product in scene.dice.several(PRODUCTS, count) {
        let quantity = scene.dice.small(1, 5);
        total += product.cents * quantity;
        items.push(Object::new().text("product", product.name).number("quantity", quantity).build());
    }
    Object::new().number("order", id).raw("items", &array(&items)).raw("total", &money(total)).build()
}

fn user_with_roles(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let count = scene.dice.small(1, 3) as usize;
    let roles = scene.dice.several(&["user", "editor", "admin", "guest"], count);
    let roles: Vec<String> = roles.into_iter().map(|role| quoted(role)).collect();
    let active = scene.dice.chance(85);
    Object::new().text("user", person.login()).raw("roles", &array(&roles)).boolean("active", active).build()
}

fn contact_with_nulls(scene: &mut Scene<'_>) -> String {
    let person = scene.anyone();
    let phone = scene.phone();
    let phone = if scene.dice.chance(60) { "null".to_owned() } else { quoted(&phone) };
    let email = if scene.dice.chance(25) { "null".to_owned() } else { quoted(&person.email) };
    Object::new().text("name", &person.name()).raw("email", &email).raw("phone", &phone).build()
}

fn employee(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    Object::new()
        .text("name", &person.name())
        .text("job", person.job)
        .text("employer", &capitalised(label(person.employer.name)))
        .build()
}

fn company(scene: &mut Scene<'_>) -> String {
    let employer = scene.person().employer;
    Object::new()
        .text("company", &capitalised(label(employer.name)))
        .number("founded", employer.founded)
        .text("website", &format!("https://{}.example.com", employer.domain))
        .build()
}

fn task(scene: &mut Scene<'_>) -> String {
    let chore = *scene.dice.zipf(CHORES);
    Object::new()
        .text("task", chore)
        .boolean("done", scene.dice.chance(40))
        .number("priority", scene.dice.small(1, 5))
        .build()
}

fn reading(scene: &mut Scene<'_>) -> String {
    let sensor = format!("t{}", scene.dice.small(1, 12));
    let time = format!("{}T{}:00Z", scene.date().iso(), clock(&mut scene.dice));
    let value = format!("{}.{}", scene.dice.between(12, 29), scene.dice.below(10));
    Object::new().text("sensor", &sensor).text("time", &time).raw("value", &value).build()
}

fn remark(scene: &mut Scene<'_>) -> String {
    let (speaker, listener) = scene.pair();
    let colour = scene.dice.zipf(COLOURS);
    let remarks = [
        format!("The sign on the {colour} door says \"Closed\"."),
        format!("{} said \"maybe\" and left.", listener.given),
        format!("They call it \"the {colour} house\"."),
    ];
    let remark = scene.dice.zipf(&remarks);
    Object::new().text("speaker", &speaker.name()).text("quote", remark).build()
}

fn points(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.between(2, 4);
    let points: Vec<String> = (0..count)
        .map(|_| {
            Object::new().number("x", scene.dice.small(0, 50)).number("y", scene.dice.small(0, 50)).build()
        })
        .collect();
    let colour = *scene.dice.zipf(COLOURS);
    Object::new().raw("points", &array(&points)).text("color", colour).build()
}
