//! Sectors of work: the jobs in each, and the (invented) companies that employ people for them.

/// A company or institution.
#[derive(Debug)]
pub(crate) struct Company {
    /// Its name, as it follows "works for".
    pub(crate) name: &'static str,
    /// The year it was founded in.
    pub(crate) founded: u64,
    /// The part of its web address before the dot.
    pub(crate) domain: &'static str,
}

/// A sector of work.
#[derive(Debug)]
pub(crate) struct Sector {
    /// The noun for its companies, with an article.
    pub(crate) kind: &'static str,
    /// Its jobs, the frequent ones first.
    pub(crate) jobs: &'static [&'static str],
    /// Its employers, the frequent ones first.
    pub(crate) companies: &'static [Company],
}

const fn company(name: &'static str, founded: u64, domain: &'static str) -> Company {
    Company { name, founded, domain }
}

/// The sectors, the frequent ones first.
pub(crate) const SECTORS: &[Sector] = &[
    Sector {
        kind: "a software company",
        jobs: &["software engineer", "data analyst", "designer", "product manager", "tester"],
        companies: &[
            company("Brightwave", 2009, "brightwave"),
            company("Corvid Systems", 2014, "corvid"),
            company("Pinefield Labs", 2018, "pinefield"),
            company("Nodeworks", 2004, "nodeworks"),
        ],
    },
    Sector {
        kind: "a hospital",
        jobs: &["nurse", "doctor", "surgeon", "pharmacist", "receptionist"],
        companies: &[
            company("Saint Agnes Hospital", 1921, "saintagnes"),
            company("Riverside Clinic", 1987, "riverside"),
            company("Northgate Hospital", 1954, "northgate"),
        ],
    },
    Sector {
        kind: "a school",
        jobs: &["teacher", "music teacher", "librarian", "coach"],
        companies: &[
            company("Linden School", 1932, "linden"),
            company("Harbour College", 1968, "harbourcollege"),
            company("Eastfield School", 1999, "eastfield"),
        ],
    },
    Sector {
        kind: "a bank",
        jobs: &["accountant", "clerk", "auditor", "adviser"],
        companies: &[
            company("Meridian Bank", 1905, "meridian"),
            company("Falcon Trust", 1978, "falcontrust"),
        ],
    },
    Sector {
        kind: "a bakery",
        jobs: &["baker", "pastry chef", "driver", "shop assistant"],
        companies: &[
            company("Golden Crust", 1996, "goldencrust"),
            company("Mill Lane Bakery", 1974, "milllane"),
        ],
    },
    Sector {
        kind: "a building company",
        jobs: &["architect", "carpenter", "electrician", "plumber", "civil engineer"],
        companies: &[company("Stonebridge", 1983, "stonebridge"), company("Alder and Sons", 1947, "alder")],
    },
    Sector {
        kind: "a newspaper",
        jobs: &["journalist", "editor", "photographer", "translator"],
        companies: &[
            company("the Morning Courier", 1889, "morningcourier"),
            company("the Evening Star", 1926, "eveningstar"),
        ],
    },
    Sector {
        kind: "a university",
        jobs: &["professor", "biologist", "historian", "chemist", "research assistant"],
        companies: &[
            company("Westbrook University", 1861, "westbrook"),
            company("the Polar Institute", 1958, "polar"),
        ],
    },
    Sector {
        kind: "a transport company",
        jobs: &["train driver", "pilot", "mechanic", "ticket inspector"],
        companies: &[company("Bluebird Lines", 1951, "bluebird"), company("Swift Rail", 1992, "swiftrail")],
    },
    Sector {
        kind: "a theatre",
        jobs: &["actor", "singer", "violinist", "stage manager"],
        companies: &[
            company("the Lantern Theatre", 1912, "lantern"),
            company("Opal Playhouse", 1965, "opal"),
        ],
    },
];

/// Jobs that nobody has early in life.
pub(crate) const SENIOR_JOBS: &[&str] =
    &["doctor", "surgeon", "professor", "historian", "pilot", "product manager"];

/// Hobbies, as they follow "she" or "he".
pub(crate) const HOBBIES: &[&str] = &[
    "plays the piano",
    "grows tomatoes",
    "reads history books",
    "runs along the river",
    "paints landscapes",
    "plays chess",
    "bakes bread",
    "rides a bicycle",
    "sings in a choir",
    "learns Italian",
    "takes photographs",
    "swims in the lake",
    "repairs old radios",
    "plays football",
    "writes short stories",
    "collects stamps",
];
