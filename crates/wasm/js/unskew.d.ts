// The types of the package `unskew`. They are written by hand; a test compares their names with those of the module, and a compiler reads
// the examples of README against them.

/** What `init` takes: where the WebAssembly module is, or its bytes. */
export type InitInput = RequestInfo | URL | Response | BufferSource | WebAssembly.Module;

/**
 * Loads the WebAssembly module; everything else here works once this is done. A second call does nothing. In Node the module is read
 * from the package when it is imported, and `init` returns at once.
 */
export default function init(input?: InitInput | Promise<InitInput>): Promise<void>;

/** The same from bytes or a compiled module, without waiting. */
export function initSync(module: BufferSource | WebAssembly.Module): void;

/** The place of a fault or of a construct. `start` and `end` are indices of the JavaScript string that was given (UTF-16 units). */
export interface Place {
  /** A JSON pointer into a schema or a structural tag, such as `#/properties/age`. */
  path?: string;
  /** From 1. */
  line?: number;
  /** From 1, in characters. */
  column?: number;
  start?: number;
  end?: number;
}

/** The classes of errors. More may be added. */
export type ErrorKind =
  | "argument" // an argument of a wrong type or range
  | "spec" // options that make no constraint, or do not belong together
  | "constraint" // a regex, grammar, schema or tag that is refused
  | "tokenizer" // a tokenizer.json that cannot be read, or a text that it cannot spell
  | "combination" // parts that do not go together
  | "fuel" // compiling took more work than `fuel`
  | "token" // a token that the constraint does not allow here
  | "rollback" // more tokens to take back than there are
  | "limit" // an output beyond a limit of the engine
  | "model" // the model failed, or its rows are wrong
  | "sampler" // no such sampler or parameter
  | "sample" // the sampler gave up: its tries are used up
  | "freed" // an object after its `free()`
  | "internal"; // a bug of this package

/** All errors that this package throws. */
export class UnskewError extends Error {
  readonly kind: ErrorKind;
  readonly place?: Place;
}

/** The version of the package. */
export const version: string;

/** The tokens of a model. */
export class Tokenizer {
  private constructor();
  /** From the text or the bytes of a Hugging Face `tokenizer.json`. `ends` are further ids that end an output. */
  static fromJson(json: string | Uint8Array, options?: { ends?: Iterable<number> }): Tokenizer;
  /** One token for each byte, and `<end>`: for tests and for pages without a tokenizer. */
  static bytes(): Tokenizer;
  /** That of the embedded model. Fetches the tokenizer alone, 48 KB. */
  static embedded(base?: string | URL): Promise<Tokenizer>;
  /** How many ids there are: the length of a row of logits. */
  readonly size: number;
  /** The ids that end an output. */
  readonly ends: Uint32Array;
  /** The words of 32 bits of a mask. */
  readonly maskWords: number;
  /** The tokens of a text, as the tokenizer writes an output: without the tokens that begin a text. */
  encode(text: string): Uint32Array;
  /** The tokens of a prompt, with those that begin a text. */
  encodePrompt(text: string): Uint32Array;
  /** The text; control tokens have none. */
  decode(ids: ArrayLike<number>): string;
  /** A token for people: control tokens by name, bytes that are no character as `\xNN`, and line breaks as `\n`. */
  token(id: number): string;
  /** The bytes of a token; control tokens have none. */
  tokenBytes(id: number): Uint8Array;
  /** Frees the memory at once; else a finalizer does it some time after the last use. */
  free(): void;
  [Symbol.dispose](): void;
}

/** A list of tools: of MCP's `tools/list`, of OpenAI's or of Anthropic's interface. */
export type Tools = object[] | { tools: object[] } | string;

