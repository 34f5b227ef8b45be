//! A pass over the syntax tree of `regex-syntax` before it is expanded: it refuses patterns that would take too long,
//! and finds the first part that looks around.
//!
//! Both need the tree as it was written. Translation loses the place of a line anchor, and the flags that
//! decide whether `^` is one; so the pass follows flags itself. And translation is the expensive step: `regex-syntax`
//! expands each class at each occurrence. Measured, for a megabyte of each class (the second extrapolated from a
//! tenth of it):
//!
//! | pattern | cost |
//! |---|---|
//! | `\w` repeated | 3 GB, 8 seconds |
//! | `[\x00-\u{10ffff}]` repeated, under `(?i)` | six minutes |
//!
//! Tried instead of a price list: a lower limit on the length of the pattern. These two classes are 2 and 17 bytes
//! long, so the limit would have had to be a few kilobytes, and long lists of alternatives are harmless.

use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassPerlKind, ClassSetBinaryOp, ClassSetItem, Flag, GroupKind, Span, Visitor,
};

use crate::{Construct, Limits, Place, RegexError};

/// Refuses a tree whose expansion would exceed the limit. Gives the first word boundary or line anchor.
pub(super) fn check(ast: &Ast, limits: &Limits) -> Result<Option<(Construct, Place)>, RegexError> {
    let check = Check {
        limit: limits.syntax_steps,
        look: None,
        steps: 0,
        flags: Flags::default(),
        outer: vec![],
        open: vec![],
    };
    ast::visit(ast, check)
}

/// The flags that change the meaning or the price of a pattern.
#[derive(Clone, Copy, Default)]
struct Flags {
    case_insensitive: bool,
    multi_line: bool,
}

impl Flags {
    fn set(&mut self, flags: &ast::Flags) {
        if let Some(on) = flags.flag_state(Flag::CaseInsensitive) {
            self.case_insensitive = on;
        }
        if let Some(on) = flags.flag_state(Flag::MultiLine) {
            self.multi_line = on;
        }
    }
}

/// An upper estimate of a class that is being built.
#[derive(Clone, Copy, Default)]
struct Class {
    /// The number of ranges.
    ranges: u64,
    /// The number of characters that it covers.
    width: u64,
    /// Whether it takes ranges from Unicode's tables. They overlap, so this counts once.
    tables: bool,
}

impl Class {
    fn ranges(self) -> u64 {
        self.ranges + if self.tables { TABLE_RANGES } else { 0 }
    }
}

// The price list. One step is about 5 ns; each price was measured and rounded up.
/// An upper bound on the number of ranges of a union of Unicode's tables, above the largest that was measured.
const TABLE_RANGES: u64 = 4_000;
/// An upper bound on the number of characters.
const ALL_WIDTH: u64 = 1_120_000;
/// Characters that `\w` covers, rounded up.
const PERL_WIDTH: u64 = 150_000;
/// The width that a `\p{…}` is assumed to have: more than nearly all properties. The exceptions are properties such
/// as `\p{Any}` and `\p{Cn}`, which are up to four times as wide.
const PROPERTY_WIDTH: u64 = 300_000;
/// Looking up a table and copying it, memory included.
const TABLE_STEPS: u64 = 4_000;
/// Folding the case of a single character.
const FOLD_STEPS: u64 = 100;

struct Check {
    limit: u64,
    /// The first word boundary or line anchor.
    look: Option<(Construct, Place)>,
    steps: u64,
    flags: Flags,
    /// The flags to restore at the ends of the open groups.
    outer: Vec<Flags>,
    /// The open classes, innermost last.
    open: Vec<Class>,
}

impl Check {
    fn spend(&mut self, steps: u64, span: &Span) -> Result<(), RegexError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > self.limit {
            let place = Place::from(span);
            return Err(RegexError::SyntaxTooCostly { steps: self.steps, limit: self.limit, place });
        }
        Ok(())
    }

    /// Adds an item to the innermost open class, and returns how many ranges the class then has.
    fn add(&mut self, item: Class) -> u64 {
        let class = self.open.last_mut().expect("an item stands in a class");
        class.ranges += item.ranges;
        class.width = (class.width + item.width).min(ALL_WIDTH);
        class.tables |= item.tables;
        class.ranges()
    }

    /// Adds a range: an insertion into a sorted vector.
    fn insert(&mut self, width: u64, span: &Span) -> Result<(), RegexError> {
        let ranges = self.add(Class { ranges: 1, width, tables: false });
        self.spend(1 + ranges / 32, span)
    }

    /// Adds a class: two sorted vectors are merged.
    fn merge(&mut self, class: Class, span: &Span) -> Result<(), RegexError> {
        let ranges = self.add(class);
        self.spend(1 + ranges / 3, span)
    }

    /// Ends the innermost open class, and returns it after folding and negation.
    fn close(&mut self, negated: bool, span: &Span) -> Result<Class, RegexError> {
        let mut class = self.open.pop().expect("a class that ends has begun");
        if self.flags.case_insensitive {
            self.spend(class.width + class.ranges() + FOLD_STEPS, span)?;
            class.ranges += class.width.min(TABLE_RANGES);
        }
        if negated {
            class.ranges += 1;
            class.width = ALL_WIDTH;
        }
        Ok(class)
    }
}

