//! Pages of lists. A cursor has the place of the last entry of a page, so that one that is added or goes moves no other
//! to a page that was read before.

use std::cmp::Reverse;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::AdminError;

/// Most entries of one page.
pub const MAX_ROWS: usize = 500;

/// Which part of a list is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageQuery {
    /// Most entries: at most [`MAX_ROWS`].
    pub limit: usize,
    /// What came with the page before; `None` for the first one.
    pub cursor: Option<String>,
}

/// The place of an entry in its list: the greater number comes first, and of equals the lesser name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    number: Reverse<u64>,
    name: String,
}

impl Place {
    pub(super) fn new(number: u64, name: &str) -> Self {
        Self {
            number: Reverse(number),
            name: name.to_owned(),
        }
    }

    fn cursor(&self, list: &str) -> String {
        URL_SAFE_NO_PAD.encode(format!("{list}:{}:{}", self.number.0, self.name))
    }

    fn of_cursor(cursor: &str, list: &str) -> Option<Self> {
        let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
        let place = text.strip_prefix(list)?.strip_prefix(':')?;
        let (number, name) = place.split_once(':')?;
        Some(Self::new(number.parse().ok()?, name))
    }
}

/// The entries of a page, and the cursor of the next one, if there is one. Cursors of another `list`, or of the same in
/// another order, are refused.
pub(super) fn page<T>(
    list: &'static str,
    rows: impl IntoIterator<Item = T>,
    place: impl Fn(&T) -> Place,
    query: &PageQuery,
) -> Result<(Vec<T>, Option<String>), AdminError> {
    let after = match &query.cursor {
        Some(cursor) => Some(Place::of_cursor(cursor, list).ok_or(AdminError::Cursor)?),
        None => None,
    };
    let placed = rows.into_iter().map(|row| (place(&row), row));
    let mut placed: Vec<_> = placed
        .filter(|(place, _)| Some(place) > after.as_ref())
        .collect();
    placed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let has_more = placed.len() > query.limit;
    placed.truncate(query.limit);
    let last = placed.last().filter(|_| has_more);
    let cursor = last.map(|(place, _)| place.cursor(list));
    Ok((placed.into_iter().map(|(_, row)| row).collect(), cursor))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pages_have_each_entry_once(
            rows in proptest::collection::btree_set((0_u64..4, "[a-c:]{0,3}"), 0..40),
            limit in 1_usize..7,
        ) {
            let place = |row: &(u64, String)| Place::new(row.0, &row.1);
            let mut query = PageQuery { limit, cursor: None };
            let mut seen = Vec::new();
            loop {
                let (part, next) = page("rows", rows.iter().cloned(), place, &query).unwrap();
                prop_assert!(part.len() <= limit);
                seen.extend(part);
                query.cursor = next;
                if query.cursor.is_none() {
                    break;
                }
            }
            let mut all: Vec<_> = rows.into_iter().collect();
            all.sort_by_key(place);
            prop_assert_eq!(seen, all);
        }

        #[test]
        fn any_text_can_be_given_as_a_cursor(cursor in ".*") {
            let query = PageQuery { limit: 1, cursor: Some(cursor) };
            let _ = page("rows", ["row"], |row| Place::new(0, row), &query);
        }
    }

    #[test]
    fn a_cursor_is_of_one_list() {
        let place = |row: &&str| Place::new(0, row);
        let mut query = PageQuery {
            limit: 1,
            cursor: None,
        };
        query.cursor = page("rows", ["one", "two"], place, &query).unwrap().1;
        assert!(page("rows", ["one"], place, &query).is_ok());
        assert!(matches!(
            page("others", ["one"], place, &query),
            Err(AdminError::Cursor)
        ));
    }
}