/** A constraint as data: the JSON form that all of unskew shares. Files (`regex_file`, `set` and such) are refused in a browser. */
export interface Spec {
  regex?: string;
  regex_dialect?: "python" | "rust" | "ecma";
  /** A schema as a value, or its text, in which places are found. */
  json_schema?: object | boolean | string;
  grammar?: string;
  grammar_format?: "lark" | "gbnf" | "ebnf" | "xgrammar" | "abnf";
  choices?: string[];
  /** A structural tag as a value, or its text. */
  structural_tag?: object | string;
  any_of?: Spec[];
  sequence?: Spec[];
  /** Tools, with `tool_style` and `tool_choice`: the structural tag in which a model of that family calls them. */
  tools?: Tools;
  /** The family of the model, such as `qwen_3`, or its name, such as `Qwen/Qwen3-8B`. */
  tool_style?: string;
  /** `auto` (the default), `required`, or the name of a tool. */
  tool_choice?: string;
  /** Only the token sequences that the tokenizer itself writes. */
  canonical?: boolean;
  end?: "model" | "free";
  whitespace?: string;
  spelling?: "plain" | "any";
  ascii?: boolean;
  any_order?: boolean;
  dialect?: string;
  limits?: Record<string, number>;
  [option: string]: unknown;
}

/** The fate of one construct. */
export interface Construct {
  construct: string;
  /** `narrowed`: some values that it allows are not accepted. `annotation`: it has no effect on outputs. */
  fate: "enforced" | "narrowed" | "annotation" | "rejected";
  why: string;
  /** The schema that it stands in, as a JSON pointer. */
  pointer?: string;
  /** `line:column`, where it stands in one place. */
  span: string | null;
  /** The same in the text that was given. */
  place?: Place;
}

/** What is enforced, how, and what is refused. */
export interface Explanation {
  /** Whether the constraint can be used: nothing is rejected, and the text could be read. */
  ok: boolean;
  constructs: Construct[];
  /** What a user should know besides, a sentence each. */
  notes: string[];
  /** Why nothing can be said: the text is no regex, grammar or schema. */
  error?: { kind: ErrorKind; message: string; place?: Place };
  /** Where tools were given without a `tool_style`: the arguments of each. `fate` is the worst of its constructs. */
  tools?: { tool: string; fate: Construct["fate"]; constructs: Construct[] }[];
}

/**
 * The fate of every construct of a constraint: the data of `unskew explain`. A string is the JSON of a spec. With a tokenizer, it says
 * also which characters no token writes; then the constraint is compiled.
 */
export function explain(spec: Spec | string, tokenizer?: Tokenizer): Explanation;

/** A constraint, compiled for a tokenizer. Equal specs of a tokenizer share their memory. */
export class Constraint {
  constructor(
    tokenizer: Tokenizer,
    spec: Spec | string,
    options?: {
      /** The work that compiling may take, some 100 units a microsecond; the default is some seconds. */
      fuel?: number;
    },
  );
  matcher(options?: {
    /** The ids that end an output; the default is `tokenizer.ends`. */
    stopIds?: Iterable<number>;
  }): Matcher;
  /** The units of work that compiling took. */
  readonly fuel: number;
  /** Bytes, with those of its matchers. */
  readonly memory: number;
  free(): void;
  [Symbol.dispose](): void;
}

/** One sequence under a constraint. */
export class Matcher {
  private constructor();
  /** The allowed tokens: bit `id % 32` of word `id / 32`. The ids that end an output are in it where it may end. A copy. */
  mask(): Uint32Array;
  /** The allowed ids, in ascending order. */
  allowed(): Uint32Array;
  /** Sets the logits of all tokens that are not allowed to minus infinity. */
  apply(logits: Float32Array): void;
  /** Appends a token. Throws an error of kind `token` where it is not allowed, which says what is; nothing changes then. */
  advance(id: number): void;
  /** Whether a token is allowed. */
  allows(id: number): boolean;
  /** Takes back the last `count` tokens. */
  rollback(count: number): void;
  /** Back to the start. */
  reset(): void;
  /** The tokens that have to follow, until there is a choice. */
  forced(): Uint32Array;
  /** The tokens so far, the end among them. */
  readonly ids: Uint32Array;
  /** Whether the output may end here. */
  readonly canEnd: boolean;
  /** Whether an end was accepted, or nothing but the end may follow. */
  readonly done: boolean;
  /** A second matcher at the same place. */
  fork(): Matcher;
  free(): void;
  [Symbol.dispose](): void;
}

