//! Lists of many conversations.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Administered;

const COUNT: u64 = 1_200;

/// A key that sorts as its number does not.
fn key(number: u64) -> String {
    format!(
        "{:064x}",
        u128::from(number) * 0x9e37_79b9_7f4a_7c15 % (1 << 64)
    )
}

impl Administered {
    /// Makes a conversation that was last used so many seconds ago.
    fn make(&self, number: u64, seconds: u64) {
        let root = self.app.root();
        fs::create_dir(root.join(key(number))).unwrap();
        self.use_again(number, seconds);
    }

    fn use_again(&self, number: u64, seconds: u64) {
        let note = File::create(self.app.root().join(".used").join(key(number))).unwrap();
        let used = SystemTime::now() - Duration::from_secs(seconds);
        note.set_modified(used).unwrap();
    }

    /// Reads all pages, and calls `between` after each.
    async fn all(&self, query: &str, mut between: impl FnMut(usize)) -> Vec<Value> {
        let (mut all, mut cursor) = (Vec::new(), String::new());
        for page in 0.. {
            let path = format!("/admin/v1/conversations?{query}{cursor}");
            let answer = self.get(&path).await;
            all.extend(answer["conversations"].as_array().unwrap().iter().cloned());
            match answer["nextCursor"].as_str() {
                None => break,
                Some(next) => cursor = format!("&cursor={next}"),
            }
            between(page);
        }
        all
    }
}

fn keys(rows: &[Value]) -> Vec<&str> {
    rows.iter()
        .map(|row| row["key"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_of_many_is_listed_once_while_others_are_added_and_used() {
    let it = Administered::new().await;
    for number in 0..COUNT {
        // Some were used at the same moment.
        it.make(number, 1_000 + number / 3);
    }
    let all: BTreeSet<_> = (0..COUNT).map(key).collect();
    let listed = it
        .all("limit=500", |page| it.make(COUNT + page as u64, 0))
        .await;
    assert_eq!(keys(&listed).len(), all.len());
    assert_eq!(
        keys(&listed).into_iter().collect::<BTreeSet<_>>(),
        all.iter().map(String::as_str).collect()
    );
    let times: Vec<_> = listed
        .iter()
        .map(|row| row["lastUsedAt"].as_str().unwrap())
        .collect();
    assert!(times.is_sorted_by(|one, other| one >= other));
    // By key, those that are used meanwhile are listed once too.
    let use_some = |page: usize| {
        (0..COUNT)
            .skip(page)
            .step_by(7)
            .for_each(|number| it.use_again(number, 0));
    };
    let listed = it.all("limit=100&sort=key", use_some).await;
    assert_eq!(listed.len(), all.len() + 2);
    assert!(keys(&listed).is_sorted());
    let listed = keys(&listed).into_iter().collect::<BTreeSet<_>>();
    assert!(all.iter().all(|key| listed.contains(key.as_str())));
}

#[tokio::test]
async fn to_look_is_no_use() {
    let it = Administered::new().await;
    it.make(1, 3_600);
    let path = format!("/admin/v1/conversations/{}", key(1));
    let before = it.get(&path).await;
    assert!(before["lastUsedAt"].is_string());
    assert_eq!(it.get(&path).await["lastUsedAt"], before["lastUsedAt"]);
}

#[tokio::test]
async fn the_largest_come_first() {
    let it = Administered::new().await;
    for number in 0..5 {
        it.make(number, 10);
        let file = it.app.root().join(key(number)).join("file");
        fs::write(file, vec![0; 10_000 * usize::try_from(number).unwrap()]).unwrap();
    }
    let before = it.all("sort=size", |_| ()).await;
    assert!(
        before
            .iter()
            .all(|row| row["storedBytes"].is_null() || row["storedBytes"].is_u64())
    );
    it.app.app.parts.files.workspaces.census().await.unwrap();
    let listed = it.all("sort=size&limit=2", |_| ()).await;
    let expected: Vec<_> = (0..5).rev().map(key).collect();
    assert_eq!(keys(&listed), expected);
    it.app.assert_nothing_is_left().await;
}
