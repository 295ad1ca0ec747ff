use std::path::PathBuf;

use super::counts::MAX_TENANTS;
use super::*;

const OK: CountedRun<'static> = CountedRun {
    language: "python",
    status: "ok",
    cpu_ms: 7,
    wall_ms: 9,
};

fn tenant(name: &str) -> Tenant {
    Tenant::of(name.parse().unwrap())
}

fn shared(tally: &Tally) -> &Shared {
    tally.0.as_deref().unwrap()
}

/// What is known, as text.
async fn known(tally: &Tally) -> String {
    let add = |all: &mut Vec<_>, used| {
        all.push(used);
        ControlFlow::Continue(())
    };
    let days = tally.fold(Date::MIN..=Date::MAX, Vec::new(), add);
    let days = days.await.unwrap();
    let lines = days.into_iter().map(|each| {
        let mut counts = each.counts;
        counts.hours.clear();
        let counts = serde_json::to_string(&counts).unwrap();
        format!("{} {counts}", each.tenant)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn what_two_servers_count_is_added_and_survives_them() {
    let root = tempfile::tempdir().unwrap();
    let (one, other) = (
        Tally::open(root.path()).unwrap(),
        Tally::open(root.path()).unwrap(),
    );
    for tally in [&one, &other, &one] {
        tally.run(&tenant("research"), OK);
        tally.write().await.unwrap();
    }
    one.uploaded(&Tenant::Default, 5);
    one.install(&tenant("research"), "python");
    insta::assert_snapshot!(known(&one).await, @r#"
    default {"languages":{},"uploadedBytes":5,"downloadedBytes":0,"hours":{}}
    research {"languages":{"python":{"runs":{"ok":3},"cpuMs":21,"wallMs":27,"installs":1}},"uploadedBytes":0,"downloadedBytes":0,"hours":{}}
    "#);
    assert_eq!(
        known(&Tally::open(root.path()).unwrap()).await,
        known(&one).await
    );
}

/// The file of a day that is so many days ago.
fn file(root: &tempfile::TempDir, age: i32) -> PathBuf {
    let day = today().saturating_sub(age.days());
    root.path().join(".usage").join(format!("{day}.json"))
}

#[tokio::test]
async fn what_another_server_keeps_from_the_file_is_kept_and_counted() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    let other = DayFiles::open(root.path()).unwrap();
    let turn = other.turn().unwrap();
    tally.run(&Tenant::Default, OK);
    assert!(is_busy(&tally.write().await.unwrap_err()));
    assert!(known(&tally).await.contains("\"ok\":1"));
    assert!(!file(&root, 0).exists());
    drop(turn);
    tally.run(&Tenant::Default, OK);
    insta::assert_snapshot!(known(&tally).await, @r#"default {"languages":{"python":{"runs":{"ok":2},"cpuMs":14,"wallMs":18,"installs":0}},"uploadedBytes":0,"downloadedBytes":0,"hours":{}}"#);
    assert!(file(&root, 0).exists());
}

#[tokio::test]
async fn what_is_damaged_counts_for_nothing_and_is_set_aside() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    let (file, aside) = (file(&root, 0), file(&root, 0).with_extension("damaged"));
    std::fs::write(&file, "{").unwrap();
    assert_eq!(known(&tally).await, "");
    tally.uploaded(&Tenant::Default, 1);
    assert!(known(&tally).await.contains("\"uploadedBytes\":1"));
    assert_eq!(std::fs::read_to_string(&aside).unwrap(), "{");
    // A directory where the file would be.
    for path in [&file, &aside] {
        std::fs::remove_file(path).unwrap();
    }
    std::fs::create_dir(&file).unwrap();
    tally.uploaded(&Tenant::Default, 2);
    assert!(known(&tally).await.contains("\"uploadedBytes\":2"));
    assert!(file.is_file() && aside.is_dir());
}

#[tokio::test]
async fn the_newest_400_days_are_kept_and_strays_are_not() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    for age in (1..=398).chain([500, 600]) {
        std::fs::write(file(&root, age), "{}").unwrap();
    }
    let stray = root.path().join(".usage/.unfinished-1");
    std::fs::write(&stray, "").unwrap();
    tally.run(&Tenant::Default, OK);
    tally.write().await.unwrap();
    let kept = [0, 398, 500, 600].map(|age| file(&root, age).exists());
    assert_eq!(kept, [true, true, true, false]);
    assert!(!stray.exists());
}

#[test]
fn many_tenants_of_a_day_are_summed_up() {
    let mut all = AllCounts::default();
    for number in 0..MAX_TENANTS + 5 {
        all.of(&number.to_string()).uploaded_bytes += 1;
    }
    all.of("0").uploaded_bytes += 1;
    assert_eq!(all.0.len(), MAX_TENANTS + 1);
    assert_eq!(
        (all.0["(others)"].uploaded_bytes, all.0["0"].uploaded_bytes),
        (5, 2)
    );
}

#[test]
fn the_last_24_hours_reach_into_the_day_before() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    let shared = shared(&tally);
    let counts = |hours: std::ops::Range<i8>| {
        let mut counts = DayCounts::default();
        hours.for_each(|hour| counts.add_run(OK, hour));
        counts
    };
    let day: Date = "2027-01-02".parse().unwrap();
    let mut counted = shared.counted.lock();
    for (day, counts) in [
        (day.yesterday().unwrap(), counts(0..24)),
        (day, counts(0..13)),
    ] {
        counted.entry(day).or_default().of("default").add(&counts);
    }
    drop(counted);
    let now = "2027-01-02T12:30:00Z".parse().unwrap();
    let files = DayFiles::open(root.path()).unwrap();
    let last = shared.last_day(&files, now).unwrap();
    // Twelve hours of the day before, and thirteen that have begun.
    assert_eq!(
        last["default"],
        HourCounts {
            runs: 25,
            cpu_ms: 175
        }
    );
}
