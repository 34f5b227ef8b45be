//! `unskew set`: sets of items as files.

use std::{io::Write, time::Instant};

use crate::{
    TokenSpace,
    items::{self, Check},
    sets::{Delta, ItemSet, Subset},
};
use serde::Serialize;
use unskew_files::is_same;

use super::answer;
use crate::command_line::{
    args::{
        Format, ModelArgs, SetBuildArgs, SetCommand, SetCompactArgs, SetEditArgs, SetInfoArgs, SetSubsetArgs,
    },
    error::{Failure, Result, chain},
    inputs, sets,
};

/// The content of a set.
#[derive(Serialize)]
struct Answer {
    items: u64,
    /// Of the file.
    bytes: u64,
    /// Tokens of the longest item.
    max_len: usize,
    /// How long building took; null where a set was only looked at.
    build_ms: Option<u64>,
    /// Tokens of all items.
    tokens: u64,
    /// Bytes of a token in the file.
    token_bytes: usize,
    /// The fingerprint of the vocabulary, in hexadecimal digits.
    vocabulary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subsets: Option<Vec<String>>,
    /// Of the changes that lie beside the set.
    #[serde(flatten)]
    pending: Option<Pending>,
    /// Lines that were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blank: Option<u64>,
}

/// The changes that lie beside a set.
#[derive(Serialize)]
struct Pending {
    pending_added: usize,
    pending_removed: usize,
}

impl Pending {
    fn new(delta: &Delta) -> Self {
        let (pending_added, pending_removed) = delta.counts();
        Self { pending_added, pending_removed }
    }

    fn write(&self, out: &mut dyn Write) -> Result<()> {
        let Self { pending_added, pending_removed } = self;
        Ok(writeln!(
            out,
            "{pending_added} items added and {pending_removed} removed beside it, until `unskew set compact`"
        )?)
    }
}

/// The result of changes.
#[derive(Serialize)]
struct Edited {
    /// Items of the set with all changes to it.
    items: usize,
    /// Items that were added or removed now.
    changed: u64,
    /// Lines that changed nothing.
    unchanged: u64,
    /// Lines without text.
    blank: u64,
    #[serde(flatten)]
    pending: Pending,
}

/// A subset that was named, or forgotten.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    /// Its items; null where it was forgotten.
    items: Option<usize>,
    /// Whether another one had the name.
    replaced: bool,
    /// All names in the file.
    subsets: Vec<&'a str>,
}

impl Answer {
    fn new(set: &ItemSet) -> Self {
        Self {
            items: set.len() as u64,
            bytes: set.as_bytes().len() as u64,
            max_len: set.longest(),
            build_ms: None,
            tokens: set.tokens(),
            token_bytes: set.token_bytes(),
            vocabulary: format!("{:016x}", set.fingerprint()),
            subsets: None,
            pending: None,
            duplicates: None,
            blank: None,
        }
    }

    fn write(&self, format: Format, out: &mut dyn Write) -> Result<()> {
        answer(format, self, out, |out| {
            let Self { items, bytes, max_len, tokens, token_bytes, vocabulary, .. } = self;
            writeln!(out, "{items} items of up to {max_len} tokens, {tokens} tokens in all")?;
            writeln!(out, "{bytes} bytes, {token_bytes} a token; vocabulary {vocabulary}")?;
            if let Some(ms) = self.build_ms {
                writeln!(out, "built in {:.1} s", ms as f64 / 1e3)?;
            }
            for name in self.subsets.iter().flatten() {
                writeln!(out, "subset {name}")?;
            }
            self.pending.iter().try_for_each(|pending| pending.write(out))
        })
    }
}

pub(crate) fn set(command: &SetCommand, out: &mut dyn Write) -> Result<()> {
    match command {
        SetCommand::Build(args) => build(args, out),
        SetCommand::Info(args) => info(args, out),
        SetCommand::Add(args) => edit(args, true, out),
        SetCommand::Remove(args) => edit(args, false, out),
        SetCommand::Compact(args) => compact(args, out),
        SetCommand::Subset(args) => subset(args, out),
    }
}

fn tokens(args: &ModelArgs) -> Result<TokenSpace> {
    Ok(args.model.tokens(args.tokenizer.as_deref())?)
}

fn build(args: &SetBuildArgs, out: &mut dyn Write) -> Result<()> {
    inputs::refuse(&args.out, &inputs::of_model(&args.model))?;
    let tokens = tokens(&args.model)?;
    let begin = Instant::now();
    let memory = args.memory.get().saturating_mul(1_000_000);
    let (set, report) = sets::build(&args.file, &args.out, memory, &tokens)?;
    let build_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let answer = Answer {
        build_ms: Some(build_ms),
        duplicates: Some(report.duplicates),
        blank: Some(report.blank),
        ..Answer::new(&set)
    };
    answer.write(args.format, out)
}

