//! What is taken as a list of tenants, and what is said about the rest.

use super::*;

const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

/// That of no bytes.
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn flaw(text: &str) -> String {
    Book::parse(text).unwrap_err().to_string()
}

fn token(lines: &str) -> String {
    format!("[[tenant]]\nname = \"research\"\n[[tenant.token]]\n{lines}")
}

#[test]
fn tokens_are_found_by_what_they_hash_to() {
    let inline = format!(
        "[[tenant]]\nname = \"research\"\ntoken = [{{ name = \"n8n\", sha256 = \"{HASH}\" }}]"
    );
    for text in [
        token(&format!("name = \"n8n\"\nsha256 = \"{HASH}\"")),
        token(&format!(
            "name = \"n8n\"\nsha256 = \"{}\"",
            HASH.to_uppercase()
        )),
        inline,
    ] {
        let book = Book::parse(&text).unwrap();
        let entry = book.find("test").unwrap();
        assert_eq!(entry.principal.tenant().name(), "research");
        assert!(book.find(HASH).is_none() && book.find("").is_none());
    }
    assert!(Book::parse("").unwrap().sorted().is_empty());
}

#[test]
fn a_time_is_that_of_utc_and_a_date_its_begin() {
    for (text, is_expired) in [
        ("2020-01-01", true),
        ("2020-01-01T12:00:00", true),
        ("2020-01-01T12:00:00+02:00", true),
        ("9000-01-01", false),
        ("9999-12-31", false),
    ] {
        let line = format!("name = \"n8n\"\nsha256 = \"{HASH}\"\nexpires = {text}");
        let book = Book::parse(&token(&line)).unwrap();
        assert_eq!(
            book.find("test").unwrap().is_expired(),
            is_expired,
            "{text}"
        );
    }
}

