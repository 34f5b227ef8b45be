"""transformers: masks in `generate`, faithful outputs by chi-square against exact laws, and keys and values kept."""

import copy
import json
import math
import re
from collections import Counter

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import unskew  # noqa: E402
import unskew.transformers  # noqa: E402
from conftest import MODEL  # noqa: E402
from law import exact, exact_freely, p_value  # noqa: E402
from test_docs import blocks, run  # noqa: E402
from unskew.transformers import LogitsProcessor, Model, faithful  # noqa: E402

# On few and busy cores, the threads of torch wait for each other longer than they work.
torch.set_num_threads(1)

LETTER = (
    "Dear Ms Meyer,\nYour order for the Orbis lamp was sent on 27 January 2024. It should arrive in three days.\nKind regards,\n"
)
SIGNATURES = ["Thomas Hansen", "Peter Costa", "Paul Becker"]

CHATML = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}"
    "<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The embedded model as a checkpoint."""
    folder = tmp_path_factory.mktemp("tiny")
    for name in ("config.json", "model.safetensors"):
        (folder / name).write_bytes((MODEL / "tiny" / name).read_bytes())
    (folder / "tokenizer.json").write_bytes((MODEL / "tokenizer.json").read_bytes())
    end = "<|endoftext|>"
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": end, "eos_token": end, "pad_token": end}
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "padding_side": "left", "chat_template": CHATML}))
    return folder


@pytest.fixture(scope="module")
def tiny(folder):
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def hf(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def inputs_of(hf, *prompts):
    return hf(list(prompts), return_tensors="pt", padding=True)


def texts(hf, sequences, inputs):
    return [hf.decode(row[inputs["input_ids"].shape[1] :], skip_special_tokens=True) for row in sequences]


RANDOM = {
    "llama": lambda: transformers.LlamaConfig(num_key_value_heads=2, intermediate_size=64, **SIZES),
    "gpt2": lambda: transformers.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=97, n_positions=128),
    "sliding": lambda: transformers.MistralConfig(num_key_value_heads=2, intermediate_size=64, sliding_window=5, **SIZES),
    "alternating": lambda: transformers.Gemma2Config(
        num_key_value_heads=2, intermediate_size=64, head_dim=8, sliding_window=5, **SIZES
    ),
}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 97, "max_position_embeddings": 128}


@pytest.mark.parametrize("kind", RANDOM)
@pytest.mark.parametrize("kv_bytes", [1 << 20, 30_000])
def test_rows_with_kept_keys_and_values_are_those_without(kind, kv_bytes):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(RANDOM[kind]()).eval()
    plain, keeping = Model(model, kv_bytes=0), Model(model, kv_bytes=kv_bytes)
    generator = torch.Generator().manual_seed(2)
    prompt = torch.randint(97, (9,), generator=generator).tolist()
    rollouts = [prompt]
    for _ in range(12):
        # Rollouts that go on, restart, and stand twice in a batch.
        batch = []
        for _ in range(6):
            base = rollouts[int(torch.randint(len(rollouts), (1,), generator=generator))]
            kept = int(torch.randint(9, len(base) + 1, (1,), generator=generator))
            more = torch.randint(97, (int(torch.randint(1, 4, (1,), generator=generator)),), generator=generator).tolist()
            batch.append(base[:kept] + more)
        batch.append(batch[0])
        rollouts.extend(batch)
        rows = keeping(batch)
        assert rows.shape == (7, 97) and torch.allclose(rows, plain(batch), atol=2e-4)
    assert 0 < keeping.evaluated < plain.evaluated
    pools = sum(tensor.numel() * tensor.element_size() for layer in keeping._pools for tensor in layer)
    assert 0 < pools <= kv_bytes
    if kv_bytes > 100_000:
        # Each prefix once, and the last position of each row.
        prefixes = {tuple(ids[:at]) for ids in rollouts for at in range(1, len(ids) + 1)}
        assert keeping.evaluated < 2 * len(prefixes)