/** The natural logarithms, up to a constant, of the probabilities of all tokens after `ids` (the prompt and the output so far). */
export type Logits = (ids: Uint32Array) => Float32Array | ArrayLike<number>;
/** The same for several sequences at once, for models that are not synchronous. */
export type AsyncLogits = (batch: Uint32Array[]) => Promise<(Float32Array | ArrayLike<number>)[]>;

/** A language model with its tokens. */
export class Model {
  private constructor();
  /** The embedded model, 5 MB, which is fetched from the package or from `base`. */
  static embedded(base?: string | URL): Promise<Model>;
  /** A checkpoint of ten families that run on the CPU: the text of config.json, a tokenizer.json, and the bytes of model.safetensors. */
  static fromCheckpoint(files: { config: string; tokenizer: string | Uint8Array; weights: Uint8Array }): Model;
  /** A model that is a function. It is called once for each new prefix that a sampler needs. */
  static of(tokenizer: Tokenizer, logits: Logits): Model;
  /** A model that is an asynchronous function of several prefixes; its draws are read by `for await`. */
  static ofAsync(tokenizer: Tokenizer, logits: AsyncLogits): Model;
  readonly tokenizer: Tokenizer;
  readonly isAsync: boolean;
  /** The row after `ids`, the prompt among them. A model that is a function has none: call it. */
  logits(ids: ArrayLike<number>): Float32Array;
  free(): void;
  [Symbol.dispose](): void;
}

/** One output. */
export interface Draw {
  text: string;
  /** Without the end of the sequence. */
  ids: Uint32Array;
  /** The natural logarithm of the probability that the model itself gives the output, its end included. */
  logprob: number;
  /** The logarithm of the weight that an average over outputs must give this one; 0 for exact samplers. */
  logweight: number;
  /** `length`: it was cut off, and is no output of the constraint. */
  finish: "stop" | "length";
  origin: "proposed" | "accepted" | "resampled" | "chained" | "searched";
  /** The value of the text, where the constraint is a JSON Schema and the output is whole. */
  value?: unknown;
  /** Positions and calls of the model for it, and outputs proposed for it. */
  cost: { positions: number; passes: number; proposals: number };
}

/** Outputs, drawn as they are asked for. */
export class Draws implements Iterable<Draw>, AsyncIterable<Draw> {
  private constructor();
  /** The next output; `undefined`: there are no more. */
  next(): IteratorResult<Draw, undefined>;
  /**
   * At most one pass of the model. `draw` is there where an output was made, and `done` where there are no more. So a page stays alive:
   * call it until a frame is over.
   */
  step(): { done: boolean; draw?: Draw };
  [Symbol.iterator](): Iterator<Draw>;
  /** Of an asynchronous model, the only way. Of another, it lets other tasks run between passes. */
  [Symbol.asyncIterator](): AsyncIterator<Draw>;
  readonly seed: bigint;
  readonly sampler: string;
  /** The sampler and the distribution of its outputs, in a sentence. */
  readonly explain: string;
  /** The logarithm of an estimate of P(constraint) by the outputs so far. */
  readonly logmass: number | undefined;
  free(): void;
  [Symbol.dispose](): void;
}

export interface SampleOptions {
  /** `masked`, `cars`, `disc`, `auto` (the default) and others, with parameters as on the command line: `smc:n=8`. */
  sampler?: string;
  /** How many outputs; without it there is no end. */
  n?: number;
  seed?: number | bigint;
  /** A text, or the ids of a prompt. */
  prompt?: string | Iterable<number>;
  maxTokens?: number;
  temperature?: number;
  topK?: number;
  topP?: number;
  /** Outputs that are under way at once, 16 by default: the sequences of a pass. The outputs of a seed depend on it. */
  batch?: number;
}

/** Draws outputs of a model under a constraint. */
export function sample(model: Model, spec: Spec | string, options?: SampleOptions): Draws;

/** The samplers by name, with the distribution of their outputs. */
export function samplers(): { name: string; help: string; distribution: string }[];

/** Sets the logits that a mask leaves out to minus infinity. */
export function applyMask(mask: Uint32Array, logits: Float32Array): void;
