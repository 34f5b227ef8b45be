// Constraints inside of transformers.js, and its models as models of this package. The library itself is not imported: what it takes are
// functions and lists, and what it gives are tensors.
//
//     const output = await model.generate({ ...inputs, ...constrain(constraint) });

import { Model, Tokenizer, UnskewError, applyMask } from "unskew";

/** The tokens of a tokenizer of transformers.js. */
export function tokenizerOf(tokenizer, options) {
  const json = tokenizer?._tokenizerJSON;
  if (json === undefined) throw new UnskewError("argument", "the tokenizer has no tokenizer.json: read it with `Tokenizer.fromJson`");
  return Tokenizer.fromJson(JSON.stringify(json), options);
}

/**
 * The options of one call of `generate` whose outputs satisfy a constraint: a logits processor and a stopping criterion, which share a
 * matcher for each sequence. Make them anew for each call. Batches need prompts that are padded to one length.
 */
export function constrain(constraint, options = {}) {
  let length;
  const rows = [];

  // Reads the tokens that came since the last call. The first call has the prompt alone.
  const follow = (batch) => {
    if (length === undefined) {
      length = batch[0].length;
      for (let at = 0; at < batch.length; at++) rows.push({ matcher: constraint.matcher(options), read: length, isOver: false });
    }
    if (batch.length !== rows.length || batch.some((ids, at) => ids.length < rows[at].read)) {
      throw new UnskewError("argument", "these options were made for another call of `generate`: call `constrain` for each");
    }
    batch.forEach((ids, at) => {
      const row = rows[at];
      // A sequence that has ended is padded by the library until all have.
      for (; row.read < ids.length && !row.isOver; row.read++) {
        row.matcher.advance(Number(ids[row.read]));
        row.isOver = row.matcher.done;
      }
      row.read = ids.length;
    });
  };

  const processor = (batch, logits) => {
    follow(batch);
    const size = logits.dims.at(-1);
    rows.forEach(({ matcher, isOver }, at) => {
      const row = logits.data.subarray(at * size, (at + 1) * size);
      // After its end, a sequence may go on as it likes: nothing of it is an output any more.
      if (isOver) return;
      const mask = matcher.mask();
      applyMask(mask, row);
      // Rows may be longer than the vocabulary, for the sake of the hardware.
      row.fill(-Infinity, Math.min(size, mask.length * 32));
      if (!row.some((logit) => logit > -Infinity)) {
        throw new UnskewError("model", `no allowed token has a logit: the rows of the model have ${size} entries`);
      }
    });
    return logits;
  };

  const criterion = (batch) => {
    follow(batch);
    return rows.map((row) => row.isOver);
  };

  return { logits_processor: [processor], stopping_criteria: [criterion] };
}

/**
 * A model of transformers.js as a model of this package, for samplers that keep its own distribution. `Tensor` is that of the library.
 * Every row is a pass over its whole prefix: the samplers go back to earlier prefixes, and the library's cache does not.
 */
export function modelOf(model, tokenizer, Tensor) {
  const row = async (ids) => {
    const shape = [1, ids.length];
    const input_ids = new Tensor("int64", BigInt64Array.from(ids, BigInt), shape);
    const attention_mask = new Tensor("int64", new BigInt64Array(ids.length).fill(1n), shape);
    const output = await model({ input_ids, attention_mask });
    const { data, dims } = output.logits.slice(null, -1, null).to("float32");
    // Rows may be longer than the vocabulary.
    if (dims.at(-1) < tokenizer.size) {
      throw new UnskewError("model", `rows of the model have ${dims.at(-1)} entries, and the tokenizer ${tokenizer.size} ids`);
    }
    return data.slice(0, tokenizer.size);
  };
  return Model.ofAsync(tokenizer, async (batch) => {
    const rows = [];
    for (const ids of batch) rows.push(await row(ids));
    return rows;
  });
}

