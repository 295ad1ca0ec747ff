//! Finds settings whose names are misspelt and which would otherwise be silently ignored.

use super::foreign::FOREIGN;
use super::variables::VARIABLES;

/// How many letters may be wrong, missing, extra or swapped.
const MISTAKES: usize = 2;
/// Letters that a name must have for each mistake: short names are alike by chance.
const LETTERS_FOR_ONE: usize = 4;

/// A sentence for every name of an environment variable that is nearly one of ours.
pub fn misspelt(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut sentences: Vec<_> = names.filter_map(|name| sentence(&name)).collect();
    sentences.sort();
    sentences.dedup();
    sentences
}

fn sentence(name: &str) -> Option<String> {
    // Those are told with what does their work here.
    if FOREIGN.iter().any(|foreign| foreign.name == name) {
        return None;
    }
    let ours = VARIABLES.iter().map(|variable| variable.name);
    let (mistakes, nearest) = ours
        .map(|ours| (strsim::osa_distance(name, ours), ours))
        .min()?;
    let may_be = mistakes <= MISTAKES && mistakes * LETTERS_FOR_ONE <= nearest.len();
    (mistakes > 0 && may_be)
        .then(|| format!("warning: {name} is no setting and is ignored: is {nearest} meant?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> String {
        misspelt(names.iter().map(|name| (*name).to_owned())).join("\n")
    }

    #[test]
    fn names_that_are_nearly_ours_are_told() {
        insta::assert_snapshot!(found(&["RUN_TIMOUT", "POOLSIZE", "FILE_SERCET", "ALOWED_HOST"]), @r"
        warning: ALOWED_HOST is no setting and is ignored: is ALLOWED_HOSTS meant?
        warning: FILE_SERCET is no setting and is ignored: is FILE_SECRET meant?
        warning: POOLSIZE is no setting and is ignored: is POOL_SIZE meant?
        warning: RUN_TIMOUT is no setting and is ignored: is RUN_TIMEOUT meant?
        ");
    }

    #[test]
    fn our_own_and_foreign_ones_are_not() {
        let ours: Vec<_> = VARIABLES.iter().map(|variable| variable.name).collect();
        assert_eq!(found(&ours), "");
        let foreign: Vec<_> = FOREIGN.iter().map(|foreign| foreign.name).collect();
        assert_eq!(found(&foreign), "");
        assert_eq!(
            found(&[
                "PATH",
                "HOME",
                "USER",
                "LOGNAME",
                "DOCKER_GID",
                "DOCKER_SOCKET",
                "PUBLISH_ADDR",
                "TUNNEL_TOKEN"
            ]),
            ""
        );
    }
}
