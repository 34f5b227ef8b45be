//! Groups and flags: the openings of the dialects, and what a group becomes where it ends.

use regex_syntax::hir::{Hir, HirKind};

use super::{
    Dialect, OPENINGS,
    parsed::place,
    reader::{Last, Read, Reader},
};
use crate::{Construct, Limits, RegexError};

#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) ignore_case: bool,
    pub(super) multi_line: bool,
    pub(super) dot_all: bool,
    pub(super) verbose: bool,
    pub(super) ascii: bool,
}

enum Group {
    Plain,
    /// Its opening is one of [`OPENINGS`].
    Look(&'static str),
    Atomic,
}

/// A group that is open, with what stands before it.
pub(super) struct Open {
    pub(super) at: usize,
    group: Group,
    flags: Flags,
    behind: bool,
    sequence: Vec<Hir>,
    ways: Vec<Hir>,
}

impl Reader<'_> {
    pub(super) fn close(&mut self, from: usize) -> Read<()> {
        let inner = self.alternation();
        let Some(open) = self.open.pop() else {
            return self.fault(from, "a `)` without `(`: remove it, or write `\\)` for the character");
        };
        (self.flags, self.behind, self.sequence, self.ways) =
            (open.flags, open.behind, open.sequence, open.ways);
        match open.group {
            Group::Plain => self.push(inner, Last::Part),
            Group::Look(opening) => {
                let made = self.around(opening, inner, open.at)?;
                // ECMA-262 repeats no look-around.
                self.push(made, if self.dialect == Dialect::Python { Last::Part } else { Last::Anchor });
            }
            Group::Atomic => {
                let made = match inner.into_kind() {
                    HirKind::Literal(literal) => Hir::literal(literal.0),
                    HirKind::Class(class) => Hir::class(class),
                    HirKind::Repetition(repeated) if repeated.greedy => {
                        self.possessive(*repeated.sub, repeated.min, repeated.max, open.at)?
                    }
                    _ => return self.refused(open.at, Construct::Atomic),
                };
                self.push(made, Last::Part);
            }
        }
        Ok(())
    }

    /// Reads the opening of a group behind its `(`.
    pub(super) fn group(&mut self, from: usize) -> Read<()> {
        let outer = self.flags;
        let group = if self.eat("?") { self.kind(from)? } else { Some(Group::Plain) };
        let Some(group) = group else { return Ok(()) };
        let limit = self.limits.nest.min(Limits::MAX_NEST);
        if self.open.len() >= limit as usize {
            return Err(RegexError::NestTooDeep { limit, place: place(self.text, from, self.at) });
        }
        let is_behind = matches!(group, Group::Look(opening) if opening.len() == 3);
        self.open.push(Open {
            at: from,
            group,
            flags: outer,
            behind: self.behind,
            sequence: std::mem::take(&mut self.sequence),
            ways: std::mem::take(&mut self.ways),
        });
        self.behind |= is_behind;
        self.last = Last::Nothing;
        Ok(())
    }

    /// The kind of a group behind its `(?`. `None` if it is over already.
    fn kind(&mut self, from: usize) -> Read<Option<Group>> {
        let (python, strict) = (self.dialect == Dialect::Python, self.dialect == Dialect::Xgrammar);
        if self.eat(":") {
            return Ok(Some(Group::Plain));
        }
        for (opening, ..) in OPENINGS {
            if !strict && self.eat(&opening[1..]) {
                return Ok(Some(Group::Look(opening)));
            }
        }
        if self.eat("P<") || self.eat("<") {
            let name = self.take(usize::MAX, |char| char.is_alphanumeric() || matches!(char, '_' | '$'));
            if name.is_empty() || name.starts_with(|char: char| char.is_numeric()) || !self.eat(">") {
                return self.fault(
                    from,
                    "the name of a group is a letter and more letters and digits, between `<` and `>`",
                );
            }
            return Ok(Some(Group::Plain));
        }
        if python && self.eat("#") {
            self.take(usize::MAX, |char| char != ')');
            if !self.eat(")") {
                return self.fault(from, "a comment that is not closed: add `)`");
            }
            return Ok(None);
        }
        if self.eat(">") {
            return Ok(Some(Group::Atomic));
        }
        if self.eat("P=") {
            return self.refused(from, Construct::BackReference);
        }
        if self.eat("(") {
            return self.refused(from, Construct::Condition);
        }
        if self.eat("R")
            || self.eat("&")
            || self.eat("P>")
            || self.rest().starts_with(|char: char| char.is_ascii_digit())
        {
            return self.refused(from, Construct::Recursion);
        }
        self.switches(from)
    }

    /// Reads the flags of a group behind its `(?`.
    fn switches(&mut self, from: usize) -> Read<Option<Group>> {
        let (mut flags, mut on) = (self.flags, true);
        loop {
            let letter = self.next();
            let known = match (letter, self.dialect) {
                (Some(':'), Dialect::Python | Dialect::Ecma) => {
                    self.flags = flags;
                    return Ok(Some(Group::Plain));
                }
                // Flags of a whole pattern stand at its beginning.
                (Some(')'), _) => {
                    let is_first = self.open.is_empty() && self.sequence.is_empty() && self.ways.is_empty();
                    if !is_first || (!on && self.dialect == Dialect::Python) {
                        return self.fault(
                            from,
                            "flags of the whole regex stand at its beginning: write `(?i:...)` for a part of it",
                        );
                    }
                    self.flags = flags;
                    return Ok(None);
                }
                (Some('-'), _) if on => {
                    on = false;
                    None
                }
                (Some('i'), dialect) if on || dialect != Dialect::Xgrammar => Some(&mut flags.ignore_case),
                // There it is the rule, and the flags of a call turn it off.
                (Some('s'), dialect) if !on || dialect != Dialect::Xgrammar => Some(&mut flags.dot_all),
                (Some('m'), Dialect::Python) => Some(&mut flags.multi_line),
                (Some('x'), Dialect::Python) => Some(&mut flags.verbose),
                (Some('a'), Dialect::Python) if on => Some(&mut flags.ascii),
                (Some('u'), Dialect::Python) if on => {
                    flags.ascii = false;
                    None
                }
                (None, _) => return self.fault(from, "a group that is not closed: add `)`"),
                (Some(_), Dialect::Xgrammar) => {
                    return self.fault(
                        from,
                        "look-around and modifiers of groups are not supported: write the texts that are allowed",
                    );
                }
                (Some(letter), _) => {
                    return self.fault(
                        from,
                        format!("a group of an unknown kind: `(?` is not followed by `{letter}`"),
                    );
                }
            };
            if let Some(flag) = known {
                *flag = on;
            }
        }
    }
}
