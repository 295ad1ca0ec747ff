//! The books of a run in the network: each host that it reached or wanted to, with what was copied. Names come from
//! programs, so only what DNS could have is noted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::report::{DeniedReason, HostTraffic, HostVerdict, INVALID, NetworkReport};
use crate::allow_list::HostName;

/// Most rows of one run, of hosts that were reached and of those that were not.
const MAX_ROWS: usize = 50;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    host: String,
    port: Option<u16>,
    denied: Option<DeniedReason>,
}

#[derive(Debug, Default)]
struct Counts {
    connections: u64,
    lookups: u64,
    sent: u64,
    received: u64,
    secrets: BTreeSet<String>,
    is_reflected: bool,
}

#[derive(Debug, Default)]
struct Books {
    rows: BTreeMap<Row, Counts>,
    left_out: bool,
    live: Vec<Weak<Meter>>,
}

impl Books {
    fn count(&mut self, row: Row, add: impl FnOnce(&mut Counts)) {
        // What was denied leaves room for what was reached: a program cannot hide one behind the other.
        let alike = |other: &&Row| other.denied.is_some() == row.denied.is_some();
        if self.rows.contains_key(&row) || self.rows.keys().filter(alike).count() < MAX_ROWS {
            add(self.rows.entry(row).or_default());
        } else {
            self.left_out = true;
        }
    }

    fn drain(&mut self, meter: &Meter) {
        let (sent, received) = meter.take();
        let row = meter.row.lock().clone();
        if let Some(row) = row
            && sent + received > 0
        {
            self.count(row, |counts| {
                counts.sent += sent;
                counts.received += received;
            });
        }
    }
}

/// The books of one run, or of one cell after the other.
#[derive(Debug)]
pub struct Traffic {
    books: Mutex<Books>,
    /// Bytes in both directions.
    bytes: AtomicU64,
    max_bytes: u64,
}

impl Traffic {
    /// Nothing yet, and at most so many bytes in both directions.
    pub fn new(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            books: Mutex::default(),
            bytes: AtomicU64::new(0),
            max_bytes,
        })
    }

    /// Begins anew, for the next cell. Connections go on.
    pub fn begin(&self) {
        self.report();
        self.bytes.store(0, Ordering::Relaxed);
        let mut books = self.books.lock();
        books.rows.clear();
        books.left_out = false;
    }

    /// What there was so far.
    pub fn report(&self) -> NetworkReport {
        let mut books = self.books.lock();
        let live = std::mem::take(&mut books.live);
        // Dropped only when the books are free again: the last to hold a meter writes to them.
        let meters: Vec<_> = live.iter().filter_map(Weak::upgrade).collect();
        for meter in &meters {
            books.drain(meter);
        }
        books.live = live;
        let hosts = books.rows.iter().map(|(row, counts)| HostTraffic {
            host: row.host.clone(),
            port: row.port,
            verdict: match row.denied {
                None => HostVerdict::Allowed,
                Some(_) => HostVerdict::Denied,
            },
            reason: row
                .denied
                .or(counts.is_reflected.then_some(DeniedReason::SecretReflected)),
            connections: counts.connections,
            lookups: counts.lookups,
            sent_bytes: counts.sent,
            received_bytes: counts.received,
            secrets: counts.secrets.iter().cloned().collect(),
        });
        let report = NetworkReport {
            hosts: hosts.collect(),
            truncated: books.left_out,
        };
        drop(books);
        drop(meters);
        report
    }

    /// Whether more was copied than one run may have.
    pub(super) fn is_spent(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.max_bytes
    }

    /// Notes that a connection was refused. `host` is what it was for, as far as that is known.
    pub(crate) fn deny(&self, host: &str, port: u16, reason: DeniedReason) {
        let row = Row {
            host: host.to_owned(),
            port: Some(port),
            denied: Some(reason),
        };
        self.books
            .lock()
            .count(row, |counts| counts.connections += 1);
    }

    /// Notes that a name was looked up that is not listed; `None` if it is none.
    pub(crate) fn unknown(&self, host: Option<&HostName>) {
        let row = Row {
            host: host.map_or(INVALID, HostName::as_str).to_owned(),
            port: None,
            denied: Some(DeniedReason::NotListed),
        };
        self.books.lock().count(row, |counts| counts.lookups += 1);
    }

    /// The meter of a connection that was accepted.
    pub(super) fn meter(self: &Arc<Self>) -> Arc<Meter> {
        let meter = Arc::new(Meter {
            traffic: Arc::clone(self),
            row: Mutex::new(None),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            total: AtomicU64::new(0),
        });
        let mut books = self.books.lock();
        books.live.retain(|meter| meter.strong_count() > 0);
        books.live.push(Arc::downgrade(&meter));
        drop(books);
        meter
    }
}

/// What one connection copies.
#[derive(Debug)]
pub(super) struct Meter {
    traffic: Arc<Traffic>,
    /// Whom it is connected to, once it is.
    row: Mutex<Option<Row>>,
    sent: AtomicU64,
    received: AtomicU64,
    total: AtomicU64,
}

impl Meter {
    /// Notes that it is connected to a host.
    pub(super) fn connected(&self, host: &HostName, port: u16) {
        let row = Row {
            host: host.to_string(),
            port: Some(port),
            denied: None,
        };
        let mut books = self.traffic.books.lock();
        books.count(row.clone(), |counts| counts.connections += 1);
        drop(books);
        *self.row.lock() = Some(row);
    }