impl Visitor for Check {
    type Output = Option<(Construct, Place)>;
    type Err = RegexError;

    fn finish(self) -> Result<Self::Output, RegexError> {
        Ok(self.look)
    }

    fn visit_pre(&mut self, ast: &Ast) -> Result<(), RegexError> {
        match ast {
            Ast::Group(group) => {
                self.outer.push(self.flags);
                if let GroupKind::NonCapturing(flags) = &group.kind {
                    self.flags.set(flags);
                }
            }
            // Flags hold to the end of the enclosing group, across its alternatives.
            Ast::Flags(set) => self.flags.set(&set.flags),
            Ast::Assertion(assertion) => {
                let construct = match assertion.kind {
                    AssertionKind::StartText | AssertionKind::EndText => None,
                    AssertionKind::StartLine | AssertionKind::EndLine => {
                        self.flags.multi_line.then_some(Construct::LineAnchor)
                    }
                    _ => {
                        self.spend(TABLE_STEPS, &assertion.span)?;
                        Some(Construct::WordBoundary)
                    }
                };
                if self.look.is_none() {
                    self.look = construct.map(|construct| (construct, Place::from(&assertion.span)));
                }
            }
            Ast::Literal(literal) if self.flags.case_insensitive => self.spend(FOLD_STEPS, &literal.span)?,
            Ast::ClassPerl(class) => self.spend(TABLE_STEPS, &class.span)?,
            Ast::ClassUnicode(class) => {
                let fold = if self.flags.case_insensitive { PROPERTY_WIDTH } else { 0 };
                self.spend(TABLE_STEPS + fold, &class.span)?;
            }
            Ast::ClassBracketed(_) => self.open.push(Class::default()),
            _ => {}
        }
        Ok(())
    }

    fn visit_post(&mut self, ast: &Ast) -> Result<(), RegexError> {
        match ast {
            Ast::Group(_) => self.flags = self.outer.pop().expect("a group that ends has begun"),
            Ast::ClassBracketed(class) => {
                self.close(class.negated, &class.span)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn visit_class_set_item_pre(&mut self, item: &ClassSetItem) -> Result<(), RegexError> {
        let width = match item {
            ClassSetItem::Bracketed(_) => {
                self.open.push(Class::default());
                return Ok(());
            }
            ClassSetItem::Empty(_) | ClassSetItem::Union(_) => return Ok(()),
            ClassSetItem::Literal(_) => 1,
            ClassSetItem::Range(range) => u64::from(range.end.c).saturating_sub(u64::from(range.start.c)) + 1,
            ClassSetItem::Ascii(class) => {
                let width = if class.negated { ALL_WIDTH } else { 128 };
                return self.merge(Class { ranges: 4, width, tables: false }, &class.span);
            }
            ClassSetItem::Perl(class) => {
                let narrow = !class.negated && class.kind != ClassPerlKind::Word;
                let width = if class.negated { ALL_WIDTH } else { PERL_WIDTH };
                let width = if narrow { 1_000 } else { width };
                return self.merge(Class { ranges: 0, width, tables: true }, &class.span);
            }
            ClassSetItem::Unicode(class) => {
                self.spend(if self.flags.case_insensitive { PROPERTY_WIDTH } else { 0 }, &class.span)?;
                let property = Class { ranges: 0, width: PROPERTY_WIDTH, tables: true };
                return self.merge(property, &class.span);
            }
        };
        self.insert(width, item.span())
    }

    fn visit_class_set_item_post(&mut self, item: &ClassSetItem) -> Result<(), RegexError> {
        if let ClassSetItem::Bracketed(class) = item {
            let inner = self.close(class.negated, &class.span)?;
            self.merge(inner, &class.span)?;
        }
        Ok(())
    }

    fn visit_class_set_binary_op_pre(&mut self, _: &ClassSetBinaryOp) -> Result<(), RegexError> {
        self.open.push(Class::default());
        Ok(())
    }

    fn visit_class_set_binary_op_post(&mut self, op: &ClassSetBinaryOp) -> Result<(), RegexError> {
        // Both sides are counted as one class: their union is an upper estimate of the result.
        let inner = self.close(false, &op.span)?;
        self.merge(inner, &op.span)
    }
}
