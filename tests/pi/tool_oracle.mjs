// Answers JSON lines on stdin with what Pi's own six tools do: the reference of the conformance suite.
//
// argv: the folder of the pi-coding-agent package.
// in:   {tool, cwd, params}, params as a model sends them; find lists files with Node instead of fd.
// out:  {ok, content, details, isError} or {ok: false, message}; tool "declarations" lists the schemas.
import { globSync, statSync } from "node:fs";
import { access } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const packageDir = process.argv[2];
const load = (path) => import(pathToFileURL(join(packageDir, path)));
const pi = await load("dist/index.js");
const { validateToolArguments } = await load("../pi-ai/dist/index.js");

const factories = {
  read: pi.createReadTool,
  find: pi.createFindTool,
  grep: pi.createGrepTool,
  write: pi.createWriteTool,
  edit: pi.createEditTool,
  bash: pi.createBashTool,
};

// A pattern without a slash matches names at any depth, one with a slash is anchored at the root.
function listWithNode(pattern, root, { limit }) {
  const names = globSync(pattern.includes("/") ? pattern : `**/${pattern}`, { cwd: root }).sort();
  return names.slice(0, limit).map((name) => (statSync(join(root, name)).isDirectory() ? `${name}/` : name));
}

const findOptions = {
  operations: { exists: (path) => access(path).then(() => true, () => false), glob: listWithNode },
};

function declarations() {
  return Object.values(factories).map((create) => {
    const { name, description, parameters } = create("/");
    return { name, description, parameters };
  });
}

async function run({ tool: name, cwd, params }) {
  const tool = factories[name](cwd, name === "find" ? findOptions : undefined);
  const call = { type: "toolCall", id: "1", name, arguments: tool.prepareArguments?.(params) ?? params };
  const { content, details, isError } = await tool.execute("1", validateToolArguments(tool, call));
  return { ok: true, content, details: details ?? null, isError: isError === true };
}

async function answer(request) {
  try {
    return request.tool === "declarations" ? declarations() : await run(request);
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await answer(JSON.parse(line)))}\n`);
}
