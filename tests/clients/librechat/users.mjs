// LibreChat that says who its users are: each call has a token of a few minutes, signed with a key of its own. With the
// argument `keys`, makes the key in the directory that is the second argument, and the file of keys for the server.
// Otherwise calls the server at LIBRECHAT_CODE_BASEURL.
import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const [what, directory] = process.argv.slice(2);
const kid = 'lc-codeapi-2026-05';

if (what === 'keys') {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  writeFileSync(`${directory}/key.pem`, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  const key = { ...publicKey.export({ format: 'jwk' }), kid, alg: 'EdDSA', use: 'sig' };
  writeFileSync(`${directory}/keys.json`, JSON.stringify({ keys: [key] }));
  process.exit();
}

const agents = await import('@librechat/agents');
const privateKey = createPrivateKey(readFileSync(`${directory}/key.pem`));

function token(subject, changes = {}) {
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    iss: process.env.CODEAPI_JWT_ISSUER, aud: 'codeapi', sub: subject, iat: now, nbf: now, exp: now + 300, jti: randomUUID(),
    tenant_id: 'legacy', role: 'USER', principal_source: 'librechat_jwt', auth_context_hash: 'x', ...changes,
  };
  const encoded = [{ alg: 'EdDSA', typ: 'JWT', kid }, claims].map(part => Buffer.from(JSON.stringify(part)).toString('base64url'));
  const signature = sign(null, Buffer.from(encoded.join('.')), privateKey).toString('base64url');
  return [...encoded, signature].join('.');
}

let calls = 0;
function run(subject, command, earlier, changes) {
  const tool = agents.createBashExecutionTool({ authHeaders: async () => ({ Authorization: `Bearer ${token(subject, changes)}` }) });
  const files = earlier?.files.map(file => ({ ...file, kind: 'user', resource_id: subject }));
  const session = earlier && { session_id: earlier.session_id, _injected_files: files };
  return tool.invoke({ name: 'bash_tool', args: { command }, id: `call_${++calls}`, type: 'tool_call', ...session });
}

const { artifact } = await run('anna', 'echo hers > /mnt/data/a.txt; echo done');
const again = await run('anna', 'cat /mnt/data/a.txt', artifact);
assert.match(again.content, /^stdout:\nhers/);
const stranger = await run('ben', 'ls /mnt/data; echo nothing', artifact);
assert.match(stranger.content, /^stdout:\nnothing/);
assert.match(stranger.content, /a\.txt is not there any more/);
await assert.rejects(run('anna', 'echo never', undefined, { aud: 'another' }), /not authorized/i);
await assert.rejects(run('anna', 'echo never', undefined, { exp: 1 }), /not authorized/i);
