//! For whom a TLS connection is, by the first that a client says: the `ClientHello`, which rustls reads.

use std::io::Cursor;
use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::report::DeniedReason;
use crate::allow_list::HostName;

/// The longest hello. Those of browsers have two kilobytes, and one in records of one byte has ten.
const MAX_HELLO: usize = 16 << 10;
/// How long a client may take to say it.
const PATIENCE: Duration = Duration::from_secs(5);

/// A hello that was read.
#[derive(Debug)]
pub(super) struct Hello {
    /// For whom it is.
    pub(super) name: HostName,
    /// It, and what else was read.
    pub(super) bytes: Vec<u8>,
}

/// Reads a hello from the beginning of a connection.
///
/// # Errors
/// It is none, takes too long, or does not say for whom it is.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, DeniedReason> {
    let read = tokio::time::timeout(PATIENCE, read_slowly(stream)).await;
    read.map_err(|_| DeniedReason::NotTls)?
}

async fn read_slowly(stream: &mut (impl AsyncRead + Unpin)) -> Result<Hello, DeniedReason> {
    let (mut acceptor, mut bytes) = (Acceptor::default(), Vec::new());
    loop {
        let seen = bytes.len();
        let read = stream.read_buf(&mut bytes).await;
        if read.unwrap_or(0) == 0 || bytes.len() > MAX_HELLO {
            return Err(DeniedReason::NotTls);
        }
        let mut unseen = Cursor::new(&bytes[seen..]);
        while usize::try_from(unseen.position()).is_ok_and(|position| position < bytes.len() - seen)
        {
            let taken = acceptor.read_tls(&mut unseen);
            if taken.unwrap_or(0) == 0 {
                return Err(DeniedReason::NotTls);
            }
            let accepted = acceptor.accept().map_err(|_| DeniedReason::NotTls)?;
            if let Some(accepted) = accepted {
                let hello = accepted.client_hello();
                let name = hello.server_name().ok_or(DeniedReason::NoSni)?;
                let name = HostName::of_ascii(name).map_err(|_| DeniedReason::SniMismatch)?;
                return Ok(Hello { name, bytes });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::crypto::aws_lc_rs;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};

    use super::*;

    /// What a client says to a server of this name.
    fn hello(server: &str) -> Vec<u8> {
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = server.to_owned().try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// The same in records of so many bytes.
    fn in_records(hello: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            let length = u16::try_from(part.len()).unwrap().to_be_bytes();
            [&[22, 3, 1], &length[..], part].concat()
        };
        hello[5..].chunks(size).flat_map(record).collect()
    }

    async fn name(bytes: &[u8]) -> Result<String, DeniedReason> {
        let hello = read(&mut &*bytes).await?;
        assert_eq!(hello.bytes, bytes);
        Ok(hello.name.to_string())
    }

    #[tokio::test]
    async fn a_hello_says_for_whom_it_is_however_it_is_cut() {
        let whole = hello("API.example.org");
        assert_eq!(name(&whole).await, Ok("api.example.org".to_owned()));
        for size in [1, 7, 100] {
            let cut = in_records(&whole, size);
            assert_eq!(name(&cut).await, Ok("api.example.org".to_owned()), "{size}");
        }
    }

    #[tokio::test]
    async fn what_does_not_say_for_whom_it_is_is_refused() {
        assert_eq!(name(&hello("192.0.2.1")).await, Err(DeniedReason::NoSni));
        for bytes in [
            &b""[..],
            b"GET / HTTP/1.1\r\nHost: api.example.org\r\n\r\n",
            &hello("api.example.org")[..100],
            &vec![0; 20_000],
            &vec![22; 20_000],
        ] {
            assert_eq!(name(bytes).await, Err(DeniedReason::NotTls));
        }
        let mut changed = hello("api.example.org");
        let at = changed
            .windows(3)
            .position(|bytes| bytes == b"api")
            .unwrap();
        changed[at] = 0;
        assert!(name(&changed).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_does_not_come_is_not_waited_for() {
        let (mut ours, _theirs) = tokio::io::duplex(16);
        assert_eq!(read(&mut ours).await.unwrap_err(), DeniedReason::NotTls);
    }
}
