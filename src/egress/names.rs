//! The resolver of a sandbox: it answers by the list and asks nobody, so a name that is looked up tells nobody anything.

use std::net::{Ipv4Addr, Ipv6Addr};

use hickory_proto::op::{Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA};
use hickory_proto::rr::{DNSClass, Name, RData, Record, RecordType};

use crate::allow_list::{AllowList, HostName};

/// For how long a program may remember an answer, in seconds: the next run may have another list.
const TTL: u32 = 5;
/// The longest question: longer ones are none.
const MAX_QUESTION: usize = 512;
/// The sandbox itself, under the names that a resolver can be asked for.
const ITSELF: [&str; 2] = ["localhost", "sandbox"];

/// What a resolver says.
#[derive(Debug)]
pub(super) struct Answer {
    /// The message to send.
    pub(super) bytes: Vec<u8>,
    /// What was asked for, if it is not listed.
    pub(super) unknown: Option<Unlisted>,
}

/// A name that is not listed, or nothing if it is no name of a host.
#[derive(Debug)]
pub(super) struct Unlisted(pub(super) Option<HostName>);

/// The answer to a question, if it is one.
pub(super) fn answer(question: &[u8], list: &AllowList) -> Option<Answer> {
    if question.len() > MAX_QUESTION {
        return None;
    }
    let asked = Message::from_vec(question).ok()?;
    if asked.metadata.message_type != MessageType::Query {
        return None;
    }
    let mut answer = Message::response(asked.metadata.id, asked.metadata.op_code);
    answer.metadata.recursion_desired = asked.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    let [query] = &asked.queries[..] else {
        answer.metadata.response_code = ResponseCode::FormErr;
        return finished(&answer, None);
    };
    answer.add_query(query.clone());
    if asked.metadata.op_code != OpCode::Query || query.query_class != DNSClass::IN {
        answer.metadata.response_code = ResponseCode::NotImp;
        return finished(&answer, None);
    }
    let name = HostName::of_ascii(&query.name.to_ascii()).ok();
    match name.as_ref().and_then(|name| told(name, list)) {
        None => {
            answer.metadata.response_code = ResponseCode::NXDomain;
            finished(&answer, Some(Unlisted(name)))
        }
        Some(addresses) => {
            // No other kind of record, for none of them can be used: without any, clients go by the address.
            let data = match query.query_type {
                RecordType::A => Some(RData::A(A(addresses.0))),
                RecordType::AAAA => addresses.1.map(|address| RData::AAAA(AAAA(address))),
                _ => None,
            };
            let name: Name = query.name.clone();
            answer.add_answers(data.map(|data| Record::from_rdata(name, TTL, data)));
            finished(&answer, None)
        }
    }
}

fn finished(answer: &Message, unknown: Option<Unlisted>) -> Option<Answer> {
    let bytes = answer.to_vec().ok()?;
    Some(Answer { bytes, unknown })
}

/// The addresses of a name that is known here.
fn told(name: &HostName, list: &AllowList) -> Option<(Ipv4Addr, Option<Ipv6Addr>)> {
    if ITSELF.contains(&name.as_str()) {
        return Some((Ipv4Addr::LOCALHOST, Some(Ipv6Addr::LOCALHOST)));
    }
    list.address(name).map(|address| (address, None))
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;
    use proptest::prelude::*;

    use super::*;

    fn list() -> AllowList {
        let entries = ["api.example.org", "*.example.net"];
        AllowList::new(entries.map(|entry| entry.parse().unwrap())).unwrap()
    }

    fn question(name: &str, kind: RecordType) -> Vec<u8> {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.metadata.recursion_desired = true;
        let labels = name.trim_end_matches('.').split('.');
        let name = Name::from_labels(labels.map(str::as_bytes)).unwrap();
        message.add_query(Query::query(name, kind));
        message.to_vec().unwrap()
    }

    fn told(name: &str, kind: RecordType) -> String {
        let answer = answer(&question(name, kind), &list()).unwrap();
        let message = Message::from_vec(&answer.bytes).unwrap();
        assert_eq!(message.metadata.id, 7);
        let data = message.answers.iter().map(|record| record.data.to_string());
        let data: Vec<_> = data.collect();
        let unknown = answer
            .unknown
            .map(|Unlisted(name)| name.map(|name| name.to_string()));
        format!("{} {data:?} {unknown:?}", message.metadata.response_code)
    }

    #[test]
    fn listed_names_have_an_address_and_nothing_else() {
        use RecordType::{A, AAAA, HTTPS, TXT};
        let answers = [
            ("api.example.org.", A),
            ("ApI.eXample.org.", A),
            ("api.example.org.", AAAA),
            ("api.example.org.", HTTPS),
            ("api.example.org.", TXT),
            ("deep.down.example.net.", A),
            ("example.net.", A),
            ("evil.example.", A),
            ("localhost.", A),
            ("localhost.", AAAA),
            ("1.0.0.127.in-addr.arpa.", RecordType::PTR),
            ("with space.example.", A),
        ]
        .map(|(name, kind)| told(name, kind));
        insta::assert_snapshot!(answers.join("\n"), @r#"
        No Error ["127.77.0.1"] None
        No Error ["127.77.0.1"] None
        No Error [] None
        No Error [] None
        No Error [] None
        No Error ["127.77.0.2"] None
        Non-Existent Domain [] Some(Some("example.net"))
        Non-Existent Domain [] Some(Some("evil.example"))
        No Error ["127.0.0.1"] None
        No Error ["::1"] None
        Non-Existent Domain [] Some(Some("1.0.0.127.in-addr.arpa"))
        Non-Existent Domain [] Some(None)
        "#);
    }

    #[test]
    fn what_is_no_question_gets_no_answer() {
        let list = list();
        assert!(answer(b"", &list).is_none());
        assert!(answer(&[0xff; 40], &list).is_none());
        assert!(answer(&[0; 600], &list).is_none());
        let mut response = question("api.example.org.", RecordType::A);
        response[2] |= 0x80;
        assert!(answer(&response, &list).is_none());
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered_briefly_or_not_at_all(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            if let Some(answer) = answer(&bytes, &list()) {
                prop_assert!(answer.bytes.len() <= 600);
            }
        }

        #[test]
        fn a_question_that_was_changed_is_harmless(at in 0_usize..33, byte in any::<u8>()) {
            let mut bytes = question("api.example.org.", RecordType::A);
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = answer(&bytes, &list());
        }
    }
}
