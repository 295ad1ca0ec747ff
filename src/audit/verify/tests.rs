//! Whatever is done to one line is found.

use proptest::prelude::*;

use super::super::event::Event;
use super::super::line::Dated;
use super::*;

/// A log of so many lines, of which one may have been cut off and explained.
fn log(count: usize, torn_at: Option<usize>) -> Vec<Vec<u8>> {
    let (mut chain, mut lines) = (Chain::new(), Vec::new());
    for number in 0..count {
        if torn_at == Some(number) {
            let cut = br#"{"seq":7,"at":"2027-01-"#;
            let mut torn = Torn::default();
            torn.add(cut);
            lines.push(cut.to_vec());
            lines.push(chain.append(&Dated::now(torn.event())).into_bytes());
        }
        let event = Event::EventsLost { count: 1 };
        lines.push(chain.append(&Dated::now(event)).into_bytes());
    }
    lines
}

fn check(lines: &[Vec<u8>]) -> Result<Verified, Broken> {
    let mut check = Check::default();
    for (line, text) in (1..).zip(lines) {
        let path = PathBuf::from("audit.log");
        check.line(Place { path, line }, text)?;
    }
    check.end()
}

fn lines() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (2_usize..10, prop::option::of(0_usize..10)).prop_map(|(count, torn_at)| log(count, torn_at))
}

proptest! {
    #[test]
    fn a_whole_log_holds(lines in lines()) {
        prop_assert!(check(&lines).is_ok());
    }

    #[test]
    fn a_changed_line_is_found(
        lines in lines(),
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
        byte in 1_u8..,
    ) {
        let before = check(&lines).unwrap();
        let mut changed = lines;
        let which = which.index(changed.len());
        let place = place.index(changed[which].len());
        changed[which][place] ^= byte;
        // The last line is followed by none that would have its hash: what is printed of it has changed.
        let is_last = which + 1 == changed.len();
        let is_seen = |after: Verified| is_last && after.last_sha256 != before.last_sha256;
        prop_assert!(check(&changed).map_or(true, is_seen));
    }

    #[test]
    fn a_removed_line_is_found(lines in lines(), which in any::<prop::sample::Index>()) {
        let before = check(&lines).unwrap();
        let mut changed = lines;
        changed.remove(which.index(changed.len()));
        // Without the first or the last, the rest still holds, from a later number or to an earlier one.
        let is_seen = |after: Verified| (after.first, after.last) != (before.first, before.last);
        prop_assert!(check(&changed).map_or(true, is_seen));
    }

    #[test]
    fn a_repeated_line_is_found(
        lines in lines(),
        which in any::<prop::sample::Index>(),
        place in any::<prop::sample::Index>(),
    ) {
        let mut changed = lines;
        let again = changed[which.index(changed.len())].clone();
        changed.insert(place.index(changed.len() + 1), again);
        prop_assert!(check(&changed).is_err());
    }

    #[test]
    fn exchanged_lines_are_found(
        lines in lines(),
        one in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
    ) {
        let (one, other) = (one.index(lines.len()), other.index(lines.len()));
        prop_assume!(one != other);
        let mut changed = lines;
        changed.swap(one, other);
        prop_assert!(check(&changed).is_err());
    }

    #[test]
    fn no_text_is_too_odd(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..5)) {
        prop_assert!(check(&lines).is_err());
    }
}
