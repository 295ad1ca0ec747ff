//! How clients reach the server, who may enter, and in what form it answers.

use crate::config::variable::{Variable, variable};

pub(super) const HTTP: &[Variable] = &[
    variable(
        "MCP_HTTP_ADDR",
        "127.0.0.1:8080",
        "address to listen on; `:8080` means every IPv4 interface, `[::]:8080` IPv6",
    ),
    variable(
        "PUBLIC_BASE_URL",
        "",
        "base URL of links to files; default: http://localhost and the port, or the one address that the server listens on",
    ),
    variable(
        "MCP_API_TOKEN",
        "",
        "bearer token of /mcp and the REST interface, at least 16 ASCII characters; required without ACCESS_FILE, OAUTH_ISSUER and CF_ACCESS_TEAM",
    ),
    variable(
        "ACCESS_FILE",
        "",
        "file of further tokens, each for a tenant whose conversations are its own; made and changed by `mcp-code-sandbox token`, and read again when it changes",
    ),
    variable(
        "OAUTH_BUILTIN",
        "false",
        "1: people who have a token can log in with it from applications that take none, such as claude.ai; needs a PUBLIC_BASE_URL with https; see docs/oauth.md",
    ),
    variable(
        "OAUTH_ISSUER",
        "",
        "comma-separated addresses of authorization servers whose access tokens are taken, exactly as they stand in `iss`; see docs/oauth.md",
    ),
    variable(
        "OAUTH_AUDIENCE",
        "",
        "comma-separated values of `aud` that tokens may have besides the addresses of this server, such as the id of a client",
    ),
    variable(
        "OAUTH_SCOPES",
        "openid",
        "scopes that clients are told to ask for, separated by spaces; `none`: no word about scopes",
    ),
    variable(
        "OAUTH_REQUIRED_SCOPE",
        "",
        "scope that every access token must have; default: none",
    ),
    variable(
        "OAUTH_TENANT",
        "subject",
        "`subject`: each caller of OAuth is a tenant; `claim:` and a name: the tenant is the value of that claim; `default`: all are the tenant of MCP_API_TOKEN",
    ),
    variable(
        "OAUTH_ALLOW",
        "",
        "comma-separated callers that may enter: a `sub`, `email:anna@example.org` if the issuer has verified it, or `group:team` of the claim `groups`; default: all to whom the issuer gives a token",
    ),
    variable(
        "OAUTH_PAGE_CLIENT",
        "",
        "id of the page of this server as a client of that issuer; default: it registers itself there; see docs/page.md",
    ),
    variable(
        "OAUTH_INTROSPECTION_CLIENT",
        "",
        "id of the client as which the issuer is asked about tokens that are no JWT; default: such tokens are refused",
    ),
    variable("OAUTH_INTROSPECTION_SECRET", "", "secret of that client"),
    variable(
        "OAUTH_JWKS_FILE",
        "",
        "file with the public keys of the issuers (JWKS), in place of those that they publish",
    ),
    variable(
        "OAUTH_CA_BUNDLE",
        "",
        "file of certificates (PEM) that are trusted for issuers besides those of the system",
    ),
    variable(
        "CF_ACCESS_TEAM",
        "",
        "team of Cloudflare Access whose assertions say who calls, such as `myteam`; needs CF_ACCESS_AUD; see docs/oauth.md",
    ),
    variable(
        "CF_ACCESS_AUD",
        "",
        "tag of the application of Cloudflare Access (Application Audience) that is in front of this server",
    ),
    variable(
        "ALLOWED_HOSTS",
        "",
        "comma-separated host names that requests may carry, besides localhost, the one address that the server listens on and the host of PUBLIC_BASE_URL; `*` for any",
    ),
    variable(
        "ALLOWED_ORIGINS",
        "",
        "comma-separated origins whose pages may call, besides this server's own, such as `https://box.example`, with `:*` for any port; default: those of this machine; `*` for any",
    ),
    variable(
        "METRICS_TOKEN",
        "",
        "bearer token of /metrics, at least 16 ASCII characters; default: no token, and only this machine may read the metrics",
    ),
    variable(
        "ADMIN_TOKEN",
        "",
        "bearer token of /admin, at least 16 ASCII characters and no other token; without it, there is no /admin; see docs/admin.md",
    ),
    variable(
        "HEALTH_COUNTS",
        "false",
        "whether /api/v1/health shows the number of sessions and the uptime to requests without the token",
    ),
    variable(
        "RATE_LIMIT",
        "",
        "requests allowed per token, such as `10/s`, `300/m` or `5000/h`; more get 429; default: no limit",
    ),
    variable(
        "SHUTDOWN_GRACE",
        "30s",
        "how long running programs may continue after SIGTERM",
    ),
    variable(
        "SESSION_IDLE_TTL",
        "2h",
        "how long an MCP session may go unused before it ends; one with a run or an open event stream is in use",
    ),
    variable(
        "DIALECTS",
        "",
        "comma-separated interfaces of other code interpreters that clients find here too: `dify`, `e2b`, `jupyter`, `librechat`, `python_tool`; default: none; see docs/clients.md",
    ),
    variable(
        "MCP_TOOLSET",
        "default",
        "tools that MCP clients see: `default`, or those of other servers, `artifacts` or `python`; see docs/moving.md",
    ),
    variable(
        "RESOURCE_LINKS",
        "auto",
        "`auto`: answers link new files as content of the type `resource_link` for all clients but those known to refuse it; `always` or `never`: for all or none; see docs/clients.md",
    ),
    variable(
        "STRUCTURED_CONTENT",
        "auto",
        "`auto`: answers have `structuredContent` for all clients but those known to hide the rest of the answer then; `always` or `never`: for all or none; see docs/clients.md",
    ),
    variable(
        "PICTURES",
        "auto",
        "`auto`: answers show pictures to all clients but those known to hand them to their models as text; `always` or `never`: to all or none; see docs/clients.md",
    ),
];
