// An authorization server on the loopback, at which clients register themselves and anybody logs in:
//
//   node issuer.mjs PORT RESOURCE
//
// It issues JWTs for RESOURCE, whether a client asks for that or not.
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const [port, resource] = process.argv.slice(2);
const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
const key = { ...privateKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "ES256" };

const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [key] },
  clientDefaults: { id_token_signed_response_alg: "ES256" },
  cookies: { keys: ["of a test"] },
  scopes: ["openid"],
  // Without it they are only for clients that ask for `offline_access`.
  issueRefreshToken: (_, client) => client.grantTypeAllowed("refresh_token"),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: "openid",
        audience: resource,
        accessTokenFormat: "jwt",
        accessTokenTTL: 600,
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1");