def test_models_that_cannot_be_asked():
    t5 = transformers.T5Config(d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2, vocab_size=50, decoder_start_token_id=0)
    with pytest.raises(unskew.OptionError, match="T5ForConditionalGeneration is an encoder-decoder"):
        Model(transformers.T5ForConditionalGeneration(t5).eval())
    llama = transformers.AutoModelForCausalLM.from_config(RANDOM["llama"]())
    with pytest.raises(unskew.OptionError, match="training mode"):
        Model(llama.train())
    with pytest.raises(unskew.OptionError, match="kv_bytes"):
        Model(llama.eval(), kv_bytes=-1)
    with pytest.raises(unskew.OptionError, match="has no ids"):
        Model(llama)([[]])
    mamba = transformers.MambaConfig(hidden_size=16, num_hidden_layers=1, vocab_size=50, state_size=4)
    mamba = transformers.MambaForCausalLM(mamba).eval()
    with pytest.raises(unskew.OptionError, match="MambaForCausalLM .*kv_bytes=0"):
        Model(mamba)
    assert Model(mamba, kv_bytes=0)([[1, 2, 3], [4, 5, 6]]).shape == (2, 50)


def test_chats_go_through_the_template(hf, tok):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(num_key_value_heads=2, intermediate_size=64, **{**SIZES, "vocab_size": tok.vocab_size})
    llama = transformers.AutoModelForCausalLM.from_config(config).eval()
    bare = copy.deepcopy(hf)
    bare.chat_template = None
    rows = Model(llama, hf)
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A name?"}]
    # Its own mark at the beginning, once.
    ids = hf("<|system|>Be short.\n<|user|>A name?\n<|assistant|>")["input_ids"]
    assert rows.encode_chat(messages) == ids
    # The template has the options.
    assert rows.encode_chat(messages, chat_template="{{ tools[0] }}", tools=[{"name": "x"}]) == tok.encode("{'name': 'x'}")
    options = {"n": 5, "sampler": "masked", "seed": 3, "max_tokens": 12}
    word = unskew.Constraint.regex("[a-z]{1,6}")
    texts = [[draw.text for draw in unskew.sample(rows, word, tok, prompt=prompt, **options)] for prompt in (messages, ids, ids[:3])]
    assert texts[0] == texts[1] != texts[2]
    for model, chat, message in [
        (Model(llama), messages, r"the tokenizer of LlamaForCausalLM: `unskew.transformers.Model\(model, tokenizer\)`"),
        (Model(llama, bare), messages, "takes no such messages: .*chat_template is not set"),
        (rows, [*messages, {"role": "tool", "content": "1"}], "takes no such messages: no tools here"),
    ]:
        with pytest.raises(unskew.OptionError, match=message):
            unskew.sample(model, word, tok, prompt=chat, n=1)


# --- masks


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True, "num_return_sequences": 5},
        {"do_sample": False},
        {"num_beams": 4, "num_return_sequences": 4},
        {"num_beams": 3, "do_sample": True, "num_return_sequences": 2},
    ],
)
def test_masked_outputs_are_valid(tiny, hf, compiler, options):
    pattern = r'\{"name": "[A-Z][a-z]{1,9} [A-Z][a-z]{1,9}", "age": [1-9][0-9]\}'
    compiled = compiler.compile(unskew.Constraint.regex(pattern))
    inputs = inputs_of(hf, LETTER, "A record: ", "x")
    torch.manual_seed(3)
    out = tiny.generate(**inputs, max_new_tokens=60, logits_processor=[LogitsProcessor(compiled, beams=True)], **options)
    outputs = texts(hf, out, inputs)
    assert len(outputs) == 3 * options.get("num_return_sequences", 1)
    for output in outputs:
        assert re.fullmatch(pattern, output), output