#[test]
fn what_is_wrong_is_said_with_where_it_is() {
    let twice = format!(
        "{}\n[[tenant.token]]\nname = \"b\"\nsha256 = \"{HASH}\"",
        token(&format!("name = \"a\"\nsha256 = \"{HASH}\""))
    );
    let flaws = [
        "[[tenant]]\nname = \"Research\"",
        "[[tenant]]\nname = \"a\"\n[[tenant]]\nname = \"a\"",
        "[[tenant]]\nname = \"a\"\nmax_run = 1",
        "[tenant]\nname = \"a\"",
        "tenant",
        &token("name = \"n8n\"\nsha256 = \"test\""),
        &token("name = \"n8n\""),
        &token(&format!("name = \"n8n\"\nsha256 = \"{NOTHING}\"")),
        &token(&format!(
            "name = \"n8n\"\nsha256 = \"{HASH}\"\nexpires = 12:00:00"
        )),
        &twice,
    ]
    .map(flaw);
    insta::assert_snapshot!(flaws.join("\n--\n"), @r#"
    ACCESS_FILE is not valid: "Research" is no name: a name is 1 to 32 lower-case letters, digits and `-`, with a letter or a digit first
    --
    ACCESS_FILE is not valid: there are two tenants with the name a: give all of its tokens to one of them
    --
    ACCESS_FILE is not valid: TOML parse error at line 3, column 1
      |
    3 | max_run = 1
      | ^^^^^^^
    unknown field `max_run`, expected one of `name`, `token`, `max_runs`, `max_kernels`, `rate_limit`, `storage_limit`, `workspace_quota`, `languages`, `network`, `network_allow`
    --
    ACCESS_FILE is not valid: TOML parse error at line 1, column 1
      |
    1 | [tenant]
      | ^^^^^^^^
    invalid type: map, expected a sequence
    --
    ACCESS_FILE is not valid: TOML parse error at line 1, column 7
      |
    1 | tenant
      |       ^
    key with no value, expected `=`
    --
    ACCESS_FILE is not valid: the token n8n of research has a `sha256` that is not one (a hash is 64 hexadecimal digits): make a token with `mcp-code-sandbox token new`
    --
    ACCESS_FILE is not valid: TOML parse error at line 3, column 1
      |
    3 | [[tenant.token]]
      | ^^^^^^^^^^^^^^^^
    missing field `sha256`
    --
    ACCESS_FILE is not valid: the token n8n of research has the hash of nothing as its `sha256`
    --
    ACCESS_FILE is not valid: the token n8n of research has an `expires` without a date, 12:00:00: write 2027-01-01 or 2027-01-01T12:00:00Z
    --
    ACCESS_FILE is not valid: the token b of research is there twice, and it belongs to one: remove the other
    "#);
}

#[test]
fn limits_of_a_tenant_are_read_and_bad_ones_are_named() {
    let limits = |lines: &str| {
        let text = format!("[[tenant]]\nname = \"research\"\n{lines}");
        Book::parse(&text).map(|book| book.limits(&Tenant::of("research".parse().unwrap())))
    };
    assert_eq!(*limits("").unwrap(), TenantLimits::default());
    let all = "max_runs = 3\nmax_kernels = 2\nrate_limit = \"300/m\"\nstorage_limit = \"20g\"\nworkspace_quota = \"200m\"\nlanguages = [\"python\"]\nnetwork = false";
    assert_eq!(
        *limits(all).unwrap(),
        TenantLimits {
            max_runs: Some(3),
            max_kernels: Some(2),
            rate: Some("300/m".parse().unwrap()),
            storage: Some(20 << 30),
            quota: Some(200 << 20),
            languages: Some(["python".to_owned()].into()),
            network: NetworkLimits {
                mode: Some(NetworkMode::Off),
                allow: None,
            },
        }
    );
    let flaws = [
        "max_runs = 0",
        "max_kernels = 0",
        "rate_limit = \"often\"",
        "storage_limit = \"4k\"",
        "workspace_quota = \"some\"",
        "languages = []",
    ]
    .map(|line| limits(line).unwrap_err().to_string());
    insta::assert_snapshot!(flaws.join("\n"), @r#"
    ACCESS_FILE is not valid: the tenant research has `max_runs = 0`: give it 1 or more, or take its tokens away
    ACCESS_FILE is not valid: the tenant research has `max_kernels = 0`: give it 1 or more, or leave the line out
    ACCESS_FILE is not valid: the tenant research has a `rate_limit` that is none, "often": a rate is a number and a time, such as `10/s`, `300/m` or `5000/h`
    ACCESS_FILE is not valid: the tenant research has a `storage_limit` that is none, "4k": write a size of at least 1m, such as `512m` or `20g`
    ACCESS_FILE is not valid: the tenant research has a `workspace_quota` that is none, "some": write a size of at least 1m, such as `512m` or `20g`
    ACCESS_FILE is not valid: the tenant research has no `languages`: name some, or leave the line out
    "#);
}

#[test]
fn scopes_are_words_that_are_known() {
    let line = |scopes: &str| {
        token(&format!(
            "name = \"n8n\"\nsha256 = \"{HASH}\"\nscopes = {scopes}"
        ))
    };
    let of = |scopes: &str| {
        Book::parse(&line(scopes))
            .unwrap()
            .find("test")
            .unwrap()
            .scopes
    };
    assert_eq!(of(r#"["run", "install"]"#).to_string(), "run, install");
    assert_eq!(of(r#"["all"]"#), Scopes::ALL);
    let flaws = [r#"["run", "sandbox:files"]"#, "[]"].map(|scopes| flaw(&line(scopes)));
    insta::assert_snapshot!(flaws.join("\n"), @r#"
    ACCESS_FILE is not valid: the token n8n of research has `scopes` that are none: "sandbox:files" is no scope: there are run, files, install, network and all
    ACCESS_FILE is not valid: the token n8n of research has no `scopes`: name some, or leave the line out
    "#);
}
