//! Settings of OAuth that cannot work, or that let in more than one may want.

use std::process::Command;

use mcp_code_sandbox::app::App;
use mcp_code_sandbox::config::Config;
use serde_json::json;

use crate::support::{SECRET, config};

const ISSUER: (&str, &str) = ("OAUTH_ISSUER", "https://auth.example");

fn refused(settings: &[(&str, &str)]) -> String {
    let lookup = |name: &str| {
        let set = settings.iter().find(|(set, _)| *set == name);
        let set = set.map(|(_, value)| (*value).to_owned());
        set.or_else(|| (name == "FILE_SECRET").then(|| SECRET.to_owned()))
    };
    Config::from_lookup(&lookup).unwrap_err().to_string()
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let seen = [
        refused(&[("OAUTH_ISSUER", "http://auth.example")]),
        refused(&[ISSUER, ("OAUTH_TENANT", "team")]),
        refused(&[ISSUER, ("OAUTH_SCOPES", "a \"b\"")]),
        refused(&[ISSUER, ("OAUTH_REQUIRED_SCOPE", "a b")]),
        refused(&[ISSUER, ("OAUTH_ALLOW", "email:")]),
        refused(&[ISSUER, ("OAUTH_INTROSPECTION_CLIENT", "box")]),
        refused(&[ISSUER, ("OAUTH_INTROSPECTION_SECRET", "7f3a9c51")]),
        refused(&[("CF_ACCESS_TEAM", "my team"), ("CF_ACCESS_AUD", "tag")]),
        refused(&[ISSUER, ("CF_ACCESS_TEAM", "team")]),
        refused(&[ISSUER, ("CF_ACCESS_AUD", "tag")]),
    ];
    insta::assert_snapshot!(seen.join("\n"), @r#"
    OAUTH_ISSUER=http://auth.example is not valid: it must be addresses separated by commas, as the issuers write them into `iss`, such as `https://auth.example/realms/team`, without query; `http` on this machine only
    OAUTH_TENANT=team is not valid: it must be `subject`, `default`, or `claim:` and the name of a claim
    OAUTH_SCOPES=a "b" is not valid: it must be scopes separated by spaces, such as `openid`, or `none`
    OAUTH_REQUIRED_SCOPE=a b is not valid: it must be one scope, such as `sandbox`
    OAUTH_ALLOW=email: is not valid: it must be callers separated by commas, each a `sub`, `email:` and an address, or `group:` and a name
    OAUTH_INTROSPECTION_SECRET is not set: it must be given where OAUTH_INTROSPECTION_CLIENT is
    OAUTH_INTROSPECTION_CLIENT is not set: it must be given where OAUTH_INTROSPECTION_SECRET is
    CF_ACCESS_TEAM=my team is not valid: it must be the name of a team, such as `myteam` for `https://myteam.cloudflareaccess.com`, or such an address
    CF_ACCESS_AUD is not set: it must be given where CF_ACCESS_TEAM is: anybody can send an assertion
    CF_ACCESS_TEAM is not set: it must be given where CF_ACCESS_AUD is: anybody can send an assertion
    "#);
    let several = [
        ("OAUTH_ISSUER", "https://auth.example,https://other.example"),
        ("OAUTH_INTROSPECTION_CLIENT", "box"),
        ("OAUTH_INTROSPECTION_SECRET", "7f3a9c51"),
        ("OAUTH_PAGE_CLIENT", "page"),
    ];
    let mixed = [
        ("OAUTH_ISSUER", "https://a.example,https://b.example"),
        ("OAUTH_ALLOW", "email:anna@example.org,8f3c"),
        ("OAUTH_JWKS_FILE", "keys.json"),
    ];
    insta::assert_snapshot!(refused(&mixed), @r"
    OAUTH_JWKS_FILE=keys.json is not valid: it must be left out where OAUTH_ISSUER has several: each could sign for the others
    OAUTH_ALLOW=email:anna@example.org,8f3c is not valid: it must be of the form `email:` only where OAUTH_ISSUER has several: a `sub` or a group of one is not that of another
    ");
    insta::assert_snapshot!(refused(&several), @r"
    OAUTH_PAGE_CLIENT=page is not valid: it must be left out where OAUTH_ISSUER has several: it is the id of a client of one
    OAUTH_INTROSPECTION_CLIENT=box is not valid: it must be left out where OAUTH_ISSUER has several: an opaque token does not say whose it is
    ");
}

#[test]
fn settings_that_mean_nothing_without_an_issuer_are_refused() {
    let alone = [
        ("MCP_API_TOKEN", "7f3a9c51e8d24b60a1f7c3d9"),
        ("OAUTH_ALLOW", "anna"),
    ];
    insta::assert_snapshot!(refused(&alone), @"OAUTH_ALLOW=anna is not valid: it must be left out where OAUTH_ISSUER is not set");
}

#[test]
fn a_secret_of_the_issuer_is_not_shown() {
    let root = tempfile::tempdir().unwrap();
    let settings = [
        ISSUER,
        ("OAUTH_INTROSPECTION_CLIENT", "box"),
        ("OAUTH_INTROSPECTION_SECRET", "7f3a9c51"),
    ];
    let shown = config(root.path(), &settings).to_string();
    assert!(
        shown.contains("\nOAUTH_INTROSPECTION_CLIENT=box\nOAUTH_INTROSPECTION_SECRET=(hidden)\n"),
        "{shown}"
    );
    assert!(!shown.contains("7f3a9c51\n"), "{shown}");
}

#[test]
fn files_that_are_not_what_they_should_be_refuse_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let told = |setting: &str, content: &str| {
        std::fs::write(&path, content).unwrap();
        let settings = [ISSUER, (setting, path.to_str().unwrap())];
        let error = App::oauth(&config(dir.path(), &settings)).unwrap_err();
        error.to_string().replace(path.to_str().unwrap(), "FILE")
    };
    let seen = [
        told("OAUTH_JWKS_FILE", "{}"),
        told(
            "OAUTH_JWKS_FILE",
            &json!({ "keys": [{ "kty": "oct", "k": "c2VjcmV0" }] }).to_string(),
        ),
        told("OAUTH_CA_BUNDLE", "nothing"),
    ];
    insta::assert_snapshot!(seen.join("\n"), @"
    OAUTH_JWKS_FILE=FILE is not usable: missing field `keys` at line 1 column 2
    OAUTH_JWKS_FILE=FILE is not usable: it has no key that checks signatures
    OAUTH_CA_BUNDLE=FILE is not usable: it has no certificate
    ");
}

#[test]
fn an_issuer_at_which_anybody_can_have_an_account_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let warned = |allow: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_mcp-code-sandbox"))
            .arg("check-config")
            .env_clear()
            .env("FILE_SECRET", "0123456789abcdef0123456789abcdef")
            .env("OAUTH_ISSUER", "https://accounts.google.com")
            .env("OAUTH_ALLOW", allow)
            .current_dir(empty.path())
            .output()
            .unwrap();
        (
            output.status.success(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let warning = "warning: anybody can have an account at https://accounts.google.com, and so run programs here: set OAUTH_ALLOW\n";
    assert_eq!(warned(""), (true, warning.to_owned()));
    assert_eq!(warned("email:anna@example.org"), (true, String::new()));
}
