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
    let mut days = tally.between(Date::MIN, Date::MAX).await.unwrap();
    days.sort_by_key(|each| (each.day, each.tenant.clone()));
    let lines = days.into_iter().map(|each| {
        let mut counts = each.counts;
        counts.hours.clear();
        let counts = serde_json::to_string(&counts).unwrap();
        format!("{} {counts}", each.tenant.name())
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

#[tokio::test]
async fn what_cannot_be_written_is_kept_and_counted() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    // A file where the folder of the day would be.
    let folder = root.path().join(".usage").join(today().to_string());
    std::fs::write(&folder, "").unwrap();
    tally.run(&Tenant::Default, OK);
    assert!(tally.write().await.is_err());
    assert_eq!(shared(&tally).counted.lock().len(), 1);
    std::fs::remove_file(&folder).unwrap();
    tally.run(&Tenant::Default, OK);
    insta::assert_snapshot!(known(&tally).await, @r#"default {"languages":{"python":{"runs":{"ok":2},"cpuMs":14,"wallMs":18,"installs":0}},"uploadedBytes":0,"downloadedBytes":0,"hours":{}}"#);
}

#[tokio::test]
async fn a_damaged_file_counts_for_nothing_and_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    tally.run(&Tenant::Default, OK);
    tally.write().await.unwrap();
    let file = root.path().join(".usage").join(today().to_string());
    std::fs::write(file.join("default"), "{").unwrap();
    assert_eq!(
        known(&tally).await,
        "default {\"languages\":{},\"uploadedBytes\":0,\"downloadedBytes\":0,\"hours\":{}}"
    );
    tally.uploaded(&Tenant::Default, 1);
    assert!(known(&tally).await.contains("\"uploadedBytes\":1"));
}

#[tokio::test]
async fn days_are_kept_for_400() {
    let root = tempfile::tempdir().unwrap();
    let tally = Tally::open(root.path()).unwrap();
    let folder = |age: i32| {
        let day = today().saturating_sub(age.days());
        root.path().join(".usage").join(day.to_string())
    };
    for age in [400, 401] {
        std::fs::create_dir(folder(age)).unwrap();
    }
    tally.run(&Tenant::Default, OK);
    tally.write().await.unwrap();
    assert_eq!(
        [0, 400, 401].map(|age| folder(age).exists()),
        [true, true, false]
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
    counted.insert((day.yesterday().unwrap(), Tenant::Default), counts(0..24));
    counted.insert((day, Tenant::Default), counts(0..13));
    drop(counted);
    let now = "2027-01-02T12:30:00Z".parse().unwrap();
    let last = shared.last_day(vec![Tenant::Default], now).unwrap();
    // Twelve hours of the day before, and thirteen that have begun.
    assert_eq!(
        last[&Tenant::Default],
        HourCounts {
            runs: 25,
            cpu_ms: 175
        }
    );
}
