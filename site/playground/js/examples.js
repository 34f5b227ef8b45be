// The examples of the page. Each has the beginning of an output, so that the mask has something to say at once.

const json = (value) => JSON.stringify(value, null, 2);

export const EXAMPLES = {
  json_schema: [
    {
      name: "a customer: formats, narrowed and unknown keywords",
      prefix: '{"name": "Ada", "email": "ada@',
      text: json({
        title: "Customer",
        type: "object",
        properties: {
          name: { type: "string", minLength: 1, maxLength: 40 },
          email: { type: "string", format: "email" },
          age: { type: "integer", minimum: 18, maximum: 120 },
          code: { type: "string", pattern: "^[A-Z]{2}-[0-9]{4}$" },
          tags: { type: "array", items: { enum: ["new", "vip", "late"] }, uniqueItems: true, maxItems: 3 },
        },
        required: ["name", "email"],
        additionalProperties: false,
        "x-table": "customers",
      }),
    },
    {
      name: "a tree: recursion",
      prefix: '{"name": "root", "children": [{',
      text: json({
        $defs: {
          node: {
            type: "object",
            properties: {
              name: { type: "string", maxLength: 20 },
              children: { type: "array", items: { $ref: "#/$defs/node" }, maxItems: 2 },
            },
            required: ["name", "children"],
            additionalProperties: false,
          },
        },
        $ref: "#/$defs/node",
      }),
    },
    {
      name: "refused: a back-reference in a pattern",
      prefix: '{"quoted": "',
      text: json({
        type: "object",
        properties: {
          quoted: { type: "string", pattern: "^(['`]).*\\1$" },
          count: { type: "integer", minimum: 0 },
        },
        required: ["quoted"],
      }),
    },
  ],
  regex: [
    {
      name: "a record",
      prefix: '{"name": "P',
      text: '\\{"name": "[A-Z][a-z]+ [A-Z][a-z]+", "age": [1-9][0-9], "city": "[A-Z][a-z]+"\\}',
    },
    { name: "a date", prefix: "2024-1", text: "(19|20)[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])" },
    { name: "refused: a back-reference", prefix: "ab", text: "([a-z]+) and \\1" },
  ],
  grammar: [
    {
      name: "sums, in Lark",
      notation: "lark",
      prefix: "(1 + 2) ",
      text: 'start: sum\nsum: product (("+" | "-") product)*\nproduct: atom (("*" | "/") atom)*\natom: NUMBER | "(" sum ")"\n\nNUMBER: /[0-9]+/\n%ignore " "\n',
    },
    {
      name: "a list, in GBNF",
      notation: "gbnf",
      prefix: "- milk\n- ",
      text: 'root ::= item{1,5}\nitem ::= "- " word (" " word)* "\\n"\nword ::= [a-z]+\n',
    },
    {
      name: "refused: a rule that nobody defines",
      notation: "lark",
      prefix: "",
      text: 'start: greeting " " name\ngreeting: "Hello" | "Dear"\n',
    },
  ],
  tools: [
    {
      name: "two tools of a server",
      prefix: "",
      text: json({
        tools: [
          {
            name: "get_weather",
            description: "The weather of a city",
            inputSchema: {
              type: "object",
              properties: {
                city: { type: "string", minLength: 1 },
                days: { type: "integer", minimum: 1, maximum: 7 },
                unit: { enum: ["celsius", "fahrenheit"] },
              },
              required: ["city"],
            },
          },
          {
            name: "create_event",
            description: "An entry of a calendar",
            inputSchema: {
              type: "object",
              properties: {
                title: { type: "string" },
                start: { type: "string", format: "date-time" },
                guests: { type: "array", items: { type: "string", format: "email" } },
              },
              required: ["title", "start"],
            },
          },
        ],
      }),
    },
    {
      name: "one of them refused",
      prefix: "",
      text: json({
        tools: [
          { name: "echo", inputSchema: { type: "object", properties: { text: { type: "string" } } } },
          {
            name: "lookup",
            inputSchema: { type: "object", properties: { key: { type: "string", pattern: "^(a|b)-\\1$" } }, required: ["key"] },
          },
        ],
      }),
    },
  ],
};

/** Tasks on which masks go wrong, and one on which they do not. */
export const TASKS = [
  {
    name: "three signatures",
    prompt: "Dear Ms Meyer,\nKind regards,\n",
    choices: ["Thomas Hansen", "Peter Costa", "Paul Becker"],
  },
  {
    name: "an event, and where it is",
    prompt: "The ",
    choices: ["City Marathon in Lisbon", "Science Day in Berlin", "Chess Open in Oslo", "Open House in London"],
  },
  {
    name: "a name in a record",
    prompt: '{"name": "',
    choices: ["Emma Moreau", "Thomas Hansen", "Peter Berg", "Paula Novak"],
  },
  {
    name: "something to do at 20:30",
    prompt: "20:30 ",
    choices: ["water the plants", "buy milk and bread", "write to grandmother", "call the bank"],
  },
  {
    name: "the weather, where a mask does no harm",
    prompt: '{"city": "Oslo", "weather": "',
    choices: ["cloudy", "sunny", "rainy", "windy", "snowy"],
  },
];
