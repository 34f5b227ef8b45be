//! The table of methods.

use unskew_samplers::{Cut, MAX_BEAMS, MAX_CANDIDATES, MAX_PARTICLES, speculative::Budget};

use super::{
    Asap, Auto, Beam, Disc, DiscForm, Imh, Mcmc, Mentored, Method, MethodError, MethodInfo, Parameter,
    ParameterKind, Rejecting, Smc, Speculative, Tries, Twisted,
};

const TRIES_PARAMETER: Parameter = Parameter {
    name: "tries",
    kind: ParameterKind::Whole(
        1,
        10_000_000,
        "each is an output begun; a sampler that needs more finds none",
    ),
    default: "100000",
    help: "give up after this many tries for one output",
};
const STEPS: Parameter = Parameter {
    name: "steps",
    kind: ParameterKind::Whole(
        0,
        1_000_000,
        "each is a part of an output, and more do not bring the distribution nearer",
    ),
    default: "10",
    help: "the steps of a chain",
};
const LENGTH: Parameter = Parameter {
    name: "length",
    kind: ParameterKind::Length,
    default: "auto",
    help: "how many tokens are drafted for one pass of the model",
};
const KL: Parameter = Parameter {
    name: "kl",
    kind: ParameterKind::Number(0.0, f64::INFINITY),
    default: "",
    help: "the Kullback-Leibler divergence from the model that may be spent, in nats",
};

