//! Finds settings that would otherwise be silently ignored: misspelt ones wherever they are set, and in `.env` every
//! name that nothing reads.

use super::foreign::FOREIGN;
use super::variable::{OF_COMPOSE, OF_START};
use super::variables::VARIABLES;

/// How many letters may be wrong, missing, extra or swapped.
const MISTAKES: usize = 2;
/// Letters that a name must have for each mistake: short names are alike by chance.
const LETTERS_FOR_ONE: usize = 4;
/// Letters that a word has at least when it is cut short.
const FEWEST_LETTERS: usize = 3;

/// How names begin that Compose, Docker's client and shells read themselves.
const OF_OTHERS: &[&str] = &["COMPOSE_", "DOCKER_", "HTTP_", "HTTPS_", "NO_", "RUST_"];

/// A sentence for every name of an environment variable that is nearly one of ours, and for each in `file`, the names
/// of a `.env`, that is nobody's.
pub fn misspelt(
    environment: impl Iterator<Item = String>,
    file: impl Iterator<Item = String>,
) -> Vec<String> {
    let near = environment.filter_map(|name| Some(sentence(&name, Some(nearest(&name)?))));
    let unread = file
        .filter(|name| is_unread(name))
        .map(|name| sentence(&name, nearest(&name)));
    let mut sentences: Vec<_> = near.chain(unread).collect();
    sentences.sort();
    sentences.dedup();
    sentences
}

fn sentence(name: &str, meant: Option<&str>) -> String {
    match meant {
        Some(meant) => {
            format!("warning: {name} is no setting and is ignored: is {meant} meant?")
        }
        None => format!("warning: {name} is no setting and is ignored"),
    }
}

fn ours() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|variable| variable.name)
}

/// Those are told with what does their work here.
fn is_foreign(name: &str) -> bool {
    FOREIGN.iter().any(|foreign| foreign.name == name)
}

fn is_unread(name: &str) -> bool {
    let of_scripts = OF_COMPOSE.iter().copied().chain([OF_START]);
    let is_read = ours().chain(of_scripts).any(|read| read == name)
        || OF_OTHERS.iter().any(|start| name.starts_with(start));
    !is_read && !is_foreign(name)
}

/// The setting of ours that a name is nearly.
fn nearest(name: &str) -> Option<&'static str> {
    if is_foreign(name) || OF_COMPOSE.contains(&name) || ours().any(|ours| ours == name) {
        return None;
    }
    let (mistakes, nearest) = ours()
        .map(|ours| (strsim::osa_distance(name, ours), ours))
        .min()?;
    let is_near = mistakes <= MISTAKES && mistakes * LETTERS_FOR_ONE <= nearest.len();
    is_near
        .then_some(nearest)
        .or_else(|| ours().find(|ours| has_same_words(name, ours)))
}

/// Whether two names have the same words, of which some are cut short in one of them, as in `ADDR` and `ADDRESS`.
fn has_same_words(name: &str, ours: &str) -> bool {
    let are_alike = |(one, other): (&str, &str)| {
        one == other
            || one.len().min(other.len()) >= FEWEST_LETTERS
                && (one.starts_with(other) || other.starts_with(one))
    };
    name.split('_').count() == ours.split('_').count()
        && name.split('_').zip(ours.split('_')).all(are_alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[&str]) -> String {
        let names = names.iter().map(|name| (*name).to_owned());
        misspelt(names, [].into_iter()).join("\n")
    }

    #[test]
    fn names_that_are_nearly_ours_are_told() {
        insta::assert_snapshot!(found(&["RUN_TIMOUT", "POOLSIZE", "FILE_SERCET", "ALOWED_HOST", "MCP_HTTP_ADDRESS", "RUN_MEM"]), @r"
        warning: ALOWED_HOST is no setting and is ignored: is ALLOWED_HOSTS meant?
        warning: FILE_SERCET is no setting and is ignored: is FILE_SECRET meant?
        warning: MCP_HTTP_ADDRESS is no setting and is ignored: is MCP_HTTP_ADDR meant?
        warning: POOLSIZE is no setting and is ignored: is POOL_SIZE meant?
        warning: RUN_MEM is no setting and is ignored: is RUN_MEMORY meant?
        warning: RUN_TIMOUT is no setting and is ignored: is RUN_TIMEOUT meant?
        ");
    }

    #[test]
    fn what_nothing_reads_in_the_file_is_told() {
        let file = [
            "SESSION_LENGTH",
            "RUN_MEM",
            "RUN_MEMORY",
            "TUNNEL_TOKEN",
            "COMPOSE_FILE",
        ];
        let file = file.iter().map(|name| (*name).to_owned());
        insta::assert_snapshot!(misspelt([].into_iter(), file).join("\n"), @r"
        warning: RUN_MEM is no setting and is ignored: is RUN_MEMORY meant?
        warning: SESSION_LENGTH is no setting and is ignored
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
