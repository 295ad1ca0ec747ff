//! The fields of a form or a query.

use url::form_urlencoded;

use crate::login::LoginError;

/// The fields, as they came.
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn parse(encoded: &[u8]) -> Self {
        let fields = form_urlencoded::parse(encoded).into_owned();
        // An empty one is as good as none (RFC 6749, section 3.1).
        Self(fields.filter(|(_, value)| !value.is_empty()).collect())
    }

    /// All of a name.
    pub(super) fn all(&self, name: &str) -> Vec<String> {
        let fields = self.0.iter().filter(|(field, _)| field == name);
        fields.map(|(_, value)| value.clone()).collect()
    }

    /// The only one of a name. Of two, somebody else may have looked at the other.
    pub(super) fn one(&self, name: &str) -> Result<Option<&str>, LoginError> {
        let mut fields = self.0.iter().filter(|(field, _)| field == name);
        match (fields.next(), fields.next()) {
            (first, None) => Ok(first.map(|(_, value)| value.as_str())),
            _ => Err(LoginError::Request(format!(
                "`{name}` is there twice: send it once"
            ))),
        }
    }

    pub(super) fn required(&self, name: &str) -> Result<&str, LoginError> {
        self.one(name)?.ok_or_else(|| {
            LoginError::Request(format!(
                "`{name}` is missing: send it in a body of the type application/x-www-form-urlencoded"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_field_is_there_once_and_not_empty() {
        let fields = Fields::parse(b"a=1&b=&c=1&c=2&d=%2F+x");
        assert_eq!(fields.one("a").unwrap(), Some("1"));
        assert_eq!(fields.one("b").unwrap(), None);
        assert_eq!(fields.one("d").unwrap(), Some("/ x"));
        assert!(fields.one("c").is_err());
        assert_eq!(fields.all("c"), ["1", "2"]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
            let fields = Fields::parse(&bytes);
            let _ = fields.one("a");
        }
    }
}
