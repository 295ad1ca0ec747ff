//! By what a caller was let in.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::Holder;
use crate::oauth::Known;
use crate::principal::Principal;
use crate::scope::Rights;

/// By what a caller is known.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// A token that the operator has given out.
    Token,
    /// A login at this server with such a token.
    Login,
    /// A login at the authorization server of the operator.
    Issuer,
    /// Cloudflare Access in front of the server.
    Cloudflare,
}

/// Who was let in by a request, and what there is to say about that: an extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Entrance {
    pub(super) caller: Principal,
    pub(super) rights: Rights,
    pub(super) way: Way,
    /// The name of the token, or what an issuer calls the caller.
    pub(super) name: Option<String>,
    /// When what came with the request expires, if ever.
    pub(super) expires: Option<Timestamp>,
}

impl Entrance {
    pub(super) fn by_token(holder: Holder) -> Self {
        let rights = Rights::of_token(holder.scopes);
        Self::named_by_token(Way::Token, (holder.caller, rights), holder.expires)
    }

    pub(super) fn by_login(caller: (Principal, Rights), expires: Option<Timestamp>) -> Self {
        Self::named_by_token(Way::Login, caller, expires)
    }

    fn named_by_token(
        way: Way,
        (caller, rights): (Principal, Rights),
        expires: Option<Timestamp>,
    ) -> Self {
        Self {
            name: caller.token_name().map(ToString::to_string),
            caller,
            rights,
            way,
            expires,
        }
    }

    pub(super) fn known(way: Way, known: Known) -> Self {
        let expires = known
            .expires
            .and_then(|seconds| i64::try_from(seconds).ok());
        Self {
            caller: known.caller,
            rights: known.rights,
            way,
            name: Some(known.name),
            expires: expires.and_then(|seconds| Timestamp::from_second(seconds).ok()),
        }
    }
}
