//! Which argument is meant by the name under which it was given. Pure.
//!
//! Names are compared without case and without what is between their words: `timeout_seconds` is `timeoutSeconds`.

use super::shape::{Properties, Property};

/// Arguments that workflow engines add for every tool, however close their names are to one of ours.
const ADDED_BY_CLIENTS: &[&str] = &["action", "chatInput", "sessionId", "toolCallId"];
/// How many letters may differ between an argument and what is taken for a misspelling of it.
const TYPOS: usize = 2;
/// Shorter names are too close to each other by chance.
const MIN_LENGTH: usize = 4;
/// The same for a name that means ours without being ours, of which there are many.
const MIN_OTHER: usize = 6;
/// The same next to an argument that was given: then an unknown one is likely to be something else.
const MIN_GIVEN: usize = 8;

/// Our arguments, and what models and the tools of other servers call the same thing, with the same unit. A tool that
/// has an argument of the second name means that one.
const SYNONYMS: &[(&str, &[&str])] = &[
    (
        "code",
        &[
            "source",
            "sourcecode",
            "program",
            "script",
            "snippet",
            "pythoncode",
            "command",
            "cmd",
        ],
    ),
    ("content", &["contentbase64"]),
    ("content", FILE_CONTENTS),
    ("content_base64", &["content"]),
    ("content_base64", FILE_CONTENTS),
    ("conversationId", &["conversation", "session", "session_id"]),
    (
        "environment",
        &[
            "env",
            "envs",
            "envvariables",
            "envvars",
            "environ",
            "environmentvariables",
        ],
    ),
    ("filename", &["file", "filepath", "name", "path"]),
    (
        "language",
        &["lang", "programminglanguage", "runner", "runtime"],
    ),
    (
        "network",
        &[
            "allowinternet",
            "allowinternetaccess",
            "allownetwork",
            "enableinternet",
            "enablenetwork",
            "internet",
            "internetaccess",
            "networkaccess",
        ],
    ),
    (
        "length",
        &["len", "limit", "maxbytes", "maxlength", "numbytes"],
    ),
    ("offset", &["position", "start", "startoffset"]),
    ("overwrite", &["replace"]),
    ("package", &["library", "name", "packagename", "packages"]),
    (
        "packages",
        &[
            "dependencies",
            "libraries",
            "package",
            "packagename",
            "packagenames",
            "requirements",
        ],
    ),
    ("path", &["file", "filename", "filepath", "name"]),
    (
        "remove",
        &["packagestoremove", "removepackages", "uninstall"],
    ),
    ("restart", &["restartkernel"]),
    ("runId", &["run", "taskid"]),
    ("session_id", &["conversation", "conversationid", "session"]),
    (
        "stdin",
        &[
            "input",
            "inputtext",
            "standardinput",
            "stdindata",
            "stdintext",
        ],
    ),
    ("timeout", &["timeoutseconds"]),
    ("timeout", TIME_LIMITS),
    ("timeoutSeconds", &["timeout"]),
    ("timeoutSeconds", TIME_LIMITS),
    ("version", &["packageversion"]),
    (
        "waitSeconds",
        &["timeout", "timeoutseconds", "wait", "waitsec", "waitsecs"],
    ),
];

/// What both our tools that take a file and those of another server mean by its content.
const FILE_CONTENTS: &[&str] = &["contents", "base64", "data", "filecontent", "filedata"];
/// A time limit in seconds, whatever ours is called.
const TIME_LIMITS: &[&str] = &[
    "deadlineseconds",
    "maxruntimeseconds",
    "maxtimeseconds",
    "timelimitseconds",
    "timeoutins",
    "timeoutinseconds",
    "timeouts",
    "timeoutsec",
    "timeoutsecs",
];

/// Those among them that are words for other things too. Some clients send everything they have, so next to ours they
/// are not ours.
const VAGUE: &[&str] = &[
    "base64",
    "command",
    "conversation",
    "data",
    "file",
    "input",
    "library",
    "limit",
    "name",
    "path",
    "position",
    "program",
    "replace",
    "requirements",
    "run",
    "runner",
    "runtime",
    "script",
    "session",
    "sessionid",
    "snippet",
    "source",
    "start",
    "taskid",
];

