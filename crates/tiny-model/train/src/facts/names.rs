//! Given names and surnames, the frequent ones first: lists are drawn from Zipf-like by position.

/// Given names of women.
pub(crate) const WOMEN: &[&str] = &[
    "Anna", "Maria", "Sarah", "Emma", "Laura", "Julia", "Clara", "Nina", "Helen", "Sofia", "Alice", "Ruth",
    "Eva", "Marta", "Grace", "Irene", "Lucy", "Paula", "Olivia", "Hannah", "Diana", "Vera", "Ingrid",
    "Amara", "Leila", "Mei", "Priya", "Yuki", "Fatima", "Chloe", "Teresa", "Judith", "Naomi", "Astrid",
    "Rosa", "Monica", "Edith", "Carmen", "Freya", "Zara",
];

/// Given names of men.
pub(crate) const MEN: &[&str] = &[
    "Peter", "Thomas", "David", "Paul", "Daniel", "Martin", "James", "Mark", "Lucas", "Simon", "Henry",
    "Robert", "Marco", "Samuel", "Oscar", "Victor", "Hugo", "Adam", "Felix", "Jonas", "Leo", "Ivan", "Omar",
    "Kenji", "Ravi", "George", "Walter", "Erik", "Pablo", "Tobias", "Nathan", "Karl", "Louis", "Ahmed",
    "Stefan", "Bruno", "Arthur", "Wei", "Anton", "Milan",
];

/// Surnames.
pub(crate) const SURNAMES: &[&str] = &[
    "Keller", "Brown", "Meyer", "Silva", "Rossi", "Clark", "Novak", "Walker", "Costa", "Hughes", "Schmidt",
    "Lopez", "Bennett", "Fischer", "Moreau", "Larsen", "Tanaka", "Wright", "Santos", "Berg", "Cooper",
    "Romano", "Patel", "Baker", "Weber", "Hansen", "Murphy", "Petrov", "Martin", "Hill", "Vogel", "Torres",
    "Lindholm", "Reed", "Marino", "Ward", "Kovacs", "Sato", "Dubois", "Fox", "Okafor", "Bauer", "Price",
    "Nilsson", "Haddad", "Greco", "Palmer", "Jansen", "Ferrari", "Shaw", "Brandt", "Ortega", "Khan", "Lang",
    "Dixon", "Eriksen", "Wong", "Perez", "Stone", "Horvat", "Mills", "Winter", "Amari", "Sharma", "Ellis",
    "Conti", "Vos", "Day", "Nakamura", "Bell", "Pereira", "Frost", "Simonsen", "Gallo", "Hayes", "Zeman",
    "Ito", "Marsh", "Quinn", "Young",
];

/// A name with letters outside ASCII, and how it is spelt in an e-mail address.
#[derive(Debug)]
pub(crate) struct AccentedName {
    /// The given name.
    pub(crate) given: &'static str,
    /// The surname.
    pub(crate) surname: &'static str,
    /// The name in an e-mail address.
    pub(crate) ascii: &'static str,
    /// Whether the pronoun is "she".
    pub(crate) woman: bool,
}

const fn accented(
    given: &'static str,
    surname: &'static str,
    ascii: &'static str,
    woman: bool,
) -> AccentedName {
    AccentedName { given, surname, ascii, woman }
}

/// People whose names hold letters outside ASCII.
pub(crate) const ACCENTED: &[AccentedName] = &[
    accented("José", "Müller", "jose.mueller", false),
    accented("Zoë", "García", "zoe.garcia", true),
    accented("François", "Lefèvre", "francois.lefevre", false),
    accented("Renée", "Côté", "renee.cote", true),
    accented("Jürgen", "Groß", "juergen.gross", false),
    accented("Łucja", "Wójcik", "lucja.wojcik", true),
    accented("Søren", "Østergård", "soren.ostergard", false),
    accented("Inês", "Gonçalves", "ines.goncalves", true),
    accented("Jiří", "Dvořák", "jiri.dvorak", false),
    accented("Ángela", "Núñez", "angela.nunez", true),
    accented("Björn", "Håkansson", "bjorn.hakansson", false),
    accented("Aylin", "Yıldız", "aylin.yildiz", true),
];
