//! Notes between people, and questions with their answers.

use crate::dates::clock;
use crate::facts::people::Person;
use crate::facts::places::VENUES;
use crate::facts::things::{BOOKS, FILMS, PRODUCTS};
use crate::scene::Scene;
use crate::text::{capitalised, money, with_article};

/// A short e-mail: greeting, one or two sentences, signature.
pub(crate) fn note(scene: &mut Scene<'_>) -> String {
    let (writer, reader) = scene.pair();
    let body = body(scene);
    if scene.dice.chance(60) {
        let closing = scene.dice.zipf(&["Kind regards,", "Best wishes,", "Yours sincerely,"]);
        format!("Dear {} {},\n{body}\n{closing}\n{}", reader.pronouns.title, reader.surname, writer.name())
    } else {
        let closing = scene.dice.zipf(&["See you soon,", "Thanks,", "All the best,"]);
        format!("Hi {},\n{body}\n{closing}\n{}", reader.given, writer.given)
    }
}

fn body(scene: &mut Scene<'_>) -> String {
    let date = scene.date();
    let (weekday, day) = (date.weekday(), date.spelt(&mut scene.dice));
    let time = clock(&mut scene.dice);
    let product = scene.priced().0.name;
    match scene.dice.below(6) {
        0 | 1 => format!("The meeting on {weekday} starts at {time}. Please bring the report."),
        2 => format!("Thank you for your letter of {day}. I will answer your questions this week."),
        3 => format!("Your order for the {product} was sent on {day}. It should arrive in three days."),
        4 => format!("Shall we meet at the {} at {time}? I will wait at the door.", scene.dice.zipf(VENUES)),
        _ => format!("I have paid the invoice of {day}. Please confirm that the money has arrived."),
    }
}

/// One question, or two about the same person, with the answers.
pub(crate) fn questions(scene: &mut Scene<'_>) -> String {
    if scene.dice.chance(70) {
        let person = scene.person();
        let mut questions = about_person(&person);
        let first = questions.swap_remove(scene.dice.below(questions.len() as u64) as usize);
        if scene.dice.chance(60) {
            return first;
        }
        let second = scene.dice.pick(&questions);
        return format!("{first}\n{second}");
    }
    about_the_world(scene)
}

fn about_person(person: &Person) -> Vec<String> {
    let name = person.name();
    let employer = capitalised(person.employer.name);
    vec![
        format!("Q: Where does {name} live?\nA: {}.", person.city.name),
        format!("Q: How old is {name}?\nA: {} years old.", person.age),
        format!("Q: Who does {name} work for?\nA: {employer}."),
        format!("Q: What is the job of {name}?\nA: {}.", capitalised(&with_article(person.job))),
        format!("Q: What is the email of {name}?\nA: {}", person.email),
    ]
}

fn about_the_world(scene: &mut Scene<'_>) -> String {
    let (city, product) = (scene.city(), scene.dice.zipf(PRODUCTS));
    let (book, film) = (scene.dice.zipf(BOOKS), scene.dice.zipf(FILMS));
    match scene.dice.below(6) {
        0 | 1 => format!("Q: Which country is {} in?\nA: {}.", city.name, capitalised(city.country)),
        2 => format!("Q: Who wrote \"{}\"?\nA: {}.", book.title, book.maker),
        3 => format!("Q: Who directed \"{}\"?\nA: {}.", film.title, film.maker),
        4 => format!("Q: When did \"{}\" come out?\nA: In {}.", film.title, film.year),
        _ => format!("Q: What is the price of the {}?\nA: ${}.", product.name, money(product.cents)),
    }
}
