//! What a token lets its holder do: its scopes.
//!
//! A token without scopes lets its holder do everything. Issuers of access tokens write a scope with a prefix before
//! it, since their tokens have scopes of others too.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use thiserror::Error;

/// What comes before a scope in an access token.
pub(crate) const PREFIX: &str = "sandbox:";
/// The word for all scopes.
const ALL: &str = "all";

/// One thing that a token can let its holder do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum Scope {
    /// Run programs, and see and end those runs.
    Run,
    /// Upload, list, read, rename and delete files, and delete conversations.
    Files,
    /// Install packages.
    Install,
    /// Give programs the network.
    Network,
}

impl Scope {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of scopes.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<Scope>", from = "Vec<Scope>")]
pub struct Scopes(u8);

/// A word that is no scope.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0:?} is no scope: there are run, files, install, network and all")]
pub struct ScopeError(String);

impl Scopes {
    /// No scope at all.
    pub const NONE: Self = Self(0);
    /// Every scope.
    pub const ALL: Self =
        Self(Scope::Run.bit() | Scope::Files.bit() | Scope::Install.bit() | Scope::Network.bit());

    /// One scope.
    pub const fn of(scope: Scope) -> Self {
        Self(scope.bit())
    }

    /// Those of an access token, which has these among others. `None` if none of them is about this server.
    pub fn of_words<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let ours = words.filter_map(|word| word.strip_prefix(PREFIX));
        // One that is not known here gives nothing.
        let known = ours.map(|word| word.parse().unwrap_or(Self::NONE));
        known.reduce(Self::union)
    }

    /// Those of either.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that the other one does not have.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of the other one are among them.
    pub const fn contains(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// As an access token has them, separated by spaces.
    pub fn as_words(self) -> String {
        let words = self
            .iter()
            .map(|scope| format!("{PREFIX}{}", scope.into_str()));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Each of them.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        let all = Scope::VARIANTS.iter().copied();
        all.filter(move |scope| self.contains(Self::of(*scope)))
    }
}

impl From<Scopes> for Vec<Scope> {
    fn from(scopes: Scopes) -> Self {
        scopes.iter().collect()
    }
}

impl From<Vec<Scope>> for Scopes {
    fn from(scopes: Vec<Scope>) -> Self {
        let each = scopes.into_iter().map(Self::of);
        each.fold(Self::NONE, Self::union)
    }
}

/// A word: one scope, or all.
impl FromStr for Scopes {
    type Err = ScopeError;

    fn from_str(word: &str) -> Result<Self, ScopeError> {
        if word == ALL {
            return Ok(Self::ALL);
        }
        let is_it = |scope: &&Scope| scope.into_str() == word;
        let found = Scope::VARIANTS.iter().find(is_it);
        let unknown = || ScopeError(word.chars().take(64).collect());
        found.copied().map(Self::of).ok_or_else(unknown)
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(|scope| scope.into_str()).collect();
        formatter.pad(&match *self {
            Self::ALL => ALL.to_owned(),
            Self::NONE => "none".to_owned(),
            _ => words.join(", "),
        })
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Scopes({self})")
    }
}

/// What the token of one request lets its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    scopes: Scopes,
    /// What a new login could give.
    obtainable: Scopes,
}

/// Something that a token does not let its holder do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{}", self.message())]
pub struct Forbidden {
    needed: Scopes,
    had: Scopes,
    /// Whether its client can get another token with all of that by logging its user in again.
    pub by_login: bool,
}

impl Rights {
    /// Of somebody who may do everything.
    pub const ALL: Self = Self::of_token(Scopes::ALL);

    /// Those of a token which the operator gave.
    pub const fn of_token(scopes: Scopes) -> Self {
        Self {
            scopes,
            obtainable: Scopes::NONE,
        }
    }

    /// The same where no other login is to be asked for.
    #[must_use]
    pub const fn without_login(self) -> Self {
        Self::of_token(self.scopes)
    }

