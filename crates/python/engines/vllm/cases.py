"""Constraints whose laws can be written out: README's signatures, and five more."""

import json

import unskew

LETTER = (
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
)
SIGNATURES = ["Thomas Hansen", "Peter Costa", "Paul Becker"]


def numbers(folder):
    """A file with a set of 10^4 items."""
    path = folder / "numbers.txt"
    path.write_text("".join(f"{number:05d}\n" for number in range(0, 70_000, 7)))
    return path


#: (name, prompt, constraint, the most tokens with the end)
def cases(folder):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 40}, "ok": {"type": "boolean"}},
        "required": ["n", "ok"],
        "additionalProperties": False,
    }
    schema = unskew.Constraint.json_schema(json.dumps(schema), whitespace="compact")
    return [
        ("signatures", LETTER, unskew.Constraint.choice(SIGNATURES), 24),
        ("regex of 1,000 strings", "The lamp costs ", unskew.Constraint.regex("[0-9]{3}"), 8),
        ("schema", "A record: ", schema, 24),
        ("set of 10,000 items", "Order number ", unskew.Constraint.set(numbers(folder)), 10),
        ("lark", "The meeting is on ", unskew.Constraint.lark('start: DAY " " MONTH\nDAY: /[1-9]|1[0-9]|2[0-8]/\nMONTH: "May" | "June" | "July"'), 12),
        ("canonical", "Kind regards,\n", unskew.Constraint.regex("(Anna|Peter|Paul) (Costa|Becker)", canonical=True), 24),
    ]