    /// Notes that a secret was used there, by the name of its variable.
    pub(super) fn used_secret(&self, variable: &str) {
        self.note(|counts| {
            if !counts.secrets.contains(variable) {
                counts.secrets.insert(variable.to_owned());
            }
        });
    }

    /// Notes that the host sent a secret back.
    pub(super) fn reflected_secret(&self) {
        self.note(|counts| counts.is_reflected = true);
    }

    fn note(&self, add: impl FnOnce(&mut Counts)) {
        let row = self.row.lock().clone();
        if let Some(row) = row {
            self.traffic.books.lock().count(row, add);
        }
    }

    pub(super) fn add_sent(&self, bytes: usize) {
        self.add(&self.sent, bytes);
    }

    pub(super) fn add_received(&self, bytes: usize) {
        self.add(&self.received, bytes);
    }

    fn add(&self, counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
        for total in [&self.total, &self.traffic.bytes] {
            total.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// How much it has copied in all.
    pub(super) fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// How much it has copied since that was last counted.
    fn take(&self) -> (u64, u64) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        (take(&self.sent), take(&self.received))
    }

    /// Whether the run has had its bytes.
    pub(super) fn is_spent(&self) -> bool {
        self.traffic.is_spent()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let traffic = Arc::clone(&self.traffic);
        traffic.books.lock().drain(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn a_report_has_each_host_with_what_became_of_it() {
        let traffic = Traffic::new(1000);
        let (first, second) = (traffic.meter(), traffic.meter());
        first.add_sent(10);
        first.connected(&name("api.example.org"), 443);
        first.add_received(200);
        second.connected(&name("api.example.org"), 443);
        second.add_received(5);
        drop(second);
        traffic.unknown(Some(&name("evil.example")));
        traffic.unknown(Some(&name("evil.example")));
        traffic.unknown(None);
        traffic.deny("api.example.org", 443, DeniedReason::SniMismatch);
        let report = traffic.report();
        insta::assert_snapshot!(report, @"network: api.example.org 2 connections; denied: (invalid) (not listed), api.example.org (sni mismatch), evil.example (not listed)");
        insta::assert_json_snapshot!(report, @r#"
        {
          "hosts": [
            {
              "host": "(invalid)",
              "verdict": "denied",
              "reason": "not_listed",
              "lookups": 1
            },
            {
              "host": "api.example.org",
              "port": 443,
              "verdict": "allowed",
              "connections": 2,
              "sentBytes": 10,
              "receivedBytes": 205
            },
            {
              "host": "api.example.org",
              "port": 443,
              "verdict": "denied",
              "reason": "sni_mismatch",
              "connections": 1
            },
            {
              "host": "evil.example",
              "verdict": "denied",
              "reason": "not_listed",
              "lookups": 2
            }
          ]
        }
        "#);
        assert!(!traffic.is_spent());
        first.add_sent(786);
        assert!(traffic.is_spent());
    }

    #[test]
    fn a_report_has_the_secrets_that_were_used_at_a_host() {
        let traffic = Traffic::new(1000);
        let meter = traffic.meter();
        // Nobody knows where, yet.
        meter.used_secret("EARLY");
        meter.connected(&name("api.example.org"), 443);
        for variable in ["GITHUB_TOKEN", "API_KEY", "GITHUB_TOKEN"] {
            meter.used_secret(variable);
        }
        let other = traffic.meter();
        other.connected(&name("www.example.org"), 443);
        other.used_secret("API_KEY");
        other.reflected_secret();
        let report = traffic.report();
        insta::assert_snapshot!(report, @"network: api.example.org 1 connection with API_KEY and GITHUB_TOKEN, www.example.org 1 connection with API_KEY (it sent a secret back, which was hidden)");
        insta::assert_json_snapshot!(report, @r#"
        {
          "hosts": [
            {
              "host": "api.example.org",
              "port": 443,
              "verdict": "allowed",
              "connections": 1,
              "secrets": [
                "API_KEY",
                "GITHUB_TOKEN"
              ]
            },
            {
              "host": "www.example.org",
              "port": 443,
              "verdict": "allowed",
              "reason": "secret_reflected",
              "connections": 1,
              "secrets": [
                "API_KEY"
              ]
            }
          ]
        }
        "#);
    }

    /// What a cell copies on a connection that an earlier one has made is its own.
    #[test]
    fn bytes_belong_to_the_cell_in_which_they_flow() {
        let traffic = Traffic::new(1000);
        let meter = traffic.meter();
        meter.connected(&name("api.example.org"), 443);
        meter.add_sent(10);
        traffic.begin();
        assert_eq!(traffic.report(), NetworkReport::default());
        meter.add_sent(7);
        let report = traffic.report();
        assert_eq!(
            (report.hosts[0].connections, report.hosts[0].sent_bytes),
            (0, 7)
        );
    }

    #[test]
    fn a_program_can_name_no_more_hosts_than_there_is_room_for() {
        let traffic = Traffic::new(1000);
        for number in 0..1000 {
            traffic.unknown(Some(&name(&format!("h{number}.example"))));
        }
        let report = traffic.report();
        assert_eq!((report.hosts.len(), report.truncated), (MAX_ROWS, true));
        assert!(
            report.to_string().ends_with(" (not listed), and more"),
            "{report}"
        );
    }
}
