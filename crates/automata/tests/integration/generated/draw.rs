//! Random tokenizers: half of them are published pipelines, unchanged or with a change, half are any steps in any
//! order.

use super::{
    model::{self, Size},
    plan::{Plan, Spelling},
    real,
    steps::{self, byte_level, mark_decoders, metaspace, only, replace},
};
use crate::common::Random;

/// A whole tokenizer; [`Plan::file`] is its `tokenizer.json`.
pub(crate) fn random_plan(random: &mut Random) -> Plan {
    if random.below(2) == 0 {
        return any_steps(random);
    }
    let (_, build) = real::ALL[random.below(real::ALL.len())];
    let mut plan = build(random);
    for _ in 0..[0, 0, 1, 2][random.below(4)] {
        change(random, &mut plan);
    }
    plan
}

fn insert<T>(random: &mut Random, list: &mut Vec<T>, item: T) {
    let at = random.below(list.len() + 1);
    list.insert(at, item);
}

/// One change to a published pipeline.
fn change(random: &mut Random, plan: &mut Plan) {
    match random.below(9) {
        0 => {
            let step = steps::normalizer(random);
            insert(random, &mut plan.normalizers, step);
        }
        1 | 2 => {
            let step = steps::splitter(random);
            insert(random, &mut plan.splits, step);
        }
        3 if !plan.splits.is_empty() => {
            let at = random.below(plan.splits.len());
            plan.splits.remove(at);
        }
        4 if !plan.added.is_empty() => {
            let at = random.below(plan.added.len());
            let token = &mut plan.added[at];
            match random.below(5) {
                0 => token.special = !token.special,
                1 => token.lstrip = !token.lstrip,
                2 => token.rstrip = !token.rstrip,
                3 => token.single_word = !token.single_word,
                _ => token.normalized = !token.normalized,
            }
        }
        5 if plan.options.contains_key("byte_fallback") => {
            plan.options.remove("byte_fallback");
        }
        6 => {
            let flag = random.below(2) == 0;
            plan.options.insert("ignore_merges".to_owned(), flag.into());
        }
        _ => push_added(random, plan),
    }
}

fn push_added(random: &mut Random, plan: &mut Plan) {
    let token = steps::added(random, &plan.tokens);
    if plan.added.iter().all(|other| other.content != token.content) {
        insert(random, &mut plan.added, token);
    }
}

/// A small count: most often none, at most three.
fn few(random: &mut Random) -> usize {
    [0, 0, 0, 0, 1, 1, 1, 2, 2, 3][random.below(10)]
}

fn any_steps(random: &mut Random) -> Plan {
    let spelling = match random.below(20) {
        0..=8 => Spelling::Bytes,
        9..=16 => Spelling::Mark('▁'),
        _ => Spelling::Plain,
    };
    let mut plan = Plan::new(spelling);
    let byte_fallback = random.below(if spelling == Spelling::Bytes { 20 } else { 2 }) == 0;
    let fallback = if byte_fallback { model::fallback_tokens(random) } else { vec![] };
    let unknown = match random.below(5) {
        0 | 1 => Some("<unk>"),
        _ => None,
    };
    let in_model = random.below(12) > 0;
    let first: Vec<&str> =
        unknown.into_iter().filter(|_| in_model).chain(fallback.iter().map(String::as_str)).collect();
    let size =
        Size { characters: 2 + random.below(8), merges: random.below(24), all_bytes: random.below(4) == 0 };
    let characters = model::characters(random, size.characters);
    model::fill(random, &mut plan, &characters, size, &first);
    model::options(random, &mut plan, unknown, byte_fallback);

    for _ in 0..few(random) {
        let step = steps::normalizer(random);
        plan.normalizers.push(step);
    }
    for _ in 0..few(random) {
        let step = steps::splitter(random);
        plan.splits.push(step);
    }
    match spelling {
        Spelling::Bytes => {
            plan.decoders = vec![byte_level(true, true)];
            let prefix = random.below(6) == 0;
            let step = byte_level(prefix, random.below(2) == 0);
            match random.below(10) {
                0 => plan.normalizers.push(only("ByteLevel")),
                1 | 2 => insert(random, &mut plan.splits, step),
                _ => plan.splits.push(step),
            }
        }
        Spelling::Mark(_) => {
            let mut strips = false;
            match random.below(8) {
                0..=3 => {
                    insert(random, &mut plan.normalizers, replace(" ", "▁"));
                    if random.below(3) == 0 {
                        strips = true;
                        insert(random, &mut plan.normalizers, steps::prepend("▁"));
                    }
                }
                4..=6 => {
                    let scheme = random.pick(&["always", "first", "never"]);
                    strips = scheme != "never";
                    let step = metaspace(scheme, random.below(2) == 0);
                    let at = if random.below(3) > 0 { 0 } else { random.below(plan.splits.len() + 1) };
                    plan.splits.insert(at, step);
                }
                _ => {}
            }
            plan.decoders = if strips && random.below(3) == 0 {
                vec![only("ByteFallback"), metaspace("always", true)]
            } else {
                mark_decoders(strips)
            };
        }
        Spelling::Plain => {
            if random.below(3) > 0 {
                plan.decoders = vec![only("ByteFallback"), only("Fuse")];
            }
        }
    }
    for _ in 0..[0, 0, 0, 1, 1, 2, 3, 4, 5, 6][random.below(10)] {
        push_added(random, &mut plan);
    }
    if unknown.is_some() && random.below(2) == 0 {
        let mut token = super::plan::Added::special("<unk>");
        token.special = random.below(4) > 0;
        insert(random, &mut plan.added, token);
    }
    plan
}
