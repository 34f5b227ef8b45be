"""Tasks with questions, keys and constraints, and the command line that draws for them: what `ends.py` and `real.py` share.

A model with a chat template is asked by a message. One without is asked by two examples in front, and the answer then begins after a space.
"""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import tempfile

LABELS = ["computers", "cars", "motorcycles", "baseball", "hockey", "medicine", "space", "religion", "politics", "guns",
          "electronics", "graphics", "cooking", "music", "films", "travel", "gardening", "money", "weather", "fashion"]
EMOTIONS = ["joy", "sadness", "anger", "fear", "love", "surprise"]
SENTIMENT = ["positive", "negative", "neutral"]
TOPICS = ["Sports", "Science", "Politics", "Business", "Music"]
PERSON = {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 120}}
FIRST = """James Mary Robert Patricia John Jennifer Michael Linda David Elizabeth William Barbara Richard Susan Joseph Jessica Thomas Sarah
Charles Karen Christopher Lisa Daniel Nancy Matthew Betty Anthony Margaret Mark Sandra Donald Ashley Steven Kimberly Paul Emily Andrew Donna
Joshua Michelle Kenneth Carol Kevin Amanda Brian Melissa George Deborah Timothy Stephanie Ronald Rebecca Edward Sharon Jason Laura Jeffrey
Cynthia Ryan Dorothy Jacob Amy Gary Kathleen Nicholas Angela Eric Shirley Jonathan Emma Stephen Brenda Larry Pamela Justin Nicole Scott Anna
Brandon Samantha Benjamin Katherine Samuel Christine Gregory Helen Alexander Debra Patrick Rachel Frank Carolyn Raymond Janet Jack Maria
Dennis Olivia Jerry Heather""".split()
LAST = """Smith Johnson Williams Brown Jones Garcia Miller Davis Rodriguez Martinez Hernandez Lopez Gonzalez Wilson Anderson Thomas Taylor Moore
Jackson Martin Lee Perez Thompson White Harris Sanchez Clark Ramirez Lewis Robinson Walker Young Allen King Wright Scott Torres Nguyen Hill
Flores Green Adams Nelson Baker Hall Rivera Campbell Mitchell Carter Roberts Gomez Phillips Evans Turner Diaz Parker Cruz Edwards Collins
Reyes Stewart Morris Morales Murphy Cook Rogers Gutierrez Ortiz Morgan Cooper Peterson Bailey Reed Kelly Howard Ramos Kim Cox Ward Richardson
Watson Brooks Chavez Wood James Bennett Gray Mendoza Ruiz Hughes Price Alvarez Castillo Sanders Patel Myers Long Ross Foster Jimenez""".split()
ARTICLE = ("The harbour of Lisbon was rebuilt after the earthquake of 1755. Its walls are made of white stone from the hills in the north. "
           "Each spring the ships of the fishing fleet are painted blue and red. In 1966 a bridge over the river replaced the last ferry.")
QUERY = """start: "SELECT " columns " FROM " table (" WHERE " condition)? (" ORDER BY " COLUMN)? ";"
columns: "*" | "COUNT(*)" | COLUMN (", " COLUMN)*
condition: comparison ((" AND " | " OR ") comparison)*
comparison: COLUMN (" = " | " > " | " < ") value
value: NUMBER | "'" WORD "'"
table: "people" | "orders"
COLUMN: "name" | "age" | "city" | "price"
NUMBER: /[1-9][0-9]{0,3}/
WORD: /[A-Za-z]{1,12}/
"""
SUM = """start: sum
sum: product ((" + " | " - ") product)*
product: atom ((" * " | " / ") atom)*
atom: NUMBER | "(" sum ")"
NUMBER: /[1-9][0-9]{0,2}|0/
"""


def record(properties, required=None):
    required = list(properties) if required is None else required
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


