// The JavaScript SDK of E2B: sandboxes, their files and their commands. Its environment has E2B_API_KEY, E2B_API_URL and
// E2B_SANDBOX_URL, and nothing else is set.
import assert from 'node:assert/strict';
import { CommandExitError, NotFoundError, Sandbox } from '@e2b/code-interpreter';

const sandbox = await Sandbox.create({ timeoutMs: 600_000, metadata: { of: 'js' } });
await sandbox.files.write('a.txt', 'hello');
await sandbox.files.write([{ path: '/home/user/b.txt', data: '1' }, { path: 'd/c.txt', data: '2' }]);
assert.equal(await sandbox.files.read('/home/user/a.txt'), 'hello');
assert.deepEqual((await sandbox.files.list('/home/user')).map(entry => entry.name), ['a.txt', 'b.txt', 'd']);
assert.equal(await sandbox.files.exists('d/c.txt'), true);
assert.equal(await sandbox.files.exists('none'), false);
assert.equal(await sandbox.files.makeDir('e'), true);
assert.equal(await sandbox.files.makeDir('e'), false);
await sandbox.files.rename('b.txt', 'e/b.txt');
await sandbox.files.remove('e');
await assert.rejects(sandbox.files.read('e/b.txt'), NotFoundError);

const result = await sandbox.commands.run('cat a.txt; echo err >&2');
assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['hello', 'err\n', 0]);
await assert.rejects(sandbox.commands.run('exit 3'), CommandExitError);
const handle = await sandbox.commands.run('echo begun; sleep 60', { background: true });
assert.deepEqual((await sandbox.commands.list()).map(process => process.pid), [handle.pid]);
assert.equal(await handle.kill(), true);
await assert.rejects(handle.wait(), CommandExitError);

const listed = await Sandbox.list({ query: { metadata: { of: 'js' } } }).nextItems();
assert.deepEqual(listed.map(info => info.sandboxId), [sandbox.sandboxId]);
assert.equal(await sandbox.isRunning(), true);
assert.equal(await sandbox.kill(), true);
assert.equal(await sandbox.isRunning(), false);