fn info(args: &SetInfoArgs, out: &mut dyn Write) -> Result<()> {
    let (set, delta) = items::open(&args.file, Check::All)?;
    let subsets = set.subset_names().map_err(|error| Failure::file(&args.file, chain(&error)))?;
    let pending = delta.as_ref().map(Pending::new);
    Answer { subsets: Some(subsets), pending, ..Answer::new(&set) }.write(args.format, out)
}

fn edit(args: &SetEditArgs, add: bool, out: &mut dyn Write) -> Result<()> {
    let tokens = tokens(&args.model)?;
    let (set, delta, report) = sets::edit(&args.file, &args.lines, add, &tokens)?;
    let pending = Pending::new(&delta);
    let edited = Edited {
        items: set.len() + pending.pending_added - pending.pending_removed,
        changed: report.changed,
        unchanged: report.unchanged,
        blank: report.blank,
        pending,
    };
    answer(args.format, &edited, out, |out| {
        let Edited { items, changed, unchanged, blank, pending } = &edited;
        let done = if add { "added" } else { "removed" };
        writeln!(out, "{changed} items {done}; {unchanged} lines changed nothing, {blank} were blank")?;
        writeln!(out, "{items} items now")?;
        pending.write(out)
    })
}

fn compact(args: &SetCompactArgs, out: &mut dyn Write) -> Result<()> {
    let begin = Instant::now();
    let bad = |error: &(dyn std::error::Error + 'static)| Failure::file(&args.file, chain(error));
    let store = sets::store(&args.file)?;
    let other = args.out.as_ref().filter(|output| !is_same(output, &args.file));
    if let Some(output) = other {
        inputs::check_output(output, &[store.changes()])?;
        let (set, delta) = items::open(&args.file, Check::All)?;
        let target = sets::store(output)?;
        let _changer = sets::replacing(&target, "delete them, or write to another file")?;
        match delta {
            Some(delta) => delta.compact_to(&set, output).map_err(|error| bad(&error))?,
            None => set.save(output).map_err(|error| Failure::bad(&error))?,
        }
    } else {
        let changer = sets::changing(&args.file, &store)?;
        if let (set, Some(delta)) = sets::read(&args.file, &changer)? {
            changer.compact(&set, &delta).map_err(|error| bad(&error))?;
        }
    }
    let output = other.unwrap_or(&args.file);
    let build_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let (new, _) = items::open(output, Check::All)?;
    let subsets = new.subset_names().map_err(|error| bad(&error))?;
    Answer { build_ms: Some(build_ms), subsets: Some(subsets), ..Answer::new(&new) }.write(args.format, out)
}

fn subset(args: &SetSubsetArgs, out: &mut dyn Write) -> Result<()> {
    let (path, name) = (&args.file, &args.name);
    let bad = |error: &(dyn std::error::Error + 'static)| Failure::file(path, chain(error));
    let store = sets::store(path)?;
    let changer = sets::changing(path, &store)?;
    let (set, delta) = sets::read(path, &changer)?;
    if delta.is_some() {
        return Err(Failure::file(
            path,
            "changes lie beside the set, and subsets are of the set alone; run `unskew set compact` first",
        ));
    }
    let names = set.subset_names().map_err(|error| bad(&error))?;
    let new = match &args.lines {
        Some(lines) => Some(sets::subset(path, &set, lines, &tokens(&args.model)?)?),
        // Whether there is one.
        None => set.subset(name).map(|_| None).map_err(|error| bad(&error))?,
    };
    let others = names.iter().filter(|other| *other != name);
    let mut subsets: Vec<(&str, Subset)> = others
        .map(|other| Ok((&**other, set.subset(other)?)))
        .collect::<std::result::Result<_, crate::sets::SetFileError>>()
        .map_err(|error| bad(&error))?;
    let items = new.as_ref().map(Subset::count);
    subsets.extend(new.map(|subset| (&**name, subset)));
    let saved: Vec<(&str, &Subset)> = subsets.iter().map(|(name, subset)| (*name, subset)).collect();
    set.save_with_subsets(path, &saved).map_err(|error| Failure::bad(&error))?;
    let named = Named {
        name,
        items,
        replaced: items.is_some() && names.contains(name),
        subsets: saved.iter().map(|(name, _)| *name).collect(),
    };
    answer(args.format, &named, out, |out| {
        match items {
            None => writeln!(out, "subset {name} is forgotten")?,
            Some(items) => {
                let replaced = if named.replaced { ", in the place of another" } else { "" };
                writeln!(out, "subset {name}: {items} of {} items{replaced}", set.len())?;
            }
        }
        Ok(())
    })
}
