//! The file while the server has it, and the commands that change it.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};

use super::*;
use crate::config::NetworkMode;

fn new(path: &Path, tenant: &str, name: &str) -> String {
    let command = TokenCommand::New {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
        expires: None,
        scopes: Vec::new(),
    };
    command.run(Some(path)).unwrap()
}

fn revoke(path: &Path, tenant: &str, name: &str, id: Option<&str>) -> Result<String, AccessError> {
    let command = TokenCommand::Revoke {
        tenant: tenant.parse().unwrap(),
        name: name.parse().unwrap(),
        id: id.map(str::to_owned),
    };
    command.run(Some(path))
}

/// What the list shows of a token, without its hash.
fn list(path: &Path) -> Vec<Vec<String>> {
    let text = TokenCommand::List.run(Some(path)).unwrap();
    let rows = text.lines().skip(1);
    rows.map(|row| row.split_whitespace().map(str::to_owned).collect())
        .collect()
}

#[test]
fn tokens_are_made_listed_replaced_and_revoked() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let first = new(&path, "research", "n8n");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!fs::read_to_string(&path).unwrap().contains(&first[4..]));
    let access = Access::open(None, Some(path.clone())).unwrap();
    let caller = access.caller(&first).unwrap();
    assert_eq!(caller.tenant().name(), "research");
    // Its successor is the same caller, another name of the tenant is not.
    let (second, other) = (new(&path, "research", "n8n"), new(&path, "research", "ide"));
    let sales = new(&path, "sales", "n8n");
    access.look(&path);
    assert_eq!(access.caller(&second).unwrap(), caller);
    assert_ne!(access.caller(&other).unwrap(), caller);
    assert_ne!(access.caller(&sales).unwrap(), caller);
    let listed = list(&path);
    let names: Vec<_> = listed.iter().map(|row| row[..2].join(" ")).collect();
    assert_eq!(
        names,
        ["research ide", "research n8n", "research n8n", "sales n8n"]
    );
    let which = revoke(&path, "research", "n8n", None)
        .unwrap_err()
        .to_string();
    assert!(which.contains("2 tokens of the name n8n"), "{which}");
    let id = secret::TokenHash::of(&first).id();
    revoke(&path, "research", "n8n", Some(&id)).unwrap();
    access.look(&path);
    assert_eq!(access.caller(&first), Err(Denied::Unknown));
    assert!(
        [second, other, sales]
            .iter()
            .all(|token| access.caller(token).is_ok())
    );
    assert!(revoke(&path, "research", "cli", None).is_err());
}

#[test]
fn a_change_leaves_comments_and_other_forms_as_they_are() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let text = format!(
        "# Ours.\n[[tenant]]\nname = \"research\" # the second floor\ntoken = [{{ name = \"ide\", sha256 = \"{hash}\" }}]\n"
    );
    fs::write(&path, &text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    new(&path, "research", "n8n");
    let changed = fs::read_to_string(&path).unwrap();
    assert!(changed.starts_with("# Ours.\n[[tenant]]\nname = \"research\" # the second floor\n"));
    assert_eq!(list(&path).len(), 2);
    revoke(&path, "research", "n8n", None).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn what_was_read_last_counts_while_the_file_is_bad_and_nobody_is_let_in_without_one() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let token = new(&path, "research", "n8n");
    let access = Access::open(None, Some(path.clone())).unwrap();
    let good = fs::read_to_string(&path).unwrap();
    fs::write(&path, "[[tenant").unwrap();
    access.look(&path);
    assert!(access.caller(&token).is_ok() && !access.is_current());
    // One that others may read is as bad.
    fs::write(&path, &good).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    access.look(&path);
    assert!(!access.is_current());
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    access.look(&path);
    assert!(access.caller(&token).is_ok() && access.is_current());
    fs::remove_file(&path).unwrap();
    access.look(&path);
    assert_eq!(access.caller(&token), Err(Denied::Unknown));
    fs::write(&path, good).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    access.look(&path);
    assert!(access.caller(&token).is_ok());
}

#[test]
fn a_token_is_added_however_its_tenant_is_written() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    for text in [
        "tenant = [{name = \"research\"}]\n",
        "tenant = [{name = \"research\", token = []}]\n",
        "tenant = []\n",
        "[[tenant]]\nname = \"research\"\ntoken = []\n",
        "[[tenant]]\nname = \"research\"\n",
        "",
    ] {
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let (first, second) = (new(&path, "research", "a"), new(&path, "sales", "b"));
        let access = Access::open(None, Some(path.clone())).unwrap();
        assert!(
            access.caller(&first).is_ok() && access.caller(&second).is_ok(),
            "{text}"
        );
        revoke(&path, "research", "a", None).unwrap();
        revoke(&path, "sales", "b", None).unwrap();
        assert!(list(&path).is_empty(), "{text}");
    }
}

