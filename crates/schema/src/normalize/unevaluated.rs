//! The members and items that the branches of a schema evaluate, for `unevaluatedProperties` and
//! `unevaluatedItems`.
//!
//! A keyword evaluates its members or items if the schema that contains it holds; it may belong to the same schema
//! or to a schema that applies to the same value. So the evaluated parts depend on which branches hold, all of
//! them: each branch of `anyOf` that evaluates parts is assumed to hold or not to hold, in all combinations. Each
//! combination is a [`Scenario`]. Branches that evaluate nothing are left to the ordinary reading of their keyword.

use super::{
    expander::Expander,
    parts::item_schemas,
    shape::{Atom, OBJECT},
};
use crate::{
    SchemaError,
    document::{json::NodeId, literal::Literal},
    draft::Draft,
};

/// The largest number of combinations of branches.
const SCENARIOS: usize = 256;

/// The largest nesting of schemas that apply to the same value.
const DEPTH: usize = 64;

/// The largest number of visits to schemas; references may lead to the same schema many times.
const VISITS: usize = 10_000;

/// The state of the search: the enclosing schemas, and the number of visits.
#[derive(Default)]
struct Search {
    within: Vec<NodeId>,
    visits: usize,
}

/// A combination of branches, and the parts that it evaluates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    /// The branches that hold, and the branches that do not.
    pub(crate) atoms: Vec<Atom>,
    /// Schemas whose `properties`, `items` and related keywords evaluate parts.
    pub(crate) groups: Vec<NodeId>,
    /// Schemas of `contains`: items that satisfy one of them are evaluated.
    pub(crate) contains: Vec<Literal>,
    /// Whether all members are evaluated.
    pub(crate) all_properties: bool,
    pub(crate) all_items: bool,
}

impl Scenario {
    fn with(atoms: Vec<Atom>) -> Self {
        Self { atoms, ..Self::default() }
    }

    fn knows(&self) -> bool {
        !self.groups.is_empty() || !self.contains.is_empty() || self.all_properties || self.all_items
    }

    fn and(&self, other: &Self) -> Self {
        Self {
            atoms: [&*self.atoms, &*other.atoms].concat(),
            groups: [&*self.groups, &*other.groups].concat(),
            contains: [&*self.contains, &*other.contains].concat(),
            all_properties: self.all_properties || other.all_properties,
            all_items: self.all_items || other.all_items,
        }
    }
}

/// All scenarios, or the reason why they are not computed.
pub(crate) type Scenarios = Result<Vec<Scenario>, &'static str>;

/// The scenarios in which the schema at `node` holds. Its own `unevaluatedProperties` and `unevaluatedItems` are
/// left out.
pub(crate) fn scenarios(ex: &Expander, node: NodeId) -> Result<Scenarios, SchemaError> {
    of(ex, node, &mut Search::default())
}

/// Recursion is at most [`DEPTH`] deep.
fn of(ex: &Expander, node: NodeId, search: &mut Search) -> Result<Scenarios, SchemaError> {
    search.visits += 1;
    if search.visits > VISITS {
        return Ok(Err("too many schemas decide which parts were evaluated"));
    }
    if search.within.contains(&node) || search.within.len() > DEPTH {
        return Ok(Err("schemas refer to each other for the same value"));
    }
    let document = &ex.schemas.document;
    let member = |keyword| ex.schemas.keyword(node, keyword);
    let list = |keyword| member(keyword).and_then(|list| document.items(list)).unwrap_or_default().to_vec();
    let mut own = Scenario::default();
    let parts = [
        "properties",
        "patternProperties",
        "additionalProperties",
        "items",
        "prefixItems",
        "additionalItems",
    ];
    if parts.into_iter().any(|keyword| member(keyword).is_some()) {
        own.groups.push(node);
    }
    own.all_properties = member("additionalProperties").is_some();
    if let Some(contains) = member("contains").filter(|_| ex.schemas.draft_of(node) == Draft::Draft202012) {
        own.contains.push(ex.schemas.literal(contains)?);
    }
    if !search.within.is_empty() {
        own.all_properties |= member("unevaluatedProperties").is_some();
        own.all_items |= member("unevaluatedItems").is_some();
    }
    own.all_items |= item_schemas(ex, node).others.is_some();

    search.within.push(node);
    let mut all = vec![own];
    let mut factors: Vec<Scenarios> = vec![];
    for (keyword, text) in ["$ref", "$dynamicRef", "$recursiveRef"].map(|keyword| (keyword, member(keyword)))
    {
        let Some(text) = text.and_then(|text| document.text(text)) else { continue };
        let target = match keyword {
            "$ref" => ex.schemas.target(node, text).ok(),
            _ => ex.schemas.dynamic_target(node, keyword, text).ok().flatten(),
        };
        // An unresolved reference is refused where it is read.
        if let Some(target) = target {
            factors.push(of(ex, target, search)?);
        }
    }
    for schema in list("allOf") {
        factors.push(of(ex, schema, search)?);
    }
    for (schemas, any) in [(list("anyOf"), true), (list("oneOf"), false)] {
        factors.push(branches(ex, &schemas, any, search)?);
    }
    factors.push(conditional(ex, node, search)?);
    let dependent = member("dependentSchemas").and_then(|list| document.members(list));
    for (name, schema) in dependent.unwrap_or_default() {
        let mut ways = vec![Scenario::with(vec![Atom::Forbid(name.clone())])];
        let holds = vec![
            Atom::Types(OBJECT),
            Atom::Require(name.clone()),
            Atom::Schema(ex.schemas.literal(*schema)?),
        ];
        match of(ex, *schema, search)? {
            Ok(inner) if inner.iter().any(Scenario::knows) => {
                ways.extend(inner.iter().map(|inner| Scenario::with(holds.clone()).and(inner)));
                factors.push(Ok(ways));
            }
            Ok(_) => {}
            refused => factors.push(refused),
        }
    }
    search.within.pop();
    for factor in factors {
        let factor = match factor {
            Ok(factor) => factor,
            refused => return Ok(refused),
        };
        all = all.iter().flat_map(|one| factor.iter().map(|other| one.and(other))).collect();
        if all.len() > SCENARIOS {
            return Ok(Err("too many combinations of branches decide which parts were evaluated"));
        }
    }
    Ok(Ok(all))
}

