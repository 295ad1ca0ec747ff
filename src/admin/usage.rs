//! What tenants used, summed up as the operator wants it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use jiff::civil::Date;
use serde::Serialize;

use super::{Admin, AdminError};
use crate::principal::Name;
use crate::tally::{LanguageCounts, TenantDay};

/// Most entries of an answer.
const MAX_ENTRIES: usize = 10_000;

/// What is wanted.
#[derive(Clone, Debug)]
pub struct UsageQuery {
    /// The first day.
    pub from: Date,
    /// The last day.
    pub to: Date,
    /// Only what this one used.
    pub tenant: Option<Name>,
    /// What entries are told apart by.
    pub group: Grouping,
}

/// What entries are told apart by; the rest is summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// By whom.
    pub tenant: bool,
    /// When.
    pub day: bool,
    /// With programs of which language.
    pub language: bool,
}

/// What was used.
#[derive(Clone, Debug, Serialize)]
pub struct UsageReport {
    from: String,
    to: String,
    usage: Vec<UsageRow>,
}

/// One entry.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageRow {
    #[serde(flatten)]
    group: Group,
    runs: BTreeMap<String, u64>,
    cpu_ms: u64,
    wall_ms: u64,
    installs: u64,
    uploaded_bytes: u64,
    downloaded_bytes: u64,
}

/// What an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Group {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<OfLanguage>,
}

/// A language, or none, as files have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
struct OfLanguage(Option<String>);

/// What was counted of a group.
#[derive(Default)]
struct Sum {
    programs: LanguageCounts,
    uploaded_bytes: u64,
    downloaded_bytes: u64,
}

type Sums = BTreeMap<Group, Sum>;

impl Admin {
    /// What was used on some days.
    ///
    /// # Errors
    /// It cannot be read, or there are too many entries.
    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, AdminError> {
        let (wanted, by) = (query.tenant.clone(), query.group);
        let add = move |sums: &mut Sums, used: TenantDay| {
            if wanted
                .as_ref()
                .is_none_or(|name| used.tenant == name.as_str())
            {
                add(sums, &used, by);
            }
            if sums.len() > MAX_ENTRIES {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let days = query.from..=query.to;
        let sums = self.conversations.tally.fold(days, Sums::new(), add).await;
        let sums = sums.map_err(AdminError::Tally)?;
        if sums.len() > MAX_ENTRIES {
            return Err(AdminError::TooManyEntries(MAX_ENTRIES));
        }
        let rows = sums.into_iter().map(|(group, sum)| UsageRow {
            group,
            runs: sum.programs.runs,
            cpu_ms: sum.programs.cpu_ms,
            wall_ms: sum.programs.wall_ms,
            installs: sum.programs.installs,
            uploaded_bytes: sum.uploaded_bytes,
            downloaded_bytes: sum.downloaded_bytes,
        });
        Ok(UsageReport {
            from: query.from.to_string(),
            to: query.to.to_string(),
            usage: rows.collect(),
        })
    }
}

fn add(sums: &mut Sums, used: &TenantDay, by: Grouping) {
    let group = |language: Option<&String>| Group {
        tenant: by.tenant.then(|| used.tenant.clone()),
        day: by.day.then(|| used.day.to_string()),
        language: by.language.then(|| OfLanguage(language.cloned())),
    };
    for (language, counts) in &used.counts.languages {
        let sum = sums.entry(group(Some(language))).or_default();
        sum.programs.add(counts);
    }
    let (uploaded, downloaded) = (used.counts.uploaded_bytes, used.counts.downloaded_bytes);
    if uploaded > 0 || downloaded > 0 {
        let sum = sums.entry(group(None)).or_default();
        sum.uploaded_bytes += uploaded;
        sum.downloaded_bytes += downloaded;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::DayCounts;

    fn used(day: &str, tenant: &str, languages: &[(&str, u64)], uploaded_bytes: u64) -> TenantDay {
        let counts = |(language, runs): &(&str, u64)| {
            let counts = LanguageCounts {
                runs: [("ok".to_owned(), *runs)].into(),
                cpu_ms: *runs,
                ..LanguageCounts::default()
            };
            ((*language).to_owned(), counts)
        };
        TenantDay {
            day: day.parse().unwrap(),
            tenant: tenant.to_owned(),
            counts: DayCounts {
                languages: languages.iter().map(counts).collect(),
                uploaded_bytes,
                ..DayCounts::default()
            },
        }
    }

    #[test]
    fn what_is_not_told_apart_is_summed_up() {
        let days = [
            used("2027-01-02", "sales", &[("shell", 1)], 0),
            used("2027-01-01", "research", &[("python", 2), ("shell", 4)], 8),
            used("2027-01-02", "research", &[("python", 16)], 0),
        ];
        let shown = |[tenant, day, language]: [bool; 3]| {
            let by = Grouping {
                tenant,
                day,
                language,
            };
            let mut sums = Sums::new();
            for used in &days {
                add(&mut sums, used, by);
            }
            let lines = sums.into_iter().map(|(group, sum)| {
                let runs: u64 = sum.programs.runs.values().sum();
                assert_eq!(runs, sum.programs.cpu_ms);
                let group = serde_json::to_string(&group).unwrap();
                format!("{group} {runs} {}\n", sum.uploaded_bytes)
            });
            lines.collect::<String>()
        };
        insta::assert_snapshot!(shown([true, false, true]), @r#"
        {"tenant":"research","language":null} 0 8
        {"tenant":"research","language":"python"} 18 0
        {"tenant":"research","language":"shell"} 4 0
        {"tenant":"sales","language":"shell"} 1 0
        "#);
        insta::assert_snapshot!(shown([false, true, false]), @r#"
        {"day":"2027-01-01"} 6 8
        {"day":"2027-01-02"} 17 0
        "#);
        insta::assert_snapshot!(shown([false, false, false]), @"{} 23 8");
    }
}