/// All methods.
pub static METHODS: &[MethodInfo] = &[
    MethodInfo {
        name: "auto",
        help: "a sampler fit for the constraint and the budget; says which, and why",
        distribution: "the model's own distribution, given the constraint, where an output was accepted",
        parameters: &[
            Parameter {
                name: "budget",
                kind: ParameterKind::Number(1.0, 1e6),
                default: "",
                help: "the rollouts that an output may cost on average, where near the model's distribution is enough",
            },
            Parameter {
                name: "exact",
                kind: ParameterKind::Switch,
                default: "false",
                help: "every output is exact, or an error; none is resampled",
            },
        ],
        learns: true,
        read: |given| {
            let auto = Auto { budget: given.value("budget"), exact: given.value("exact").unwrap_or(false) };
            if auto.exact && auto.budget.is_some() {
                return Err(MethodError::Value {
                    method: "auto",
                    parameter: "exact",
                    value: "true".to_owned(),
                    why: "an exact output costs as many rollouts as it needs; leave one of the two out"
                        .to_owned(),
                });
            }
            Ok(Method::Auto(auto))
        },
    },
    MethodInfo {
        name: "masked",
        help: "each token from the tokens that the mask leaves: fast, and not the model's distribution",
        distribution: "not the model's distribution; outputs carry weights",
        parameters: &[],
        learns: false,
        read: |_| Ok(Method::Masked),
    },
    MethodInfo {
        name: "rejection",
        help: "outputs of the model that satisfy the constraint: exact, slow",
        distribution: "the model's own distribution, given the constraint",
        parameters: &[TRIES_PARAMETER, LENGTH],
        learns: false,
        read: |given| Ok(Method::Rejection(Rejecting { tries: given.tries(), length: given.length() })),
    },
    MethodInfo {
        name: "rsft",
        help: "rejection with a masked first token: exact",
        distribution: "the model's own distribution, given the constraint",
        parameters: &[TRIES_PARAMETER],
        learns: false,
        read: |given| Ok(Method::Rsft(Tries { tries: given.tries() })),
    },
    MethodInfo {
        name: "ars",
        help: "rejection that learns from each failure: exact",
        distribution: "the model's own distribution, given the constraint",
        parameters: &[TRIES_PARAMETER, LENGTH],
        learns: true,
        read: |given| Ok(Method::Ars(Rejecting { tries: given.tries(), length: given.length() })),
    },
    MethodInfo {
        name: "cars",
        help: "rejection that learns everything that a mask forbids: exact, and about two tries for each of many outputs",
        distribution: "the model's own distribution, given the constraint",
        parameters: &[TRIES_PARAMETER, LENGTH],
        learns: true,
        read: |given| Ok(Method::Cars(Rejecting { tries: given.tries(), length: given.length() })),
    },
    MethodInfo {
        name: "disc",
        help: "masked proposals, accepted with the probability that makes them exact; resampled after many refusals",
        distribution: "the model's own distribution, given the constraint, where an output was accepted",
        parameters: &[
            Parameter {
                name: "k",
                kind: ParameterKind::Whole(
                    0,
                    MAX_CANDIDATES as u64,
                    "all proposals that are resampled are in memory at once",
                ),
                default: "",
                help: "try K times, then resample among K proposals (default: try within the budget, then 8 proposals)",
            },
            Parameter {
                name: "budget",
                kind: ParameterKind::Number(0.0, 1e6),
                default: "",
                help: "resample once the tries of a run have cost X outputs of full length for each output (default: 4; any number with k)",
            },
            Parameter {
                name: "top_m",
                kind: ParameterKind::Whole(1, 1 << 24, "no vocabulary has more tokens"),
                default: "",
                help: "only the M most probable tokens of each step are candidates, where one of them is allowed",
            },
            Parameter {
                name: "form",
                kind: ParameterKind::Words(&[
                    ("learned", "proposals learn from refused tries, and fresh ones are resampled"),
                    ("published", "masked proposals, and fresh ones are resampled, as in the paper"),
                    ("reuse", "masked proposals, and the refused ones are resampled"),
                ]),
                default: "",
                help: "which proposals are made and resampled (default: learned)",
            },
            LENGTH,
        ],
        learns: true,
        read: |given| {
            let form = given.text("form").map(|form| match form {
                "reuse" => DiscForm::Reuse,
                "published" => DiscForm::Published,
                _ => DiscForm::Learned,
            });
            let (k, budget) = (given.value("k"), given.value("budget"));
            let (top_m, length) = (given.value("top_m"), given.length());
            Ok(Method::Disc(Disc { k, budget, top_m, form, length }))
        },
    },
    MethodInfo {
        name: "asap",
        help: "masked sampling that learns the mass of its prefixes: closer to the model's distribution with each output",
        distribution: "the model's own distribution, given the constraint, after very many outputs",
        parameters: &[
            Parameter {
                name: "iterations",
                kind: ParameterKind::Whole(0, 1_000_000, "each is an output, and more teach nothing new"),
                default: "0",
                help: "outputs that are only learned from, before the first that is shown",
            },
            TRIES_PARAMETER,
            LENGTH,
        ],
        learns: true,
        read: |given| {
            let iterations = given.value("iterations").unwrap_or(0);
            Ok(Method::Asap(Asap { iterations, tries: given.tries(), length: given.length() }))
        },
    },
    MethodInfo {
        name: "twist",
        help: "masked sampling that learns which states of the constraint lead where: near the model's distribution after a few outputs",
        distribution: "near the model's own distribution, given the constraint; outputs carry weights",
        parameters: &[
            Parameter {
                name: "budget",
                kind: ParameterKind::Number(1.0, 1e6),
                default: "",
                help: "keep one of X outputs on average, by its weight (default: keep each)",
            },
            TRIES_PARAMETER,
        ],
        learns: false,
        read: |given| Ok(Method::Twisted(Twisted { budget: given.value("budget"), tries: given.tries() })),
    },
    MethodInfo {
        name: "awrs",
        help: "masked sampling that asks about single tokens; outputs carry weights",
        distribution: "not the model's distribution; outputs carry weights, whose mean is that of the constraint",
        parameters: &[TRIES_PARAMETER],
        learns: false,
        read: |given| Ok(Method::Awrs(Tries { tries: given.tries() })),
    },
    MethodInfo {
        name: "smc",
        help: "populations of outputs that are resampled by weight; outputs carry weights",
        distribution: "near the model's own distribution, given the constraint; exact with the weights",
        parameters: &[
            Parameter {
                name: "n",
                kind: ParameterKind::Whole(
                    1,
                    MAX_PARTICLES as u64,
                    "all outputs of a population are in memory at once",
                ),
                default: "10",
                help: "the outputs of a population",
            },
            Parameter {
                name: "threshold",
                kind: ParameterKind::Number(0.0, 1.0),
                default: "0.5",
                help: "resample when the effective number is below this share: 0 never, 1 always",
            },
            Parameter {
                name: "twisted",
                kind: ParameterKind::Switch,
                default: "",
                help: "use the bounds that earlier populations have learned",
            },
            Parameter {
                name: "values",
                kind: ParameterKind::Switch,
                default: "",
                help: "propose and weigh by values of the constraint's states, which populations learn",
            },
            Parameter {
                name: "all",
                kind: ParameterKind::Switch,
                default: "",
                help: "give all outputs of a population, each with its weight, and not one of them",
            },
            TRIES_PARAMETER,
        ],
        learns: false,
        read: |given| {
            Ok(Method::Smc(Smc {
                n: given.count("n", 10),
                threshold: given.value("threshold").unwrap_or(0.5),
                twisted: given.value("twisted").unwrap_or(false),
                values: given.value("values").unwrap_or(false),
                all: given.value("all").unwrap_or(false),
                tries: given.tries(),
            }))
        },
    },
    MethodInfo {
        name: "mcmc",
        help: "a chain of valid outputs: closer to the model's distribution with each step",
        distribution: "the model's own distribution, given the constraint, after very many steps",
        parameters: &[
            STEPS,
            Parameter {
                name: "cut",
                kind: ParameterKind::Words(&[
                    ("prefix", "anywhere"),
                    ("priority", "where much may follow"),
                    ("restart", "at the beginning"),
                ]),
                default: "prefix",
                help: "where an output is cut to be written anew",
            },
            TRIES_PARAMETER,
        ],
        learns: false,
        read: |given| {
            let cut = match given.text("cut") {
                Some("priority") => Cut::Priority,
                Some("restart") => Cut::Restart,
                _ => Cut::Prefix,
            };
            let steps = given.value("steps").unwrap_or(10);
            Ok(Method::Mcmc(Mcmc { steps, cut, tries: given.tries() }))
        },
    },
    MethodInfo {
        name: "imh",
        help: "independent Metropolis-Hastings: a chain whose proposals are those of twist, so that few steps are enough",
        distribution: "the model's own distribution, given the constraint, after very many steps",
        parameters: &[STEPS, TRIES_PARAMETER],
        learns: false,
        read: |given| {
            let steps = given.value("steps").unwrap_or(10);
            Ok(Method::Imh(Imh { steps, tries: given.tries() }))
        },
    },
    MethodInfo {
        name: "beam",
        help: "the most probable outputs that a beam finds: no sample",
        distribution: "no distribution: a search for probable outputs",
        parameters: &[Parameter {
            name: "n",
            kind: ParameterKind::Whole(1, MAX_BEAMS as u64, "all prefixes in a beam are in memory at once"),
            default: "8",
            help: "the width of the beam; it is at least the number of outputs",
        }],
        learns: false,
        read: |given| Ok(Method::Beam(Beam { n: given.count("n", 8) })),
    },
    MethodInfo {
        name: "greedy",
        help: "the most probable token each time: no sample",
        distribution: "no distribution: a search for probable outputs",
        parameters: &[],
        learns: false,
        read: |_| Ok(Method::Greedy),
    },
    MethodInfo {
        name: "speculative",
        help: "the distribution of masked, in fewer passes: a draft proposes tokens, which the model verifies together",
        distribution: "that of masked, not the model's; outputs carry weights",
        parameters: &[LENGTH],
        learns: false,
        read: |given| Ok(Method::Speculative(Speculative { length: given.length() })),
    },
    MethodInfo {
        name: "mentored",
        help: "the same with a stated divergence from that distribution, for which more drafts are accepted",
        distribution: "within the given divergence of that of masked; outputs carry weights",
        parameters: &[
            KL,
            Parameter {
                name: "budget",
                kind: ParameterKind::Words(&[
                    ("token", "each drafted token may spend it"),
                    ("sequence", "all tokens of an output together"),
                ]),
                default: "token",
                help: "on which tokens it may be spent",
            },
            LENGTH,
        ],
        learns: false,
        read: |given| {
            let Parameter { name: parameter, help, .. } = KL;
            let missing = || MethodError::Missing { method: given.row.name, parameter, help };
            let kl = given.value("kl").ok_or_else(missing)?;
            let budget = match given.text("budget") {
                Some("sequence") => Budget::sequence(kl),
                _ => Budget::Token(kl),
            };
            Ok(Method::Mentored(Mentored { budget, length: given.length() }))
        },
    },
];

impl MethodInfo {
    /// The row of the method with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        METHODS.iter().find(|row| row.name == name)
    }
}

/// The names of all methods.
pub(super) fn names() -> String {
    METHODS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}
