"""Constraints whose laws, with the end of the model's text, can be written out: README's signatures, and five more."""

import json
import random
import string

import unskew

LETTER = (
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
)
SIGNATURES = ["Thomas Hansen", "Peter Costa", "Paul Becker"]


GIVEN = ["Anna", "Maria", "Sarah", "Emma", "Peter", "Thomas", "David", "Paul", "Daniel", "Martin"]

#: Names that the model knows.
KNOWN = (
    "Keller Brown Meyer Silva Rossi Clark Novak Walker Costa Hughes Schmidt Lopez Bennett Fischer Moreau Larsen Tanaka Wright Santos Berg "
    "Cooper Romano Patel Baker Weber Hansen Murphy Petrov Martin Hill Vogel Torres Lindholm Reed Marino Ward Kovacs Sato Dubois Fox"
).split()


def surnames(count):
    """So many: those that the model knows, and others of random letters."""
    dice, names = random.Random(1), dict.fromkeys(KNOWN)
    while len(names) < count:
        letters = dice.choice(string.ascii_uppercase), *dice.choices(string.ascii_lowercase, k=dice.randint(3, 7))
        names["".join(letters)] = None
    return list(names)


def items(folder):
    """A file with a set of 10^4 items."""
    path = folder / "names.txt"
    path.write_text("".join(f" {name}\n" for name in surnames(10_000)))
    return path


#: (name, prompt, constraint, the most tokens with the end)
def cases(folder):
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Anna Wong", "Peter Costa", "Hugo Silva"]}, "age": {"type": "integer", "minimum": 18, "maximum": 40}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    schema = unskew.Constraint.json_schema(json.dumps(schema), whitespace="spaced")
    lark = 'start: " " DAY " " MONTH\nDAY: /[1-9]|1[0-9]|2[0-8]/\nMONTH: "May" | "June" | "July"'
    listed = [
        ("signatures", LETTER, unskew.Constraint.choice(SIGNATURES), 24),
        ("regex of 1,000 strings", LETTER, unskew.Constraint.regex(f"({'|'.join(GIVEN)}) ({'|'.join(surnames(100))})"), 24),
        ("schema", '{"name": "Maria Lang", "age": 31}\n', schema, 32),
        ("set of 10,000 items", LETTER + "Peter", unskew.Constraint.set(items(folder)), 16),
        ("lark", "Dear Ms Meyer,\nYour order was sent on", unskew.Constraint.lark(lark), 12),
        ("canonical", "Kind regards,\n", unskew.Constraint.regex("(Anna|Peter|Paul|Maria) (Costa|Becker|Lang)", canonical=True), 24),
    ]
    return [(name, prompt, constraint.with_end("model"), most) for name, prompt, constraint, most in listed]
