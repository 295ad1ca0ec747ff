//! The configuration as operators see it: `.env.example`, the README's table, and messages about mistakes.

use mcp_code_sandbox::config::Config;
use mcp_code_sandbox::config::variables::VARIABLES;

/// Read by other parts of the project, not by the server.
const NOT_OURS: &[&str] = &["TUNNEL_TOKEN"];

#[test]
fn the_example_lists_every_variable_with_its_default() {
    let example = include_str!("../../.env.example");
    let listed: Vec<(&str, &str)> = example
        .lines()
        .filter_map(|line| line.trim_start_matches('#').trim().split_once('='))
        .collect();
    let listed: Vec<_> = listed
        .into_iter()
        .filter(|(name, _)| !NOT_OURS.contains(name))
        .collect();
    let expected: Vec<_> = VARIABLES
        .iter()
        .map(|variable| (variable.name, variable.default))
        .collect();
    assert_eq!(
        listed, expected,
        ".env.example and src/config/variables.rs differ"
    );
}

#[test]
fn the_readme_lists_every_variable_with_its_default() {
    let readme = include_str!("../../README.md");
    for variable in VARIABLES {
        let row = format!(
            "| `{}` | {} |",
            variable.name,
            match variable.default {
                "" => String::new(),
                default => format!("`{default}`"),
            }
        );
        assert!(
            readme.contains(&row),
            "README.md has no row beginning with: {row}"
        );
    }
}

#[test]
fn all_mistakes_are_told_at_once_and_no_secret_is_shown() {
    let lookup = |name: &str| {
        let value = match name {
            "MCP_API_TOKEN" => "hunter2",
            "FILE_SECRET" => "change-me-change-me-change-me-change-me",
            "RUN_TIMEOUT" => "soon",
            "RUN_MEMORY" => "1k",
            "MCP_HTTP_ADDR" => "nowhere",
            "PUBLIC_BASE_URL" => "sandbox.example",
            "MAX_CONCURRENT_RUNS" => "0",
            "ALLOW_NETWORK" => "perhaps",
            _ => return None,
        };
        Some(value.to_owned())
    };
    insta::assert_snapshot!(Config::from_lookup(&lookup).unwrap_err(), @"");
}

#[test]
fn check_config_hides_secrets() {
    let root = std::path::Path::new("/srv/sandboxes");
    let shown = crate::support::config(root, &[("MAX_CONCURRENT_RUNS", "4")]).to_string();
    insta::assert_snapshot!(shown, @"");
}
