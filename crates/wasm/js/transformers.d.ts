import type { Constraint, Model, Tokenizer } from "unskew";

/** What the library's tensors have. */
export interface TensorLike {
  readonly data: any;
  readonly dims: readonly number[];
}

/** Options of `generate` of transformers.js. */
export interface Constrained {
  logits_processor: any;
  stopping_criteria: any;
}

/** The tokens of a tokenizer of transformers.js. */
export function tokenizerOf(tokenizer: object, options?: { ends?: Iterable<number> }): Tokenizer;

/** The options of one call of `generate` whose outputs satisfy a constraint. Make them anew for each call. */
export function constrain(constraint: Constraint, options?: { stopIds?: Iterable<number> }): Constrained;

/** A model of transformers.js as a model of this package; `Tensor` is the class of the library. */
export function modelOf(model: object, tokenizer: Tokenizer, Tensor: new (...args: any[]) => TensorLike): Model;
