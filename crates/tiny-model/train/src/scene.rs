//! The sources of the writer of one document: its dice, the people, and whether it is an accented document.

use crate::dates::Date;
use crate::facts::people::{People, Person};
use crate::facts::places::{ACCENTED_CITIES, CITIES, City};
use crate::facts::things::{PRODUCTS, Product};
use crate::rng::Dice;
use crate::text::money;

/// Writes one document, or a part of one.
pub(crate) type Writer = fn(&mut Scene<'_>) -> String;

/// The state of one document while it is written.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The choices of this document.
    pub(crate) dice: Dice,
    people: &'a People,
    accented: bool,
}

impl<'a> Scene<'a> {
    /// A scene; names of people and cities hold letters outside ASCII only where `accented`.
    pub(crate) fn new(dice: Dice, people: &'a People, accented: bool) -> Self {
        Self { dice, people, accented }
    }

    /// Somebody of the table, whose facts are always the same.
    pub(crate) fn person(&mut self) -> Person {
        let table = if self.accented { &self.people.accented } else { &self.people.known };
        self.dice.zipf(table).clone()
    }

    /// Somebody of the table, or now and then a stranger: names and facts not seen before.
    pub(crate) fn anyone(&mut self) -> Person {
        if self.accented || self.dice.chance(70) {
            self.person()
        } else {
            self.people.stranger(&mut self.dice)
        }
    }

    /// Two different people.
    pub(crate) fn pair(&mut self) -> (Person, Person) {
        let first = self.person();
        loop {
            let second = self.person();
            if second.email != first.email && second.given != first.given {
                return (first, second);
            }
        }
    }

    /// A city.
    pub(crate) fn city(&mut self) -> &'static City {
        self.dice.zipf(if self.accented { ACCENTED_CITIES } else { CITIES })
    }

    /// A date.
    pub(crate) fn date(&mut self) -> Date {
        Date::random(&mut self.dice)
    }

    /// A product and a price of it: mostly the usual one.
    pub(crate) fn priced(&mut self) -> (&'static Product, u64) {
        let product = self.dice.zipf(PRODUCTS);
        let percent = *self.dice.weighted(&[(80, 100), (10, 90), (6, 80), (4, 50)]);
        (product, product.cents * percent / 100)
    }

    /// A product and its price as a decimal number.
    pub(crate) fn priced_text(&mut self) -> (&'static str, String) {
        let (product, cents) = self.priced();
        (product.name, money(cents))
    }

    /// A phone number in a range kept for fiction.
    pub(crate) fn phone(&mut self) -> String {
        let area = *self.dice.weighted(&[(6, 212), (3, 312), (2, 415), (1, 206)]);
        format!("+1 {area} 555 01{:02}", self.dice.below(100))
    }
}
