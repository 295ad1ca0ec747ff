//! What clients make of answers, by the name that they give themselves.
//!
//! A client that is not in the table gets all that its revision of the protocol has.

use axum::http::header::USER_AGENT;
use axum::http::request::Parts;
use rmcp::model::{CallToolResult, ContentBlock, Implementation};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};

use crate::audit::Client;
use crate::config::AnswerConfig;

/// What mcp-remote puts after the name of the client that it stands for.
const VIA: &str = " (via ";

/// A client that does badly with a part of our answers.
#[derive(Clone, Copy)]
struct Known {
    /// As in `clientInfo.name`, or as the first product in `User-Agent`; in lower case.
    name: &'static str,
    /// The version that does no longer, if there is one.
    until: Option<[u32; 3]>,
    /// Whether it takes blocks of the type `resource_link`.
    resource_links: bool,
    /// Whether its model sees the other content of an answer that has `structuredContent`.
    structured_content: bool,
    /// Whether it shows pictures to its model as pictures.
    pictures: bool,
}

/// A client that does well with everything.
const fn known(name: &'static str) -> Known {
    Known {
        name,
        until: None,
        resource_links: true,
        structured_content: true,
        pictures: true,
    }
}

const fn without_links(name: &'static str) -> Known {
    Known {
        resource_links: false,
        ..known(name)
    }
}

const fn without_pictures(name: &'static str) -> Known {
    Known {
        pictures: false,
        ..known(name)
    }
}

const fn without_structured_content(known: Known) -> Known {
    Known {
        structured_content: false,
        ..known
    }
}

/// The table; docs/clients.md has it in words.
const KNOWN: &[Known] = &[
    // Codex, on the command line, in editors and as an app. Its model sees nothing but structuredContent where there is
    // any (openai/codex#10334, #38287), and the app refuses an answer with a link (openai/codex#33404).
    without_structured_content(without_links("codex-mcp-client")),
    without_structured_content(without_links("codex")),
    // Before 2.1.128 pictures were dropped beside structuredContent (anthropics/claude-code#54737, and its changelog).
    Known {
        until: Some([2, 1, 128]),
        ..without_structured_content(known("claude-code"))
    },
    // Replaces all content by structuredContent (anomalyco/opencode#32074, #32868).
    without_structured_content(known("opencode")),
    // The Python SDK's own name, and what it sends as User-Agent. langchain-mcp-adapters is among those that use it:
    // it makes links files by address, which ends agents with OpenAI's and Bedrock's chat models
    // (langchain-ai/langchain-mcp-adapters#591).
    without_links("mcp"),
    without_links("python-httpx"),
    // The same in JavaScript; before langchain-ai/langchainjs#10005 any link was an error.
    without_links("@langchain/mcp-adapters"),
    // The extension refuses the whole answer in versions that are still in use (cline/cline#5208); so does Kiro
    // (kirodotdev/Kiro#8960).
    without_links("cline"),
    without_links("kiro"),
    // Cline's program (3.0.65) and Continue's (1.5.47) hand the base64 of a picture to the model as text.
    without_pictures("@cline/core"),
    without_pictures("continue-cli-client"),
];

/// What the answers to a client have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::mcp) struct Answers {
    /// Links to new files as blocks of the type `resource_link`.
    pub(in crate::mcp) resource_links: bool,
    /// `structuredContent`, and `outputSchema` in the list of tools.
    pub(in crate::mcp) structured_content: bool,
    /// Pictures as blocks of the type `image`.
    pictures: bool,
}

/// What is said where pictures were left out.
const WITHOUT_PICTURES: &str =
    "Pictures are left out for this client: their links are in the answer.";