#[test]
fn a_file_that_goes_while_it_cannot_be_read_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let token = new(&path, "research", "n8n");
    let access = Access::open(None, Some(path.clone())).unwrap();
    fs::remove_file(&path).unwrap();
    // A folder is in its place, which is no file to read.
    fs::create_dir(&path).unwrap();
    access.look(&path);
    assert!(access.caller(&token).is_ok() && !access.is_current());
    fs::remove_dir(&path).unwrap();
    access.look(&path);
    assert!(access.caller(&token).is_err() && access.is_current());
}

#[test]
fn nobody_is_let_in_without_a_token_or_by_the_servers_own_in_another_tenant() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let token = new(&path, "research", "n8n");
    let refused = Access::open(Some(token.into()), Some(path.clone())).unwrap_err();
    insta::assert_snapshot!(refused, @"ACCESS_FILE is not valid: the token n8n of research is MCP_API_TOKEN, which belongs to the tenant default: remove one of them");
    let access = Access::open(None, Some(path)).unwrap();
    assert_eq!(access.caller(""), Err(Denied::Unknown));
}

#[test]
fn no_server_begins_with_a_file_that_is_missing_or_open_to_others() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let refused = || {
        let refused = Access::open(None, Some(path.clone()))
            .unwrap_err()
            .to_string();
        refused.replace(&root.path().display().to_string(), "…")
    };
    insta::assert_snapshot!(refused(), @"ACCESS_FILE=…/access.toml cannot be read");
    new(&path, "research", "n8n");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    insta::assert_snapshot!(refused(), @"ACCESS_FILE=…/access.toml is open to others (mode 640): run `chmod 600 …/access.toml`");
    // One of another owner is read as a member of its group.
    chown(&path, Some(1), Some(1)).unwrap();
    Access::open(None, Some(path.clone())).unwrap();
    for mode in [0o644, 0o660, 0o641] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        assert!(refused().contains("open to others"), "{mode:o}");
    }
}

#[test]
fn an_expiry_is_a_date_or_a_time_from_now() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let with = |expires: &str| {
        let command = TokenCommand::New {
            tenant: "research".parse().unwrap(),
            name: "n8n".parse().unwrap(),
            expires: Some(expires.to_owned()),
            scopes: Vec::new(),
        };
        command.run(Some(&path)).map_err(|error| error.to_string())
    };
    with("9000-01-01").unwrap();
    assert_eq!(list(&path)[0][4], "9000-01-01T00:00:00Z");
    with("90d").unwrap();
    for expires in ["2020-01-01", "soon", "0s", ""] {
        with(expires).unwrap_err();
    }
    assert_eq!(list(&path).len(), 2);
}

#[test]
fn a_token_has_the_scopes_that_it_was_made_with() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let with = |name: &str, scopes: &[&str]| {
        let command = TokenCommand::New {
            tenant: "research".parse().unwrap(),
            name: name.parse().unwrap(),
            expires: None,
            scopes: scopes.iter().map(|word| word.parse().unwrap()).collect(),
        };
        command.run(Some(&path)).unwrap()
    };
    let (ci, ide) = (with("ci", &["run", "files", "run"]), with("ide", &["all"]));
    let access = Access::open(None, Some(path.clone())).unwrap();
    let of = |token: &str| access.let_in(token).unwrap().scopes.to_string();
    assert_eq!([of(&ci), of(&ide)], ["run, files", "all"]);
    let listed: Vec<_> = list(&path).into_iter().map(|row| row[3].clone()).collect();
    assert_eq!(listed, ["run,files", "all"]);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("scopes = [\"run\", \"files\"]").count(), 1);
    assert_eq!(text.matches("scopes").count(), 1);
}

#[test]
fn limits_count_on_while_the_file_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("access.toml");
    let text = "[[tenant]]\nname = \"default\"\nmax_runs = 1\nnetwork = false\n";
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let token = new(&path, "research", "n8n");
    let access = Access::open(None, Some(path.clone())).unwrap();
    fs::remove_file(&path).unwrap();
    access.look(&path);
    assert_eq!(access.caller(&token), Err(Denied::Unknown));
    let limits = access.limits(&Tenant::Default);
    assert_eq!(
        (limits.max_runs, limits.network.mode),
        (Some(1), Some(NetworkMode::Off))
    );
}
