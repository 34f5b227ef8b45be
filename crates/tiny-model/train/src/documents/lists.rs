//! Text that is laid out in lines: lists of titles, `key: value` blocks, CSV tables, Markdown, contacts.

use crate::dates::clock;
use crate::facts::places::STREETS;
use crate::facts::things::{BOOKS, CHORES, EVENTS, FILMS, GROCERIES, PRODUCTS};
use crate::scene::{Scene, Writer};
use crate::text::{capitalised, counted, label, money};

/// Books or films with their years.
pub(crate) fn titles(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.between(3, 5) as usize;
    let books = scene.dice.chance(50);
    let works = scene.dice.several(if books { BOOKS } else { FILMS }, count);
    let heading = if books { "Books to read:" } else { "Films to watch:" };
    let numbered = scene.dice.chance(50);
    let lines = works.iter().enumerate().map(|(rank, work)| {
        if numbered {
            format!("\n{}. {} ({})", rank + 1, work.title, work.year)
        } else {
            format!("\n{} by {} ({})", work.title, work.maker, work.year)
        }
    });
    heading.to_owned() + &lines.collect::<String>()
}

/// A block of `key: value` lines.
pub(crate) fn key_values(scene: &mut Scene<'_>) -> String {
    const BLOCKS: &[(u64, Writer)] = &[(5, profile), (3, settings), (3, invoice)];
    let write = scene.dice.weighted(BLOCKS);
    write(scene)
}

fn profile(scene: &mut Scene<'_>) -> String {
    let person = scene.anyone();
    let employer = capitalised(label(person.employer.name));
    let start = format!("name: {}\nage: {}\ncity: {}", person.name(), person.age, person.city.name);
    match scene.dice.below(3) {
        0 => format!("{start}\njob: {}\nemployer: {employer}", person.job),
        1 => format!("{start}\nemail: {}", person.email),
        _ => format!("{start}\ncountry: {}\nlanguage: {}", label(person.city.country), person.city.language),
    }
}

fn settings(scene: &mut Scene<'_>) -> String {
    let port = *scene.dice.zipf(&[8080, 80, 443, 3000, 5432]);
    let host = *scene.dice.zipf(&["localhost", "example.com", "127.0.0.1", "db.example.com"]);
    let debug = scene.dice.chance(30);
    format!("host: {host}\nport: {port}\ntimeout: {}\ndebug: {debug}", scene.dice.between(1, 12) * 5)
}

fn invoice(scene: &mut Scene<'_>) -> String {
    let number = scene.dice.between(100, 999);
    let (date, person) = (scene.date().iso(), scene.person().name());
    let (product, price) = scene.priced_text();
    format!("invoice: {number}\ndate: {date}\ncustomer: {person}\nitem: {product}\ntotal: {price}")
}

/// A CSV table of two to four rows.
pub(crate) fn csv(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.between(2, 4) as usize;
    match scene.dice.below(4) {
        0 | 1 => table("name,age,city", count, || {
            let person = scene.anyone();
            format!("{},{},{}", person.name(), person.age, person.city.name)
        }),
        2 => {
            let products = scene.dice.several(PRODUCTS, count);
            let mut rows = products.into_iter();
            table("product,price,quantity", count, || {
                let quantity = scene.dice.small(1, 20);
                rows.next()
                    .map_or_else(String::new, |row| format!("{},{},{quantity}", row.name, money(row.cents)))
            })
        }
        _ => table("date,event", count, || {
            let date = scene.date().iso();
            format!("{date},{}", scene.dice.zipf(EVENTS))
        }),
    }
}

fn table(header: &str, count: usize, mut row: impl FnMut() -> String) -> String {
    (0..count).fold(header.to_owned(), |text, _| format!("{text}\n{}", row()))
}

/// A Markdown heading with a list under it.
pub(crate) fn markdown(scene: &mut Scene<'_>) -> String {
    let count = scene.dice.between(2, 5) as usize;
    match scene.dice.below(3) {
        0 => {
            let lines = scene.dice.several(CHORES, count).into_iter();
            let lines = lines.map(|chore| (if scene.dice.chance(35) { "x" } else { " " }, chore));
            "## To do\n".to_owned()
                + &lines.map(|(mark, chore)| format!("\n- [{mark}] {chore}")).collect::<String>()
        }
        1 => {
            let goods = scene.dice.several(GROCERIES, count).into_iter();
            let lines = goods.map(|goods| format!("\n- {} {goods}", scene.dice.small(2, 12)));
            "# Shopping list\n".to_owned() + &lines.collect::<String>()
        }
        _ => {
            let city = scene.city();
            let stay = counted(scene.dice.small(1, 9), "night");
            let place = format!("**{}**, {}", city.name, label(city.country));
            format!("# Trip\n\n- Where: {place}\n- When: {}\n- How long: {stay}", scene.date().day_first())
        }
    }
}

/// Phone numbers, addresses, URLs and opening times.
pub(crate) fn contacts(scene: &mut Scene<'_>) -> String {
    let person = scene.person();
    let employer = capitalised(label(person.employer.name));
    let domain = person.employer.domain;
    match scene.dice.below(5) {
        0 => format!("{}\nPhone: {}\nEmail: {}", person.name(), scene.phone(), person.email),
        1 => {
            let page = scene.dice.zipf(&["", "/contact", "/about", "/jobs", "/news"]);
            format!("{employer}: https://{domain}.example.com{page}")
        }
        2 => format!("Call {employer} at {} or write to info@{domain}.example.com.", scene.phone()),
        3 => {
            let number = scene.dice.small(1, 120);
            format!("{}\n{number} {}\n{}", person.name(), scene.dice.zipf(STREETS), person.city.name)
        }
        _ => agenda(scene),
    }
}

fn agenda(scene: &mut Scene<'_>) -> String {
    let date = scene.date();
    let mut times: Vec<String> = (0..3).map(|_| clock(&mut scene.dice)).collect();
    times.sort();
    times.dedup();
    let plans = scene.dice.several(CHORES, times.len());
    let lines = times.iter().zip(plans).map(|(time, plan)| format!("\n{time} {plan}"));
    format!("{}, {}", date.weekday(), date.day_first()) + &lines.collect::<String>()
}
