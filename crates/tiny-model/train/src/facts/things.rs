//! Books, films, products and events, all invented.

/// A book or a film.
#[derive(Debug)]
pub(crate) struct Title {
    /// Its name.
    pub(crate) title: &'static str,
    /// Its author or director.
    pub(crate) maker: &'static str,
    /// The year it came out.
    pub(crate) year: u64,
    /// Its genre.
    pub(crate) genre: &'static str,
    /// Its pages or minutes.
    pub(crate) length: u64,
}

const fn title(
    title: &'static str,
    maker: &'static str,
    year: u64,
    genre: &'static str,
    length: u64,
) -> Title {
    Title { title, maker, year, genre, length }
}

/// Books, the frequent ones first.
pub(crate) const BOOKS: &[Title] = &[
    title("The Salt Road", "Helen Marsh", 1998, "novel", 312),
    title("A Winter Garden", "Victor Lang", 2011, "novel", 256),
    title("The Glass Harbour", "Irene Costa", 2016, "mystery", 348),
    title("Letters to the Sea", "Pablo Ortega", 1987, "poetry", 96),
    title("Seven Quiet Rivers", "Mei Tanaka", 2004, "travel", 224),
    title("The Clockmaker", "Arthur Frost", 1952, "mystery", 288),
    title("Bread and Stone", "Teresa Gallo", 1974, "history", 410),
    title("North of Nowhere", "Erik Larsen", 2019, "travel", 198),
    title("The Last Lantern", "Naomi Bell", 2021, "fantasy", 520),
    title("Small Machines", "Ravi Patel", 2008, "science", 340),
    title("An Island of Birds", "Freya Nilsson", 1993, "nature", 180),
    title("The Paper King", "Oscar Winter", 1965, "fantasy", 402),
    title("Orchard Street", "Ruth Palmer", 2002, "novel", 274),
    title("How Bridges Stand", "Karl Vogel", 2013, "science", 230),
    title("The Blue Ledger", "Simon Reed", 2017, "mystery", 330),
    title("Night Trains", "Marco Conti", 1981, "travel", 210),
    title("A Map of Rain", "Alice Quinn", 2022, "poetry", 112),
    title("The Weaver of Oslo", "Astrid Berg", 1936, "novel", 368),
];

/// Films, the frequent ones first.
pub(crate) const FILMS: &[Title] = &[
    title("The Long Summer", "Clara Rossi", 2007, "drama", 118),
    title("Red Bicycle", "Hugo Moreau", 1994, "comedy", 96),
    title("Silent Harbour", "Ingrid Hansen", 2012, "thriller", 124),
    title("The Moon Keeper", "Kenji Sato", 2018, "animation", 88),
    title("Two Tickets to Rome", "Bruno Marino", 1961, "comedy", 102),
    title("Iron Valley", "Robert Stone", 1978, "western", 131),
    title("The Night Baker", "Julia Weber", 2020, "drama", 109),
    title("Echoes", "Nathan Shaw", 2015, "thriller", 99),
    title("A Letter from Porto", "Paula Silva", 2003, "romance", 112),
    title("Paper Boats", "Priya Sharma", 2023, "animation", 84),
    title("The Third Violin", "Anton Zeman", 1985, "drama", 127),
    title("Snow on the Line", "Lucas Brandt", 1999, "thriller", 105),
    title("Under the Old Bridge", "Diana Greco", 1972, "romance", 98),
    title("Station Nine", "Adam Hayes", 2010, "science fiction", 116),
];

/// Something for sale.
#[derive(Debug)]
pub(crate) struct Product {
    /// Brand and kind, such as `Halden kettle`.
    pub(crate) name: &'static str,
    /// The usual price, in cents.
    pub(crate) cents: u64,
    /// The part of the shop it is found in.
    pub(crate) category: &'static str,
    /// A sentence about it.
    pub(crate) detail: &'static str,
}

const fn product(name: &'static str, cents: u64, category: &'static str, detail: &'static str) -> Product {
    Product { name, cents, category, detail }
}

