//! Records: what PID 1 itself reports, between the output of the programs it runs.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

/// The longest reason in a record.
const REASON_MAX: usize = 1024;

/// What PID 1 tells the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub enum Record {
    /// A run process is parked, or why there is none. Answers a `park` frame.
    Ready(Result<Ready, String>),
    /// The run process or the cell has ended. Answers a `run` or `cell` frame, after the last byte of its output.
    End(End),
    /// The sandbox is as good as new, or why it is not. Follows `end` when the run asked for reuse.
    Clean(Result<(), String>),
    /// What is held without a name. Answers a `weigh` frame; also comes once from a kernel that waits for a cell, if a
    /// closer look found something else than the end record says.
    Held(Held),
}

/// What is known of the network by the time a run process is parked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ready {
    /// Which one programs have, if PID 1 looks.
    pub network: Option<Network>,
    /// Which of the addresses that must not be reached were. `None` if they were not tried, or not all of them could be.
    pub reached: Option<Vec<SocketAddr>>,
}

/// What programs can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Nothing but themselves.
    None,
    /// What the engine gives the container, or what PID 1 cannot tell from that.
    Engine,
}

/// Space on the file system of `/data` that is taken and that no name shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Held {
    /// Bytes of disk of what was deleted while a process has it open.
    pub bytes: u64,
    /// How much is mapped into memory of deleted files that no process has open. They may be larger.
    pub mapped_bytes: u64,
    /// Whether there may be more than these: something could not be looked at.
    pub unseen: bool,
}

impl Held {
    /// Whether there is nothing.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// As many bytes as can be seen.
    pub fn seen(&self) -> u64 {
        self.bytes.saturating_add(self.mapped_bytes)
    }
}

/// How a run ended and what it took.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// Exit code or signal of the run process.
    #[serde(flatten)]
    pub status: Status,
    /// The deadline passed and everything was killed.
    pub timed_out: bool,
    /// From the frame to the end of the run process.
    pub wall_ms: u64,
    /// Processor time of the whole sandbox during the run.
    pub cpu_ms: u64,
    /// The most memory in use, when known; see the protocol for what it covers.
    pub peak_bytes: Option<u64>,
    /// Processes that the memory limit killed during the run.
    pub oom_kills: u64,
    /// Forks that the process limit refused during the run, when known.
    pub pids_denied: Option<u64>,
    /// What there was too much of, so that everything was killed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<Excess>,
    /// Whether there is a kernel that waits for the next cell.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lives: bool,
    /// What the kernel has open that has no name any more.
    #[serde(default, skip_serializing_if = "Held::is_nothing")]
    pub held: Held,
}

/// Bytes that the buffers of all sockets of a sandbox may take.
pub const BUFFERS_MAX: u64 = 128 << 20;
/// How many sockets a sandbox may have: looking at more would take too long.
pub const SOCKETS_MAX: u64 = 8192;
/// How many pseudo-terminals a sandbox may have.
pub const TERMINALS_MAX: usize = 64;

/// What no control group counts, and PID 1 watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Excess {
    /// Sockets, or what their buffers hold.
    Sockets,
    /// Pseudo-terminals.
    Terminals,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// By itself, with this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl Status {
    /// The code a shell would give: 128 + number for a death by signal.
    pub fn code(self) -> i32 {
        match self {
            Self::Exit(code) => code,
            Self::Signal(number) => number.saturating_add(128),
        }
    }
}

/// The JSON object of a record.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Wire {
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<Vec<SocketAddr>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<End>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clean: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<Held>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<Record> for Wire {
    fn from(record: Record) -> Self {
        match record {
            Record::Ready(Ok(Ready { network, reached })) => Self {
                ready: Some(true),
                network,
                reached,
                ..Self::default()
            },
            Record::Ready(Err(reason)) => Self {
                ready: Some(false),
                reason: Some(reason),
                ..Self::default()
            },
            Record::End(end) => Self {
                end: Some(end),
                ..Self::default()
            },
            Record::Clean(verdict) => Self {
                clean: Some(verdict.is_ok()),
                reason: verdict.err(),
                ..Self::default()
            },
            Record::Held(held) => Self {
                held: Some(held),
                ..Self::default()
            },
        }
    }
}

impl TryFrom<Wire> for Record {
    type Error = &'static str;

    fn try_from(wire: Wire) -> Result<Self, Self::Error> {
        let reason = wire.reason.unwrap_or_default();
        let verdict = |yes| if yes { Ok(()) } else { Err(reason) };
        let (network, reached) = (wire.network, wire.reached);
        match (wire.ready, wire.end, wire.clean, wire.held) {
            (Some(yes), None, None, None) => Ok(Self::Ready(
                verdict(yes).map(|()| Ready { network, reached }),
            )),
            (None, Some(end), None, None) => Ok(Self::End(end)),
            (None, None, Some(yes), None) => Ok(Self::Clean(verdict(yes))),
            (None, None, None, Some(held)) => Ok(Self::Held(held)),
            _ => Err("a record is one of ready, end, clean and held"),
        }
    }
}

