use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::grants::MOST_PER_TOKEN;
use super::*;

const TOKEN: &str = "7f3a9c51e8d24b60a1f7c3d9";
const CALLBACK: &str = "http://localhost/callback";
const VERIFIER: &str = "what only the client knows";

/// A server at an address, on a directory that others have had before.
fn at(root: &TempDir, address: &str) -> Login {
    let access = Access::open(Some(TOKEN.to_owned().into()), None).unwrap();
    let secret = SecretString::from("c0ffee5a9d1b48e7a2f36c8d04be917f");
    let addresses = (address, vec![format!("{address}/mcp")]);
    Login::open(access, addresses, &secret, root.path()).unwrap()
}

/// The access token of somebody who logs in.
fn logged_in(login: &Login) -> String {
    let registration = Registration {
        redirect_uris: vec![CALLBACK.to_owned()],
        client_name: None,
    };
    let client = login.register(&registration).unwrap();
    let client_id = client.id().to_owned();
    let request = Request {
        client_id: client_id.clone(),
        redirect_uri: CALLBACK.to_owned(),
        response_type: "code".to_owned(),
        code_challenge: URL_SAFE_NO_PAD.encode(Sha256::digest(VERIFIER)),
        code_challenge_method: "S256".to_owned(),
        ..Request::default()
    };
    let asked = request.check(client, &login.0.resources).unwrap();
    let (_, code) = login.let_in(&asked, TOKEN).unwrap();
    let exchange = Exchange {
        client_id,
        code,
        redirect_uri: CALLBACK.to_owned(),
        verifier: VERIFIER.to_owned(),
        resource: Vec::new(),
    };
    login.0.exchange(&exchange).unwrap().access_token
}

#[tokio::test]
async fn an_access_token_counts_for_an_hour() {
    let root = tempfile::tempdir().unwrap();
    let login = at(&root, "https://box.example");
    let token = logged_in(&login);
    let after = |seconds: i64| {
        let now = Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
        login.0.caller(&token, now)
    };
    assert_eq!(after(3590).unwrap().0, Principal::of_token(TOKEN));
    assert_eq!(after(3600), Err(Refused::Expired));
}

#[tokio::test]
async fn whoever_came_by_a_login_leaves_when_it_ends() {
    let root = tempfile::tempdir().unwrap();
    let login = at(&root, "https://box.example");
    let token = logged_in(&login);
    let (caller, _) = login.caller(&token).unwrap();
    let other = Principal::of_token(TOKEN);
    assert!(caller == other && !login.has_left(&caller) && !login.has_left(&other));
    login.revoke(token).await.unwrap().unwrap();
    assert!(login.has_left(&caller) && !login.has_left(&other));
}

#[tokio::test]
async fn an_access_token_is_for_the_address_that_it_was_made_for() {
    let root = tempfile::tempdir().unwrap();
    let token = logged_in(&at(&root, "https://box.example"));
    assert!(at(&root, "https://box.example").caller(&token).is_ok());
    assert_eq!(
        at(&root, "https://other.example").caller(&token),
        Err(Refused::Elsewhere("https://box.example/mcp".to_owned()))
    );
}

#[tokio::test]
async fn a_token_has_only_so_many_grants() {
    let root = tempfile::tempdir().unwrap();
    let login = at(&root, "https://box.example");
    let tokens: Vec<_> = (0..MOST_PER_TOKEN + 3).map(|_| logged_in(&login)).collect();
    let counting = tokens.iter().filter(|token| login.caller(token).is_ok());
    assert_eq!(counting.count(), MOST_PER_TOKEN);
    let files = std::fs::read_dir(root.path().join(".logins")).unwrap();
    assert_eq!(files.count(), MOST_PER_TOKEN);
    assert!(login.caller(tokens.last().unwrap()).is_ok());
}

#[tokio::test]
async fn a_damaged_grant_counts_for_nothing() {
    let root = tempfile::tempdir().unwrap();
    let token = logged_in(&at(&root, "https://box.example"));
    let files = std::fs::read_dir(root.path().join(".logins")).unwrap();
    for file in files {
        std::fs::write(file.unwrap().path(), "{").unwrap();
    }
    let login = at(&root, "https://box.example");
    assert_eq!(login.caller(&token), Err(Refused::Ended));
}
