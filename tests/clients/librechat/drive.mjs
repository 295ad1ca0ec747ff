// What LibreChat does with its Code API: its tools run programs, and it uploads and downloads files itself. Its address
// has the token in it (LIBRECHAT_CODE_BASEURL).
import assert from 'node:assert/strict';
import * as agents from '@librechat/agents';
import axios from 'axios';
import FormData from 'form-data';

const base = process.env.LIBRECHAT_CODE_BASEURL;
let calls = 0;
const call = (tool, name, args, earlier) => {
  const files = earlier?.files.map(file => ({ ...file, kind: 'user', resource_id: 'u1' }));
  const session = earlier && { session_id: earlier.session_id, _injected_files: files };
  return tool.invoke({ name, args, id: `call_${++calls}`, type: 'tool_call', ...session });
};

const bash = agents.createBashExecutionTool({});
const written = await call(bash, 'bash_tool', { command: 'echo x > /mnt/data/a.csv; echo "it ran"' });
assert.match(written.content, /^stdout:\nit ran\n/);
assert.deepEqual(written.artifact.files.map(file => file.name), ['a.csv']);
const changed = await call(bash, 'bash_tool', { command: 'echo y >> /mnt/data/a.csv; cat /mnt/data/a.csv' }, written.artifact);
assert.match(changed.content, /^stdout:\nx\ny\n/);
assert.equal(changed.artifact.files[0].modified_from.id, written.artifact.files[0].id);

const python = agents.createCodeExecutionTool({});
const failed = await call(python, 'execute_code', { lang: 'py', code: 'print(6 * 7)\n1 / 0' });
assert.match(failed.content, /^stdout:\n42\n[^]*ZeroDivisionError: division by zero/);

const { session_id: session, files } = changed.artifact;
const listed = await agents.fetchSessionFiles(base, session, { kind: 'user', id: 'u1' });
assert.deepEqual(listed.map(file => file.id), files.map(file => file.id));
const path = `${session}/${files[0].id}`;
const described = await axios.get(`${base}/sessions/${session}/objects/${files[0].id}?kind=user&id=u1`);
assert.ok(Date.now() - Date.parse(described.data.lastModified) < 3_600_000, described.data.lastModified);
const downloaded = await axios.get(`${base}/download/${path}?kind=user&id=u1`, { responseType: 'text' });
assert.equal(downloaded.data, 'x\ny\n');

const form = new FormData();
form.append('kind', 'user');
form.append('id', 'u1');
form.append('file', Buffer.from('1,2\n'), 'd.csv');
const uploaded = (await axios.post(`${base}/upload`, form, { headers: form.getHeaders() })).data;
assert.equal(uploaded.message, 'success');
const given = { session_id: uploaded.storage_session_id, files: [{ id: uploaded.files[0].fileId, name: 'd.csv', storage_session_id: uploaded.storage_session_id }] };
const read = await call(bash, 'bash_tool', { command: 'cat /mnt/data/d.csv' }, given);
assert.match(read.content, /^stdout:\n1,2/);

// Programs that call tools of the client: each call is made once, and the program goes on where it was.
const asked = [];
const add = { name: 'add', invoke: async ({ a, b }) => (asked.push([a, b]), a + b) };
const refuse = { name: 'refuse', invoke: async () => { throw new Error('not today'); } };
const toolMap = new Map([['add', add], ['refuse', refuse]]);
const toolDefs = [...toolMap.keys()].map(name => ({ name, description: 'a tool', parameters: { type: 'object' }, allowed_callers: ['code_execution'] }));
const run = (tool, name, code, files, timeout = 15_000) => tool.invoke({
  name, args: { code, timeout }, id: `call_${++calls}`, type: 'tool_call', toolMap, toolDefs, _injected_files: files,
});
const withPython = agents.createProgrammaticToolCallingTool({});
const summed = await run(withPython, 'run_tools_with_code', `
import asyncio
with open("/mnt/data/log.txt", "a") as log: log.write("once ")
first = await add(a=1, b=2)
print(sum(await asyncio.gather(*[add(a=first, b=n) for n in range(3)])))
try:
    await refuse(why="x")
except Exception as error:
    print(error)
print(open("/mnt/data/log.txt").read(), open("/mnt/data/d.csv").read())
`, given.files);
assert.match(summed.content, /^stdout:\n12\nrefuse: not today\nonce  1,2/);
assert.deepEqual(asked.slice(1).sort(), [[3, 0], [3, 1], [3, 2]]);
assert.ok(summed.artifact.files.some(file => file.name === 'log.txt'));
const withBash = agents.createBashProgrammaticToolCallingTool({});
const piped = await run(withBash, 'run_tools_with_bash', `sum=$(add '{"a": 4, "b": 5}'); echo "sum $sum"; refuse '{}' || echo failed`);
assert.match(piped.content, /^stdout:\nsum 9\nfailed\n[^]*refuse: not today/);
await assert.rejects(run(withPython, 'run_tools_with_code', 'await add(a=1, b=1)\nwhile True: pass', undefined, 1000), /exceeded the time limit/);
