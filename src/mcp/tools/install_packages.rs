//! `install_packages`: adds libraries to a conversation.

use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Call, define, parse, structured};
use crate::api::error::CallError;
use crate::mcp::live::with_signs_of_life;
use crate::packages::{Asked, InstallRequest, MAX_ASKED, Packages};

pub(super) const NAME: &str = "install_packages";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Arguments {
    /// Names the conversation. Leave it out of the first call, which makes and returns a new one: one that you make up
    /// may be somebody else's. 1 to 256 bytes.
    #[serde(default)]
    #[schemars(with = "String")]
    conversation_id: Option<String>,
    /// "python" or "typescript", or an alias of them.
    language: String,
    /// What to install, each as "name" or "name==version".
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    packages: Vec<Package>,
    /// Names of packages that were installed in this conversation and are to go.
    #[serde(default)]
    remove: Vec<String>,
}

/// What is published is the first: clients keep only arrays of one type.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected \"name\", \"name==version\" or {\"name\", \"version\"}"
)]
enum Package {
    /// Such as "six", "six==1.17.0" or "six>=1.16,<2"; for TypeScript "nanoid" or "nanoid@^5".
    Text(String),
    /// The same in parts.
    Parts {
        /// The name; Python's may have extras, such as `requests[socks]`.
        name: String,
        /// A version, such as "1.17.0", or a range of them. Left out: the newest that fits.
        #[serde(default)]
        version: Option<String>,
    },
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Answer {
    success: bool,
    /// What happened, in a sentence.
    message: String,
    /// What programs can import now: what was asked for first, then what came along.
    installed: Vec<InstalledPackage>,
    /// How long it took, in milliseconds.
    duration_ms: u64,
    /// The conversation: give it to `run_code` to use the packages.
    conversation_id: String,
}

#[derive(Debug, Serialize, JsonSchema)]
struct InstalledPackage {
    /// Its name.
    name: String,
    /// Its version.
    version: String,
}

pub(super) fn tool(packages: &Packages) -> Tool {
    let config = packages.config();
    let description = format!(
        "Installs packages for programs of the same conversation: every later run_code can import them, with \
         `network` off. For Python (wheels from the package index) and TypeScript (npm, no install scripts). Look at \
         list_runners first: what is named there is installed already; Python's can be had in another version, such \
         as pandas==2.2.3. Do not run pip or npm in a program. Names and versions only, at most {MAX_ASKED} in a \
         call; may take up to {} s. `remove` takes back what was installed. When it fails, `code` says whether it was \
         blocked, not found, incompatible, too large or off-line, and the packages of before are still there. Example: {{\"conversationId\": \"conv_1f…\", \"language\": \"python\", \"packages\": \
         [\"six==1.17.0\"]}}",
        config.timeout.as_secs(),
    );
    let annotations = ToolAnnotations::new()
        .read_only(false)
        .destructive(false)
        .idempotent(true)
        .open_world(true);
    define::<Arguments, Answer>(NAME, "Install packages", description, annotations)
}

pub(super) async fn call(
    call: &Call<'_>,
    arguments: JsonObject,
) -> Result<CallToolResult, CallError> {
    let arguments: Arguments = parse(NAME, arguments)?;
    let id = call.conversation(arguments.conversation_id.as_deref())?;
    call.client.remember(&id);
    let packages = arguments.packages.into_iter().map(|package| match package {
        Package::Text(name) => Asked {
            name,
            version: None,
        },
        Package::Parts { name, version } => Asked { name, version },
    });
    let request = InstallRequest {
        conversation: id.clone(),
        language: arguments.language,
        packages: packages.collect(),
        remove: arguments.remove,
    };
    let (packages, origin) = (&call.services.packages, call.origin(NAME));
    // Boxed, since it holds a whole run of the package client.
    let install = Box::pin(packages.install(&origin, &request, &call.context.ct));
    let installed = with_signs_of_life(install, call.context, &call.caller).await?;
    let packages = installed.installed.into_iter();
    Ok(structured(&Answer {
        success: true,
        message: installed.message,
        installed: packages
            .map(|one| InstalledPackage {
                name: one.name,
                version: one.version,
            })
            .collect(),
        duration_ms: u64::try_from(installed.duration.as_millis()).unwrap_or(u64::MAX),
        conversation_id: id.id().to_owned(),
    }))
}