/// Arguments of a run that not every tool which runs programs has. Whoever gives one relies on it.
const OF_RUNS: &[&str] = &[
    "conversationId",
    "environment",
    "network",
    "packages",
    "stateful",
    "stdin",
];

/// What looks like one of our arguments and may not be the same, and why.
const OTHERS: &[(&str, &[&str], &str)] = &[
    (
        "content",
        &["text", "contenttext", "filetext", "textcontent"],
        ", which is base64, also of text",
    ),
    ("conversationId", &["convid", "conversationkey"], ""),
    (
        "environment",
        &["variables", "vars"],
        ", which the program finds as environment variables",
    ),
    (
        "length",
        &["bytes", "count", "end", "lines", "maxlines", "size"],
        ", in bytes",
    ),
    ("network", &["net"], ""),
    ("restart", &["reset", "resetkernel"], ""),
    (
        "stateful",
        &["keepstate", "keepvariables", "persist", "persistent"],
        "",
    ),
    ("timeout", OTHER_TIMES, ", in seconds"),
    ("timeoutSeconds", OTHER_TIMES, ", in seconds"),
    (
        "waitSeconds",
        &["waitms", "waitmillis", "waitmilliseconds", "waitminutes"],
        ", in seconds",
    ),
];
const OTHER_TIMES: &[&str] = &[
    "cputimelimit",
    "deadline",
    "exectimeout",
    "executiontimeout",
    "maxruntime",
    "maxtime",
    "runtimeout",
    "timelimit",
    "timelimits",
    "timeoutmillis",
    "timeoutmilliseconds",
    "timeoutminutes",
    "timeoutms",
];

/// What an unknown name was probably meant to be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Meaning<'a> {
    pub(super) argument: &'a str,
    /// What to know about it, to follow its name.
    pub(super) why: &'static str,
}

/// The argument that a name means, if it means one.
pub(super) fn meant<'a>(given: &str, properties: &'a Properties) -> Option<&'a Property> {
    if let Some(property) = properties.get(given) {
        return Some(property);
    }
    if ADDED_BY_CLIENTS.contains(&given) {
        return None;
    }
    let written = plain(given);
    let is = |name: &&str| plain(name) == written;
    let means = |name: &&str| {
        let is_unlisted = properties
            .get(name)
            .is_some_and(|property| !property.listed);
        let is_likely = !(is_unlisted && VAGUE.contains(&written.as_str()));
        is_likely && synonyms(name).any(|synonym| plain(synonym) == written)
    };
    let found = properties.names().find(is);
    properties.get(found.or_else(|| properties.names().find(means))?)
}

/// Whether a name means an argument of ours only where nothing else does.
pub(super) fn is_vague(given: &str, properties: &Properties) -> bool {
    let written = plain(given);
    VAGUE.contains(&written.as_str()) && properties.names().all(|name| plain(name) != written)
}

/// Whether a tool ignores an argument of this name although other tools that run programs have it.
pub(super) fn is_missed(given: &str, properties: &Properties) -> bool {
    let written = plain(given);
    let is = |name: &str| plain(name) == written;
    OF_RUNS
        .iter()
        .any(|ours| is(ours) || synonyms(ours).any(is))
        && !VAGUE.contains(&written.as_str())
        && !ADDED_BY_CLIENTS.contains(&given)
        && meant(given, properties).is_none()
}

/// The argument that an unknown name resembles, if it is none that clients add.
pub(super) fn resembled<'a>(
    given: &str,
    properties: &'a Properties,
    is_given: impl Fn(&str) -> bool,
) -> Option<Meaning<'a>> {
    if ADDED_BY_CLIENTS.contains(&given) {
        return None;
    }
    let written = plain(given);
    let other = |argument: &'a str| {
        let mut others = OTHERS.iter().filter(|(name, ..)| *name == argument);
        let (.., why) = others.find(|(_, names, _)| names.contains(&written.as_str()))?;
        Some(Meaning { argument, why })
    };
    if let Some(meaning) = properties.names().find_map(other) {
        return Some(meaning);
    }
    let misspelt = |name: &&str| {
        let shortest = if is_given(name) {
            MIN_GIVEN
        } else {
            MIN_LENGTH
        };
        is_misspelt(&written, &plain(name), shortest, TYPOS)
            || synonyms(name)
                .any(|other| is_misspelt(&written, &plain(other), shortest.max(MIN_OTHER), 1))
    };
    let argument = properties.names().find(misspelt)?;
    Some(Meaning { argument, why: "" })
}

