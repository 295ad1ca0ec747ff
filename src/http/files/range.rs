//! Which bytes of a file the `Range` header selects (RFC 9110, section 14).

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The whole file.
    Whole,
    /// The bytes from `first` to `last`, both included and both in the file.
    Part { first: u64, last: u64 },
    /// None, since the file is too short.
    Unsatisfiable,
}

/// Selects from a file of `size` bytes.
///
/// A malformed range, or more than one, counts as none. So does any range of an empty file, of which no part can be
/// sent.
pub(super) fn select(range: Option<&str>, size: u64) -> Selection {
    let selection = range.and_then(|range| parse(range, size));
    selection.unwrap_or(Selection::Whole)
}

fn parse(range: &str, size: u64) -> Option<Selection> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let end = size.checked_sub(1)?;
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !unit.trim().eq_ignore_ascii_case("bytes") || !are_digits(first) || !are_digits(last) {
        return None;
    }
    Some(match (number(first), number(last)) {
        (None, None) => return None,
        (Some(first), Some(last)) if last < first => return None,
        (Some(first), _) if first > end => Selection::Unsatisfiable,
        (Some(first), last) => Selection::Part {
            first,
            last: last.map_or(end, |last| last.min(end)),
        },
        (None, Some(0)) => Selection::Unsatisfiable,
        (None, Some(length)) => Selection::Part {
            first: size.saturating_sub(length),
            last: end,
        },
    })
}

/// Parses digits, if there are any. A number that does not fit becomes the largest that does, which is still beyond
/// every file.
fn number(digits: &str) -> Option<u64> {
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::Selection::{Part, Unsatisfiable, Whole};
    use super::*;

    #[test]
    fn single_ranges_select() {
        for (range, expected) in [
            ("bytes=0-0", Part { first: 0, last: 0 }),
            ("bytes=2-5", Part { first: 2, last: 5 }),
            ("bytes=2-", Part { first: 2, last: 9 }),
            ("bytes=2-99", Part { first: 2, last: 9 }),
            ("bytes=-3", Part { first: 7, last: 9 }),
            ("bytes=-99", Part { first: 0, last: 9 }),
            ("Bytes=1-1", Part { first: 1, last: 1 }),
            (
                "bytes=9-99999999999999999999999",
                Part { first: 9, last: 9 },
            ),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-20", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=99999999999999999999999-", Unsatisfiable),
        ] {
            assert_eq!(select(Some(range), 10), expected, "{range}");
        }
    }

    #[test]
    fn all_else_is_the_whole_file() {
        for range in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=5-2",
            "bytes=0-1,3-4",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1--2",
            "lines=0-1",
            "bytes=0x1-2",
            "bytes = 1 - 2",
            "=0-1",
        ] {
            assert_eq!(select(Some(range), 10), Whole, "{range}");
        }
        assert_eq!(select(None, 10), Whole);
        for range in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
            assert_eq!(select(Some(range), 0), Whole, "{range}");
        }
    }

    proptest! {
        #[test]
        fn parts_are_in_the_file(range in "\\PC{0,30}|bytes=[0-9]{0,21}-[0-9]{0,21}", size: u64) {
            if let Part { first, last } = select(Some(&range), size) {
                prop_assert!(first <= last && last < size);
            }
        }

        #[test]
        fn numbers_mean_what_they_say(first in 0_u64..2_000, last in 0_u64..2_000, size in 1_u64..1_000) {
            let expected = match (first, last) {
                _ if last < first => Whole,
                _ if first >= size => Unsatisfiable,
                _ => Part { first, last: last.min(size - 1) },
            };
            prop_assert_eq!(select(Some(&format!("bytes={first}-{last}")), size), expected);
        }
    }
}
