//! What the system's kernel holds for a sandbox and no control group counts: buffers of sockets, and terminals.
//!
//! Version 1 of control groups counts no socket's memory, and version 2 not that of netlink, of ICMP, and of
//! connections that nobody has accepted; each socket has a small limit, but a sandbox can have a hundred thousand of
//! them. Terminals are as many as the host has, for everybody. No limit of the system's kernel is for one sandbox, so
//! PID 1 looks now and then while a program runs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use sandbox_init::{BUFFERS_MAX, Excess, SOCKETS_MAX, TERMINALS_MAX};

/// How often to look.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// So few sockets cannot take as much, whatever they are.
const FEW_SOCKETS: u64 = 128;

/// What one byte that waits in a connection takes at most: each can have a packet of its own.
const PACKET: u64 = 1024;

/// Whether the sandbox holds too much of one of them. What cannot be seen, as on other kernels, is not there.
pub(crate) fn excess() -> Option<Excess> {
    let terminals = fs::read_dir("/dev/pts").map_or(0, Iterator::count);
    // One of the entries makes new ones.
    if terminals > TERMINALS_MAX + 1 {
        return Some(Excess::Terminals);
    }
    let net = Path::new("/proc/self/net");
    let sockets = sockets(net);
    let is_much = sockets > SOCKETS_MAX
        || sockets > FEW_SOCKETS
            && buffers(net, queue_max(Path::new("/proc/sys/net/ipv4"))) > BUFFERS_MAX;
    is_much.then_some(Excess::Sockets)
}

/// How many sockets there are.
fn sockets(net: &Path) -> u64 {
    let text = fs::read_to_string(net.join("sockstat")).unwrap_or_default();
    let count = text.strip_prefix("sockets: used ");
    let count = count.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    count.unwrap_or(0)
}

/// The most that a connection may hold in one direction.
fn queue_max(settings: &Path) -> u64 {
    let most = |name| {
        let text = fs::read_to_string(settings.join(name)).ok()?;
        text.split_whitespace().nth(2)?.parse().ok()
    };
    let known = most("tcp_rmem").into_iter().chain(most("tcp_wmem")).max();
    known.unwrap_or(64 << 10)
}

/// The most that the buffers of all sockets can take. One that no table shows may be full: a connection whose other end
/// was reset leaves its table and keeps what it has received.
fn buffers(net: &Path, queue_max: u64) -> u64 {
    let before = sockets(net);
    let (mut bytes, mut shown) = (0_u64, 0);
    for (table, look) in TABLES {
        let Ok(file) = File::open(net.join(table)) else {
            continue;
        };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            if let Some(held) = look(&line, queue_max) {
                bytes = bytes.saturating_add(held);
                shown += 1;
            }
        }
    }
    // Others were made or closed meanwhile.
    let hidden = before.min(sockets(net)).saturating_sub(shown);
    bytes.saturating_add(hidden.saturating_mul(queue_max))
}

/// Tells what a socket can hold, by its line in a table; `None` when the line is about none that a program has.
type Look = fn(&str, u64) -> Option<u64>;

/// All kinds of sockets that the system call filter lets through. What local ones hold is counted.
const TABLES: [(&str, Look); 8] = [
    ("tcp", connection),
    ("tcp6", connection),
    ("udp", datagrams),
    ("udp6", datagrams),
    ("icmp", datagrams),
    ("icmp6", datagrams),
    ("netlink", netlink),
    ("unix", local),
];

/// Only what waits is told of a connection, not what it takes. One in TIME-WAIT, or that is not accepted yet, is no
/// socket.
fn connection(line: &str, queue_max: u64) -> Option<u64> {
    let state = line.split_whitespace().nth(3)?;
    let (sent, received) = queues(line).filter(|_| !matches!(state, "03" | "06"))?;
    let taken = |bytes: u64| bytes.saturating_mul(PACKET).min(queue_max);
    Some(taken(sent) + taken(received))
}

