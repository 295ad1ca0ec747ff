//! The query of a request of the operator's. What is not understood is refused by its name.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use jiff::civil::Date;
use strum::VariantNames as _;
use url::form_urlencoded;

use crate::admin::{Grouping, MAX_ROWS, PageQuery, Sort};
use crate::http::HttpState;
use crate::http::rest::ApiError;
use crate::principal::Name;

/// Entries of a list unless a request says how many.
const LIMIT: usize = 100;
/// What usage can be told apart by.
const GROUPS: [&str; 3] = ["tenant", "day", "language"];

/// What stands behind the `?`, each name once.
pub(super) struct Parameters(Vec<(String, String)>);

impl FromRequestParts<HttpState> for Parameters {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &HttpState) -> Result<Self, ApiError> {
        let query = parts.uri.query().unwrap_or_default();
        Self::parse(query)
    }
}

impl Parameters {
    fn parse(query: &str) -> Result<Self, ApiError> {
        let all = form_urlencoded::parse(query.as_bytes()).into_owned();
        let all: Vec<_> = all.collect();
        for (place, (name, value)) in all.iter().enumerate() {
            if value.is_empty() {
                return Err(ApiError::arguments(format!(
                    "{name:?} is empty: give it a value, or leave it out"
                )));
            }
            if all[..place].iter().any(|(before, _)| before == name) {
                return Err(ApiError::arguments(format!(
                    "{name:?} is there twice: give it once"
                )));
            }
        }
        Ok(Self(all))
    }

    /// Refuses what the route does not take.
    pub(super) fn allow(&self, names: &[&str]) -> Result<(), ApiError> {
        let mut given = self.0.iter().map(|(name, _)| name);
        let Some(name) = given.find(|name| !names.contains(&name.as_str())) else {
            return Ok(());
        };
        let others = match names {
            [] => "leave it out".to_owned(),
            names => format!("{} can", names.join(", ")),
        };
        let message = format!("{name:?} is nothing that can be given here: {others}");
        Err(ApiError::arguments(message))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let mut all = self.0.iter().filter(|(field, _)| field == name);
        all.next().map(|(_, value)| value.as_str())
    }

    fn parsed<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>, ApiError> {
        let Some(text) = self.text(name) else {
            return Ok(None);
        };
        let flawed = |_| ApiError::arguments(format!("{name} is {text:?}: it must be {expected}"));
        text.parse().map(Some).map_err(flawed)
    }

    pub(super) fn tenant(&self) -> Result<Option<Name>, ApiError> {
        let expected = "the name of a tenant: 1 to 32 lower-case letters, digits and `-`";
        self.parsed("tenant", expected)
    }

    pub(super) fn sort(&self) -> Result<Sort, ApiError> {
        let expected = format!("one of {}", Sort::VARIANTS.join(", "));
        Ok(self.parsed("sort", &expected)?.unwrap_or_default())
    }

    /// A whole number up to `max`.
    pub(super) fn number(&self, name: &str, max: u64) -> Result<Option<u64>, ApiError> {
        let expected = match max {
            u64::MAX => "a whole number".to_owned(),
            max => format!("a whole number from 1 to {max}"),
        };
        let number = self.parsed(name, &expected)?;
        match (number, self.text(name)) {
            (Some(number), Some(text)) if number > max || (number == 0 && max < u64::MAX) => {
                let message = format!("{name} is {text}: it must be {expected}");
                Err(ApiError::arguments(message))
            }
            _ => Ok(number),
        }
    }

    pub(super) fn limit(&self, max: usize) -> Result<usize, ApiError> {
        let limit = self.number("limit", max as u64)?;
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(limit.unwrap_or(LIMIT))
    }

    pub(super) fn page(&self) -> Result<PageQuery, ApiError> {
        Ok(PageQuery {
            limit: self.limit(MAX_ROWS)?,
            cursor: self.text("cursor").map(str::to_owned),
        })
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(text) => {
                let message = format!("{name} is {text:?}: it must be 1 or 0");
                Err(ApiError::arguments(message))
            }
        }
    }

    pub(super) fn day(&self, name: &str) -> Result<Option<Date>, ApiError> {
        self.parsed(name, "a day of UTC, such as 2027-01-31")
    }

    pub(super) fn grouping(&self) -> Result<Grouping, ApiError> {
        let words: Vec<_> = match self.text("group") {
            None => GROUPS.to_vec(),
            Some(text) => text.split(',').map(str::trim).collect(),
        };
        if let Some(other) = words.iter().find(|word| !GROUPS.contains(word)) {
            return Err(ApiError::arguments(format!(
                "group has {other:?}: it must be words of {}, with commas between them",
                GROUPS.join(", ")
            )));
        }
        let [tenant, day, language] = GROUPS.map(|group| words.contains(&group));
        Ok(Grouping {
            tenant,
            day,
            language,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_query_makes_it_panic(query in "(limit|cursor|from|to|group|sort|active|after|tenant)=.*(&.*)?") {
            if let Ok(parameters) = Parameters::parse(&query) {
                let _ = parameters.allow(&["limit"]);
                let _ = (parameters.page().is_ok(), parameters.tenant().is_ok(), parameters.sort().is_ok());
                let _ = (parameters.flag("active").is_ok(), parameters.grouping().is_ok());
                let _ = (parameters.day("from").is_ok(), parameters.number("after", u64::MAX).is_ok());
            }
        }
    }
}
