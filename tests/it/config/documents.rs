//! `.env.example`, the tables of documents, and what they say of settings beside each other.

use mcp_code_sandbox::config::foreign::FOREIGN;
use mcp_code_sandbox::config::variable::{OF_COMPOSE, OF_START, Variable};
use mcp_code_sandbox::config::variables::VARIABLES;

/// What `start.sh` gives to the compose files.
const NOT_A_SETTING: &str = "SOURCE_COMMIT";

#[test]
fn the_example_lists_every_variable_with_its_default() {
    let example = include_str!("../../../.env.example");
    let listed: Vec<(&str, &str)> = example
        .lines()
        .filter_map(|line| line.trim_start_matches('#').trim().split_once('='))
        .collect();
    let listed: Vec<_> = listed
        .into_iter()
        .filter(|(name, _)| !name.contains(' ') && !OF_COMPOSE.contains(name) && *name != OF_START)
        .collect();
    let expected: Vec<_> = VARIABLES
        .iter()
        .map(|variable| (variable.name, variable.default))
        .collect();
    assert_eq!(
        listed, expected,
        ".env.example and src/config/variables/ differ"
    );
    for variable in VARIABLES.iter() {
        let meaning = format!("# {}.\n", variable.help);
        assert!(example.contains(&meaning), "{meaning}");
    }
}

#[test]
fn the_example_lists_every_variable_of_the_compose_files() {
    let example = include_str!("../../../.env.example");
    let files = [
        include_str!("../../../docker-compose.yml"),
        include_str!("../../../docker-compose-cloudflare.yml"),
        include_str!("../../../deploy/docker-compose-socket-proxy.yml"),
        include_str!("../../../deploy/docker-compose-volume.yml"),
    ];
    let used = files.iter().flat_map(|file| file.split("${").skip(1));
    let mut names: Vec<_> = used
        .filter_map(|rest| rest.split([':', '}']).next())
        .filter(|name| *name != NOT_A_SETTING)
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in &names {
        assert!(
            example.contains(&format!("#{name}=")),
            ".env.example does not have {name}, which a compose file reads"
        );
    }
    for name in OF_COMPOSE {
        assert!(
            names.contains(name),
            ".env.example has {name}, which no compose file reads"
        );
    }
}

#[test]
fn a_misspelt_setting_is_told() {
    let empty = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_mcp-code-sandbox"))
        .arg("check-config")
        .env_clear()
        .envs([
            ("MCP_API_TOKEN", "0123456789abcdef0123"),
            ("FILE_SECRET", "0123456789abcdef0123456789abcdef"),
            ("RUN_TIMOUT", "5s"),
        ])
        .current_dir(empty.path())
        .output()
        .unwrap();
    assert!(output.status.success());
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "warning: RUN_TIMOUT is no setting and is ignored: is RUN_TIMEOUT meant?\n"
    );
}

#[test]
fn the_version_is_that_of_the_package_with_the_commit() {
    let program = env!("CARGO_BIN_EXE_mcp-code-sandbox");
    let output = std::process::Command::new(program)
        .arg("--version")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let commit = said
        .strip_prefix(concat!(
            "mcp-code-sandbox ",
            env!("CARGO_PKG_VERSION"),
            " ("
        ))
        .and_then(|rest| rest.strip_suffix(")\n"));
    let is_commit = |commit: &str| {
        commit == "unknown" || commit.len() == 12 && commit.bytes().all(|b| b.is_ascii_hexdigit())
    };
    assert!(commit.is_some_and(is_commit), "{said}");
}

/// A variable's row in the tables of documents.
fn row(variable: &Variable) -> String {
    let Variable {
        name,
        default,
        help,
    } = variable;
    if default.is_empty() {
        format!("| `{name}` |  | {help} |")
    } else {
        format!("| `{name}` | `{default}` | {help} |")
    }
}

/// All rows of a document that begin with the name of a variable.
fn rows(document: &str) -> Vec<&str> {
    document
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect()
}

#[test]
fn the_document_lists_every_variable_as_it_is() {
    let expected: Vec<_> = VARIABLES.iter().map(row).collect();
    assert_eq!(
        rows(include_str!("../../../docs/configuration.md")),
        expected,
        "docs/configuration.md and src/config/variables/ differ"
    );
}

/// The cells of every row of every table in a document.
fn table_rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    let rows = document.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.split('|').collect())
}

#[test]
fn what_settings_of_other_servers_are_here_is_told_as_the_document_says() {
    let document = include_str!("../../../docs/moving.md");
    let quoted = |text: &str, name: &str| text.contains(&format!("`{name}`"));
    for foreign in FOREIGN {
        let mut rows = table_rows(document);
        let is_told = rows.any(|cells| {
            let theirs = cells.get(1).is_some_and(|cell| quoted(cell, foreign.name));
            theirs
                && foreign
                    .ours
                    .iter()
                    .all(|ours| quoted(&cells[2..].join("|"), ours))
        });
        assert!(is_told, "docs/moving.md has no row with {foreign:?}");
    }
}

#[test]
fn the_document_names_no_setting_of_other_servers_that_is_not_told() {
    let document = include_str!("../../../docs/moving.md");
    let is_setting = |word: &&str| {
        let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        word.len() > 3 && word.bytes().all(is_name)
    };
    // What has the same name and meaning here needs no telling: some are settings of the compose files.
    let others = table_rows(document).filter(|cells| !cells[2].trim().starts_with("the same"));
    let theirs = others.flat_map(|cells| {
        let words = cells[1].split('`').skip(1).step_by(2);
        words.filter(is_setting).collect::<Vec<_>>()
    });
    for name in theirs {
        let is_known = FOREIGN.iter().any(|foreign| foreign.name == name)
            || VARIABLES.iter().any(|variable| variable.name == name);
        assert!(is_known, "src/config/foreign.rs does not have {name}");
    }
}

#[test]
fn the_readme_says_of_settings_what_the_document_does() {
    let readme = include_str!("../../../README.md");
    let (_, section) = readme.split_once("\n## Configuration\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = rows(section);
    assert!(rows.len() > 5, "the README names the most important ones");
    let known: Vec<_> = VARIABLES.iter().map(row).collect();
    for row in rows {
        assert!(known.iter().any(|known| known == row), "{row}");
    }
}

#[test]
fn the_readme_connects_as_the_document_does() {
    let readme = include_str!("../../../README.md");
    let (_, command) = readme.split_once("`claude mcp add ").unwrap();
    let (command, _) = command.split_once('`').unwrap();
    let command = format!("\nclaude mcp add {command}\n");
    assert!(
        include_str!("../../../docs/clients/applications.md").contains(&command),
        "{command}"
    );
}
