// The tokens of a text that is being typed. A tokenizer writes the beginning of a text otherwise than the text (`Wor` and `World`), so
// where a constraint looks at tokens and not at characters, the last tokens of a prefix may be no beginning of any output although its
// text is one. They are then taken back, and the tokens that begin with their text are what may come next.

/** How many tokens are taken back at most. */
const BACK = 4;

/**
 * Advances `matcher` over the tokens of `text` as far as is sensible. Answers `ids`, the tokens taken; `rest`, the text after them that
 * the next token has to begin with; `allowed`, the tokens that may come next. Or `rejected`: where no output begins with the text, the
 * number of characters that some output begins with, and the message of the constraint.
 */
export function heal(tokens, matcher, text) {
  const ids = Array.from(tokens.encode(text));
  let taken = 0;
  let fault;
  for (; taken < ids.length; taken++) {
    try {
      matcher.advance(ids[taken]);
    } catch (error) {
      fault = error;
      break;
    }
  }
  if (!fault) return { ids, rest: "", allowed: Array.from(matcher.allowed()) };
  for (let back = 0; back <= Math.min(BACK, taken); back++) {
    if (back > 0) matcher.rollback(1);
    const rest = tokens.decode(ids.slice(taken - back));
    const allowed = Array.from(matcher.allowed()).filter((id) => tokens.decode([id]).startsWith(rest));
    if (allowed.length > 0) return { ids: ids.slice(0, taken - back), rest, allowed };
  }
  for (let back = Math.min(BACK, taken); back > 0; back--) matcher.advance(ids[taken - back]);
  return { ids: ids.slice(0, taken), rest: "", allowed: [], rejected: { at: reach(tokens, matcher, ids, taken), message: fault.message } };
}

/** How many characters of the text some output begins with: the tokens taken, and what single characters say about the next token. */
function reach(tokens, matcher, ids, taken) {
  const before = tokens.decode(ids.slice(0, taken)).length;
  let inside = 0;
  const steps = [];
  for (const character of tokens.decode([ids[taken]])) {
    const spelled = Array.from(tokens.encode(character));
    let done = 0;
    try {
      for (const id of spelled) {
        matcher.advance(id);
        done++;
      }
    } catch {
      steps.push(done);
      break;
    }
    steps.push(done);
    inside += character.length;
  }
  matcher.rollback(steps.reduce((sum, count) => sum + count, 0));
  return before + inside;
}
