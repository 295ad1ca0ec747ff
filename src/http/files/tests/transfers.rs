//! Downloads that are many, slow or large, and files that change during one.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test]
async fn downloads_are_limited() {
    let fixture = Fixture::new().await;
    fixture.write("a.txt", b"hello");
    let key = |digit: u32| format!("{digit:064}").parse().unwrap();
    let of = |conversation| fixture.workspaces.reserve_download(&key(conversation));
    // No conversation can take all of them.
    let slots: Vec<_> = (0..).map_while(|number| of(number / 32)).collect();
    assert_eq!(slots.len(), 64);
    insta::assert_snapshot!(whole(fixture.get("a.txt").await).await, @"
    503 Service Unavailable
    x-content-type-options: nosniff
    content-security-policy: sandbox; default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'
    cross-origin-resource-policy: cross-origin
    referrer-policy: no-referrer
    cache-control: private, no-store
    content-type: text/plain; charset=utf-8
    content-length: 31
    retry-after: 5

    Too many downloads, try again.
    ");
    drop(slots);
    assert_eq!(content(fixture.get("a.txt").await).await, "hello");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sleeps_loses_its_place() {
    let fixture = Fixture::new().await;
    fixture.write("large", &vec![1; 1 << 20]);
    let responses: Vec<_> = futures::future::join_all((0..32).map(|_| fixture.get("large"))).await;
    let (key, other) = (KEY.parse().unwrap(), "f".repeat(64).parse().unwrap());
    assert!(fixture.workspaces.reserve_download(&key).is_none());
    assert!(fixture.workspaces.reserve_download(&other).is_some());
    fixture.workspaces.wait_for_background_work().await;
    assert!(fixture.workspaces.reserve_download(&key).is_some());
    for response in responses {
        assert!(content(response).await.len() < 1 << 20);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_too_slowly_loses_its_place() {
    let fixture = Fixture::new().await;
    fixture.write("large", &vec![1; 1 << 20]);
    let mut body = fixture.get("large").await.into_body();
    let mut received = Vec::new();
    while let Some(piece) = body.frame().await {
        received.push(piece.unwrap().into_data().unwrap().len());
        // Shorter than a client may pause.
        tokio::time::advance(Duration::from_secs(50)).await;
    }
    // At 16 KiB a second plus a minute, it ends in the third pause; by then one more piece is on its way.
    assert!((3..=5).contains(&received.len()), "{received:?}");
    fixture.workspaces.wait_for_background_work().await;
}

#[tokio::test]
async fn a_large_file_arrives_whole() {
    let fixture = Fixture::new().await;
    let bytes: Vec<u8> = (0..3_000_000_u32)
        .map(|number| number.to_le_bytes()[number as usize % 3])
        .collect();
    fixture.write("large", &bytes);
    assert!(content(fixture.get("large").await).await == bytes);
    assert!(
        content(fixture.get_range("large", "bytes=1000000-1999999").await).await
            == bytes[1_000_000..2_000_000]
    );
    fixture.workspaces.wait_for_background_work().await;
}

#[tokio::test]
async fn a_file_that_grows_is_sent_as_it_was() {
    let fixture = Fixture::new().await;
    fixture.write("log.txt", b"hello");
    let response = fixture.get("log.txt").await;
    fs::write(fixture.data().join("log.txt"), "hello and more").unwrap();
    assert_eq!(content(response).await, "hello");
}

/// A server on a real socket, since it is the connection that ends when a file has shrunk.
async fn listen(fixture: &Fixture) -> std::net::SocketAddr {
    let (workspaces, links) = (fixture.workspaces.clone(), fixture.links.clone());
    let app = axum::Router::new().fallback(move |request: Request| async move {
        let request = FileRequest::new(request.method(), request.uri(), request.headers());
        serve(&workspaces, &links, request).await
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    fixture
        .workspaces
        .tasks()
        .spawn(async move { axum::serve(listener, app).await });
    address
}

#[tokio::test]
async fn a_file_that_shrinks_breaks_the_download_off() {
    const SIZE: usize = 64 << 20;
    let fixture = Fixture::new().await;
    let file = fs::File::create(fixture.data().join("large")).unwrap();
    file.set_len(SIZE as u64).unwrap();
    let address = listen(&fixture).await;
    let request = format!("GET /files/{KEY}/large HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let mut received = vec![0; 1_000];
    client.read_exact(&mut received).await.unwrap();
    assert!(String::from_utf8_lossy(&received).contains(&format!("content-length: {SIZE}\r\n")));
    file.set_len(0).unwrap();
    // The server hangs up, with or without a reset.
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(10), client.read_to_end(&mut rest))
        .await
        .unwrap();
    assert!(rest.len() < SIZE);
    // And goes on serving.
    fixture.write("a.txt", b"hello");
    let request =
        format!("GET /files/{KEY}/a.txt HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut client = tokio::net::TcpStream::connect(address).await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("hello"));
}
