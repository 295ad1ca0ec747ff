//! What a client says that it reads: the header `Accept`.

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

/// Which forms of an answer a client reads. One that does not say so reads JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Json,
    Stream,
    Either,
}

impl Reads {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let json = accepts(headers, &["application/json", "application/*", "*/*"]);
        let stream = accepts(headers, &["text/event-stream", "text/*"]);
        match (json, stream) {
            (_, false) => Self::Json,
            (false, true) => Self::Stream,
            (true, true) => Self::Either,
        }
    }

    pub(super) fn streams(self) -> bool {
        self != Self::Json
    }
}

/// Whether a GET asks for an event stream. There is nothing else to get, so one that takes anything asks for it too.
pub(super) fn asks_for_stream(headers: &HeaderMap) -> bool {
    accepts(headers, &["text/event-stream", "text/*", "*/*"])
}

/// Whether one of these types is among the accepted ones, and not only to say that it is not (RFC 9110, section
/// 12.4.2).
fn accepts(headers: &HeaderMap, types: &[&str]) -> bool {
    let values = headers.get_all(ACCEPT).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|range| {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default();
            let refused = parts.any(|parameter| {
                let weight = parameter
                    .strip_prefix("q=")
                    .or(parameter.strip_prefix("Q="));
                weight.and_then(|weight| weight.parse().ok()) == Some(0.0)
            });
            !refused && types.iter().any(|known| kind.eq_ignore_ascii_case(known))
        })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn clients_are_answered_in_a_form_that_they_read() {
        let reads = |values: &[&'static str]| {
            let values = values
                .iter()
                .map(|value| (ACCEPT, HeaderValue::from_static(value)));
            Reads::of(&values.collect())
        };
        for json in [&[][..], &["*/*"], &["application/json"], &["text/html"]] {
            assert_eq!(reads(json), Reads::Json, "{json:?}");
        }
        for json in [
            "application/json, text/event-stream;q=0",
            "*/*, TEXT/event-stream; q=0.000",
        ] {
            assert_eq!(reads(&[json]), Reads::Json, "{json}");
        }
        for stream in [
            "text/event-stream",
            "Text/Event-Stream;charset=utf-8",
            "text/*;q=0.1",
        ] {
            assert_eq!(reads(&[stream]), Reads::Stream, "{stream}");
        }
        for either in [
            "application/json, text/event-stream",
            "text/event-stream,*/*;q=0.1",
        ] {
            assert_eq!(reads(&[either]), Reads::Either, "{either}");
        }
        assert_eq!(
            reads(&["application/json", "text/event-stream"]),
            Reads::Either
        );
    }
}