fn datagrams(line: &str, _: u64) -> Option<u64> {
    let (sent, received) = queues(line)?;
    sent.checked_add(received)
}

/// The two queues: the fifth word, hexadecimal.
fn queues(line: &str) -> Option<(u64, u64)> {
    let (sent, received) = line.split_whitespace().nth(4)?.split_once(':')?;
    let bytes = |digits| u64::from_str_radix(digits, 16).ok();
    Some((bytes(sent)?, bytes(received)?))
}

/// The kernel's own have the number 0.
fn netlink(line: &str, _: u64) -> Option<u64> {
    let mut words = line.split_whitespace().skip(2);
    let mut number = |skip| words.nth(skip)?.parse::<u64>().ok();
    number(0).filter(|owner| *owner != 0)?;
    number(1)?.checked_add(number(0)?)
}

fn local(line: &str, _: u64) -> Option<u64> {
    line.split_once(": ").map(|_| 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C925 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 8069338 1
   1: 0100007F:C925 0100007F:9EFC 01 00016700:0000F380 04:0000012C 00000000  1000        0 8070973 2
   2: 0100007F:C925 0100007F:99EA 01 00000000:00000002 04:00000115 00000000  1000        0 8070458 2
   3: 0100007F:C925 0100007F:99EA 06 00000000:00000000 03:00000115 00000000     0        0 0 3
";
    const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    1: 0100007F:E3E3 00000000:0000 07 00000010:0002C8E0 00:00000000 00000000  1000        0 8060776 2 00000000b83395b6 5
";
    const NETLINK: &str = "\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000aa0c37fd 0   3721197165 00000000 211968   7        0     2        616      8056924
00000000cc0c37fd 0   0          00000000 0        0        0     2        0        8056925
";

    const UNIX: &str = "\
Num       RefCount Protocol Flags    Type St Inode Path
00000000f8f4b7c5: 00000003 00000000 00000000 0001 03 13579
";

    fn held(text: &str, look: Look) -> Vec<Option<u64>> {
        text.lines().map(|line| look(line, 1000)).collect()
    }

    #[test]
    fn what_a_socket_holds_is_read_from_its_line() {
        assert_eq!(
            held(TCP, connection),
            [None, Some(0), Some(2000), Some(1000), None]
        );
        assert_eq!(held(UDP, datagrams), [None, Some(0x2c8e0 + 16)]);
        assert_eq!(held(NETLINK, netlink), [None, Some(211_975), None]);
        assert_eq!(held(UNIX, local), [None, Some(0)]);
    }

    #[test]
    fn the_sum_is_of_all_tables_and_what_none_shows_is_full() {
        let net = tempfile::tempdir().unwrap();
        let net = net.path();
        assert_eq!((sockets(net), buffers(net, 1000)), (0, 0));
        fs::write(net.join("udp6"), UDP).unwrap();
        fs::write(net.join("netlink"), NETLINK).unwrap();
        fs::write(net.join("unix"), UNIX).unwrap();
        let shown = 0x2c8e0 + 16 + 211_975;
        assert_eq!(buffers(net, 1000), shown);
        fs::write(net.join("sockstat"), "sockets: used 397\nTCP: inuse 0\n").unwrap();
        assert_eq!(sockets(net), 397);
        assert_eq!(buffers(net, 1000), shown + 394 * 1000);
    }

    #[test]
    fn the_largest_buffer_is_that_of_the_settings() {
        let settings = tempfile::tempdir().unwrap();
        assert_eq!(queue_max(settings.path()), 64 << 10);
        fs::write(settings.path().join("tcp_rmem"), "4096\t32768\t65536\n").unwrap();
        fs::write(settings.path().join("tcp_wmem"), "4096\t32768\t70000\n").unwrap();
        assert_eq!(queue_max(settings.path()), 70_000);
    }
}