fn synonyms(name: &str) -> impl Iterator<Item = &'static str> {
    let rows = SYNONYMS.iter().filter(move |(ours, _)| *ours == name);
    rows.flat_map(|(_, theirs)| theirs.iter().copied())
}

fn is_misspelt(written: &str, name: &str, shortest: usize, max_distance: usize) -> bool {
    let length = name.len().min(written.len());
    length >= shortest && strsim::osa_distance(name, written) <= max_distance.min(length / 3)
}

/// A name without case and without what is between its words.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(char::is_ascii_alphanumeric);
    letters.collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use rmcp::model::JsonObject;
    use serde_json::{Value, json};

    use super::*;

    fn properties(names: &[&str]) -> Properties {
        let properties: JsonObject = names
            .iter()
            .map(|name| ((*name).to_owned(), json!({})))
            .collect();
        Properties::of(&JsonObject::from_iter([(
            "properties".to_owned(),
            Value::Object(properties),
        )]))
    }

    #[test]
    fn names_that_mean_an_argument_are_told_from_those_that_resemble_one() {
        let known = properties(&["conversationId", "language", "code", "timeoutSeconds"]);
        for (given, argument) in [
            ("conversation_id", Some("conversationId")),
            ("ConversationID", Some("conversationId")),
            ("session_id", Some("conversationId")),
            ("timeout", Some("timeoutSeconds")),
            ("timeout-seconds", Some("timeoutSeconds")),
            ("Lang", Some("language")),
            ("langauge", None),
            ("sessionId", None),
            ("timeout_ms", None),
            ("", None),
        ] {
            let found = meant(given, &known).map(|property| property.name.as_str());
            assert_eq!(found, argument, "{given}");
        }
        for (given, argument) in [
            ("langauge", Some("language")),
            ("coed", Some("code")),
            ("timeoutSecond", Some("timeoutSeconds")),
            ("timout", Some("timeoutSeconds")),
            ("timeout_ms", Some("timeoutSeconds")),
            ("cod", None),
            ("version", None),
            ("comment", None),
            ("toolCallId", None),
            ("sessionId", None),
            ("tool", None),
            ("id", None),
            ("_meta", None),
            ("", None),
        ] {
            let found = resembled(given, &known, |_| false);
            assert_eq!(found.map(|meaning| meaning.argument), argument, "{given}");
        }
        // Next to the right one, only what is hardly anything else.
        let all = |_: &str| true;
        assert_eq!(resembled("mode", &known, all), None);
        assert!(resembled("timeoutSecond", &known, all).is_some());
        // Close to an argument of another server, and sent by a workflow engine with every call.
        let theirs = properties(&["session_id"]);
        assert!(meant("sessionId", &theirs).is_none());
        assert!(resembled("sesion_id", &theirs, |_| false).is_some());
    }

    #[test]
    fn no_name_means_two_arguments_of_one_tool() {
        for tool in [
            &[
                "conversationId",
                "language",
                "code",
                "stdin",
                "network",
                "environment",
                "timeoutSeconds",
                "restart",
            ][..],
            &["runId", "conversationId", "waitSeconds", "stream", "offset"],
            &["conversationId", "language", "packages"],
            &["conversationId", "filename", "content"],
            &["filename", "content_base64", "session_id", "overwrite"],
            &["session_id", "path"],
            &["package", "version"],
        ] {
            let mut all: Vec<_> = tool
                .iter()
                .flat_map(|name| synonyms(name).chain([*name]))
                .map(plain)
                .collect();
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{tool:?}");
        }
    }
}