@dataclasses.dataclass
class Task:
    """`kind` says what `constraint` is: a list of texts, a regex, a schema, a grammar of Lark, or the lines of a set. Each question has the
    answer that counts as right. `written` is a pattern of answers in free text, for tasks whose free answers can be read."""

    name: str
    kind: str
    constraint: object
    questions: list
    written: str | None = None

    def options(self, folder: pathlib.Path):
        """The options of the command line; files are written into `folder`."""
        if self.kind == "choices":
            return [part for choice in self.constraint for part in ("--choice", choice)]
        if self.kind == "regex":
            return ["--regex", self.constraint]
        suffix, option, text = {
            "schema": (".json", "--json-schema", lambda: json.dumps(self.constraint)),
            "lark": (".lark", "--grammar", lambda: self.constraint),
            "set": (".txt", "--set", lambda: "".join(f"{line}\n" for line in self.constraint)),
        }[self.kind]
        file = folder / f"constraint{suffix}"
        file.write_text(text())
        return [option, str(file), *(["--with", "whitespace=spaced"] if self.kind == "schema" else [])]


def _choices(name, texts, questions):
    return Task(name, "choices", texts, questions, "|".join(texts))


RECORD = '\\{"name": "[A-Z][a-z]{1,11}", "age": [1-9][0-9]\\}'
TASKS = [
    _choices("spam, 2 labels", ["spam", "ham"], [
        ("Is this message spam or ham? Answer with one word.\n\nYou have won 1,000,000 dollars! Click here to claim your prize now.", "spam"),
        ("Is this message spam or ham? Answer with one word.\n\nSee you at lunch, I am ten minutes late.", "ham"),
    ]),
    _choices("sentiment, 3 labels", SENTIMENT, [
        ("Is this review positive, negative or neutral? Answer with one word.\n\nI loved this film, every minute of it.", "positive"),
        ("Is this review positive, negative or neutral? Answer with one word.\n\nA waste of money. It broke after a day.", "negative"),
        ("Is this review positive, negative or neutral? Answer with one word.\n\nThe food was awful and the waiter rude.", "negative"),
    ]),
    _choices("topic, 5 labels", TOPICS, [
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nTeam wins the cup in the last minute", "Sports"),
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nShares of the bank fall by a tenth", "Business"),
        (f"Which topic is this headline about? Answer with one of {', '.join(TOPICS)}.\n\nTelescope finds a new planet", "Science"),
    ]),
    _choices("emotion, 6 labels", EMOTIONS, [
        (f"Which emotion is in this text? Answer with one of {', '.join(EMOTIONS)}.\n\nI cannot stop crying since she left.", "sadness"),
        (f"Which emotion is in this text? Answer with one of {', '.join(EMOTIONS)}.\n\nSomebody was standing behind the door in the dark.", "fear"),
    ]),
    _choices("newsgroup, 20 labels", LABELS, [
        (f"Which of these is the text about? {', '.join(LABELS)}. Answer with one word.\n\nThe rocket reached its orbit after nine minutes.", "space"),
        (f"Which of these is the text about? {', '.join(LABELS)}. Answer with one word.\n\nThe goalie stopped the puck in overtime.", "hockey"),
    ]),
    _choices("yes or no", ["Yes", "No"], [
        ("Is the sky blue on a clear day? Answer with Yes or No.", "Yes"),
        ("Is the Earth flat? Answer with Yes or No.", "No"),
        ("Do fish live in water? Answer with Yes or No.", "Yes"),
    ]),
    _choices("multiple choice", list("ABCD"), [
        ("Which planet is the largest? A: Jupiter. B: Mars. C: Earth. D: Venus. Answer with one letter.", "A"),
        ("What is the capital of France? A: Rome. B: Paris. C: Madrid. D: Berlin. Answer with one letter.", "B"),
        ("Which animal barks? A: cat. B: cow. C: dog. D: fish. Answer with one letter.", "C"),
    ]),
    Task("a number", "regex", "[0-9]{1,4}", [
        ("What is 7 plus 5? Answer with the number alone.", "12"),
        ("How many days has a week? Answer with the number alone.", "7"),
        ("How many legs has a spider? Answer with the number alone.", "8"),
    ], "[0-9]{1,4}"),
    Task("a date", "regex", "[0-9]{4}-[0-9]{2}-[0-9]{2}", [
        ("On which day did the first man land on the moon? Answer with the date as YYYY-MM-DD, such as 1999-12-31.", "1969-07-20"),
        ("Write the date 5 March 2021 as YYYY-MM-DD, such as 1999-12-31.", "2021-03-05"),
    ], "[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Task("a phone number", "regex", "\\([0-9]{3}\\) [0-9]{3}-[0-9]{4}", [
        ("Copy the phone number: call me at (555) 010-4477 after six.", "(555) 010-4477"),
        ("Which phone number is in this text? Our office has the number (212) 555-0199.", "(212) 555-0199"),
    ], "\\([0-9]{3}\\) [0-9]{3}-[0-9]{4}"),
    Task("a tool call", "schema", record({"name": {"const": "get_weather"}, "city": {"enum": ["Paris", "Berlin", "Tokyo", "Madrid"]},
                                          "unit": {"enum": ["C", "F"]}}), [
        ('Call the tool for the weather in Tokyo in Celsius. Answer with JSON alone, like {"name": "get_weather", "city": "Paris", "unit": "F"}.',
         '{"name": "get_weather", "city": "Tokyo", "unit": "C"}'),
    ], '\\{"name": ?"get_weather", ?"city": ?"(?:Paris|Berlin|Tokyo|Madrid)", ?"unit": ?"[CF]"\\}'),
    Task("a record", "regex", RECORD, [
        ('Write the person as JSON, like {"name": "Anna", "age": 27}: Peter is 41 years old.', '{"name": "Peter", "age": 41}'),
        ('Write the person as JSON, like {"name": "Anna", "age": 27}: Maria is 35 years old.', '{"name": "Maria", "age": 35}'),
    ], RECORD),
    Task("a record by schema", "schema", record({**PERSON, "city": {"type": "string", "maxLength": 20}}), [
        ('Write the person as JSON with name, age and city, like {"name": "Anna", "age": 27, "city": "Oslo"}: Peter, 41, lives in Rome.',
         '{"name": "Peter", "age": 41, "city": "Rome"}'),
    ]),
    Task("optional members", "schema", record({**PERSON, "city": {"type": "string", "maxLength": 20}, "job": {"type": "string", "maxLength": 20}},
                                              ["name"]), [
        ('Write the person as JSON. The name is needed, age, city and job are not, like {"name": "Anna", "job": "cook"}: Peter lives in Rome.',
         '{"name": "Peter", "city": "Rome"}'),
    ]),
    Task("arithmetic, a grammar", "lark", SUM, [
        ("Write seven plus five times two as an expression, such as 3 + 4 * 2. Answer with the expression alone.", "7 + 5 * 2"),
    ]),
    Task("SQL, a grammar", "lark", QUERY, [
        ("Write SQL: the names of all people older than 30, from the table people with name, age, city. Answer with the query alone.",
         "SELECT name FROM people WHERE age > 30;"),
    ]),
    Task("one of 10,000 names", "set", [f"{first} {last}" for first, last in itertools.product(FIRST, LAST)], [
        ("Write the full name of an American, such as Mary Smith. Answer with the name alone.", None),
    ]),
    Task("a citation", "lark", f"start: %regex {json.dumps({'substring_words': ARTICLE})}\n", [
        (f"Copy the sentence about the bridge from this text, word for word.\n\n{ARTICLE}",
         "In 1966 a bridge over the river replaced the last ferry."),
    ]),
]

EXAMPLES = ("Question: What colour is grass? Answer with one word.\nAnswer: green\n\n"
            "Question: What is 3 plus 4? Answer with the number alone.\nAnswer: 7\n\n")


def variation(one, other):
    """The total variation between two distributions of answers."""
    return 0.5 * sum(abs(one.get(answer, 0) - other.get(answer, 0)) for answer in {*one, *other})


class Program:
    """The command line, over one model."""

    def __init__(self, program, model, chat):
        self.program, self.model, self.chat = program, model, chat

    def prompt(self, question, constrained=True):
        # A word that is written freely brings its own space.
        return question if self.chat else f"{EXAMPLES}Question: {question}\nAnswer:{' ' if constrained else ''}"

    def run(self, command, task, question, more, timeout=3600):
        """The values of a run's lines of JSON, and what it says on standard error. Without a task nothing is constrained."""
        prompt = self.prompt(question, task is not None)
        with tempfile.TemporaryDirectory() as folder:
            options = [] if task is None else task.options(pathlib.Path(folder))
            words = [self.program, command, "--model", self.model, "--prompt", prompt, "--format", "jsonl", *more, *options]
            done = subprocess.run(words + (["--chat"] if self.chat else []), capture_output=True, text=True, timeout=timeout)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr
