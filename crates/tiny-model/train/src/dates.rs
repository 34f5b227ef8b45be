//! Valid calendar dates and clock times, in the spellings the corpus uses.

use crate::rng::Dice;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Years of dates, the recent ones the most likely.
const YEARS: &[(u64, u64)] = &[(50, 2024), (20, 2023), (12, 2025), (8, 2022), (6, 2021), (4, 2019)];

/// The number of days in `month` (from 1) of `year`.
pub(crate) fn days_in_month(year: u64, month: u64) -> u64 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    /// The year.
    pub(crate) year: u64,
    /// The month, from 1.
    pub(crate) month: u64,
    /// The day of the month, from 1.
    pub(crate) day: u64,
}

impl Date {
    /// A random date of recent years.
    pub(crate) fn random(dice: &mut Dice) -> Self {
        let year = *dice.weighted(YEARS);
        let month = dice.between(1, 12);
        let day = dice.between(1, days_in_month(year, month));
        Self { year, month, day }
    }

    /// Such as `2024-03-12`.
    pub(crate) fn iso(self) -> String {
        format!("{}-{:02}-{:02}", self.year, self.month, self.day)
    }

    /// Such as `12 March 2024`.
    pub(crate) fn day_first(self) -> String {
        format!("{} {} {}", self.day, self.month_name(), self.year)
    }

    /// Such as `March 12, 2024`.
    pub(crate) fn month_first(self) -> String {
        format!("{} {}, {}", self.month_name(), self.day, self.year)
    }

    /// One of the three spellings.
    pub(crate) fn spelt(self, dice: &mut Dice) -> String {
        match dice.below(10) {
            0..5 => self.day_first(),
            5..8 => self.month_first(),
            _ => self.iso(),
        }
    }

    /// The English name of the month.
    pub(crate) fn month_name(self) -> &'static str {
        MONTHS[(self.month - 1) as usize]
    }

    /// The English name of the day of the week, by Sakamoto's method.
    pub(crate) fn weekday(self) -> &'static str {
        const SHIFT: [u64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
        let year = if self.month < 3 { self.year - 1 } else { self.year };
        let shift = SHIFT[(self.month - 1) as usize];
        WEEKDAYS[((year + year / 4 - year / 100 + year / 400 + shift + self.day) % 7) as usize]
    }
}

/// A time of the working day on a quarter of an hour, such as `09:30`.
pub(crate) fn clock(dice: &mut Dice) -> String {
    let minute = *dice.weighted(&[(50, 0), (30, 30), (10, 15), (10, 45)]);
    format!("{:02}:{minute:02}", dice.between(7, 21))
}
