//! Files of secrets, good and bad.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;

const GOOD: &str = r#"
[[secret]]
name = "github"
env = "GITHUB_TOKEN"
from_file = "/run/secrets/github"
hosts = ["API.github.com", "api.github.com", "uploads.github.com"]
methods = ["GET", "POST"]
paths = ["/repos/*", "/user"]
prefix = "ghp_"
tenants = ["default", "research"]

[[secret]]
name = "weather"
env = "WEATHER_KEY"
from_env = "WEATHER"
hosts = ["api.weather.example"]
header = "X-Api-Key"
"#;

#[test]
fn a_file_declares_secrets_with_their_rules() {
    let secrets = parse(GOOD).unwrap();
    let lines: Vec<_> = secrets.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    github: GITHUB_TOKEN for api.github.com, uploads.github.com, from /run/secrets/github, for the tenants default, research
    weather: WEATHER_KEY for api.weather.example, from $WEATHER, for the tenants default
    ");
    let rules = |secret: &DeclaredSecret| {
        let paths: Vec<_> = secret.paths.iter().map(ToString::to_string).collect();
        format!("{} {:?} {paths:?}", secret.header, secret.methods)
    };
    insta::assert_snapshot!(rules(&secrets[0]), @r#"authorization [GET, POST] ["/repos/*", "/user"]"#);
    insta::assert_snapshot!(rules(&secrets[1]), @r#"x-api-key [] ["/*"]"#);
    assert!(parse("").unwrap().is_empty());
}

/// The good file with one line of the first secret replaced.
fn with(field: &str, line: &str) -> String {
    let mut is_done = false;
    let lines = GOOD.lines().map(|old| {
        let is_it = !is_done && old.starts_with(&format!("{field} = "));
        is_done |= is_it;
        if is_it { line } else { old }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_mistake_is_told_with_its_secret_its_field_and_what_to_do() {
    let wrong = [
        with("name", "name = \"GitHub\""),
        with("name", "name = \"weather\""),
        with("env", "env = \"GITHUB TOKEN\""),
        with("env", "env = \"https_proxy\""),
        with("env", "env = \"PYTHONPATH\""),
        with("env", "env = \"SSL_CERT_FILE\""),
        with("env", "env = \"MCP_API_TOKEN\""),
        with("env", "env = \"WEATHER_KEY\""),
        with("from_file", "value = \"ghp_inline\""),
        with("from_file", "token = \"ghp_inline\""),
        with("from_file", "from_file = \"github\""),
        with("from_file", "from_env = \"FILE_SECRET\""),
        with("from_file", "from_env = \"a-b\""),
        with("from_file", ""),
        with("from_file", "from_file = \"/a\"\nfrom_env = \"A\""),
        with("hosts", "hosts = []"),
        with("hosts", "hosts = [\"*.github.com\"]"),
        with("hosts", "hosts = [\"api.github.com:443\"]"),
        with("hosts", "hosts = [\"192.0.2.1\"]"),
        with("hosts", "hosts = \"ghp_inline\""),
        with("methods", "methods = [\"get\"]"),
        with("methods", "methods = [\"TRACE\"]"),
        with("methods", "methods = []"),
        with("methods", "header = \"Host\""),
        with("methods", "header = \"a b\""),
        with("paths", "paths = [\"repos\"]"),
        with("prefix", "prefix = \"gh \""),
        with("tenants", "tenants = [\"Research\"]"),
        with("tenants", "tenants = []"),
        with("prefix", "ghp_inline = 1"),
        with("prefix", "[[other]]"),
        with("prefix", "prefix = ghp_inline"),
    ];
    let told = wrong.map(|text| {
        let flaw = parse(&text).err().unwrap_or(text);
        assert!(!flaw.contains("= \"ghp_inline"), "{flaw}");
        flaw
    });
    insta::assert_snapshot!(told.join("\n"), @r#"
    "GitHub" is no name of a secret: a name is 1 to 32 lower-case letters, digits and `-`, with a letter or a digit first
    there are two secrets with the name weather: rename one
    the secret github has an `env` that is no variable's name, "GITHUB TOKEN": write a letter or _, then letters, digits and _
    the secret github has the `env` https_proxy, which the server or its sandboxes use: choose another one
    the secret github has the `env` PYTHONPATH, which the server or its sandboxes use: choose another one
    the secret github has the `env` SSL_CERT_FILE, which the server or its sandboxes use: choose another one
    the secret github has the `env` MCP_API_TOKEN, which the server or its sandboxes use: choose another one
    the secrets github and weather both have the `env` WEATHER_KEY for the tenant default: give each its own, or one to other `tenants`
    the secret github has the field "value", which is none. A value does not belong in the file, where backups and whoever helps with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`
    the secret github has the field "token", which is none. A value does not belong in the file, where backups and whoever helps with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`
    the secret github has a `from_file` that is relative, "github": write the whole path
    the secret github has the `from_env` FILE_SECRET, which is a setting of the server: give the secret a variable of its own
    the secret github has a `from_env` that is no variable's name, "a-b": write a letter or _, then letters, digits and _
    the secret github has neither `from_file` nor `from_env`: say where its value is
    the secret github has both `from_file` and `from_env`: remove one
    the secret github has no `hosts`: name one
    the secret github has `hosts` with "*.github.com": name each host, since each would be sent the secret
    the secret github has `hosts` with "api.github.com:443": leave the port out, it is 443
    the secret github has `hosts` with "192.0.2.1": hosts are listed by name, not by address
    line 6: expected a sequence
    the secret github has `methods` with "get": write a method such as `GET` in capitals; CONNECT and TRACE are none for secrets
    the secret github has `methods` with "TRACE": write a method such as `GET` in capitals; CONNECT and TRACE are none for secrets
    the secret github has no `methods`: name one
    the secret github has the `header` host, which the server sets itself: name another one, such as `authorization`
    the secret github has a `header` that is none, "a b"
    the secret github has `paths` with "repos": a path begins with `/` and may end with `*`, such as `/repos/*`; it has no other `*`, no `?`, `#`, `%`, `//`, `.` or `..`
    the secret github has a `prefix` that no value can have: write the letters that all values of its kind begin with, such as `ghp_`
    the secret github has `tenants` with "Research": a name is 1 to 32 lower-case letters, digits and `-`, with a letter or a digit first
    the secret github has no `tenants`: name one
    the secret github has the field "ghp_inline", which is none. A value does not belong in the file, where backups and whoever helps with it would have it too: name a file in `from_file`, or a variable of the server in `from_env`
    line 9: unknown field `other`, expected `secret`
    line 9: string values must be quoted, expected literal string
    "#);
}

#[test]
fn only_its_owner_may_have_a_right_to_it() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), GOOD).unwrap();
    let told = |path: &Path| {
        let error = read(path).unwrap_err();
        error.to_string().replace(&path.display().to_string(), "…")
    };
    for mode in [0o600, 0o400] {
        std::fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
        assert_eq!(read(file.path()).unwrap().len(), 2);
    }
    std::fs::set_permissions(file.path(), Permissions::from_mode(0o640)).unwrap();
    insta::assert_snapshot!(told(file.path()), @"SECRETS_FILE=… is open to others (mode 640): run `chmod 600 …`");
    insta::assert_snapshot!(told(Path::new("/nowhere")), @"SECRETS_FILE=… cannot be read");
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in r#"(\[\[secret\]\]|[a-z_]+ = |"[^"]{0,9}"|\[|\]|\n|\PC{0,5}){0,30}"#) {
        let _ = parse(&text);
    }
}
