//! Where logging in can be switched on.

use mcp_code_sandbox::config::Config;

use crate::support::{SECRET, TOKEN};

fn refused(settings: &[(&str, &str)]) -> String {
    let lookup = |name: &str| {
        let set = settings.iter().find(|(set, _)| *set == name);
        let set = set.map(|(_, value)| (*value).to_owned());
        set.or_else(|| match name {
            "FILE_SECRET" => Some(SECRET.to_owned()),
            "MCP_API_TOKEN" => Some(TOKEN.to_owned()),
            "OAUTH_BUILTIN" => Some("1".to_owned()),
            _ => None,
        })
    };
    match Config::from_lookup(&lookup) {
        Ok(_) => "good".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn it_needs_an_address_that_nobody_on_the_way_can_pretend_to_be() {
    for url in [
        "https://box.example",
        "https://box.example/p",
        "http://127.0.0.1:8080",
    ] {
        assert_eq!(refused(&[("PUBLIC_BASE_URL", url)]), "good");
    }
    insta::assert_snapshot!(refused(&[("PUBLIC_BASE_URL", "http://box.example")]), @"OAUTH_BUILTIN=1 is not valid: it must be left out where PUBLIC_BASE_URL is not https: tokens are pasted into a page, which others on the way could read or change; `http` on this machine only");
}

#[test]
fn it_is_alone() {
    let seen = [
        refused(&[("OAUTH_ISSUER", "https://auth.example")]),
        refused(&[("CF_ACCESS_TEAM", "team"), ("CF_ACCESS_AUD", "tag")]),
        refused(&[("OAUTH_BUILTIN", "maybe")]),
    ];
    insta::assert_snapshot!(seen.join("\n"), @"
    OAUTH_BUILTIN=1 is not valid: it must be left out where OAUTH_ISSUER is set: clients could not tell where to log in
    OAUTH_BUILTIN=1 is not valid: it must be left out where CF_ACCESS_TEAM is set: clients could not tell where to log in
    OAUTH_BUILTIN=maybe is not valid: it must be 1 or 0
    ");
}