impl Answers {
    /// Those to the client that sent a request.
    pub(in crate::mcp) fn to(config: AnswerConfig, context: &RequestContext<RoleServer>) -> Self {
        let found = sender(context).and_then(|client| find(&client.name, &client.version));
        let takes = |part: fn(&Known) -> bool| found.is_none_or(part);
        Self {
            resource_links: config
                .resource_links
                .applies(takes(|known| known.resource_links)),
            structured_content: config
                .structured_content
                .applies(takes(|known| known.structured_content)),
            pictures: config.pictures.applies(takes(|known| known.pictures)),
        }
    }

    /// Leaves out of an answer what the client is not to have. Its first text has the same object, with the links of
    /// pictures.
    pub(in crate::mcp) fn trim(self, result: &mut CallToolResult) {
        let is_picture = |block: &ContentBlock| matches!(block, ContentBlock::Image(_));
        if !self.pictures && result.content.iter().any(is_picture) {
            result.content.retain(|block| !is_picture(block));
            note(result, WITHOUT_PICTURES);
        }
        if !self.structured_content {
            result.structured_content = None;
        }
    }
}

/// Adds a note to an answer: to its object, which the first text repeats, and as a text of its own.
fn note(result: &mut CallToolResult, text: &str) {
    if let Some(Value::Object(object)) = &mut result.structured_content {
        let notes = object.entry("notes").or_insert_with(|| json!([]));
        if let Some(notes) = notes.as_array_mut() {
            notes.push(text.into());
        }
        result.content[0] = ContentBlock::text(Value::Object(object.clone()).to_string());
    }
    result.content.push(ContentBlock::text(text));
}

/// The client that sent a request, if it says who it is. One without a session says so in `User-Agent` alone.
pub(in crate::mcp) fn sender(context: &RequestContext<RoleServer>) -> Option<Client> {
    // rmcp names itself as the client of a request that names none.
    let nobody = Implementation::from_build_env();
    let given = context.client_info().filter(|client| *client != nobody);
    let given = given.map(|client| Client::new(&client.name, &client.version));
    given.or_else(|| {
        let parts = context.extensions.get::<Parts>()?;
        Client::of_user_agent(parts.headers.get(USER_AGENT)?.to_str().ok()?)
    })
}

fn find(name: &str, version: &str) -> Option<&'static Known> {
    let name = name.split(VIA).next().unwrap_or(name).trim();
    let known = KNOWN
        .iter()
        .find(|known| known.name.eq_ignore_ascii_case(name))?;
    let is_past = |until| numbers(version).is_some_and(|version| version >= until);
    (!known.until.is_some_and(is_past)).then_some(known)
}

/// The first three numbers of a version.
fn numbers(version: &str) -> Option<[u32; 3]> {
    let mut numbers = version
        .split(|character: char| !character.is_ascii_digit())
        .map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_known_by_name_and_version() {
        let found = |name, version| find(name, version).map(|known| known.name);
        assert_eq!(
            found("codex-mcp-client", "0.154.0"),
            Some("codex-mcp-client")
        );
        assert_eq!(found("Cline", ""), Some("cline"));
        assert_eq!(
            found("codex-mcp-client (via mcp-remote 0.1.37)", "1.0.0"),
            Some("codex-mcp-client")
        );
        for old in ["2.1.127", "2.0.99", "1.0.128", "", "2.1", "dev"] {
            assert_eq!(found("claude-code", old), Some("claude-code"), "{old}");
        }
        for new in ["2.1.128", "2.1.280 (cli)", "2.2.0-beta.1", "10.0.0"] {
            assert_eq!(found("claude-code", new), None, "{new}");
        }
        for other in ["", "mcp-client", "my-mcp", "codexter"] {
            assert_eq!(found(other, "1.0.0"), None, "{other}");
        }
    }

    #[test]
    fn every_row_is_found_and_documented() {
        let document = include_str!("../../../docs/clients.md");
        for known in KNOWN {
            let named = format!("`{}`", known.name);
            assert!(document.contains(&named), "docs/clients.md lacks {named}");
            assert_eq!(known.name, known.name.to_lowercase());
            assert_eq!(
                find(known.name, "").map(|found| found.name),
                Some(known.name)
            );
        }
    }
}
