//! Why a token lets nobody in. Each reason says what came and what would do, and none contains the token.

use thiserror::Error;

/// Longest access token, in bytes. With many groups in them, they have some thousand.
pub(super) const MAX_TOKEN_BYTES: usize = 8 << 10;
/// Characters of what came that are told.
const SHOWN: usize = 200;

/// Why a token lets nobody in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// There is something wrong with the token itself.
    #[error("the access token {0}")]
    Invalid(#[from] Flaw),
    /// There is something wrong with what Cloudflare Access is said to say.
    #[error("the assertion of Cloudflare Access {0}")]
    Assertion(Flaw),
    /// It lacks a scope that everybody needs.
    #[error("the access token does not have the scope {required}: log in again and agree to it")]
    Scope {
        /// The scope.
        required: String,
    },
    /// Its holder is known, and may not enter.
    #[error("{0}")]
    NotAllowed(String),
    /// Nobody can tell at the moment.
    #[error(
        "{issuer} cannot be asked about access tokens at the moment: try again in a few seconds"
    )]
    Unavailable {
        /// Who issued the token, or would know.
        issuer: String,
    },
}

/// What is wrong with a token.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Flaw {
    /// It is no JWT, and nobody can be asked what it is.
    #[error("is none of this server's, and no JWT either")]
    Opaque,
    /// It is longer than any.
    #[error(
        "has {0} bytes, and {MAX_TOKEN_BYTES} at most are read: have its issuer put less into it"
    )]
    TooLong(usize),
    /// Its parts cannot be read.
    #[error("is no JWT that can be read: its {0} is not of that form")]
    Form(&'static str),
    /// It is for something else.
    #[error("is a token of the type {0}, and no access token")]
    Type(String),
    /// It is signed in a way that proves nothing, or that this key is not for.
    #[error("is signed with {0}, which this server does not take from its issuer")]
    Algorithm(String),
    /// It asks for what nobody here knows.
    #[error("has the header `crit`, whose extensions this server does not know")]
    Critical,
    /// It is from somebody else.
    #[error("is issued by {came}, and this server takes those of {taken} ({setting})")]
    Issuer {
        /// Who issued it.
        came: String,
        /// Whose are taken.
        taken: String,
        /// What says so.
        setting: &'static str,
    },
    /// Its key is not among those of the issuer.
    #[error("is signed with the key {0}, which its issuer does not publish")]
    Key(String),
    /// It does not say which of several keys it is signed with.
    #[error("does not say with which of its issuer's keys it is signed (`kid`)")]
    NoKeyId,
    /// The issuer did not sign this.
    #[error("has a signature that is not of its issuer")]
    Signature,
    /// Its time is over.
    #[error("has expired: get another one")]
    Expired,
    /// Its time has not begun.
    #[error("is not valid yet (`nbf`): the clocks of its issuer and this server differ")]
    Early,
    /// Something is not there that has to be.
    #[error("has no claim `{0}` of the right form")]
    Claim(String),
    /// It is for no service in particular.
    #[error("has no audience (`aud`): have its issuer put {taken} into it")]
    NoAudience {
        /// What would do.
        taken: String,
    },
    /// It is for another service.
    #[error(
        "is for the audience {came}, and this server takes {taken}: have its issuer put one of these into `aud`, or set \
         {setting}"
    )]
    Audience {
        /// For whom it is.
        came: String,
        /// What would do.
        taken: String,
        /// What says so.
        setting: &'static str,
    },
    /// It says who logged in, and gives no access.
    #[error("is an ID token, which tells a client who logged in: send the access token")]
    IdToken,
    /// The issuer does not know it, or not any more.
    #[error("is not active, as its issuer says: get another one")]
    Inactive,
}

/// Something that came, in a form and length that can be shown.
pub(super) fn shown(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}
