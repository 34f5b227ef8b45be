//! Writes out rules with parameters: templates of Lark, `list{item, sep}: item (sep item)*`, and rules with
//! [a number as parameter](super::parameters).
//!
//! Each use with other arguments is a rule of its own, made when it is met first. So later stages know plain rules
//! alone. Arguments are compared by their form: each form has a number, and an argument that is used twice is
//! compared once. Nothing recurses.
//!
//! A template that calls itself with ever larger arguments, and a parameter with too many values, end at
//! [`GrammarLimits::nodes`](unskew_grammar::GrammarLimits::nodes).

use std::collections::HashMap;

use unskew_grammar::{GrammarLimits, SyntaxError, SyntaxErrorKind};

use crate::syntax::{
    text::error::location,
    tree::{Definition, Node, NodeId, Tree, parameters::Parameter, undefined},
};

/// The parameters of a definition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Parameters {
    #[default]
    None,
    /// The names of a template.
    Names(Vec<u32>),
    /// A number.
    Number,
}

/// A use of a rule with parameters.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) name: u32,
    pub(crate) arguments: Arguments,
}

#[derive(Clone, Debug)]
pub(crate) enum Arguments {
    Nodes(Vec<NodeId>),
    Number(Parameter),
}

/// The arguments of a rule that is being written out.
#[derive(Clone, Default)]
enum Values {
    #[default]
    None,
    Nodes(HashMap<u32, NodeId>),
    Number(u64),
}

/// A definition with the forms of its arguments, or the value of its parameter.
type Key = (usize, Vec<u64>);

/// Replaces the definitions that have parameters by one for each use. `text` is that of the grammar.
///
/// # Errors
///
/// A call with other arguments than the rule has, and more nodes than the limit.
pub(crate) fn expand(tree: &mut Tree<'_>, text: &str, limits: &GrammarLimits) -> Result<(), SyntaxError> {
    let is_plain = |definition: &Definition| definition.parameters == Parameters::None;
    if tree.definitions.iter().all(is_plain) && !tree.has_calls() {
        return Ok(());
    }
    let mut expansion = Expansion {
        text,
        limits,
        known: HashMap::new(),
        forms: HashMap::new(),
        form_of: HashMap::new(),
        open: vec![],
    };
    for definition in 0..tree.definitions.len() {
        if is_plain(&tree.definitions[definition]) {
            let body = tree.definitions[definition].body;
            let own = tree.definitions[definition].name;
            let copy = expansion.copy(tree, body, &Values::None)?;
            tree.definitions[definition].body = copy.unwrap_or_else(|| tree.push_name(own, body));
        }
    }
    while let Some((definition, values, own)) = expansion.open.pop() {
        let Definition { body, at, terminal, .. } = tree.definitions[definition];
        let copy = expansion.copy(tree, body, &values)?;
        // A rule that is itself alone has no text.
        let body = copy.unwrap_or_else(|| tree.push_name(own, body));
        let instance = Definition { name: own, at, body, terminal, parameters: Parameters::None };
        tree.define(instance).expect("the name is new");
    }
    tree.remove_parametric();
    Ok(())
}

struct Expansion<'a> {
    text: &'a str,
    limits: &'a GrammarLimits,
    /// The names of the rules that were made.
    known: HashMap<Key, u32>,
    /// The numbers of the forms of nodes: by the node without its parts, and the forms of those.
    forms: HashMap<(String, Vec<u64>), u64>,
    /// By node: the number of its form.
    form_of: HashMap<NodeId, u64>,
    /// The rules that are not written out yet: definition, arguments and name.
    open: Vec<(usize, Values, u32)>,
}

