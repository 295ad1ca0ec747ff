//! Tells the operator which names requests came for in vain: each once, and only so many.

use std::collections::HashSet;

use parking_lot::Mutex;
use tracing::warn;

/// Names that are remembered. Anybody can make names up, so further ones are not told.
const MOST: usize = 100;
/// Characters of a name that are told: no host name is longer.
const LONGEST: usize = 253;

/// The names told so far.
#[derive(Debug, Default)]
pub(super) struct RefusedHosts(Mutex<HashSet<String>>);

impl RefusedHosts {
    /// Notes that a request for this name was refused. Returns whether that was told.
    pub(super) fn note(&self, name: &str) -> bool {
        let name: String = name
            .chars()
            .take(LONGEST)
            .collect::<String>()
            .to_ascii_lowercase();
        let mut noted = self.0.lock();
        if noted.len() >= MOST || !noted.insert(name.clone()) {
            return false;
        }
        drop(noted);
        let advice = "if this is a name of this server, add it to ALLOWED_HOSTS";
        warn!(http.host = ?name, advice, "refused a request for another host");
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_told_once_and_not_without_end() {
        let hosts = RefusedHosts::default();
        assert!(hosts.note("Box.example"));
        assert!(!hosts.note("box.example"));
        let noted = (0..1000).filter(|number| hosts.note(&format!("{number}.example")));
        assert_eq!(noted.count(), MOST - 1);
        let kept = hosts.0.lock();
        assert!(kept.iter().all(|name| name.len() <= LONGEST));
    }
}
