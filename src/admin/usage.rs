//! What tenants used, summed up as the operator wants it.

use std::collections::BTreeMap;

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

impl Admin {
    /// What was used on some days.
    ///
    /// # Errors
    /// It cannot be read, or there are too many entries.
    pub async fn usage(&self, query: &UsageQuery) -> Result<UsageReport, AdminError> {
        let days = self.conversations.tally.between(query.from, query.to);
        let mut days = days.await.map_err(AdminError::Tally)?;
        if let Some(name) = &query.tenant {
            days.retain(|each| each.tenant.name() == name.as_str());
        }
        let sums = sums(&days, query.group);
        if sums.len() > MAX_ENTRIES {
            return Err(AdminError::TooManyEntries(sums.len(), MAX_ENTRIES));
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

fn sums(days: &[TenantDay], by: Grouping) -> BTreeMap<Group, Sum> {
    let mut sums: BTreeMap<_, Sum> = BTreeMap::new();
    for each in days {
        let group = |language: Option<&String>| Group {
            tenant: by.tenant.then(|| each.tenant.name().to_owned()),
            day: by.day.then(|| each.day.to_string()),
            language: by.language.then(|| OfLanguage(language.cloned())),
        };
        for (language, counts) in &each.counts.languages {
            let sum = sums.entry(group(Some(language))).or_default();
            sum.programs.add(counts);
        }
        let (uploaded, downloaded) = (each.counts.uploaded_bytes, each.counts.downloaded_bytes);
        if uploaded > 0 || downloaded > 0 {
            let sum = sums.entry(group(None)).or_default();
            sum.uploaded_bytes += uploaded;
            sum.downloaded_bytes += downloaded;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::principal::Tenant;
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
            tenant: Tenant::of(tenant.parse().unwrap()),
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
            let sums = sums(&days, by).into_iter();
            let lines = sums.map(|(group, sum)| {
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
