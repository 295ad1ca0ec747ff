//! What callers may write and what becomes of it, with random words.

use proptest::prelude::*;

use super::*;

fn parse(ecosystem: Ecosystem, name: &str, version: Option<&str>) -> String {
    let asked = Asked {
        name: name.to_owned(),
        version: version.map(str::to_owned),
    };
    match Requirement::parse(ecosystem, &asked) {
        Ok(requirement) => format!("{} = {requirement}", requirement.name),
        Err(error) => error.to_string(),
    }
}

fn all(ecosystem: Ecosystem, asked: &[(&str, Option<&str>)]) -> String {
    let line = |(name, version): &(&str, Option<&str>)| parse(ecosystem, name, *version);
    asked.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn python_requirements_have_names_extras_and_versions() {
    insta::assert_snapshot!(all(Ecosystem::Python, &[
        ("six", None),
        (" Flask.Login ", None),
        ("requests[socks,Security]", Some("2.32.3")),
        ("six==1.17.0", None),
        ("six >= 1, <2", None),
        ("six", Some(">=1,<2")),
        ("six~=1.16", None),
        ("six==1.*", None),
        ("six", Some("latest")),
        ("six", Some("v1.17.0")),
    ]), @"
six = six
flask-login = flask-login
requests = requests[socks,security]==2.32.3
six = six==1.17.0
six = six>=1,<2
six = six>=1,<2
six = six~=1.16
six = six==1.*
six = six
six = six==1.17.0
");
}

#[test]
fn what_leads_anywhere_but_to_the_index_is_refused() {
    insta::assert_snapshot!(all(Ecosystem::Python, &[
        ("six @ https://example.org/six.whl", None),
        ("https://example.org/six.whl", None),
        ("git+ssh://git@example.org/six", None),
        ("./six", None),
        ("/data/six.whl", None),
        ("-r", Some("/etc/passwd")),
        ("--index-url=https://example.org", None),
        ("six; python_version < '3'", None),
        ("six", Some("1.0; os_name == 'nt'")),
        ("six", Some("1.0 --index-url=x")),
        ("six", Some("beta")),
        ("six\n--pre", None),
        ("six==", None),
        ("", None),
        ("six six", None),
        ("six-==1", None),
        ("six[a-]", None),
    ]), @r#"
    "six @ https://example.org/six.whl" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "https://example.org/six.whl" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "git+ssh://git@example.org/six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "./six" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "/data/six.whl" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "-r==/etc/passwd" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "--index-url=https://example.org" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "six; python_version < '3'" has an environment marker: leave out `;` and what follows
    "six==1.0; os_name == 'nt'" has an environment marker: leave out `;` and what follows
    "six==1.0 --index-url=x" is not a package requirement (Failed to parse version: Trailing `--index-url=x` is not allowed): give a name such as "six", or name and version such as "six==1.17.0"
    "six==beta" is not a package requirement (Failed to parse version: expected version to start with a number, but no leading ASCII digits were found): give a name such as "six", or name and version such as "six==1.17.0"
    "six\n--pre" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "six==" is not a package requirement (Failed to parse version: Unexpected end of version specifier, expected version): give a name such as "six", or name and version such as "six==1.17.0"
    "" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "six six" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "six-==1" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "six[a-]" is not a package requirement (names have letters, digits, -, _ and . only, and begin and end with one of the first two): give a name such as "six", or name and version such as "six==1.17.0"
    "#);
}

#[test]
fn npm_requirements_have_names_and_ranges() {
    insta::assert_snapshot!(all(Ecosystem::Npm, &[
        ("nanoid", None),
        ("nanoid@5.1.6", None),
        ("nanoid==5.1.6", None),
        ("nanoid", Some("^5 || ~4.0.1")),
        ("@scope/name", None),
        ("@scope/name@^1", None),
        ("@scope/name", Some("latest")),
        ("lodash.debounce", Some("4.x")),
    ]), @"
    nanoid = nanoid
    nanoid = nanoid@5.1.6
    nanoid = nanoid@5.1.6
    nanoid = nanoid@^5 || ~4.0.1
    @scope/name = @scope/name
    @scope/name = @scope/name@^1
    @scope/name = @scope/name
    lodash.debounce = lodash.debounce@4.x
    ");
}

#[test]
fn npm_names_that_are_none_and_links_are_refused() {
    insta::assert_snapshot!(all(Ecosystem::Npm, &[
        ("https://example.org/x.tgz", None),
        ("file:../x", None),
        ("npm:other@1", None),
        ("x", Some("npm:other@1")),
        ("x", Some("git+ssh://git@example.org/x")),
        ("x", Some("user/repository")),
        ("./x", None),
        ("../x", None),
        ("X", None),
        ("@scope", None),
        ("@scope/..", None),
        ("node_modules", None),
        ("x@1", Some("2")),
        ("x", Some("next")),
        ("--registry=x", None),
        ("-x", None),
        ("", None),
    ]), @r#"
    "https://example.org/x.tgz" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "file:../x" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "npm:other@1" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "x@npm:other@1" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "x@git+ssh://git@example.org/x" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "x@user/repository" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "./x" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "../x" is a URL or a path: packages come from the configured index only, so give a name, and a version if need be
    "X" is not a package requirement (names have small letters, digits, -, . and _ only): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "@scope" is not a package requirement (a scope is followed by / and a name): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "@scope/.." is not a package requirement (names have small letters, digits, -, . and _ only): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "node_modules" is not a package requirement (it cannot be the name of a package): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "x@1 2" is not a package requirement (it has two versions): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "x next" is not a package requirement (the version is no range of semantic versions): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "--registry=x" is not a package requirement (names have small letters, digits, -, . and _ only): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "-x" is not a package requirement (names have small letters, digits, -, . and _ only): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "" is not a package requirement (names have small letters, digits, -, . and _ only): give a name such as "nanoid", or name and version such as "nanoid@5.1.6"
    "#);
}

proptest! {
    #[test]
    fn what_parses_is_one_plain_word_that_parses_to_itself(
        name in "(\\PC|[-@/:;=.\\[\\]a-z0-9 \n]){0,24}",
        version in proptest::option::of("(\\PC|[-@/:;=.*<>~^a-z0-9 \n]){0,12}"),
        is_npm: bool,
    ) {
        let ecosystem = if is_npm { Ecosystem::Npm } else { Ecosystem::Python };
        if let Ok(requirement) = Requirement::parse(ecosystem, &Asked { name, version }) {
            let text = requirement.to_string();
            prop_assert!(!text.starts_with(['-', '.', '/']), "{text}");
            prop_assert!(!text.contains(['\n', ';', ':', '\0']), "{text}");
            let again = Requirement::parse(ecosystem, &Asked { name: text, version: None });
            prop_assert_eq!(again, Ok(requirement));
        }
    }

    #[test]
    fn normal_names_stay_as_they_are(name in "\\PC{0,24}") {
        for ecosystem in [Ecosystem::Python, Ecosystem::Npm] {
            let once = Name::new(ecosystem, &name);
            prop_assert_eq!(Name::new(ecosystem, once.as_str()), once);
        }
    }
}