def test_each_prompt_has_its_constraint(tiny, hf, compiler):
    patterns = ["[0-9]{3}", "[a-z]{5}", "yes|no"]
    compiled = [compiler.compile(unskew.Constraint.regex(pattern)) for pattern in patterns]
    inputs = inputs_of(hf, "one", "two, three", LETTER)
    for options in ({"do_sample": True, "num_return_sequences": 3}, {"num_beams": 2, "num_return_sequences": 2}):
        torch.manual_seed(4)
        processor = LogitsProcessor(compiled, beams=True)
        outputs = texts(hf, tiny.generate(**inputs, max_new_tokens=20, logits_processor=[processor], **options), inputs)
        each = len(outputs) // 3
        for at, output in enumerate(outputs):
            assert re.fullmatch(patterns[at // each], output), (patterns[at // each], output)
    with pytest.raises(unskew.MatcherError, match="2 constraints cannot be those of 3 rows"):
        tiny.generate(**inputs, max_new_tokens=3, logits_processor=[LogitsProcessor(compiled[:2])])


def test_more_beams_than_outputs(tiny, hf, compiler):
    compiled = compiler.compile(unskew.Constraint.choice(["yes", "no"], canonical=True))
    inputs = inputs_of(hf, LETTER)
    options = {"max_new_tokens": 8, "num_beams": 6, "num_return_sequences": 6, "return_dict_in_generate": True}
    out = tiny.generate(**inputs, **options, output_scores=True, logits_processor=[LogitsProcessor(compiled, beams=True)])
    valid = {text for text, score in zip(texts(hf, out.sequences, inputs), out.sequences_scores.tolist()) if score > -1e6}
    assert valid == {"yes", "no"}
    with pytest.raises(unskew.MatcherError, match="beams=True"):
        tiny.generate(**inputs, **options, logits_processor=[LogitsProcessor(compiled)])


def test_masks_skew(tiny, hf, compiler):
    """A test of the tests below: the law of masking is far from the model's own."""
    torch.manual_seed(5)
    inputs = inputs_of(hf, LETTER)
    processor = LogitsProcessor(compiler.compile(unskew.Constraint.choice(SIGNATURES)))
    options = {"do_sample": True, "top_k": 0, "num_return_sequences": 1000, "logits_processor": [processor]}
    counts = Counter(texts(hf, tiny.generate(**inputs, max_new_tokens=16, **options), inputs))
    # Of two thousand: 57.3, 24.7 and 18.1 %.
    assert set(counts) == set(SIGNATURES) and counts["Peter Costa"] > 180 and counts["Paul Becker"] > 120


def test_rows_that_cannot_be_followed_are_refused(tiny, hf, compiler):
    compiled = compiler.compile(unskew.Constraint.regex("[0-9]{12}"))
    inputs = inputs_of(hf, "one")
    processor = LogitsProcessor(compiled)
    tiny.generate(**inputs, max_new_tokens=3, logits_processor=[processor])
    with pytest.raises(unskew.MatcherError, match="make a processor for each"):
        tiny.generate(**inputs, max_new_tokens=3, logits_processor=[processor])
    with pytest.raises(unskew.MatcherError, match="continuous batching"):
        LogitsProcessor(compiled)(torch.tensor([1, 2]), torch.zeros(2, 2048))
    with pytest.raises(unskew.MatcherError, match="empty"):
        LogitsProcessor([])

    class Favour(transformers.LogitsProcessor):
        def __call__(self, input_ids, scores):
            scores = torch.full_like(scores, -1e9)
            scores[:, hf.convert_tokens_to_ids("x")] = 0.0
            return scores

    with pytest.raises(unskew.MatcherError, match="must be the last one"):
        tiny.generate(**inputs, max_new_tokens=3, logits_processor=[LogitsProcessor(compiled), Favour()])
    with pytest.raises(unskew.MatcherError, match="make a processor for each|assisted"):
        tiny.generate(
            **inputs, max_new_tokens=6, prompt_lookup_num_tokens=3, logits_processor=[LogitsProcessor(compiled)]
        )


def test_scores_are_wider_than_the_tokenizer(compiler, tok):
    compiled = compiler.compile(unskew.Constraint.regex("[0-9]"))
    for dtype in (torch.float32, torch.bfloat16):
        scores = LogitsProcessor(compiled)(torch.tensor([[1, 2]]), torch.zeros(1, tok.vocab_size + 100, dtype=dtype))
        kept = torch.isfinite(scores[0]).nonzero().flatten().tolist()
        assert scores.dtype == dtype and kept and all(tok.decode([id]).isdigit() for id in kept)


def test_rows_are_followed_wherever_they_move(compiler, tok):
    """By their last ids alone: beams are moved, copied and dropped, in memory that is written again."""
    compiled = [compiler.compile(unskew.Constraint.regex(pattern)) for pattern in ("[ab]{3,40}", "[bc]{3,40}")]
    letters = {letter: tok.encode(letter)[0] for letter in "abc"}
    generator = torch.Generator().manual_seed(1)
    processor = LogitsProcessor(compiled, beams=True)
    buffer = torch.full((12, 60), 5)
    # The same text for both constraints, so that rows are equal and their matchers are not.
    texts, length = [""] * 12, 20
    for _ in range(30):
        scores = processor(buffer[:, :length], torch.zeros(12, tok.vocab_size))
        for row, (text, kept) in enumerate(zip(texts, torch.isfinite(scores))):
            matcher = unskew.Matcher(compiled[row // 6])
            mask = np.zeros((1, tok.mask_words), np.int32)
            if matcher.accept_all([letters[letter] for letter in text]) == len(text):
                matcher.fill(mask)
            bits = np.unpackbits(mask.view(np.uint8), bitorder="little")[: tok.vocab_size]
            assert np.array_equal(kept.numpy(), bits == 1), (row, text)
        of = [row // 6 * 6 + int(torch.randint(6, (1,), generator=generator)) for row in range(12)]
        more = ["abc"[int(torch.randint(3, (1,), generator=generator) * torch.randint(2, (1,), generator=generator))] for _ in of]
        texts = [texts[parent] + letter for parent, letter in zip(of, more)]
        buffer[:, :length] = buffer[of, :length]
        buffer[:, length] = torch.tensor([letters[letter] for letter in more])
        length += 1
    with pytest.raises(unskew.MatcherError, match="does not go on from one of the call before"):
        buffer[3, 25] = 7
        processor(buffer[:, :length], torch.zeros(12, tok.vocab_size))


def test_only_new_ids_come_to_the_host(compiler, tok, monkeypatch):
    sizes = []
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: sizes.append(tensor.numel()) or tolist(tensor))
    processor = LogitsProcessor(compiler.compile(unskew.Constraint.regex("a*")), beams=True)
    ids = torch.arange(4 * 500).view(4, 500) % 7
    for of in ([0, 1, 2, 3], [0, 1, 2, 3], [1, 0, 3, 3], [0, 0, 1, 2]):
        # Nothing can be read of a tensor of this device.
        assert processor(ids, torch.zeros(4, tok.vocab_size, device="meta")).device.type == "meta"
        ids = torch.cat([ids[of], torch.full((4, 1), tok.encode("a")[0])], dim=1)
    # The new ids of three calls, and in one of them a number for each row of both calls.
    assert sorted(sizes) == [4, 4, 4, 8]


LAYOUTS = {
    "float32": lambda logits: logits.clone(),
    "bfloat16": lambda logits: logits.bfloat16(),
    "float16": lambda logits: logits.half(),
    "float64": lambda logits: logits.double(),
    "columns first": lambda logits: logits.T.contiguous().T,
    "a part": lambda logits: torch.nn.functional.pad(logits, (3, 5))[:, 3:-5],
    "a parameter": lambda logits: torch.nn.Parameter(logits.bfloat16()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("width", [0, 17, -100])
def test_masks_are_applied_to_tensors_where_they_lie(compiler, tok, layout, width):
    matchers = [unskew.Matcher(compiler.compile(unskew.Constraint.regex(pattern))) for pattern in ("[0-9]+", "(ab|c)*", ".{9}")]
    mask = np.zeros((3, tok.mask_words), np.int32)
    unskew.fill_batch(matchers, mask)
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")[:, : tok.vocab_size].astype(bool)
    width += tok.vocab_size
    bits = np.pad(bits, ((0, 0), (0, max(0, width - bits.shape[1]))))[:, :width]
    plain = torch.randn(3, width, generator=torch.Generator().manual_seed(1))
    for words in (mask, torch.from_numpy(mask), mask.view(np.uint32)):
        logits = LAYOUTS[layout](plain)
        before = logits.detach().clone()
        assert unskew.apply(logits, words) is None
        assert torch.equal(torch.isfinite(logits), torch.from_numpy(bits))
        assert torch.equal(logits.detach()[torch.from_numpy(bits)], before[torch.from_numpy(bits)])
    row = LAYOUTS[layout](plain)
    one = row.detach()[1]
    unskew.apply(one, mask[1])
    assert torch.equal(torch.isfinite(one), torch.from_numpy(bits[1]))


def test_no_logits_come_to_the_host(tok):
    # Nothing can be read of a tensor of this device, and nothing that lies elsewhere be written into it.
    logits = torch.zeros(2, tok.vocab_size, device="meta")
    unskew.apply(logits, np.zeros((2, tok.mask_words), np.int32))
    unskew.apply(logits, torch.zeros(2, tok.mask_words, dtype=torch.int32, device="meta"))
    with pytest.raises(NotImplementedError):
        logits.cpu()


@pytest.mark.parametrize(
    ("logits", "mask", "message"),
    [
        (torch.zeros(2, 64, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int32), "give a tensor of floating point"),
        (torch.zeros(2, 64).half(), torch.zeros(2, 2), "give words of int32"),
        (torch.zeros(2, 64).half(), torch.zeros(3, 2, dtype=torch.int32), "`logits` have 2 rows and `mask` has 3"),
        (torch.zeros(2, 64).half(), torch.zeros(2, dtype=torch.int32), "`logits` have 2 rows and `mask` has 1"),
        (torch.zeros(1, 2, 64).half(), torch.zeros(2, 2, dtype=torch.int32), "`logits` has 3 dimensions: give 1 or 2"),
    ],
)
def test_what_no_mask_goes_with(logits, mask, message):
    before = logits.clone()
    with pytest.raises(unskew.MatcherError, match=message):
        unskew.apply(logits, mask)
    assert torch.equal(logits, before)


# --- faithful outputs


def many(n):
    """What `generate` wants said for more than one output; its own `top_k` is 50."""
    return {"num_return_sequences": n, "do_sample": True, "top_k": 0}


CONSTRAINTS = {
    "signatures": (LETTER, unskew.Constraint.choice(SIGNATURES), 16),
    "digits": ("The order number is ", unskew.Constraint.regex("[0-9]{3}"), 3),
    # 1,080 texts.
    "schema": (
        "",
        unskew.Constraint.json_schema(
            {
                "type": "object",
                "properties": {
                    "name": {"enum": ["Samuel Keller", "Henry Larsen", "Vera Brown"]},
                    "age": {"type": "integer", "minimum": 10, "maximum": 99},
                    "city": {"enum": ["Lisbon", "Seville", "Prague", "Oslo"]},
                },
                "required": ["name", "age", "city"],
                "additionalProperties": False,
            },
            whitespace="spaced",
            canonical=True,
        ),
        40,
    ),
}


@pytest.fixture(scope="module")
def laws(tiny, tok, hf):
    """The exact law of each task, by rows without kept keys and values."""
    found = {}

    def law(name):
        if name not in found:
            prompt, constraint, most = CONSTRAINTS[name]
            found[name] = exact(Model(tiny, kv_bytes=0), tok, constraint, hf(prompt)["input_ids"], most)
        return found[name]

    return law


@pytest.mark.parametrize(("name", "sampler"), [(name, "cars") for name in CONSTRAINTS] + [("signatures", "disc"), ("digits", "auto")])
def test_faithful_outputs_follow_the_exact_law(tiny, hf, laws, name, sampler):
    prompt, constraint, most = CONSTRAINTS[name]
    law, mass = laws(name)
    n = 2000
    inputs = inputs_of(hf, prompt)
    out = tiny.generate(
        **inputs,
        custom_generate=faithful,
        constraint=constraint,
        tokens=hf,
        sampler=sampler,
        seed=7,
        end="model",
        max_new_tokens=most + 1,
        **many(n),
    )
    counts = Counter(tuple(draw.ids) for draw in out.draws if draw.origin == "accepted")
    assert out.sequences.shape[0] == n == len(out.texts) and not out.log_weights.any()
    assert sum(counts.values()) > 0.95 * n
    assert p_value(counts, law, sum(counts.values())) > 0.001
    for draw, log_prob in list(zip(out.draws, out.log_probs.tolist()))[:50]:
        assert math.isclose(log_prob, math.log(law[tuple(draw.ids)]), abs_tol=1e-3)
    # Nearly all prefixes are known after so many outputs.
    assert math.isclose(out.log_masses.item(), math.log(mass), abs_tol=0.15)
    # Keys and values are reused: far fewer positions than outputs have ids.
    assert out.evaluated < sum(len(draw.ids) for draw in out.draws)


RECORDS = [f'{{"name": "{name}", "age": {age}}}' for name in ("Samuel Keller", "Henry Larsen", "Vera Brown") for age in range(20, 40)]
AGES = [f'{{"age": {age}}}' for age in range(10, 41)]


@pytest.mark.parametrize(("prompt", "allowed"), [(LETTER, SIGNATURES), (LETTER, [*SIGNATURES, "Peter"]), ("", RECORDS), ('{"age": 31}\n', AGES)])
def test_outputs_that_end_freely_follow_the_exact_law(tiny, hf, tok, prompt, allowed):
    n, rows, ids = 2000, Model(tiny, kv_bytes=0), hf(prompt)["input_ids"]
    law, mass, left_out = exact_freely(lambda layer: log_softmax(rows([[*ids, *each] for each in layer])), allowed, tok)
    out = tiny.generate(
        **inputs_of(hf, prompt),
        custom_generate=faithful,
        constraint=unskew.Constraint.choice(allowed),
        tokens=hf,
        sampler="cars",
        end="free",
        seed=3,
        max_new_tokens=40,
        **many(n),
    )
    assert left_out < 0.01 and p_value(Counter(out.texts), law, n) > 0.001
    assert math.isclose(out.log_masses.item(), math.log(mass), abs_tol=0.15)


def log_softmax(rows):
    return torch.log_softmax(torch.as_tensor(rows).double(), -1).numpy()


def test_resampled_outputs_are_told(tiny, hf):
    """B14."""
    prompt, constraint, most = CONSTRAINTS["digits"]
    options = {"custom_generate": faithful, "constraint": constraint, "tokens": hf, "max_new_tokens": most + 1, **many(20)}
    with pytest.warns(UserWarning, match="were resampled .* `sampler=\"cars\"`"):
        out = tiny.generate(**inputs_of(hf, prompt), sampler="disc:k=1", seed=1, **options)
    assert any(draw.origin == "resampled" for draw in out.draws)


@pytest.mark.parametrize(("sampler", "n"), [("masked", 1000), ("smc:n=8", 200)])
def test_weights_estimate_the_mass(tiny, hf, laws, sampler, n):
    prompt, constraint, most = CONSTRAINTS["signatures"]
    law, mass = laws("signatures")
    inputs = inputs_of(hf, prompt)
    out = tiny.generate(
        **inputs,
        custom_generate=faithful,
        constraint=constraint,
        tokens=hf,
        sampler=sampler,
        seed=11,
        max_new_tokens=most + 1,
        **many(n),
    )
    weights = out.log_weights.exp()
    deviation = weights.std().item() / math.sqrt(len(weights))
    assert abs(weights.mean().item() - mass) < 4 * deviation
    assert math.isclose(out.log_masses.item(), math.log(weights.mean().item()), abs_tol=1e-9)
    shares = Counter()
    for text, weight in zip(out.texts, weights.tolist()):
        shares[text] += weight
    by_text = Counter()
    for ids, p in law.items():
        by_text[hf.decode(list(ids))] += p
    for text in SIGNATURES:
        assert abs(shares[text] / sum(shares.values()) - by_text[text] / mass) < 0.05


def test_a_temperature_that_was_told(tiny, hf, tok):
    prompt, constraint, most = CONSTRAINTS["digits"]
    rows = Model(tiny, kv_bytes=0)
    law, _ = exact(lambda batch: rows(batch) / 0.7, tok, constraint, hf(prompt)["input_ids"], most, least=1e-20)
    out = tiny.generate(
        **inputs_of(hf, prompt),
        custom_generate=faithful,
        constraint=constraint,
        tokens=hf,
        sampler="cars",
        temperature=0.7,
        seed=1,
        end="model",
        max_new_tokens=most + 1,
        **many(2000),
    )
    assert p_value(Counter(tuple(draw.ids) for draw in out.draws), law, 2000) > 0.001


def test_prompts_of_a_batch(tiny, hf):
    constraint = unskew.Constraint.choice(SIGNATURES)
    inputs = inputs_of(hf, "Kind regards,\n", LETTER)

    def draw(**options):
        return tiny.generate(
            **inputs, custom_generate=faithful, constraint=constraint, tokens=hf, max_new_tokens=20, **many(3), **options
        )

    torch.manual_seed(9)
    out = draw(sampler="cars")
    torch.manual_seed(9)
    again = draw(sampler="cars", progress=True)
    assert torch.equal(out.sequences, again.sequences) and out.seeds == again.seeds and len(set(out.seeds)) == 2
    assert out.log_masses.shape == (2,) and out[0] is out.sequences and "cars" in out.explain
    width = inputs["input_ids"].shape[1]
    for at, row in enumerate(out.sequences):
        assert torch.equal(row[:width], inputs["input_ids"][at // 3])
        assert texts(hf, [row], inputs) == [out.texts[at]] and out.texts[at] in SIGNATURES
        assert row[width + len(out.draws[at].ids)] == tiny.config.eos_token_id
    # The second prompt alone, padded or not, has the same outputs by its seed.
    alone = tiny.generate(
        **inputs_of(hf, LETTER), custom_generate=faithful, constraint=constraint, tokens=hf, max_new_tokens=20,
        **many(3), sampler="cars", seed=out.seeds[1],
    )  # fmt: skip
    assert alone.texts == out.texts[3:]
    assert torch.allclose(alone.log_probs, out.log_probs[3:], atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"do_sample": True}, "`top_k` is 50 .* say `top_k=0`"),
        ({"generation": {"do_sample": True, "top_k": 0, "temperature": 0.6}}, "`temperature` is 0.6 .* `temperature=1.0`"),
        ({"generation": {"do_sample": True, "top_k": 0, "top_p": 0.9}}, "`top_p` is 0.9"),
        ({"repetition_penalty": 1.2}, "RepetitionPenaltyLogitsProcessor"),
        ({"no_repeat_ngram_size": 2}, "NoRepeatNGramLogitsProcessor"),
        ({"do_sample": True, "top_k": 0, "min_p": 0.1}, "MinPLogitsWarper"),
        ({"min_new_tokens": 3}, "MinLengthLogitsProcessor"),
        ({"bad_words_ids": [[5]]}, "NoBadWordsLogitsProcessor"),
        ({"suppress_tokens": [5]}, "SuppressTokensLogitsProcessor"),
        ({"num_beams": 3}, "`num_beams` is 3"),
        ({"output_scores": True}, "`output_scores`"),
        ({"prompt_lookup_num_tokens": 3}, "`prompt_lookup_num_tokens`"),
        ({"max_new_tokens": 1}, "`max_new_tokens` is 1"),
        ({"eos_token_id": 5}, "`eos_token_id`"),
        ({"sampler": "fair"}, "there is no sampler `fair`"),
        ({"tokens": None}, "`tokens` is missing"),
        ({"constraint": None}, "`constraint` is missing"),
        ({"kv_bytes": -1}, "`kv_bytes`"),
    ],
)
def test_what_changes_the_law_is_refused_by_name(tiny, hf, tok, options, message):
    given = {"constraint": unskew.Constraint.choice(SIGNATURES), "tokens": tok, "max_new_tokens": 16, **options}
    settings = given.pop("generation", None)
    if settings is not None:
        given["generation_config"] = transformers.GenerationConfig(eos_token_id=0, bos_token_id=0, **settings)
    with pytest.raises(unskew.OptionError, match=message):
        tiny.generate(**inputs_of(hf, LETTER), custom_generate=faithful, **given)


def test_max_time_ends_the_drawing(tiny, hf, tok):
    given = {"constraint": unskew.Constraint.choice(SIGNATURES), "tokens": tok, "max_new_tokens": 16}
    with pytest.raises(unskew.SampleError, match="`time_limit` of 0.000001 seconds is over, after 0 outputs"):
        tiny.generate(**inputs_of(hf, LETTER), custom_generate=faithful, max_time=1e-6, **given)
    out = tiny.generate(**inputs_of(hf, LETTER), custom_generate=faithful, max_time=600.0, progress=True, **given)
    assert out.texts[0] in SIGNATURES


def test_what_was_told_replaces_the_generation_config(tiny, hf):
    settings = transformers.GenerationConfig(eos_token_id=0, bos_token_id=0, do_sample=True, temperature=0.6, top_p=0.9)
    out = tiny.generate(
        **inputs_of(hf, LETTER),
        custom_generate=faithful,
        generation_config=settings,
        constraint=unskew.Constraint.choice(SIGNATURES),
        tokens=hf,
        max_new_tokens=16,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
    )
    assert out.texts[0] in SIGNATURES


def test_right_padding_is_refused(tiny, hf):
    inputs = inputs_of(hf, "one", LETTER)
    inputs = {name: tensor.flip(1) for name, tensor in inputs.items()}
    with pytest.raises(unskew.OptionError, match="padded on the left"):
        tiny.generate(
            **inputs, custom_generate=faithful, constraint=unskew.Constraint.regex("a"), tokens=hf, max_new_tokens=5
        )


# --- pages


@pytest.mark.parametrize("page", ["docs/transformers.md", "docs/is-my-model-skewed.md"])
def test_pages(folder, tmp_path, monkeypatch, capsys, page):
    code = blocks(page).replace('"HuggingFaceTB/SmolLM2-135M"', repr(str(folder)))
    assert str(folder) in code
    names, out = run(code, monkeypatch, tmp_path, capsys)
    if page == "docs/transformers.md":
        assert len(names["out"].texts) == 100 and set(names["out"].texts) <= set(SIGNATURES)
        assert out.count("accepted") + out.count("resampled") == 5
        assert names["ids"].shape[0] == 1
        assert {draw.text for draw in names["draws"]} <= set(SIGNATURES)
    else:
        lines = {line["sampler"]: line for line in names["report"].lines}
        assert lines["masked"]["kl"] > 10 * lines["cars"]["kl"] and "masked" in out
        assert (tmp_path / "report.html").stat().st_size > 1000
