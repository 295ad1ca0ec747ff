//! What the system's kernel holds for a sandbox and no control group counts: buffers of sockets, and terminals.
//!
//! Version 1 of control groups counts no socket's memory, and version 2 not that of netlink; each socket has a small
//! limit, but a sandbox can have a hundred thousand of them. Terminals are as many as the host has, for everybody. No
//! limit of the system's kernel is for one sandbox, so PID 1 looks now and then while a program runs.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use sandbox_init::Excess;

/// How often to look.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Bytes that the buffers of all sockets may take.
const BUFFERS_MAX: u64 = 128 << 20;

/// So few sockets cannot take as much, whatever they are.
const FEW_SOCKETS: u64 = 128;

/// How many sockets there may be: looking at more would take too long.
const SOCKETS_MAX: u64 = 8192;

/// How many terminals there may be.
const TERMINALS_MAX: usize = 64;

/// The most that a connection may hold for one end, by the server's request.
const CONNECTION_MAX: u64 = 256 << 10;

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
    let is_much =
        sockets > SOCKETS_MAX || sockets > FEW_SOCKETS && buffers_exceed(net, BUFFERS_MAX);
    is_much.then_some(Excess::Sockets)
}

/// How many sockets there are.
fn sockets(net: &Path) -> u64 {
    let text = fs::read_to_string(net.join("sockstat")).unwrap_or_default();
    let count = text.strip_prefix("sockets: used ");
    let count = count.and_then(|rest| rest.lines().next()?.trim().parse().ok());
    count.unwrap_or(0)
}

/// Whether the buffers of all sockets take more.
fn buffers_exceed(net: &Path, most: u64) -> bool {
    let mut bytes = 0_u64;
    for (table, held) in TABLES {
        let Ok(file) = File::open(net.join(table)) else {
            continue;
        };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            bytes = bytes.saturating_add(held(&line).unwrap_or(0));
            if bytes > most {
                return true;
            }
        }
    }
    false
}

/// Tells what a socket holds, by its line in a table. Headings have no numbers.
type Held = fn(&str) -> Option<u64>;

/// All kinds of sockets that the system call filter lets through, but local ones, which are counted.
const TABLES: [(&str, Held); 7] = [
    ("tcp", connection),
    ("tcp6", connection),
    ("udp", datagrams),
    ("udp6", datagrams),
    ("icmp", datagrams),
    ("icmp6", datagrams),
    ("netlink", netlink),
];

/// Only what waits is told of a connection, not what it takes.
fn connection(line: &str) -> Option<u64> {
    let (sent, received) = queues(line)?;
    let taken = |bytes: u64| bytes.saturating_mul(PACKET).min(CONNECTION_MAX / 2);
    Some(taken(sent) + taken(received))
}

fn datagrams(line: &str) -> Option<u64> {
    let (sent, received) = queues(line)?;
    sent.checked_add(received)
}

/// The two queues: the fifth word, hexadecimal.
fn queues(line: &str) -> Option<(u64, u64)> {
    let (sent, received) = line.split_whitespace().nth(4)?.split_once(':')?;
    let bytes = |digits| u64::from_str_radix(digits, 16).ok();
    Some((bytes(sent)?, bytes(received)?))
}

fn netlink(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(4);
    let mut bytes = || words.next()?.parse::<u64>().ok();
    bytes()?.checked_add(bytes()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: &str = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:C925 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 8069338 1
   1: 0100007F:C925 0100007F:9EFC 01 00016700:0000F380 04:0000012C 00000000  1000        0 8070973 2
   2: 0100007F:C925 0100007F:99EA 01 00000000:00000002 04:00000115 00000000  1000        0 8070458 2
";
    const UDP: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
    1: 0100007F:E3E3 00000000:0000 07 00000010:0002C8E0 00:00000000 00000000  1000        0 8060776 2 00000000b83395b6 5
";
    const NETLINK: &str = "\
sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode
00000000aa0c37fd 0   3721197165 00000000 211968   7        0     2        616      8056924
";

    fn held(text: &str, held: Held) -> Vec<Option<u64>> {
        text.lines().map(held).collect()
    }

    #[test]
    fn what_a_socket_holds_is_read_from_its_line() {
        let full = Some(CONNECTION_MAX);
        assert_eq!(held(TCP, connection), [None, Some(0), full, Some(2048)]);
        assert_eq!(held(UDP, datagrams), [None, Some(0x2c8e0 + 16)]);
        assert_eq!(held(NETLINK, netlink), [None, Some(211_975)]);
    }

    #[test]
    fn the_sum_is_of_all_tables_and_what_is_missing_holds_nothing() {
        let net = tempfile::tempdir().unwrap();
        let net = net.path();
        assert_eq!((sockets(net), buffers_exceed(net, 0)), (0, false));
        fs::write(net.join("sockstat"), "sockets: used 397\nTCP: inuse 0\n").unwrap();
        fs::write(net.join("udp6"), UDP).unwrap();
        fs::write(net.join("netlink"), NETLINK).unwrap();
        let sum = 0x2c8e0 + 16 + 211_975;
        assert_eq!(sockets(net), 397);
        assert!(buffers_exceed(net, sum - 1) && !buffers_exceed(net, sum));
    }
}