/// Products, the frequent ones first.
pub(crate) const PRODUCTS: &[Product] = &[
    product("Halden kettle", 3490, "kitchen", "It boils a litre of water in three minutes."),
    product("Orbis lamp", 1999, "home", "It has a soft light and a long cable."),
    product("Tern backpack", 5900, "travel", "It has two large pockets and a rain cover."),
    product("Nova headphones", 8950, "music", "The battery lasts for twenty hours."),
    product("Alba notebook", 499, "office", "It has 120 pages of thick paper."),
    product("Kite bicycle", 42900, "sports", "It has eight gears and strong brakes."),
    product("Fjord jacket", 12900, "clothes", "It keeps out the wind and the rain."),
    product("Mono keyboard", 4500, "office", "The keys are quiet and easy to clean."),
    product("Pico camera", 19900, "photo", "It fits in a coat pocket."),
    product("Lumen desk lamp", 2750, "office", "The arm can be turned in any direction."),
    product("Cedar chair", 7900, "home", "The seat is made of solid wood."),
    product("Echo speaker", 6490, "music", "The sound is clear even in a large room."),
    product("Basil coffee grinder", 3890, "kitchen", "It is easy to clean and not very loud."),
    product("Drift tent", 15900, "travel", "Two people can put it up in five minutes."),
    product("Arrow running shoes", 8490, "sports", "They are light and dry quickly."),
    product("Iris tea cup", 850, "kitchen", "It keeps tea hot for half an hour."),
    product("Quill fountain pen", 2400, "office", "It comes with three ink cartridges."),
    product("Wren alarm clock", 1650, "home", "It shows the time and the temperature."),
    product("Sol umbrella", 1290, "travel", "It opens with one hand."),
    product("Fig cooking pot", 4290, "kitchen", "It can be used on any stove."),
];

/// Colours.
pub(crate) const COLOURS: &[&str] = &["black", "white", "blue", "green", "red", "grey", "yellow", "brown"];

/// Events with a date, in title case.
pub(crate) const EVENTS: &[&str] = &[
    "Book Fair",
    "Summer Concert",
    "City Marathon",
    "Science Day",
    "Film Night",
    "Jazz Festival",
    "Chess Open",
    "Winter Market",
    "Garden Show",
    "Open House",
    "Photo Workshop",
    "Street Food Week",
    "Design Talk",
];

/// Kinds of weather, as they follow "it was".
pub(crate) const WEATHER: &[&str] = &["sunny", "cloudy", "rainy", "windy", "foggy", "snowy", "stormy"];

/// Things to buy at a market, in the plural.
pub(crate) const GROCERIES: &[&str] = &[
    "apples",
    "eggs",
    "tomatoes",
    "potatoes",
    "lemons",
    "onions",
    "carrots",
    "oranges",
    "pears",
    "mushrooms",
    "olives",
    "plums",
];

/// Numbers from two, as words.
pub(crate) const NUMBER_WORDS: &[&str] =
    &["two", "three", "four", "five", "six", "seven", "eight", "ten", "twelve"];

/// Subjects of messages.
pub(crate) const SUBJECTS: &[&str] = &[
    "Meeting on Monday",
    "Your order",
    "Invoice",
    "Lunch tomorrow",
    "Project plan",
    "Holiday photos",
    "Travel dates",
    "New address",
    "Report for March",
    "Happy birthday",
    "Train tickets",
    "Question about the invoice",
];

/// Short labels for tickets and articles.
pub(crate) const TAGS: &[&str] =
    &["urgent", "billing", "web", "mobile", "email", "login", "print", "search", "export"];

/// Small jobs to be done, as they follow a dash in a list.
pub(crate) const CHORES: &[&str] = &[
    "buy milk and bread",
    "call the dentist",
    "water the plants",
    "pay the electricity bill",
    "book the train tickets",
    "return the library books",
    "clean the kitchen",
    "send the report",
    "charge the camera",
    "pick up the parcel",
    "fix the bicycle",
    "write to grandmother",
    "cook dinner",
    "order new shoes",
];
