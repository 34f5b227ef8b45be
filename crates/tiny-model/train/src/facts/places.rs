//! Cities with their countries and places, and venues inside them.

/// A city with its constant facts.
#[derive(Debug)]
pub(crate) struct City {
    /// The name of the city.
    pub(crate) name: &'static str,
    /// The country it lies in.
    pub(crate) country: &'static str,
    /// The language heard in it.
    pub(crate) language: &'static str,
    /// Latitude in hundredths of a degree.
    pub(crate) latitude: i32,
    /// Longitude in hundredths of a degree.
    pub(crate) longitude: i32,
    /// Its fame, as it follows "known for".
    pub(crate) known_for: &'static str,
}

const fn city(
    name: &'static str,
    country: &'static str,
    language: &'static str,
    (latitude, longitude): (i32, i32),
    known_for: &'static str,
) -> City {
    City { name, country, language, latitude, longitude, known_for }
}

/// Cities in ASCII, the frequent ones first.
pub(crate) const CITIES: &[City] = &[
    city("Lisbon", "Portugal", "Portuguese", (3872, -914), "its yellow trams and tiled houses"),
    city("Berlin", "Germany", "German", (5252, 1341), "its museums and wide parks"),
    city("Paris", "France", "French", (4886, 235), "its cafes and bridges"),
    city("London", "England", "English", (5151, -13), "its red buses and old theatres"),
    city("Madrid", "Spain", "Spanish", (4042, -370), "its late dinners and bright squares"),
    city("Vienna", "Austria", "German", (4821, 1637), "its music and coffee houses"),
    city("Oslo", "Norway", "Norwegian", (5991, 1075), "its fjord and wooden boats"),
    city("Rome", "Italy", "Italian", (4190, 1250), "its fountains and ruins"),
    city("Dublin", "Ireland", "English", (5335, -626), "its writers and small pubs"),
    city("Prague", "Czechia", "Czech", (5009, 1442), "its castle and stone bridge"),
    city("Amsterdam", "the Netherlands", "Dutch", (5237, 490), "its canals and bicycles"),
    city("Toronto", "Canada", "English", (4365, -7938), "its lake and tall tower"),
    city("Chicago", "the United States", "English", (4188, -8763), "its lake shore and jazz clubs"),
    city("Sydney", "Australia", "English", (-3387, 15121), "its harbour and beaches"),
    city("Helsinki", "Finland", "Finnish", (6017, 2494), "its saunas and ferries"),
    city("Porto", "Portugal", "Portuguese", (4115, -861), "its river and old cellars"),
    city("Hamburg", "Germany", "German", (5355, 999), "its port and brick warehouses"),
    city("Athens", "Greece", "Greek", (3798, 2373), "its hills and ancient temples"),
    city("Warsaw", "Poland", "Polish", (5223, 2101), "its rebuilt old town"),
    city("Boston", "the United States", "English", (4236, -7106), "its universities and brick streets"),
    city("Lyon", "France", "French", (4576, 484), "its kitchens and silk workshops"),
    city("Seville", "Spain", "Spanish", (3739, -598), "its orange trees and guitar music"),
    city("Copenhagen", "Denmark", "Danish", (5568, 1257), "its harbour baths and gardens"),
    city("Kyoto", "Japan", "Japanese", (3501, 13577), "its temples and quiet gardens"),
    city("Edinburgh", "Scotland", "English", (5595, -319), "its castle and summer festival"),
    city("Budapest", "Hungary", "Hungarian", (4750, 1904), "its hot baths and wide river"),
    city("Nairobi", "Kenya", "Swahili", (-129, 3682), "its markets and nearby park"),
    city("Seattle", "the United States", "English", (4761, -12233), "its rain and coffee"),
    city("Milan", "Italy", "Italian", (4546, 919), "its cathedral and design shops"),
    city("Brussels", "Belgium", "French", (5085, 435), "its chocolate and comic books"),
    city("Cairo", "Egypt", "Arabic", (3004, 3124), "its bazaars and river boats"),
    city("Mumbai", "India", "Hindi", (1908, 7288), "its films and busy trains"),
    city("Bergen", "Norway", "Norwegian", (6039, 532), "its fish market and seven hills"),
    city("Santiago", "Chile", "Spanish", (-3345, -7067), "its view of the mountains"),
    city("Wellington", "New Zealand", "English", (-4129, 17478), "its wind and cable car"),
    city("Geneva", "Switzerland", "French", (4620, 614), "its lake and watchmakers"),
];

/// Cities whose names hold letters outside ASCII.
pub(crate) const ACCENTED_CITIES: &[City] = &[
    city("Zürich", "Switzerland", "German", (4738, 854), "its lake and clean trams"),
    city("São Paulo", "Brazil", "Portuguese", (-2355, -4663), "its towers and busy markets"),
    city("Łódź", "Poland", "Polish", (5176, 1946), "its mills and long main street"),
    city("東京", "Japan", "Japanese", (3568, 13969), "its trains and small restaurants"),
    city("Málaga", "Spain", "Spanish", (3672, -442), "its beach and painters"),
    city("Kraków", "Poland", "Polish", (5006, 1994), "its market square and churches"),
    city("Malmö", "Sweden", "Swedish", (5560, 1300), "its long bridge and parks"),
    city("Bogotá", "Colombia", "Spanish", (471, -7407), "its cool air and gold museum"),
];

/// Places in a city where something can happen, as they follow "at the".
pub(crate) const VENUES: &[&str] = &[
    "city library",
    "town hall",
    "central station",
    "old theatre",
    "river park",
    "science museum",
    "market hall",
    "concert hall",
    "north school",
    "art gallery",
    "sports centre",
    "harbour cafe",
    "botanical garden",
];

/// Names of streets.
pub(crate) const STREETS: &[&str] = &[
    "Main Street",
    "Station Road",
    "Park Avenue",
    "Mill Lane",
    "Garden Street",
    "River Road",
    "Church Street",
    "Harbour Street",
    "Oak Avenue",
    "Bridge Street",
    "School Lane",
    "King Street",
    "Hill Road",
    "Market Square",
];
