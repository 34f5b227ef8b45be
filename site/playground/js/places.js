// Places of values in a JSON text, for the lists of tools: the engine knows each schema of such a list by its value, and has no places in
// the text around it. Tried instead: a walk that calls itself, for which a text of brackets is too deep.

/** The levels that are looked into. What is refused deeper in a tool has no mark, and still its pointer. */
const DEEPEST = 200;

/** Where the values at these JSON pointers (`/tools/0/name`) stand in a text that is JSON. */
export function places(text, pointers) {
  const wanted = new Set(pointers);
  const found = new Map();
  // The containers around the place that is read: their pointer, and the key or the index of the value that comes next.
  const open = [];
  const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gsy;
  const space = /\s*/y;
  let isKey = false;
  for (let at = 0; at < text.length; ) {
    space.lastIndex = at;
    space.test(text);
    token.lastIndex = space.lastIndex;
    const match = token.exec(text);
    if (!match) break;
    const [word] = match;
    const start = match.index;
    at = token.lastIndex;
    const around = open.at(-1);
    const pointer = () => (around ? (open.length > DEEPEST ? undefined : `${around.pointer}/${around.step}`) : "");
    const value = (end) => {
      const name = pointer();
      if (name !== undefined && wanted.has(name)) found.set(name, { start, end });
    };
    if (word === "{" || word === "[") {
      open.push({ pointer: pointer(), step: word === "[" ? 0 : undefined, start });
      isKey = word === "{";
    } else if (word === "}" || word === "]") {
      const { start, pointer } = open.pop() ?? {};
      if (pointer !== undefined && wanted.has(pointer)) found.set(pointer, { start, end: at });
      isKey = false;
    } else if (word === ",") {
      if (typeof around?.step === "number") around.step++;
      else isKey = true;
    } else if (word === ":") isKey = false;
    else if (isKey && around) around.step = JSON.parse(word).replaceAll("~", "~0").replaceAll("/", "~1");
    else value(at);
  }
  return found;
}

/** The place of the key in front of a value, with the value where that is short to look at: one reads the name of what is meant. */
export function named(text, { start, end }) {
  const from = Math.max(0, start - 300);
  const key = /"(?:[^"\\\n]|\\.)*"\s*:\s*$/.exec(text.slice(from, start));
  if (!key) return { start, end };
  const begin = from + key.index;
  const isBlock = text[start] === "{" || text[start] === "[";
  return { start: begin, end: isBlock ? begin + key[0].lastIndexOf('"') + 1 : end };
}

/** The JSON pointers of the schemas of a list of tools, in the order of the tools; the list is MCP's, OpenAI's or Anthropic's. */
export function schemas(value) {
  const [list, base] = Array.isArray(value) ? [value, ""] : [value?.tools ?? [], "/tools"];
  return list.map((tool, index) => {
    const [holder, at] = tool?.function ? [tool.function, `${base}/${index}/function`] : [tool, `${base}/${index}`];
    const key = ["inputSchema", "input_schema", "parameters"].find((key) => holder?.[key] !== undefined);
    return key && `${at}/${key}`;
  });
}
