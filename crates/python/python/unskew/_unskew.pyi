import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, final, overload

from ._tools import Call

__version__: str

#: Some 5 seconds of compiling, as fuel.
COMPILE_FUEL: int

#: A constraint, or a type that `Constraint.of` makes one of.
Given: TypeAlias = Any

class Fate(TypedDict):
    pointer: str | None
    span: str | None
    construct: str
    fate: str
    why: str

class Loosening(TypedDict):
    kind: str
    place: str
    why: str

class Rejection(TypedDict):
    offset: int
    before: str
    after: str
    expected: list[str]
    expected_count: int
    may_end: bool
    message: str

class Method(TypedDict):
    name: str
    help: str
    distribution: str
    parameters: list[str]

class Stats(TypedDict):
    hits: int
    misses: int
    entries: int
    bytes: int
    evicted: int
    compiling: int
    library_bytes: int
    tokens_bytes: int

@final
class Tokenizer:
    """The tokens of a model: which bytes each id stands for, and how a text becomes ids.

    `vocab_size` is the length of the model's rows where the tokenizer has fewer ids or more; ids on one side alone are unused. `eos`
    are the ids that end a sequence, by default those that well-known names tell. Raises `TokenizerError`.
    """

    @staticmethod
    def from_file(path: str | os.PathLike[str], *, vocab_size: int = 0, eos: Sequence[int] | None = None) -> Tokenizer:
        """Loads a `tokenizer.json`, a GGUF file, or the folder of a checkpoint.

        A folder says by `config.json` and `generation_config.json` which ids end a sequence.
        """
    @staticmethod
    def from_json(text: str | bytes, *, vocab_size: int = 0, eos: Sequence[int] | None = None) -> Tokenizer:
        """Reads the text of a `tokenizer.json`."""
    @staticmethod
    def from_hf(tokenizer: Any, *, vocab_size: int = 0, eos: Sequence[int] | None = None) -> Tokenizer:
        """The tokenizer of a `transformers` fast tokenizer, or one of the `tokenizers` package."""
    @staticmethod
    def from_tiktoken(
        ranks: bytes,
        pattern: str,
        special: Sequence[tuple[str, int]] = ...,
        *,
        vocab_size: int = 0,
        eos: Sequence[int] | None = None,
    ) -> Tokenizer:
        """Reads a rank file, as tiktoken has them, with its pattern and its special tokens."""
    @staticmethod
    def from_vocabulary(tokens: Sequence[bytes | str | None], *, eos: Sequence[int]) -> Tokenizer:
        """A vocabulary alone: bytes of text tokens, names of control tokens, and None for unused ids."""
    @property
    def vocab_size(self) -> int:
        """How many ids there are: the length of a row of logits."""
    @property
    def mask_words(self) -> int:
        """How many words of 32 bits a mask has."""
    @property
    def eos(self) -> list[int]:
        """The ids that end a sequence."""
    @property
    def notes(self) -> list[str]:
        """What is unusual about how the file says that ids become text: a missing decoder, one that does not read what the encoder writes, or
        one that changes texts."""
    def encode(self, text: str) -> list[int]:
        """The ids of a text in the middle of another, as of an output."""
    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a prompt, with those that the tokenizer puts in front of a text."""
    def decode(self, ids: Sequence[int]) -> str:
        """The text of an output, with replacement characters where it is not UTF-8."""
    def decode_bytes(self, ids: Sequence[int]) -> bytes:
        """The bytes of an output."""

@final
class Constraint:
    """A constraint on outputs, as data. `Compiler.compile` makes matchers of it, and `sample` outputs.

    `canonical` allows only the token sequences that the tokenizer itself writes for their text. Raises
    `ConstraintError` for options that do not go together. The text itself is read by `compile` and `explain`.
    """

    @staticmethod
    def of(type: Any) -> Constraint:
        """The outputs that are values of a type; a draw's `value` is one.

        A list of texts (a `Literal` or an `Enum` of strings alone) and a compiled pattern are written as they are. A value of any other type is
        JSON: scalars, `list`, `dict`, `tuple`, `set`, unions, dataclasses, `TypedDict`, `NamedTuple`, dates, times, UUIDs, and all that pydantic
        knows, where it is installed. A type stands for its constraint wherever a function takes one. Raises `ConstraintError` for a type that
        no schema describes exactly, with the type as its place.
        """
    @staticmethod
    def tools(
        tools: Any,
        *,
        model: str,
        choice: Any = "auto",
        parallel: bool = True,
        reasoning: bool | Literal["auto"] | None = None,
        response_format: Any = None,
        closed: bool | None = None,
    ) -> Constraint:
        """The outputs in which a model calls tools, as its family writes them; a draw's `calls` are read back.

        `tools`: functions with annotated parameters, the list that an MCP server answers to `tools/list`, or tools of OpenAI's interface.
        `model`: the name of the model, or of its family (an unknown one is an error that lists those that are known). `choice`: "auto",
        "required", "none", a function or the name of a tool. `reasoning`: whether the model reasons first in its own marks. `response_format`: a
        type, or OpenAI's object, of an answer without calls; a draw's `value` is one then, and None where there are calls. `closed`: whether
        objects of schemas that declare members have no others (None: where a tool says `strict`; those of functions always).
        """
    def value_of(self, text: str) -> Any:
        """The value of a text that is an output, of the type that the constraint was made of; without one, the text. Raises `ConstraintError`
        for a text that is no value, and by its name for a validator that refuses it."""
    def calls_of(self, text: str) -> list[Call]:
        """The calls of tools in a text that is an output, with control tokens by their names."""
    @staticmethod
    def regex(pattern: str, *, dialect: str | None = None, canonical: bool = False) -> Constraint:
        """The whole output matches the pattern, as `re.fullmatch` has it. `dialect` is `python` (default), `rust` or `ecma`."""
    @staticmethod
    def choice(choices: Sequence[str], *, canonical: bool = False) -> Constraint:
        """The output is one of these texts."""
    @staticmethod
    def json_schema(
        schema: str | bool | Mapping[str, Any],
        *,
        canonical: bool = False,
        whitespace: str | None = None,
        spelling: str | None = None,
        any_order: bool = False,
        margin: int | None = None,
        ascii: bool = False,
        exponents: int | None = None,
        dialect: str | None = None,
        registry: Mapping[str, str | bool | Mapping[str, Any]] | None = None,
    ) -> Constraint:
        """The output is JSON that satisfies a JSON Schema: a text, or a value that becomes JSON.

        `whitespace`: "printed" (a blank, or a line break and an indentation, in each place; the default), "compact", "spaced", "line",
        "bounded:N", "flexible" or "indent:N". `spelling`: "plain" (the default: integers have no fraction, zero has no sign) or "any".
        `dialect`, of a schema without `$schema`: "draft-04", "draft-06", "draft-07", "2019-09", "2020-12", "openapi-3.0" or "openapi-3.1".
        """
    @staticmethod
    def lark(
        grammar: str,
        *,
        canonical: bool = False,
        max_ignored: int | None = None,
        start: str | None = None,
        grammars: Mapping[str, Given] | None = None,
    ) -> Constraint:
        """The output is a word of a grammar in Lark, or of llguidance's list of grammars in JSON.

        `start`: the start rule. `grammars`: the constraints that the grammar uses as `@name`.
        """
    @staticmethod
    def any_of(parts: Sequence[Given], *, canonical: bool = False) -> Constraint:
        """The output is one of any of these constraints."""
    @staticmethod
    def sequence(parts: Sequence[Given], *, canonical: bool = False) -> Constraint:
        """The output is one of each of these constraints, one after the other. A token may cross the boundary."""
    @staticmethod
    def gbnf(grammar: str, *, canonical: bool = False, start: str | None = None) -> Constraint:
        """The output is a word of a grammar in GBNF, as llama.cpp has them."""
    @staticmethod
    def ebnf(grammar: str, *, canonical: bool = False, start: str | None = None) -> Constraint:
        """The output is a word of a grammar in the EBNF of the W3C."""
    @staticmethod
    def xgrammar(grammar: str, *, canonical: bool = False, start: str | None = None) -> Constraint:
        """The output is a word of a grammar in the EBNF of XGrammar, with `Regex(...)`, `TagDispatch(...)` and options of rules."""
    @staticmethod
    def abnf(grammar: str, *, canonical: bool = False, start: str | None = None) -> Constraint:
        """The output is a word of a grammar in ABNF, as in RFCs. The start rule is the first one, if `start` names no other."""
    @staticmethod
    def structural_tag(
        tag: str | Mapping[str, Any], *, canonical: bool = False, whitespace: str | None = None, spelling: str | None = None
    ) -> Constraint:
        """The output is as a structural tag says: a text, or a value that becomes JSON."""
    @staticmethod
    def set(path: str | os.PathLike[str], *, subset: str | None = None, canonical: bool = False) -> Constraint:
        """The output is an item of the set in a file: a built set, or a text with one item a line."""
    @staticmethod
    def exclude_set(path: str | os.PathLike[str]) -> Constraint:
        """The output is any text but an item of the set in a file."""
    @staticmethod
    def anything(*, canonical: bool = False) -> Constraint:
        """Any text; with `canonical`, in the tokenizer's own spelling."""
    @staticmethod
    def response_format(format: str | Mapping[str, Any]) -> Constraint:
        """The constraint of a `response_format` of OpenAI's interface: a text, or a value that becomes JSON."""
    @staticmethod
    def of_request(
        spec: str | Mapping[str, Any] | Constraint,
        *,
        files: str | os.PathLike[str] | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Constraint:
        """The constraint that a client asks of a server: JSON, as `to_json` writes it, or a constraint that was made of a request.

        Files lie in the folder `files`, after links are followed; without one a request names none, however deep. `limits` are those of
        every request by their names; a request may lower its own and raise none. Raises `ConstraintError` with the `place`, and
        `OptionError` for `limits` that there are not.
        """
    @staticmethod
    def from_json(text: str) -> Constraint:
        """The constraint that JSON describes, as `to_json` writes it."""
    def with_limits(self, limits: Mapping[str, int]) -> Constraint:
        """The same constraint with other limits on its cost: numbers by the names that errors give, as in
        `with_limits({"grammar.positions": 5_000_000})`."""
    def with_end(self, end: str) -> Constraint:
        """The same constraint with outputs that end so: `free`, where the model's text leaves the constraint (as it is where nobody says),
        or `model`, where the model ends its text. Masks are the same under both."""
    def _read_by(self, reader: Any) -> Constraint: ...
    def to_json(self) -> str:
        """The constraint as one line of JSON."""
    def explain(self) -> list[Fate]:
        """The fate of every construct of a regex, a grammar, a schema or a structural tag: `enforced`, `narrowed`,
        `annotation` or `rejected`, with the reason."""
    def to_gbnf(self, *, max_bytes: int = 200_000, strict: bool = False) -> tuple[str, list[Loosening]]:
        """The constraint in GBNF, which llama.cpp reads, and the places where that text allows more.

        A text beyond `max_bytes` is loosened. Raises `ConstraintError` for what GBNF does not describe, where the text stays too long, and
        with `strict` for each place where it would allow more.
        """
    def __or__(self, other: Given) -> Constraint:
        """The outputs of either; a `str` stands for itself."""
    def __ror__(self, other: Given) -> Constraint: ...
    def __add__(self, other: Given) -> Constraint:
        """The outputs of one after the other; a `str` stands for itself. They have no type: a draw's `value` is the text."""
    def __radd__(self, other: Given) -> Constraint: ...
    def __hash__(self) -> int: ...

@final
class Compiler:
    """Compiles constraints for the tokens of one model, once each, and keeps them within a limit in bytes.

    Threads share it. `cache_bytes` (default 1 GiB) is for compiled constraints, `library_bytes` (256 MiB) for trees that
    grammars share, `constraint_bytes` (32 MiB) for the masks of one constraint.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        cache_bytes: int | None = None,
        library_bytes: int | None = None,
        constraint_bytes: int | None = None,
    ) -> None: ...
    def compile(self, constraint: Given, *, timeout: float | None = None, fuel: int | None = None) -> Compiled:
        """The constraint, compiled or kept from before, within `timeout` seconds and `fuel` units of work.

        Whether fuel suffices depends on the constraint and the tokens alone, so that processes which must decide alike do:
        `COMPILE_FUEL` is some seconds of it. Raises `ConstraintError` with its `place`, `DeadlineError`, and `FuelError`, which is
        a kind of it. Ctrl-C ends it.
        """
    @property
    def mask_words(self) -> int:
        """How many words of 32 bits a mask has."""
    def stats(self) -> Stats:
        """Its work so far and the memory that it keeps."""
    def clear(self) -> None:
        """Forgets all constraints. Matchers keep theirs."""

@final
class Compiled:
    """A constraint that is compiled. Matchers are made of it."""

    @property
    def mask_words(self) -> int:
        """How many words of 32 bits a mask has."""
    @property
    def fuel(self) -> int:
        """The fuel that compiling took: equal constraints take the same for equal tokens."""
    @property
    def left_out(self) -> str | None:
        """The characters that the constraint has and no tokens write, as in "U+40000 to U+BFFFF": no output has them. None: they write all,
        or the constraint is about tokens."""
    @property
    def notes(self) -> list[str]:
        """What a user should know of the constraint: that its schema constrains nothing, or was found inside of a tool."""
    def rejection(self, ids: Sequence[int]) -> Rejection | None:
        """Where the text of these tokens leaves the constraint, and what could stand there: `offset` in bytes, the text `before` and `after`,
        the characters that are `expected` (`expected_count` of them, of many a few), whether the output `may_end`, and all of it as a `message`.
        None: it is accepted as a whole. A last id that ends the output may be given."""
    @property
    def memory(self) -> int:
        """The memory of the constraint and of its matchers' scratches, in bytes."""

@final
class Capture:
    """A part of an output that the constraint names (`name[capture]` in Lark and in XGrammar's EBNF)."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> bytes: ...
    @property
    def byte_span(self) -> tuple[int, int]:
        """Its first byte in the output, and the one after its last."""
    @property
    def token_span(self) -> tuple[int, int]:
        """The first token that has a byte of it, and the one after the last. Those at its borders may have bytes beside it."""

@final
class Matcher:
    """One sequence of tokens under a constraint.

    A mask has one bit for each id, least significant bit first; the ids that end an output are in it exactly where the
    output may end. `stop_ids` are these ids, by default the tokenizer's `eos`. Wrong use is a `MatcherError`. Threads may
    fill one matcher at once; a change while another thread reads is a `RuntimeError`.
    """

    def __init__(self, compiled: Compiled, *, stop_ids: Sequence[int] | None = None) -> None: ...
    def fill(self, mask: Any, row: int = 0) -> None:
        """Writes the mask of the next token into a row of `mask`: any writable buffer of int32, uint32 or bytes with one
        dimension or two, a tensor of torch on the CPU, or `Rows`. Words beyond the mask are cleared."""
    def accept(self, id: int) -> bool:
        """Appends a token. False: it is not allowed here, and nothing has changed."""
    def accept_all(self, ids: Sequence[int]) -> int:
        """Appends the longest allowed beginning of `ids`; answers with its length."""
    def validate(self, ids: Sequence[int]) -> int:
        """The length of the longest allowed beginning of `ids`. Nothing changes."""
    def rollback(self, count: int) -> None:
        """Takes back the last `count` tokens, the end among them."""
    def fork(self) -> Matcher:
        """A second matcher at the same place."""
    def reset(self) -> None:
        """Back to the start."""
    def forced(self, most: int = 1024) -> list[int]:
        """The tokens that follow in any case, each the only one allowed. To take them changes no distribution."""
    def forced_text(self, most: int = 1024) -> bytes:
        """Bytes that every continuation begins with. To take the tokenizer's spelling of them gives up other spellings."""
    def is_accepting(self) -> bool:
        """Whether the output may end here."""
    def is_terminated(self) -> bool:
        """Whether a stop id was accepted."""
    def captures(self) -> list[Capture] | None:
        """The parts of the output that the constraint names, by where they begin, the outer ones first; None where the output is not
        whole. The output is read once more, so this is for its end. Raises `MatcherError` where no reading is the first one."""
    def temperature(self) -> float | None:
        """The temperature that the constraint asks for at the next token (`name[temperature=0.5]` in Lark and XGrammar), for samplers that
        want it. The output is read from its first token on. Raises `MatcherError` where lazy terminals compete with others."""
    @property
    def ids(self) -> list[int]:
        """The ids so far, the end among them."""
    @property
    def stop_ids(self) -> list[int]:
        """The ids that end the output."""
    @property
    def mask_words(self) -> int:
        """How many words of 32 bits a mask has."""
    def __copy__(self) -> Matcher: ...
    def __deepcopy__(self, memo: Any) -> Matcher: ...

@final
class Rows:
    """Rows of masks in memory of the caller, looked at once: `fill` and `fill_batch` take them in place of the object.

    It saves a few hundred nanoseconds in each call. The memory must stay where it is, which its buffer sees to.
    """

    def __init__(self, mask: Any, mask_words: int) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def words(self) -> int:
        """The words of a row."""

def fill_batch(
    matchers: Sequence[Matcher],
    mask: Any,
    *,
    rows: Sequence[int] | None = None,
    drafts: Sequence[Sequence[int]] | None = None,
    parents: Sequence[Sequence[int]] | None = None,
    threads: int | None = None,
) -> None:
    """Writes the masks of many matchers in one call, each into the row that `rows` says (default: one after the other).

    With `drafts`, the masks after each draft token of a matcher come in the rows after its own; after a token that is not
    allowed, the row before it is repeated. With `parents`, drafts are trees: of each token the place of the one before it in its draft,
    -1 for the sequence itself; parents come first. `threads`: by default one for less than 16 rows, else one for each processor.
    """

def accept_batch(matchers: Sequence[Matcher], ids: Sequence[int]) -> list[bool]:
    """Appends one token to each matcher; answers with whether it was allowed, one by one."""

def apply(logits: Any, mask: Any) -> None:
    """Sets float32 logits to minus infinity where a mask forbids them, in place. Ids beyond the mask are forbidden."""

@final
class Draw:
    """One output of a sampler."""

    @property
    def ids(self) -> list[int]:
        """The ids, without the end of the sequence."""
    @property
    def text(self) -> str:
        """The text, with replacement characters where it is not UTF-8."""
    @property
    def value(self) -> Any:
        """The value of the text, as `Constraint.value_of` reads it. Raises `SampleError` where the output was cut off."""
    @property
    def calls(self) -> list[Call]:
        """The calls of tools in the text, as `Constraint.calls_of` reads them. Raises `OptionError` where the constraint is none of tools."""
    @property
    def log_prob(self) -> float:
        """The natural logarithm of the probability that the model itself gives the output, its end included."""
    @property
    def log_weight(self) -> float:
        """The logarithm of the weight that an average over outputs must give this one; 0 for exact samplers."""
    @property
    def prompt(self) -> int:
        """The place of its prompt among several; 0 of one."""
    def to_dict(self) -> dict[str, Any]:
        """What a table has of it: `prompt`, `text`, `log_prob`, `log_weight`, `finish`, `origin`, `ids`, `passes`, `proposals`."""
    def _repr_html_(self) -> str: ...
    @property
    def finish(self) -> Literal["stop", "length"]: ...
    @property
    def origin(self) -> Literal["proposed", "accepted", "resampled", "chained", "searched"]: ...
    def captures(self) -> list[Capture] | None:
        """The parts of it that the constraint names, by where they begin, the outer ones first; None where it was cut off. Raises
        `SampleError` where no reading is the first one."""
    @property
    def effective(self) -> float | None:
        """Of an output that "disc" has resampled, how many equal proposals its proposals are worth: it is within ln(1 + 1 / effective) nats
        of the model's distribution, as far as their weights tell. None of others."""
    @property
    def positions(self) -> int:
        """Positions that the model evaluated for it."""
    @property
    def passes(self) -> int:
        """Calls of the model for it."""
    @property
    def proposals(self) -> int:
        """Outputs proposed for it, those given up half-way among them."""
    @property
    def drafts_tested(self) -> int:
        """Tokens that a draft proposed and the model verified; 0 without drafts."""
    @property
    def drafts_accepted(self) -> int:
        """Those of them that were accepted."""

#: A text, ids, or the messages of a chat.
Prompt: TypeAlias = str | Sequence[int | Mapping[str, Any]]

#: One prompt, or a list of them. As one sequence: checkers read a list that is written in a call by one kind of elements.
Prompts: TypeAlias = str | Sequence[int | Mapping[str, Any] | str | Sequence[int | Mapping[str, Any]]]

class Model:
    """A language model that unskew runs: a GGUF file, the folder of a checkpoint (Hugging Face), or `table:FILE`.

    `tokenizer` is a `tokenizer.json` other than its own, and `quantize="q8_0"` keeps eight bits of each weight. The models are those of the
    command line's `--model`. Loading releases the interpreter lock. Raises `OptionError`, `TokenizerError`, and `SampleError` where the
    model cannot be run exactly.
    """

    def __init__(
        self, source: str | os.PathLike[str], *, tokenizer: str | os.PathLike[str] | None = None, quantize: str | None = None
    ) -> None: ...
    @property
    def tokenizer(self) -> Tokenizer:
        """Its tokens."""

@final
class Endpoint(Model):
    """A model that a server runs: vLLM, SGLang, llama.cpp, Ollama, LM Studio, or any with OpenAI's interface.

    With the `tokenizer` of the model (a `tokenizer.json`), and where the server gives whole rows of log-probabilities, every sampler runs.
    Without, outputs are drawn whole by rejection, which is exact too. `model` is its name where the server has several, `server` the kind
    (`vllm`, `sglang`, `llama.cpp`, `openai`) where it does not say so, and `key` the environment variable with the key (`UNSKEW_API_KEY`),
    which is in no message. `timeout` is in seconds. Raises `SampleError` where there is no such server.
    """

    def __init__(
        self,
        address: str,
        *,
        model: str | None = None,
        tokenizer: str | os.PathLike[str] | None = None,
        server: str | None = None,
        key: str | None = None,
        timeout: int | None = None,
        retries: int | None = None,
    ) -> None: ...

@final
class Draws(Iterator[Draw]):
    """An iterator over outputs, which are drawn as they are asked for."""

    @property
    def seed(self) -> int: ...
    @property
    def sampler(self) -> str: ...
    @property
    def explain(self) -> str:
        """The sampler, the distribution of its outputs and, where it was chosen, the reason."""
    @property
    def log_mass(self) -> float | None:
        """The natural logarithm of an estimate of P(constraint), the probability that the model satisfies the constraint by itself, from
        the outputs so far; None where the sampler gives none."""
    def __iter__(self) -> Draws: ...
    def __next__(self) -> Draw: ...
    def __enter__(self) -> Draws: ...
    def __exit__(self, *error: object) -> None: ...
    def to_list(self) -> list[Draw]:
        """All outputs that are left."""
    def to_pandas(self) -> Any:
        """All outputs that are left as a `pandas.DataFrame`: a row of `Draw.to_dict` for each."""
    def close(self) -> None:
        """Ends the drawing. Outputs under way are given up."""

def sample(
    logits: Callable[[list[list[int]]], Any] | Model,
    constraint: Given | None,
    tokenizer: Tokenizer | None = None,
    *,
    n: int | None = None,
    sampler: str = "auto",
    seed: int | None = None,
    prompt: Prompts | None = None,
    max_tokens: int | None = None,
    batch: int = 16,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    draft: str | Callable[[list[list[int]]], Any] | Model | None = None,
    progress: bool | Callable[[str, int], Any] | None = None,
    end: str | None = None,
    time_limit: float | None = None,
) -> Draws:
    """Outputs of a model under a constraint, from P(output | constraint) or as the sampler says (`methods`).

    `logits` is the model: a `Model`, which has its own tokens, or a function. A function gets a batch of sequences of ids, the prompt included, and gives one row of logits for each,
    as an array of float32 or float64, a tensor of torch on the CPU, or sequences; `tokenizer` has its tokens. It is called on the thread that
    iterates, and its exceptions come out of the iterator. `sampler` is a name with parameters, such as "cars",
    "smc:n=10,twisted" or "disc:k=8". `n` is how many outputs there will be at most; without it there is no end. `prompt` is a text, ids, or the messages
    of a chat (dicts with `role` and `content`, which the template of a `Model` or the method `encode_chat` of a function puts together). A list
    of prompts shares passes: `n` outputs (1) of the first one, then of the second, and so on; `draw.prompt` is the place. An error of
    one prompt ends its outputs, and the next call goes on with the others; an exception of the function ends all. `top_k` and
    `top_p` truncate the model before the mask. `draft` proposes tokens that the model verifies in one call: "ngram" (tokens that followed
    the same tokens before), "counts" (by place in a grammar or a JSON Schema), or a smaller model as a function; "speculative" and
    "mentored" need it. `progress=True` shows a line on standard error, and a function is called with the name of the sampler and the number of
    its outputs. `time_limit` ends the drawing after so many seconds, by a `SampleError`. Raises `ConstraintError`, `OptionError`, and `SampleError` while drawing.
    """

@final
class Stream(Iterator[str]):
    """The pieces of the text of one output, as they are drawn."""

    @property
    def draw(self) -> Draw:
        """The output, once its text was read to the end. Raises `SampleError` before."""
    def __iter__(self) -> Stream: ...
    def __next__(self) -> str: ...
    def __enter__(self) -> Stream: ...
    def __exit__(self, *error: object) -> None: ...
    def close(self) -> None:
        """Ends the drawing."""

def stream(
    logits: Callable[[list[list[int]]], Any] | Model,
    constraint: Given | None,
    tokenizer: Tokenizer | None = None,
    *,
    sampler: Literal["masked", "greedy"] = "masked",
    seed: int | None = None,
    prompt: Prompt | None = None,
    max_tokens: int | None = None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    end: str | None = None,
    time_limit: float | None = None,
) -> Stream:
    """The text of one output of `sample`, piece by piece while it is drawn; `draw` has the output at the end.

    Samplers that follow the model's own distribution may give up what they have begun, so that they have no text under way: only "masked"
    and "greedy" keep each token. Raises as `sample`, and `OptionError` for other samplers.
    """

def audit(
    logits: Callable[[list[list[int]]], Any] | Model,
    constraint: Given | None,
    tokenizer: Tokenizer | None = None,
    *,
    samplers: Sequence[str],
    n: int,
    seed: int,
    prompt: Prompt | None = None,
    max_tokens: int | None = None,
    batch: int = 16,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    progress: bool | Callable[[str, int], Any] | None = None,
    end: str | None = None,
    time_limit: float | None = None,
) -> tuple[str, str]:
    """The measures of `unskew.audit` as a text of JSON, and its page."""

def _tool_list(tools: str, closed: bool | None = None) -> list[tuple[str, str, str]]: ...
def _tools(
    model: str, tools: str, choice: str, parallel: bool, reasoning: str, response: str | None, closed: bool | None
) -> tuple[Constraint, str]: ...
def _draw(*state: Any) -> Draw: ...
def _panic() -> None: ...
def _run(arguments: Sequence[str]) -> int: ...
def methods() -> list[Method]:
    """The samplers, with their parameters and the distributions of their outputs."""

class WalkOptions(TypedDict, total=False):
    """What a walk depends on beside constraint and prompt; `max_tokens` is needed."""

    max_tokens: int
    mode: Literal["cars", "rejection", "weights", "twist"]
    #: All that the rows depend on beside the prompt: adapter, images, weights.
    context: str
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None

class WalkStats(TypedDict):
    tries: int
    accepted: int
    log_estimate: float | None
    relative_error: float | None
    log_bound: float
    #: For `merge_stats`.
    sums: tuple[float, float, bool] | None
    prefixes: int
    bytes: int

@final
class Faithful:
    """Walks of a serving engine that draw from the model's own distribution under constraints. Threads share it.

    For an engine that owns the batch and calls with rows of logits. Each of its sequences gets a `Walk`, which is asked for the
    id of a position, with the row there. All walks of one constraint, prompt and options (but `seed` and `reject_id`) learn from each other.
    `end_id` (default: the first `eos`) ends accepted sequences, `reject_id` (default: the token of a byte that is in no text, else a control
    token) rejected ones. What is learned stays within `max_bytes` (1 GiB), and within `state_bytes` (64 MiB) for one constraint and prompt.
    Rows have `row_len` logits (default: `Tokenizer.vocab_size`); longer ones are padded.
    """

    def __init__(
        self,
        compiler: Compiler,
        *,
        end_id: int | None = None,
        reject_id: int | None = None,
        row_len: int | None = None,
        max_bytes: int = ...,
        state_bytes: int = ...,
    ) -> None: ...
    def begin(
        self,
        constraint: Given,
        prompt: Sequence[int],
        *,
        seed: int,
        alone: bool = False,
        reject_id: int | None = None,
        timeout: float | None = None,
        fuel: int | None = None,
        **options: Unpack[WalkOptions],
    ) -> Walk:
        """Begins a walk along a new sequence, of at most `options["max_tokens"]` ids without the end.

        Accepted outputs follow the distribution of the model at that temperature, after that truncation, under the constraint and that
        length, whatever else is under way, if they are taken in the order in which their walks were begun: as they end, short ones come
        first. A walk that is rejected, or dropped half-way, is replaced by a new one. In the modes "weights" and "twist" every output has a
        weight instead. A walk that is `alone` learns from no other, so that its seed and its rows decide what it gives. `context` names all that the rows depend on beside `prompt`: adapter, images, weights. `seed` decides the random
        numbers; `reject_id` is another id than that of all walks. Raises `ConstraintError`, `DeadlineError`, `OptionError`, and `SampleError`
        where walks under way hold all the memory.
        """
    def stats(self, constraint: Given, prompt: Sequence[int], **options: Unpack[WalkOptions]) -> WalkStats | None:
        """The findings so far, as `Walk.stats`; None where no walk is known."""
    def forget(self, context: str | None = None) -> None:
        """Forgets all that was learned in a context (None: in all), whose model was replaced. Its walks under way are rejected."""
    @property
    def end_id(self) -> int: ...
    @property
    def reject_id(self) -> int: ...
    @property
    def row_len(self) -> int:
        """The length of a row of logits."""
    @property
    def states(self) -> int:
        """How many prompts and constraints are known."""
    @property
    def bytes(self) -> int:
        """The memory of all that was learned."""

@final
class Walk:
    """One sequence of an engine. `Faithful.begin` makes it."""

    @property
    def log_masks(self) -> list[float] | None:
        """The natural logarithms of the model's mass that each mask along the output leaves, that at its end included."""

    @overload
    def at(self, position: int, row: None = None) -> int | None: ...
    @overload
    def at(self, position: int, row: Any) -> int:
        """The id at `position`, the number of ids of the output before it, by the row of logits there. A position that was decided has
        the same id again. Without a row, None where it is needed. That is `end_id` or `reject_id` when the walk is over, and after it. A
        position beyond the next one rejects the walk."""
    @property
    def accepted(self) -> bool | None:
        """Whether the walk ended with an output; None while it is under way."""
    @property
    def ids(self) -> list[int] | None:
        """The output, without the end; None without one."""
    @property
    def log_prob(self) -> float | None:
        """The natural logarithm of the model's probability of the output, its end included."""
    @property
    def log_weight(self) -> float | None:
        """The logarithm of the weight of the output: 0 but for the modes "weights" and "twist"."""
    @property
    def error(self) -> str | None:
        """Why the walk is over, where it was neither accepted nor rejected: rows that are no distribution, an impossible
        constraint, or a limit."""
    def stats(self) -> WalkStats:
        """The findings about its constraint and prompt so far: tries, accepted ones, the logarithm of the estimate of
        P(constraint) with the estimate's standard error relative to it, an upper bound of it, and memory."""

def step_walks(walks: Sequence[Walk], positions: Sequence[int], logits: Any, rows: Sequence[int] | None = None) -> list[int]:
    """The id of each walk at its position, in one call, by its row of `logits` (default: as many as walks, in their order). An array of
    float32 is read where it lies, and no row that a walk does not need."""

def known_walks(walks: Sequence[Walk], positions: Sequence[int]) -> list[int | None]:
    """The id of each walk at its position where it needs no row; else None."""

def merge_stats(stats: Sequence[WalkStats | None]) -> WalkStats | None:
    """The findings of processes that have learned apart about one constraint and prompt, together."""