impl Expansion<'_> {
    /// A copy of `body` with these arguments. `None` if a condition excludes all of it.
    fn copy(
        &mut self,
        tree: &mut Tree<'_>,
        body: NodeId,
        values: &Values,
    ) -> Result<Option<NodeId>, SyntaxError> {
        let mut copies: HashMap<NodeId, Option<NodeId>> = HashMap::new();
        // A call after a condition that fails is no call: its parameter may grow without end.
        let is_excluded = |tree: &Tree<'_>, node: NodeId| {
            match (values, tree.node(node)) {
            (Values::Number(value), Node::Sequence(parts)) => tree.parts(parts).iter().any(|part| {
                matches!(tree.node(*part), Node::Guard(condition) if !tree.condition(condition).holds(*value))
            }),
            _ => false,
        }
        };
        for node in reached(tree, body, is_excluded) {
            if is_excluded(tree, node) {
                copies.insert(node, None);
                continue;
            }
            let copy = self.copy_node(tree, node, values, &copies)?;
            copies.insert(node, copy);
            if tree.size() > self.limits.nodes {
                let limit = self.limits.nodes;
                let message = format!(
                    "rules with parameters take more than {limit} nodes once they are written out (GrammarLimits::nodes): give them \
                     fewer different arguments, or raise the limit"
                );
                return Err(self.error(tree, node, SyntaxErrorKind::Invalid { message }));
            }
        }
        Ok(copies[&body])
    }

    fn copy_node(
        &mut self,
        tree: &mut Tree<'_>,
        node: NodeId,
        values: &Values,
        copies: &HashMap<NodeId, Option<NodeId>>,
    ) -> Result<Option<NodeId>, SyntaxError> {
        let at = tree.place(node);
        let form = tree.node(node);
        Ok(match form {
            Node::Name(name) => match values {
                Values::Nodes(nodes) if nodes.contains_key(&name) => Some(nodes[&name]),
                _ => {
                    if let Some(definition) = tree.definition_of(name)
                        && tree.definitions[definition].parameters != Parameters::None
                    {
                        let way_out = match tree.definitions[definition].parameters {
                            Parameters::Number => "write the value of its parameter, as in `rule::0`",
                            _ => "write its arguments, as in `list{item}`",
                        };
                        let message = format!("`{}` has parameters: {way_out}", tree.name(name));
                        return Err(self.error(tree, node, SyntaxErrorKind::Invalid { message }));
                    }
                    Some(node)
                }
            },
            Node::Call(call) => Some(self.call(tree, node, call, values, copies)?),
            Node::Guard(condition) => match values {
                Values::Number(value) if tree.condition(condition).holds(*value) => {
                    Some(tree.literal(b"", at))
                }
                Values::Number(_) => None,
                _ => {
                    let message = "`%if` outside of a rule with a parameter, such as `rule::_: …`".to_owned();
                    return Err(self.error(tree, node, SyntaxErrorKind::Invalid { message }));
                }
            },
            Node::Sequence(parts) => {
                let parts: Option<Vec<NodeId>> = tree.parts(parts).iter().map(|part| copies[part]).collect();
                parts.map(|parts| tree.sequence(&parts, at))
            }
            Node::Choice(parts) => {
                let parts: Vec<NodeId> = tree.parts(parts).iter().filter_map(|part| copies[part]).collect();
                (!parts.is_empty()).then(|| tree.choice(&parts, at))
            }
            Node::Repeat(item, min, max) => match copies[&item] {
                Some(item) => Some(tree.push(Node::Repeat(item, min, max), at)),
                None if min == 0 => Some(tree.literal(b"", at)),
                None => None,
            },
            Node::Minus(left, right) => self.pair(tree, at, Node::Minus, copies[&left], copies[&right]),
            Node::And(left, right) => self.pair(tree, at, Node::And, copies[&left], copies[&right]),
            Node::Before(left, right) => self.pair(tree, at, Node::Before, copies[&left], copies[&right]),
            Node::Not(item) => copies[&item].map(|item| tree.push(Node::Not(item), at)),
            Node::Shortest(item) => copies[&item].map(|item| tree.push(Node::Shortest(item), at)),
            Node::Within(item, most) => copies[&item].map(|item| tree.push(Node::Within(item, most), at)),
            Node::Budget(item, most) => copies[&item].map(|item| tree.push(Node::Budget(item, most), at)),
            _ => Some(node),
        })
    }

    fn pair(
        &self,
        tree: &mut Tree<'_>,
        at: usize,
        node: fn(NodeId, NodeId) -> Node,
        left: Option<NodeId>,
        right: Option<NodeId>,
    ) -> Option<NodeId> {
        left.zip(right).map(|(left, right)| tree.push(node(left, right), at))
    }

    /// The rule of a call, as a node.
    fn call(
        &mut self,
        tree: &mut Tree<'_>,
        node: NodeId,
        call: u32,
        values: &Values,
        copies: &HashMap<NodeId, Option<NodeId>>,
    ) -> Result<NodeId, SyntaxError> {
        let Call { name, arguments } = tree.call(call).clone();
        let at = tree.place(node);
        let Some(definition) = tree.definition_of(name) else {
            return Err(undefined(self.text, tree, name, at));
        };
        let invalid = |message: String| SyntaxError {
            kind: SyntaxErrorKind::Invalid { message },
            location: location(self.text, at),
        };
        let (key, values) = match (&tree.definitions[definition].parameters, arguments) {
            (Parameters::Names(names), Arguments::Nodes(arguments)) if names.len() == arguments.len() => {
                let names = names.clone();
                let mut nodes = HashMap::new();
                let mut forms = Vec::new();
                for (name, argument) in names.into_iter().zip(arguments) {
                    let argument = copies[&argument].expect("arguments have no conditions");
                    forms.push(self.form(tree, argument));
                    nodes.insert(name, argument);
                }
                ((definition, forms), Values::Nodes(nodes))
            }
            (Parameters::Number, Arguments::Number(parameter)) => {
                let caller = if let Values::Number(value) = values { Some(*value) } else { None };
                let Some(value) = parameter.of(caller) else {
                    return Err(invalid(
                        "the rule around this call has no parameter: write a number".to_owned(),
                    ));
                };
                ((definition, vec![value]), Values::Number(value))
            }
            (Parameters::Names(names), _) => {
                let message = format!("`{}` is a template of {} arguments", tree.name(name), names.len());
                return Err(invalid(message));
            }
            (Parameters::Number, _) => {
                let message = format!("`{}` has a number as its parameter, as in `rule::0`", tree.name(name));
                return Err(invalid(message));
            }
            (Parameters::None, _) => {
                let message = format!("`{}` has no parameters", tree.name(name));
                return Err(invalid(message));
            }
        };
        let own = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let own = tree.fresh(name);
                self.known.insert(key, own);
                self.open.push((definition, values, own));
                own
            }
        };
        Ok(tree.push(Node::Name(own), at))
    }

    /// The number of the form of `node`. A node that was met before is not visited again.
    fn form(&mut self, tree: &Tree<'_>, node: NodeId) -> u64 {
        for node in reached(tree, node, |_, node| self.form_of.contains_key(&node)) {
            if self.form_of.contains_key(&node) {
                continue;
            }
            let (own, parts) = tree.form(node);
            let parts = parts.iter().map(|part| self.form_of[part]).collect();
            let next = self.forms.len() as u64;
            let form = *self.forms.entry((own, parts)).or_insert(next);
            self.form_of.insert(node, form);
        }
        self.form_of[&node]
    }

    fn error(&self, tree: &Tree<'_>, node: NodeId, kind: SyntaxErrorKind) -> SyntaxError {
        SyntaxError { kind, location: location(self.text, tree.place(node)) }
    }
}

/// The nodes of which `node` consists, parts before the whole. Those of which only nodes with `is_leaf` consist are
/// left out.
fn reached(tree: &Tree<'_>, node: NodeId, is_leaf: impl Fn(&Tree<'_>, NodeId) -> bool) -> Vec<NodeId> {
    let mut seen: HashMap<NodeId, bool> = HashMap::new();
    let mut order = Vec::new();
    let mut open = vec![node];
    while let Some(&node) = open.last() {
        match seen.get(&node) {
            None => {
                seen.insert(node, false);
                if !is_leaf(tree, node) {
                    open.extend(tree.form(node).1);
                }
            }
            Some(is_done) => {
                open.pop();
                if !is_done {
                    seen.insert(node, true);
                    order.push(node);
                }
            }
        }
    }
    order
}