/// The scenarios of `anyOf` or `oneOf`.
fn branches(
    ex: &Expander,
    schemas: &[NodeId],
    any: bool,
    search: &mut Search,
) -> Result<Scenarios, SchemaError> {
    // The branches that evaluate parts, and whether there are other branches.
    let (mut knowing, mut others) = (vec![], schemas.is_empty());
    for schema in schemas {
        match of(ex, *schema, search)? {
            Ok(inner) if inner.iter().any(Scenario::knows) => {
                knowing.push((ex.schemas.literal(*schema)?, inner));
            }
            Ok(_) => others = true,
            refused => return Ok(refused),
        }
    }
    let none = knowing.iter().map(|(literal, _)| Atom::Schema(literal.not())).collect();
    let mut all = vec![Scenario::with(none)];
    if any {
        // Each branch holds or does not hold.
        all = vec![Scenario::default()];
        for (literal, inner) in &knowing {
            let breaks = Scenario::with(vec![Atom::Schema(literal.not())]);
            let holds = Scenario::with(vec![Atom::Schema(*literal)]);
            let ways: Vec<_> = inner.iter().map(|inner| holds.and(inner)).chain([breaks]).collect();
            all = all.iter().flat_map(|one| ways.iter().map(|other| one.and(other))).collect();
            if all.len() > SCENARIOS {
                return Ok(Err("too many combinations of branches decide which parts were evaluated"));
            }
        }
        if !others {
            // The last combination is that no branch holds.
            all.pop();
        }
    } else {
        if !others {
            all.clear();
        }
        for (literal, inner) in &knowing {
            let holds = Scenario::with(vec![Atom::Schema(*literal)]);
            all.extend(inner.iter().map(|inner| holds.and(inner)));
        }
    }
    Ok(Ok(all))
}

/// The scenarios of `if`, `then` and `else`.
fn conditional(ex: &Expander, node: NodeId, search: &mut Search) -> Result<Scenarios, SchemaError> {
    let member = |keyword| ex.schemas.keyword(node, keyword);
    let Some(condition) = member("if") else { return Ok(Ok(vec![Scenario::default()])) };
    let mut inner = |schema: Option<NodeId>| match schema {
        Some(schema) => of(ex, schema, search),
        None => Ok(Ok(vec![Scenario::default()])),
    };
    let parts = (inner(Some(condition))?, inner(member("then"))?, inner(member("else"))?);
    let (holds, then, otherwise) = match parts {
        (Ok(holds), Ok(then), Ok(otherwise)) => (holds, then, otherwise),
        (Err(reason), ..) | (_, Err(reason), _) | (.., Err(reason)) => return Ok(Err(reason)),
    };
    if ![&holds, &then, &otherwise].into_iter().flatten().any(Scenario::knows) {
        return Ok(Ok(vec![Scenario::default()]));
    }
    let literal = ex.schemas.literal(condition)?;
    let yes = Scenario::with(vec![Atom::Schema(literal)]);
    let no = Scenario::with(vec![Atom::Schema(literal.not())]);
    let mut all = vec![];
    for holds in &holds {
        all.extend(then.iter().map(|then| yes.and(holds).and(then)));
    }
    all.extend(otherwise.iter().map(|otherwise| no.and(otherwise)));
    Ok(Ok(all))
}
