//! Why somebody cannot log in, and why what they got counts for nothing.

use std::io;

use strum::IntoStaticStr;
use thiserror::Error;
use tokio::task::JoinError;

use super::RedirectUri;
use crate::access::Denied;
use crate::principal::Principal;

/// Why a client gets nothing.
#[derive(Debug, Error)]
pub enum LoginError {
    /// Something is missing or has no meaning here.
    #[error("{0}")]
    Request(String),
    /// There is no such client.
    #[error("the client is not known here: register it again")]
    Client,
    /// The document about a client is not usable.
    #[error("the client's document {id} is not usable: {reason}")]
    Document {
        /// Where it should be.
        id: String,
        /// Why.
        reason: String,
    },
    /// Its browser could be sent nowhere.
    #[error("{0}")]
    RedirectUri(String),
    /// The code or the refresh token gives nothing.
    #[error("{0}")]
    Grant(String),
    /// The code or the refresh token was used before, and what it gave is over.
    #[error("the {} was used before: log in again, what it gave counts no longer", .why.what())]
    Replayed {
        /// What came twice.
        why: EndedBy,
        /// What it gave, unless that was over already.
        ended: Option<Box<Ended>>,
    },
    /// Tokens are given for nothing else.
    #[error("`grant_type` has to be `authorization_code` or `refresh_token`")]
    GrantType,
    /// It asks for nothing that there is.
    #[error(
        "`scope` names none that there is: leave it out, or ask for sandbox:run, sandbox:files, sandbox:install or sandbox:network"
    )]
    Scope,
    /// Nothing else is given.
    #[error("`response_type` has to be `code`")]
    ResponseType,
    /// Tokens for other servers are given elsewhere.
    #[error("`resource` is {came}: tokens are given for {own} only")]
    Target {
        /// For what one was asked.
        came: String,
        /// For what it can be.
        own: String,
    },
    /// Whoever has agreed may do so no longer.
    #[error("the token that was pasted is not taken any more: log in again with another one")]
    Denied(#[from] Denied),
    /// Grants cannot be kept.
    #[error("what was granted cannot be kept")]
    Storage(#[from] io::Error),
    /// A task ended without a result.
    #[error("the request was not finished")]
    Unfinished(#[from] JoinError),
}

impl LoginError {
    pub(super) fn grant(message: &str) -> Self {
        Self::Grant(message.to_owned())
    }
}

/// A grant that was ended.
#[derive(Debug)]
pub struct Ended {
    /// Who had let its client in, if they still have that token.
    pub holder: Option<Principal>,
    /// Why.
    pub why: EndedBy,
}

/// Why a grant was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum EndedBy {
    /// Its client, or whoever had a token of it, asked for that.
    Revoked,
    /// Its code came twice.
    CodeReplayed,
    /// A refresh token came twice.
    RefreshTokenReplayed,
}

impl EndedBy {
    /// What was used before.
    const fn what(self) -> &'static str {
        match self {
            Self::Revoked => "token",
            Self::CodeReplayed => "code",
            Self::RefreshTokenReplayed => "refresh token",
        }
    }
}

/// What becomes of a person whose client asks for something wrong.
#[derive(Debug)]
pub enum NotLetIn {
    /// They are told, since nobody knows whether the address is the client's.
    Told(LoginError),
    /// The client is told, by its browser.
    SentBack {
        /// What is wrong.
        error: LoginError,
        /// Where the client is.
        redirect: Box<RedirectUri>,
        /// What it asked to have back.
        state: Option<String>,
    },
}

impl From<LoginError> for NotLetIn {
    fn from(error: LoginError) -> Self {
        Self::Told(error)
    }
}

/// Why a token lets nobody in.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    /// It was not made here, or not for this.
    #[error("the access token is none of this server's: log in again")]
    Forged,
    /// Its hour is over.
    #[error("the access token has expired: get another one with the refresh token")]
    Expired,
    /// It is for an address that the server had before.
    #[error("the access token is for {0}, which is none of this server's addresses: log in again")]
    Elsewhere(String),
    /// Its grant is no more.
    #[error("the access token was revoked: log in again")]
    Ended,
    /// What was pasted for it counts for nothing any more.
    #[error("the token that was pasted for this access token is not taken any more: log in again")]
    Over(Denied),
    /// What is pasted counts for nothing.
    #[error("{0}")]
    Denied(#[from] Denied),
    /// What is pasted lets its holder do nothing of what the client asks for.
    #[error("the pasted token lets nobody do what the client asks for")]
    Scopes,
}

impl Refused {
    /// A word for it.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Denied(Denied::Unknown) => "unknown_token",
            Self::Denied(Denied::Expired(_)) => "expired_token",
            Self::Scopes => "insufficient_scope",
            _ => "invalid_token",
        }
    }
}
