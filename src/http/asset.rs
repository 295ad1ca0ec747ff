//! Files of the server's own pages: compressed once for all clients that accept it, and sent again only when changed,
//! or never where their address changes with them.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    HeaderName, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

/// A year, the longest that caches keep anything.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// A file, and what is made of it when it is first needed.
pub(super) struct Asset {
    media_type: String,
    body: Bytes,
    caching: &'static str,
    etag: OnceLock<String>,
    compressed: OnceLock<Bytes>,
}

impl Asset {
    /// A file that clients ask for each time, whether it has changed.
    pub(super) fn new(media_type: &str, body: Bytes) -> Arc<Self> {
        Self::cached(media_type, body, "no-cache")
    }

    /// A file that clients keep without asking, since another one is at another address.
    pub(super) fn for_good(media_type: &str, body: Bytes) -> Arc<Self> {
        Self::cached(media_type, body, FOR_GOOD)
    }

    fn cached(media_type: &str, body: Bytes, caching: &'static str) -> Arc<Self> {
        Arc::new(Self {
            media_type: media_type.to_owned(),
            body,
            caching,
            etag: OnceLock::new(),
            compressed: OnceLock::new(),
        })
    }

    /// The answer to a request for it, with the policy that browsers hold its page to.
    pub(super) fn answer(&self, policy: &str, request: &HeaderMap) -> Response {
        let headers = [
            (CONTENT_SECURITY_POLICY, policy),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (
                HeaderName::from_static("cross-origin-opener-policy"),
                "same-origin",
            ),
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                "same-origin",
            ),
            (CACHE_CONTROL, self.caching),
            (VARY, "accept-encoding"),
            (ETAG, self.etag()),
        ];
        if values(request, &IF_NONE_MATCH).any(|known| known == self.etag()) {
            return (StatusCode::NOT_MODIFIED, headers).into_response();
        }
        let headers = (headers, [(CONTENT_TYPE, self.media_type.as_str())]);
        if values(request, &ACCEPT_ENCODING).any(is_gzip) {
            let body = self.compressed();
            // Pictures only grow when compressed.
            if body.len() < self.body.len() {
                return (headers, [(CONTENT_ENCODING, "gzip")], body).into_response();
            }
        }
        (headers, self.body.clone()).into_response()
    }

    /// Weak, since it is the same for all encodings.
    fn etag(&self) -> &str {
        let tag = || format!("W/\"{}\"", hex::encode(&Sha256::digest(&self.body)[..16]));
        self.etag.get_or_init(tag)
    }

    fn compressed(&self) -> Bytes {
        let compress = || {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            let written = encoder.write_all(&self.body);
            let bytes = written.and_then(|()| encoder.finish());
            Bytes::from(bytes.expect("memory takes what is written"))
        };
        self.compressed.get_or_init(compress).clone()
    }
}

/// The values of a header that is a list.
fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).into_iter();
    let lines = lines.filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

/// Whether this value accepts gzip: not if its weight is zero.
fn is_gzip(coding: &str) -> bool {
    let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
    let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
    name.trim_end().eq_ignore_ascii_case("gzip") && weight.parse() != Ok(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compressed_once() {
        let asset = Asset::new("text/plain", Bytes::from("x".repeat(1000)));
        assert_eq!(asset.compressed().as_ptr(), asset.compressed().as_ptr());
        assert!(asset.compressed().len() < 100);
    }

    #[test]
    fn who_does_not_take_gzip_gets_none() {
        for (coding, takes) in [
            ("gzip", true),
            ("GZIP ; q=0.5", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("*", false),
        ] {
            assert_eq!(is_gzip(coding), takes, "{coding}");
        }
    }
}
