//! The people of the corpus: a fixed table, so that the same name always has the same age, city and job.
//!
//! The table does not depend on the seed of the corpus: text of another seed states the same facts, and can
//! be held out to measure how well a model learnt them.

use std::collections::HashSet;

use crate::facts::names::{ACCENTED, MEN, SURNAMES, WOMEN};
use crate::facts::places::{ACCENTED_CITIES, CITIES, City};
use crate::facts::work::{Company, HOBBIES, SECTORS, SENIOR_JOBS, Sector};
use crate::rng::Dice;

const TABLE_SEED: u64 = 0x7065_6f70_6c65;
const TABLE_SIZE: usize = 400;

/// The pronouns and the title of a person.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pronouns {
    /// "she" or "he".
    pub(crate) subject: &'static str,
    /// "her" or "him".
    pub(crate) object: &'static str,
    /// "her" or "his".
    pub(crate) possessive: &'static str,
    /// "Ms" or "Mr".
    pub(crate) title: &'static str,
}

const SHE: Pronouns = Pronouns { subject: "she", object: "her", possessive: "her", title: "Ms" };
const HE: Pronouns = Pronouns { subject: "he", object: "him", possessive: "his", title: "Mr" };

/// A person, with everything that is always said of them.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    /// The given name.
    pub(crate) given: &'static str,
    /// The surname.
    pub(crate) surname: &'static str,
    /// Pronouns and title.
    pub(crate) pronouns: Pronouns,
    /// Age in years.
    pub(crate) age: u64,
    /// The city they live in.
    pub(crate) city: &'static City,
    /// Their job.
    pub(crate) job: &'static str,
    /// The sector they work in.
    pub(crate) sector: &'static Sector,
    /// Whom they work for.
    pub(crate) employer: &'static Company,
    /// Their hobby.
    pub(crate) hobby: &'static str,
    /// Their e-mail address.
    pub(crate) email: String,
}

impl Person {
    /// Given name and surname.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.given, self.surname)
    }

    /// The part of the e-mail address before the at sign, as a login name: `anna.keller`.
    pub(crate) fn login(&self) -> &str {
        self.email.split('@').next().unwrap_or_default()
    }

    fn random(dice: &mut Dice) -> Self {
        let woman = dice.chance(50);
        let given = *dice.zipf(if woman { WOMEN } else { MEN });
        let surname = *dice.zipf(SURNAMES);
        let ascii = format!("{given}.{surname}").to_lowercase();
        let city = dice.zipf(CITIES);
        Self::with_name(dice, (given, surname, &ascii), woman, city)
    }

    fn with_name(
        dice: &mut Dice,
        (given, surname, ascii): (&'static str, &'static str, &str),
        woman: bool,
        city: &'static City,
    ) -> Self {
        let sector = dice.zipf(SECTORS);
        let job = *dice.zipf(sector.jobs);
        let youngest = if SENIOR_JOBS.contains(&job) { 31 } else { 20 };
        let employer = dice.zipf(sector.companies);
        let provider = if dice.chance(60) { "example.com" } else { "mail.example.org" };
        Self {
            given,
            surname,
            pronouns: if woman { SHE } else { HE },
            age: dice.small(youngest, 70),
            city,
            job,
            sector,
            employer,
            hobby: *dice.zipf(HOBBIES),
            email: format!("{ascii}@{provider}"),
        }
    }
}

/// The table of people.
#[derive(Debug)]
pub(crate) struct People {
    /// People with ASCII names, the frequent ones first.
    pub(crate) known: Vec<Person>,
    /// People with accented names.
    pub(crate) accented: Vec<Person>,
    names: HashSet<(&'static str, &'static str)>,
}

impl People {
    /// Builds the table: always the same one.
    pub(crate) fn new() -> Self {
        let mut dice = Dice::new(TABLE_SEED, 0);
        let mut known = Vec::with_capacity(TABLE_SIZE);
        let mut names = HashSet::new();
        while known.len() < TABLE_SIZE {
            let person = Person::random(&mut dice);
            if names.insert((person.given, person.surname)) {
                known.push(person);
            }
        }
        let accented = ACCENTED.iter().enumerate().map(|(rank, name)| {
            let city = &ACCENTED_CITIES[rank % ACCENTED_CITIES.len()];
            Person::with_name(&mut dice, (name.given, name.surname, name.ascii), name.woman, city)
        });
        let accented = accented.collect();
        Self { known, accented, names }
    }

    /// Somebody who is not in the table.
    pub(crate) fn stranger(&self, dice: &mut Dice) -> Person {
        loop {
            let person = Person::random(dice);
            if !self.names.contains(&(person.given, person.surname)) {
                return person;
            }
        }
    }
}
