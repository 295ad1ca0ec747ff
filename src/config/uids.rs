//! The users that conversations have one each of.

use std::fmt;

use super::reader::Reader;

/// Up to here, numbers belong to the system, to people by default, and to programs without the setting.
const RESERVED: u32 = 1_000;
/// `nobody`, which stands for users that have no number here, and what 16 bits have for no user at all.
const NO_USERS: [u32; 2] = [65_534, 65_535];
/// Container engines take none above it.
const HIGHEST: u32 = i32::MAX as u32;
/// Fewest that are worth having: conversations keep theirs for as long as they have files.
const FEWEST: u32 = 1_000;

/// Numbers of users, each of which is a group's number too (`SANDBOX_UIDS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UidRange {
    /// The lowest.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

impl UidRange {
    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let name = "SANDBOX_UIDS";
        reader.text(name)?;
        let expected = format!(
            "the first and the last of at least {FEWEST} user ids from {} to {HIGHEST} that nobody on the host has, \
             such as `70000-99999`, and not {} or {}, which stand for no user",
            RESERVED + 1,
            NO_USERS[0],
            NO_USERS[1]
        );
        reader.parse(name, &expected, None, |value| {
            Some(Some(Self::parse(value)?))
        })
    }

    fn parse(value: &str) -> Option<Self> {
        let (first, last) = value.split_once('-')?;
        let range = Self {
            first: first.trim().parse().ok()?,
            last: last.trim().parse().ok()?,
        };
        let is_allowed = range.first > RESERVED
            && range.last <= HIGHEST
            && range.last.checked_sub(range.first)? >= FEWEST - 1
            && !NO_USERS.iter().any(|uid| range.contains(*uid));
        is_allowed.then_some(range)
    }

    /// Whether it is one of them.
    pub const fn contains(self, uid: u32) -> bool {
        self.first <= uid && uid <= self.last
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_users_are_free_ones_and_many() {
        for good in [
            "70000-99999",
            "1001-2000",
            " 1001 - 65533 ",
            "65536-2147483647",
        ] {
            let range = UidRange::parse(good).unwrap_or_else(|| panic!("{good}"));
            assert_eq!(range.to_string(), good.replace(' ', ""));
            assert!(range.contains(range.first) && range.contains(range.last));
            assert!(!range.contains(range.first - 1) && !range.contains(range.last + 1));
        }
        for bad in [
            "",
            "-",
            "70000",
            "70000-",
            "-70000",
            "99999-70000",
            "70000-70998",
            "0-5000",
            "1000-5000",
            "65000-70000",
            "65535-99999",
            "1001-65534",
            "70000-2147483648",
            "70000-4294967296",
            "70000-80000-90000",
            "70000..99999",
            "a-b",
        ] {
            assert_eq!(UidRange::parse(bad), None, "{bad}");
        }
    }
}
