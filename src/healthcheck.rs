//! Asks a server whether it is alive, without a runtime: what `HEALTHCHECK` in a Dockerfile calls.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(3);

/// Asks `/healthz` at the address that the server listens on.
///
/// # Errors
/// It cannot be reached, or does not answer 200.
pub fn healthcheck(mut addr: SocketAddr) -> io::Result<()> {
    if addr.ip().is_unspecified() {
        addr.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    let mut stream = TcpStream::connect_timeout(&addr, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    if &answer == b"HTTP/1.1 200" {
        Ok(())
    } else {
        Err(io::Error::other("the answer is not 200"))
    }
}