    /// Those of a token which a client got by a login. Another login could give `obtainable`.
    pub const fn by_login(scopes: Scopes, obtainable: Scopes) -> Self {
        Self { scopes, obtainable }
    }

    /// What may be done.
    pub const fn scopes(self) -> Scopes {
        self.scopes
    }

    /// Checks that something is among them.
    ///
    /// # Errors
    /// It is not, and what is missing.
    pub fn check(self, needed: Scopes) -> Result<(), Forbidden> {
        if self.scopes.contains(needed) {
            return Ok(());
        }
        Err(Forbidden {
            needed,
            had: self.scopes,
            by_login: self.obtainable.contains(needed),
        })
    }

    /// Whether they are everything.
    pub fn is_all(self) -> bool {
        self.scopes == Scopes::ALL
    }

    /// Whether another login could give more.
    pub const fn can_grow(self) -> bool {
        !self.scopes.contains(self.obtainable)
    }
}

impl Forbidden {
    /// What a client has to ask for: what was had too, since some clients ask for nothing else.
    pub fn to_ask_for(self) -> Scopes {
        self.had.union(self.needed)
    }

    fn message(self) -> String {
        let missing = self.needed.without(self.had);
        if self.by_login {
            let missing = missing.as_words();
            return format!(
                "this needs the scope {missing}, and the access token has {}: log in again and agree to it",
                match self.had {
                    Scopes::NONE => "none that counts here".to_owned(),
                    had => had.as_words(),
                }
            );
        }
        format!(
            "this needs the scope {missing}, and the token has {}: ask the server's operator for a token that has it",
            self.had
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_words(words: &str) -> String {
        let scopes = Scopes::of_words(words.split_whitespace());
        scopes.map_or_else(|| "no word of it".to_owned(), |scopes| scopes.to_string())
    }

    #[test]
    fn words_of_others_say_nothing_of_ours() {
        for (words, scopes) in [
            ("", "no word of it"),
            ("openid sandbox", "no word of it"),
            ("openid sandbox:run", "run"),
            ("sandbox:install sandbox:run", "run, install"),
            ("sandbox:all", "all"),
            (
                "sandbox:run sandbox:files sandbox:install sandbox:network",
                "all",
            ),
            ("sandbox:", "none"),
            ("sandbox:Run", "none"),
            ("sandbox:admin sandbox:files", "files"),
        ] {
            assert_eq!(of_words(words), scopes, "{words}");
        }
    }

    #[test]
    fn what_is_missing_is_told_with_what_there_is() {
        let needed = Scopes::of(Scope::Run).union(Scopes::of(Scope::Network));
        let run = Scopes::of(Scope::Run);
        let told = |rights: Rights| rights.check(needed).unwrap_err().to_string();
        insta::assert_snapshot!(told(Rights::of_token(run)), @"this needs the scope network, and the token has run: ask the server's operator for a token that has it");
        insta::assert_snapshot!(told(Rights::by_login(run, Scopes::ALL)), @"this needs the scope sandbox:network, and the access token has sandbox:run: log in again and agree to it");
        insta::assert_snapshot!(told(Rights::by_login(run, run)), @"this needs the scope network, and the token has run: ask the server's operator for a token that has it");
        assert_eq!(Rights::ALL.check(needed), Ok(()));
        insta::assert_snapshot!("runs".parse::<Scopes>().unwrap_err(), @r#""runs" is no scope: there are run, files, install, network and all"#);
    }

    proptest! {
        #[test]
        fn a_set_is_kept_as_it_is(words in prop::collection::vec("run|files|install|network|all", 0..6)) {
            let each = words.iter().map(|word| word.parse::<Scopes>().unwrap());
            let scopes = each.fold(Scopes::NONE, Scopes::union);
            let kept = serde_json::to_string(&scopes).unwrap();
            prop_assert_eq!(serde_json::from_str::<Scopes>(&kept).unwrap(), scopes);
        }

        #[test]
        fn no_words_make_it_panic(words in r"\PC{0,60}") {
            of_words(&words);
        }
    }
}
