"""A causal language model of `transformers` as the function that samplers ask for rows of logits.

Samplers restart: rollouts of one prompt begin alike and part later. So keys and values are kept for every position that was
evaluated, once each, in a tree of prefixes. A sequence is evaluated from its longest known beginning on.

The tree's nodes are positions of one pool of keys and one of values for each layer. A batch of sequences is one gather from the
pools, and what the pass computes is one scatter. All sequences of a pass have as many new positions: those with fewer compute some known
ones again, where padding between known and new positions would move windows of attention. Tried instead: a cache for each prefix, which holds the prompt as
many times as there are prefixes; and cutting one cache back, which serves one sequence at a time.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from jinja2 import TemplateError
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from .._errors import OptionError

#: Kinds of layers whose keys and values are those of all positions.
_KEPT_LAYERS = {"full_attention", "sliding_attention"}

#: The most positions of one pass, known ones among them.
_POSITIONS = 1 << 16

#: The pools begin with so many positions.
_FIRST_SLOTS = 1024


class _Node:
    """A prefix whose last position is in the pools."""

    __slots__ = ("children", "depth", "parent", "slot", "token", "used")

    def __init__(self, parent: _Node | None, token: int, slot: int, used: int) -> None:
        self.children: dict[int, _Node] = {}
        self.parent = parent
        self.token = token
        self.slot = slot
        self.used = used
        self.depth: int = 0 if parent is None else parent.depth + 1


class Model:
    """A model of `transformers` as a function from sequences of ids to rows of logits, on the model's device.

        for draw in unskew.sample(unskew.transformers.Model(model), constraint, tokenizer, n=100, sampler="cars"): ...

    With the model's `tokenizer` of `transformers`, a prompt may be the messages of a chat, which go through its template:

        rows = unskew.transformers.Model(model, tokenizer)
        unskew.sample(rows, constraint, tokens, prompt=[{"role": "user", "content": "A name?"}])

    Keys and values of what it has seen are kept in at most `kv_bytes`, and sequences are evaluated from their longest known beginning
    on. Beginnings that were not used for longest are forgotten. With 0, nothing is kept and each row costs a pass over its
    whole sequence. `evaluated` counts the positions of all passes.

    The model must be in evaluation mode (`model.eval()`), since dropout makes rows random. Raises `OptionError` for models that it cannot
    ask: encoder-decoders, and with `kv_bytes` those whose state is not made of keys and values alone.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None, *, kv_bytes: int = 1 << 30) -> None:
        name = type(model).__name__
        if model.config.is_encoder_decoder:
            raise OptionError(f"{name} is an encoder-decoder: give a causal language model (a decoder alone)")
        if model.training:
            raise OptionError(f"{name} is in training mode, in which dropout makes its rows random: call `model.eval()`")
        if kv_bytes < 0:
            raise OptionError(f"`kv_bytes` is {kv_bytes}: give a number of bytes, or 0 to keep nothing")
        if kv_bytes > 0:
            self._check_layers(model)
        arguments = inspect.signature(model.forward).parameters
        self._last_row_alone = "logits_to_keep" in arguments
        self._takes_positions = "position_ids" in arguments
        # The second name is that of transformers from 5.24 on.
        self._cache_name = "past_key_values" if "past_key_values" in arguments else "cache"
        self._model = model
        self._tokenizer = tokenizer
        self._kv_bytes = kv_bytes
        #: Positions that passes have evaluated, padding not counted.
        self.evaluated = 0
        self._tick = 0
        self._forget()

    @staticmethod
    def _check_layers(model: PreTrainedModel) -> None:
        kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ()) - _KEPT_LAYERS
        if kinds or model._is_stateful:
            raise OptionError(
                f"{type(model).__name__} has a state that is not made of keys and values alone ({', '.join(sorted(kinds)) or 'stateful'}): "
                "say `kv_bytes=0`, and each row costs a pass over its whole sequence"
            )

    def _forget(self) -> None:
        self._root = _Node(None, -1, -1, 0)
        #: For each layer its keys and its values, as positions x heads x dimensions.
        self._pools: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._free: list[int] = []
        self._slots = 0

    def __call__(self, batch: Sequence[Sequence[int]]) -> torch.Tensor:
        """One row of logits after each sequence, as float32 on the CPU."""
        sequences = [tuple(ids) for ids in batch]
        if any(not ids for ids in sequences):
            raise OptionError("a sequence has no ids: give a prompt with at least one, such as the beginning-of-text token")
        self._tick += 1
        distinct = list(dict.fromkeys(sequences))
        rows: dict[tuple[int, ...], torch.Tensor] = {}
        with torch.no_grad():
            for part in self._parts([(ids, self._known(ids)) for ids in distinct]):
                made = self._pass(part)
                rows.update(zip((ids for ids, _ in part), made))
        return torch.stack([rows[ids] for ids in sequences])

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> list[int]:
        """The ids of a chat up to the beginning of its next message, by the chat template of the tokenizer. `unskew.sample` calls it where a
        prompt is messages. `options` are the template's, such as `tools`. Raises `OptionError` where there is no template."""
        name = type(self._model).__name__
        if self._tokenizer is None:
            raise OptionError(f"the messages of a chat need the tokenizer of {name}: `unskew.transformers.Model(model, tokenizer)`")
        template = self._tokenizer.apply_chat_template
        try:
            ids = template([dict(message) for message in messages], add_generation_prompt=True, return_dict=False, **options)
        except (ValueError, TemplateError) as error:
            raise OptionError(f"the chat template of {name} takes no such messages: {error}") from error
        return cast("list[int]", ids)

    def _known(self, ids: tuple[int, ...]) -> list[_Node]:
        """The prefixes of a sequence that are in the pools, without the whole of it: a row needs one position at least."""
        path, node = [], self._root
        for token in ids[:-1]:
            child = node.children.get(token)
            if child is None:
                break
            child.used = self._tick
            path.append(child)
            node = child
        return path

    def _parts(self, asked: list[tuple[tuple[int, ...], list[_Node]]]) -> Iterator[list[tuple[tuple[int, ...], list[_Node]]]]:
        """Passes of sequences with about as many new positions each; with as many, where nothing is kept, so that nothing is padded."""
        asked = sorted(asked, key=lambda one: len(one[0]) - len(one[1]))
        most = 4 if self._kv_bytes > 0 else 1
        part: list[tuple[tuple[int, ...], list[_Node]]] = []
        for ids, path in asked:
            width = max(len(ids) for ids, _ in [*part, (ids, path)])
            new = len(ids) - len(path)
            least = len(part[0][0]) - len(part[0][1]) if part else new
            if part and (width * (len(part) + 1) > _POSITIONS or new > most * least):
                yield part
                part = []
            part.append((ids, path))
        if part:
            yield part

    def _pass(self, part: list[tuple[tuple[int, ...], list[_Node]]]) -> torch.Tensor:
        """One pass of the model: the rows after the sequences."""
        device = self._model.device
        new = max(len(ids) - len(path) for ids, path in part)
        part = [(ids, path[: max(0, len(ids) - new)]) for ids, path in part]
        past = max(len(path) for _, path in part)
        tokens, positions, seen = [], [], []
        for ids, path in part:
            # Sequences that are shorter than that have no known positions, and so nothing stands between these and the new ones.
            missing = new - (len(ids) - len(path))
            tokens.append([0] * missing + list(ids[len(path) :]))
            positions.append([0] * missing + list(range(len(path), len(ids))))
            seen.append([0] * (past + new - len(ids)) + [1] * len(ids))
            self.evaluated += new - missing
        arguments: dict[str, object] = {
            "input_ids": torch.tensor(tokens, device=device),
            "attention_mask": torch.tensor(seen, device=device),
            "use_cache": self._kv_bytes > 0,
        }
        if self._takes_positions:
            arguments["position_ids"] = torch.tensor(positions, device=device)
        if self._last_row_alone:
            arguments["logits_to_keep"] = 1
        cache = self._gather(part, past) if self._kv_bytes > 0 else None
        if cache is not None:
            arguments[self._cache_name] = cache
        outputs = self._model(**arguments, return_dict=True)
        if cache is not None:
            self._keep(part, cache, past, new)
        logits: torch.Tensor = outputs.logits
        return logits[:, -1].float().cpu()

    def _gather(self, part: list[tuple[tuple[int, ...], list[_Node]]], past: int) -> DynamicCache:
        """The keys and values of the known prefixes, padded on the left by those of any position."""
        cache = DynamicCache()
        if past == 0:
            return cache
        slots = torch.tensor([[0] * (past - len(path)) + [node.slot for node in path] for _, path in part])
        for layer, (keys, values) in enumerate(self._pools):
            at = slots.to(keys.device)
            cache.update(keys[at].transpose(1, 2), values[at].transpose(1, 2), layer)
        return cache

    def _keep(
        self, part: list[tuple[tuple[int, ...], list[_Node]]], cache: DynamicCache, past: int, new: int
    ) -> None:
        """Takes the keys and values of new positions into the pools."""
        layers: list[Any] = [(getattr(layer, "keys", None), getattr(layer, "values", None)) for layer in cache.layers]
        if not layers or any(keys is None or keys.ndim != 4 or keys.shape[2] != past + new for keys, _ in layers):
            raise OptionError(
                f"{type(self._model).__name__} does not keep keys and values of all positions: say `kv_bytes=0`, and each row costs a "
                "pass over its whole sequence"
            )
        room = self._room(sum(len(ids) - len(path) for ids, path in part), layers)
        rows, places, slots = [], [], []
        for row, (ids, path) in enumerate(part):
            node = path[-1] if path else self._root
            for at in range(len(path), len(ids)):
                child = node.children.get(ids[at])
                if child is None:
                    if room == 0:
                        break
                    room -= 1
                    child = node.children[ids[at]] = _Node(node, ids[at], self._free.pop(), self._tick)
                    rows.append(row)
                    places.append(past + new - len(ids) + at)
                    slots.append(child.slot)
                child.used = self._tick
                node = child
        if not slots:
            return
        for (keys, values), (new_keys, new_values) in zip(self._pools, layers):
            of_row, place, slot = (torch.tensor(list_, device=keys.device) for list_ in (rows, places, slots))
            keys[slot] = new_keys[of_row, :, place]
            values[slot] = new_values[of_row, :, place]

    def _room(self, wanted: int, layers: list[tuple[torch.Tensor, torch.Tensor]]) -> int:
        """Makes room for so many positions, and says for how many there is."""
        if wanted <= len(self._free):
            return wanted
        bytes_each = sum(
            tensor.shape[1] * tensor.shape[3] * tensor.element_size() for layer in layers for tensor in layer
        )
        most = self._kv_bytes // bytes_each
        if self._slots < most:
            slots = min(most, max(_FIRST_SLOTS, 2 * self._slots, self._slots + wanted))
            self._pools = self._pools or [(keys.new_zeros((0,)), values.new_zeros((0,))) for keys, values in layers]
            # Layer by layer, so that no more than one is there twice.
            for at, layer in enumerate(layers):
                pair = []
                for before, tensor in zip(self._pools[at], layer):
                    pool = tensor.new_zeros((slots, tensor.shape[1], tensor.shape[3]))
                    if self._slots > 0:
                        pool[: self._slots] = before
                    pair.append(pool)
                self._pools[at] = (pair[0], pair[1])
            self._free.extend(range(self._slots, slots))
            self._slots = slots
        if wanted > len(self._free):
            self._forget_older_half()
        return min(wanted, len(self._free))

    def _forget_older_half(self) -> None:
        """Forgets the prefixes that were not used for longest, but none of this call."""
        nodes, stack = [], list(self._root.children.values())
        while stack:
            node = stack.pop()
            nodes.append(node)
            stack.extend(node.children.values())
        # A prefix was used whenever one that goes on from it was. So no prefix goes before those that go on from it.
        nodes.sort(key=lambda node: (node.used, -node.depth))
        for node in nodes[: (len(nodes) + 1) // 2]:
            if node.used == self._tick:
                break
            if node.parent is not None:
                del node.parent.children[node.token]
            self._free.append(node.slot)

    def __repr__(self) -> str:
        return f"<unskew.transformers.Model {type(self._model).__name__}, {self._slots - len(self._free)} positions kept>"