impl Record {
    /// As a JSON object of a few kilobytes: a long reason is cut.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut record = self.clone();
        if let Self::Ready(Err(reason)) | Self::Clean(Err(reason)) = &mut record {
            reason.truncate(reason.floor_char_boundary(REASON_MAX));
        }
        // Numbers, booleans and text always have a JSON form.
        serde_json::to_vec(&record).unwrap_or_default()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end(status: Status) -> Record {
        Record::End(End {
            status,
            timed_out: false,
            wall_ms: 5,
            cpu_ms: 4,
            peak_bytes: Some(1 << 20),
            oom_kills: 0,
            pids_denied: None,
            excess: None,
            lives: false,
            held: Held::default(),
        })
    }

    fn any_held() -> impl Strategy<Value = Held> {
        (any::<[u32; 2]>(), any::<bool>()).prop_map(|([bytes, mapped], unseen)| Held {
            bytes: bytes.into(),
            mapped_bytes: mapped.into(),
            unseen,
        })
    }

    fn any_ready() -> impl Strategy<Value = Ready> {
        let network = prop::option::of(prop_oneof![Just(Network::None), Just(Network::Engine)]);
        let address = any::<(std::net::IpAddr, u16)>().prop_map(SocketAddr::from);
        let reached = prop::option::of(prop::collection::vec(address, 0..4));
        (network, reached).prop_map(|(network, reached)| Ready { network, reached })
    }

    pub(crate) fn any_record() -> impl Strategy<Value = Record> {
        let verdict =
            prop::option::of("(?s).{0,100}").prop_map(|reason| reason.map_or(Ok(()), Err));
        let numbers = (any::<[u64; 4]>(), any::<i32>(), any::<[bool; 4]>());
        let end = (numbers, any_held()).prop_map(
            |((numbers, code, [signal, timed_out, lives, excess]), held)| {
                Record::End(End {
                    status: if signal {
                        Status::Signal(code)
                    } else {
                        Status::Exit(code)
                    },
                    timed_out,
                    wall_ms: numbers[0],
                    cpu_ms: numbers[1],
                    peak_bytes: Some(numbers[2]),
                    oom_kills: numbers[3],
                    pids_denied: Some(numbers[3]),
                    excess: excess.then_some(Excess::Terminals),
                    lives,
                    held,
                })
            },
        );
        prop_oneof![
            (verdict.clone(), any_ready())
                .prop_map(|(verdict, ready)| Record::Ready(verdict.map(|()| ready))),
            verdict.prop_map(Record::Clean),
            any_held().prop_map(Record::Held),
            end,
        ]
    }

    #[test]
    fn the_wire_form_is_the_one_of_the_protocol() {
        let text = |record: &Record| String::from_utf8(record.to_json()).unwrap();
        let ready = |network, reached| text(&Record::Ready(Ok(Ready { network, reached })));
        assert_eq!(ready(None, None), r#"{"ready":true}"#);
        assert_eq!(
            ready(Some(Network::None), None),
            r#"{"ready":true,"network":"none"}"#
        );
        assert_eq!(
            ready(Some(Network::Engine), Some(Vec::new())),
            r#"{"ready":true,"network":"engine","reached":[]}"#
        );
        assert_eq!(
            ready(
                Some(Network::Engine),
                Some(vec!["192.0.2.1:443".parse().unwrap()])
            ),
            r#"{"ready":true,"network":"engine","reached":["192.0.2.1:443"]}"#
        );
        assert_eq!(
            text(&Record::Clean(Err("why".to_owned()))),
            r#"{"clean":false,"reason":"why"}"#
        );
        let rest = r#""timedOut":false,"wallMs":5,"cpuMs":4,"peakBytes":1048576,"oomKills":0,"pidsDenied":null}}"#;
        assert_eq!(
            text(&end(Status::Exit(3))),
            format!(r#"{{"end":{{"exit":3,{rest}"#)
        );
        assert_eq!(
            text(&end(Status::Signal(9))),
            format!(r#"{{"end":{{"signal":9,{rest}"#)
        );
        assert_eq!(Status::Signal(9).code(), 137);
        let held = Held {
            bytes: 4096,
            ..Held::default()
        };
        let written = r#"{"bytes":4096,"mappedBytes":0,"unseen":false}"#;
        assert_eq!(
            text(&Record::Held(held)),
            format!(r#"{{"held":{written}}}"#)
        );
        let Record::End(mut lives) = end(Status::Exit(0)) else {
            panic!("another record")
        };
        (lives.lives, lives.held) = (true, held);
        let rest = rest.replace("}}", &format!(r#","lives":true,"held":{written}}}}}"#));
        assert_eq!(
            text(&Record::End(lives)),
            format!(r#"{{"end":{{"exit":0,{rest}"#)
        );
    }

    #[test]
    fn a_record_that_does_not_know_the_network_is_one() {
        let record: Record = serde_json::from_str(r#"{"ready":true}"#).unwrap();
        assert_eq!(record, Record::Ready(Ok(Ready::default())));
    }

    proptest! {
        #[test]
        fn a_long_reason_is_cut(reason in "(?s).{0,3000}") {
            let json = Record::Clean(Err(reason.clone())).to_json();
            prop_assert!(json.len() < 8 * REASON_MAX);
            let Record::Clean(Err(cut)) = serde_json::from_slice(&json).unwrap() else {
                panic!("another record")
            };
            prop_assert!(reason.starts_with(&cut) && cut.len() <= REASON_MAX);
            prop_assert!(cut.len() > REASON_MAX - 4 || cut == reason);
        }
    }
}
